"""Evidence from a feed's entries: how many are new, and when the newest appeared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pollerd.detection.feed import FeedEntry, key_of
from pollerd.detection.last_modified import TOLERANCE_S, server_age
from pollerd.model import Outcome

__all__ = ["age", "count", "key_of", "left_at_end", "remember", "remembered", "unseen"]

REMEMBERED = 256
LARGEST_WINDOW = 1024


def remembered(items: bytes) -> list[int]:
    """Returns the entry keys of a baseline, oldest first. Ignores a damaged tail."""
    whole = len(items) // 8 * 8
    return [int(key) for key in np.frombuffer(items[:whole], dtype="<u8")]


def remember(items: bytes, entries: Sequence[FeedEntry]) -> bytes:
    """Returns the baseline's items after seeing `entries` (newest first, as feeds list them).

    Keeps every entry of the present window, up to 1,024, and earlier ones up to 256 in total.
    """
    window = list(dict.fromkeys(entry.key for entry in entries[:LARGEST_WINDOW]))[::-1]
    present = set(window)
    earlier = [key for key in remembered(items) if key not in present]
    room = max(REMEMBERED - len(window), 0)
    return np.array(earlier[len(earlier) - min(room, len(earlier)) :] + window, dtype="<u8").tobytes()


def unseen(items: bytes, entries: Sequence[FeedEntry]) -> list[FeedEntry]:
    """Returns the entries that are not in the baseline's items, each key once."""
    if not entries:
        return []
    known = set(remembered(items))
    fresh: dict[int, FeedEntry] = {}
    for entry in entries[:LARGEST_WINDOW]:
        if entry.key not in known:
            fresh.setdefault(entry.key, entry)
    return list(fresh.values())


def count(fresh: Sequence[FeedEntry], entries: Sequence[FeedEntry]) -> int | None:
    """Returns the number of new entries, if known.

    None if no entry is new (an edited or withdrawn entry is a change without a number) or all are: the feed's window
    has rolled over, so the number would be only a lower bound.
    """
    known = len({entry.key for entry in entries[:LARGEST_WINDOW]}) - len(fresh)
    return len(fresh) if fresh and known else None


def age(entries: Sequence[FeedEntry], outcome: Outcome, elapsed: float) -> float | None:
    """Returns the seconds since the newest plausible date in `entries`: before the response, not before the last poll.

    Dates within 2 s of the response are ignored: they mark a feed that stamps its entries on request. None if no date
    remains.
    """
    ages = [server_age(outcome, date) for entry in entries for date in entry.dates]
    within = [age for age in ages if TOLERANCE_S < age <= elapsed]
    return min(within, default=None)


def left_at_end(before: bytes, after: bytes, old: set[int], new: set[int]) -> set[int]:
    """Returns the entries of `old` that are missing from `new` because newer ones displaced them or they expired.

    before, after: the items of both baselines, which give the order; if they are empty it is unknown, and the result is
    empty. old, new: keys of both windows. A feed shows a limited number of entries, and each new one displaces one at
    the other end, which is no edit. An entry that is missing while an older one stays was removed. Feeds that list the
    oldest first are recognised by the position of new entries. If all entries are new, all old ones were displaced.
    """
    place = {key: n for n, key in enumerate(remembered(before))}
    place_now = {key: n for n, key in enumerate(remembered(after))}
    missing, fresh, kept = old - new, new - old, old & new
    if not place or not kept:
        return missing if place and fresh else set()
    first_kept = min(place_now.get(key, 0) for key in kept)
    if fresh and all(place_now.get(key, first_kept) < first_kept for key in fresh):
        newest = max(place.get(key, 0) for key in kept)
        return {key for key in missing if place.get(key, 0) > newest}
    oldest = min(place.get(key, 0) for key in kept)
    return {key for key in missing if place.get(key, oldest) < oldest}
