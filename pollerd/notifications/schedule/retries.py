"""When a message that could not be sent is tried again: growing waits, the last attempt three days after the first."""

from __future__ import annotations

import math

import xxhash

WAITS = (0.0, *(5.0 * 2.0**failed for failed in range(14)), 72_000.0)
"""Seconds before each attempt but the last, which comes when three days are over.

Doubled, not raised faster: a message that fails waits while others pass, and holds up those of its sites.
"""
LONGEST_S = 3 * 86_400.0
JITTER = 0.1
"""Largest share by which a wait is longer or shorter, so that what failed together does not come again together."""


def next_attempt(
    message_id: str, attempts: int, since: float, now: float, retry_after: float | None = None
) -> float | None:
    """Returns when to try again (epoch s); None: give up.

    attempts: how many have failed, at least 1. since: when the first was due. retry_after: seconds that the receiver
    asked us to wait; they replace a shorter wait, up to what is left of the three days. The jitter follows from the
    message's id and the number of attempts, so that a restart changes nothing.
    """
    last = since + LONGEST_S
    if now >= last or attempts > len(WAITS):
        return None
    wait = WAITS[attempts] * _factor(message_id, attempts) if attempts < len(WAITS) else last - now
    if retry_after is not None and not math.isnan(retry_after):
        wait = max(wait, retry_after)
    return min(now + wait, last)


def _factor(message_id: str, attempts: int) -> float:
    """Returns a number from 0.9 to 1.1."""
    share = xxhash.xxh3_64_intdigest(f"{message_id}:{attempts}".encode("utf-8", "replace")) / 2**64
    return 1 + JITTER * (2 * share - 1)
