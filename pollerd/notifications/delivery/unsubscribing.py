"""Links by which the readers of a mail leave a rule: a token of the daemon names one rule and one channel.

Leaving needs no login (RFC 8058). A link can do nothing else, and holds as long as the daemon has its secret key.
"""

from __future__ import annotations

_PREFIX = "/unsubscribe"


def purpose_of(channel_id: int, rule_id: int) -> str:
    """Returns what a link's token says."""
    return f"unsubscribe:{channel_id}:{rule_id}"


def link_of(base_url: str, token: str, channel_id: int, rule_id: int) -> str:
    """Returns the link; base_url: where users reach the daemon."""
    return f"{base_url}{_PREFIX}/{channel_id}/{rule_id}/{token}"
