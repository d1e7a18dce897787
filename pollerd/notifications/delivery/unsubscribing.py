"""Links by which the readers of a mail leave a rule: signed for one rule and channel, by a key of the channel.

Leaving needs no login (RFC 8058). A link can do nothing else, and holds as long as the channel has its key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

_BYTES = 16
_PREFIX = "/unsubscribe"


def new_key() -> str:
    """Returns a new key."""
    return secrets.token_urlsafe(32)


def signature(key: str, channel_id: int, rule_id: int) -> str:
    """Returns what signs a link, 22 characters."""
    digest = hmac.digest(key.encode(), f"unsubscribe:{channel_id}:{rule_id}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest[:_BYTES]).rstrip(b"=").decode()


def is_signed(key: str, channel_id: int, rule_id: int, given: str) -> bool:
    """Returns whether the signature is right; takes the same time for a wrong one."""
    return hmac.compare_digest(signature(key, channel_id, rule_id).encode(), given.encode("utf-8", "replace"))


def link_of(base_url: str, key: str, channel_id: int, rule_id: int) -> str:
    """Returns the link; base_url: where users reach the daemon."""
    return f"{base_url}{_PREFIX}/{channel_id}/{rule_id}/{signature(key, channel_id, rule_id)}"
