"""What a WebSub hub asks before it takes a subscription as one (W3C WebSub, section 5.3)."""

from __future__ import annotations

from msgspec import Struct


class HubVerification(Struct, frozen=True):
    """What a hub asks with GET, as written; empty: left out."""

    mode: str = ""
    topic: str = ""
    challenge: str = ""
    lease_seconds: str = ""
    reason: str = ""
