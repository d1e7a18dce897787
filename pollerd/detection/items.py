"""What a feed's entries tell: how many are new, and when the last one came."""

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
    """The entry keys of a baseline, oldest first. A damaged tail is left out."""
    whole = len(items) // 8 * 8
    return [int(key) for key in np.frombuffer(items[:whole], dtype="<u8")]


def remember(items: bytes, entries: Sequence[FeedEntry]) -> bytes:
    """The baseline's items after seeing `entries` (newest first, as feeds list them).

    Keeps every entry of the present window, up to 1,024, and of earlier ones so many that 256 are kept in all.
    """
    window = list(dict.fromkeys(entry.key for entry in entries[:LARGEST_WINDOW]))[::-1]
    present = set(window)
    earlier = [key for key in remembered(items) if key not in present]
    room = max(REMEMBERED - len(window), 0)
    return np.array(earlier[len(earlier) - min(room, len(earlier)) :] + window, dtype="<u8").tobytes()


def unseen(items: bytes, entries: Sequence[FeedEntry]) -> list[FeedEntry]:
    """The entries that the baseline's items do not know, each key once."""
    if not entries:
        return []
    known = set(remembered(items))
    fresh: dict[int, FeedEntry] = {}
    for entry in entries[:LARGEST_WINDOW]:
        if entry.key not in known:
            fresh.setdefault(entry.key, entry)
    return list(fresh.values())


def count(fresh: Sequence[FeedEntry], entries: Sequence[FeedEntry]) -> int | None:
    """How many entries are new, where that can be told.

    None where none is (an edited or withdrawn entry is a change without a number) and where all are: the feed's
    window has rolled over, so the number would only be a lower bound.
    """
    known = len({entry.key for entry in entries[:LARGEST_WINDOW]}) - len(fresh)
    return len(fresh) if fresh and known else None


def age(entries: Sequence[FeedEntry], outcome: Outcome, elapsed: float) -> float | None:
    """Seconds since the newest date in `entries` that can be true: not ahead of the response, not before the last poll.

    A date within 2 s of the response is the mark of a feed that stamps its
    entries when asked, and is not believed. None where no date is left.
    """
    ages = [server_age(outcome, date) for entry in entries for date in entry.dates]
    within = [age for age in ages if TOLERANCE_S < age <= elapsed]
    return min(within, default=None)


def left_at_end(before: bytes, after: bytes, old: set[int], new: set[int]) -> set[int]:
    """The entries of `old` that are not in `new` because newer ones took their place, or their time was over.

    before, after: the items of both baselines, which tell the order; where they are empty it is not known, and nothing
    is told. old, new: keys of both windows. A feed shows so many entries, and each that comes in pushes one out at the
    other end: that is nobody's doing. An entry that is missing while an older one stays was taken out. Feeds that list
    the oldest first are known by where new entries stand. Where all entries are new, all of the old ones left so.
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
