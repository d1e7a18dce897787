"""Time to live that a feed announces: RSS `ttl`, and `updatePeriod` of mod_syndication."""

from __future__ import annotations

import re

_HEAD_BYTES = 65_536
_ENTRY = re.compile(rb"<(?:[\w.-]+:)?(?:item|entry)[\s/>]")
_TTL = re.compile(rb"<ttl(?:\s[^>]*)?>\s*([0-9]{1,9})\s*</ttl\s*>")
_PERIOD = re.compile(rb"<[\w.-]+:updatePeriod(?:\s[^>]*)?>\s*([a-z]{1,7})\s*</", re.IGNORECASE)
_FREQUENCY = re.compile(rb"<[\w.-]+:updateFrequency(?:\s[^>]*)?>\s*([0-9]{1,6})\s*</")
_PERIODS = {b"hourly": 3_600.0, b"daily": 86_400.0, b"weekly": 604_800.0, b"monthly": 2_592_000.0, b"yearly": 3.1536e7}
_DAILY = b"daily"


def feed_ttl(text: bytes) -> float | None:
    """Returns the TTL, seconds above 0, of an RSS or RDF feed as UTF-8; None without one.

    `ttl` (minutes, RSS 2.0) takes precedence over `updatePeriod` divided by `updateFrequency` (mod_syndication: daily
    and 1 if one of them is missing). Only the part before the first entry counts.
    """
    head = text[:_HEAD_BYTES]
    first = _ENTRY.search(head)
    head = head if first is None else head[: first.start()]
    ttl = _TTL.search(head)
    if ttl is not None:
        return 60.0 * int(ttl[1]) or None
    period, frequency = _PERIOD.search(head), _FREQUENCY.search(head)
    if period is None and frequency is None:
        return None
    seconds = _PERIODS.get(_DAILY if period is None else period[1].lower())
    times = 1 if frequency is None else int(frequency[1])
    return seconds / times if seconds is not None and times else None
