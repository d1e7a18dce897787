"""What a feed shows at a time: how many items, how many of them new, since when, and whether it drops older ones."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pollerd.detection.feed import FeedEntry
from pollerd.detection.items import LARGEST_WINDOW, remembered
from pollerd.detection.last_modified import TOLERANCE_S, server_age
from pollerd.model import Baseline, Evidence, FeedWindow, Media, Outcome

_FEWEST_DATED = 4
"""Items that a first poll has to date: with fewer their dates say little."""


def feed_window(before: Baseline, entries: Sequence[FeedEntry], fresh: int, outcome: Outcome) -> FeedWindow | None:
    """Returns what a feed with these entries shows, of which `fresh` are not in the baseline; None: it shows none.

    Its items are those of its newest 1,024. A feed is limited unless it was seen to take new items in without dropping
    one; at its first poll as a feed it is believed to be, as nearly all feeds are.
    """
    keys = {entry.key for entry in entries[:LARGEST_WINDOW]}
    if not keys:
        return None
    first = before.fingerprint is None or before.media is not Media.FEED
    full = not first and fresh == len(keys)
    known = before.window
    if first or any(key not in keys for key in remembered(before.items)):
        limited = True
    else:
        limited = not fresh and (known is None or known.limited)
    dates = [min(entry.dates) for entry in entries[:LARGEST_WINDOW] if entry.dates]
    return FeedWindow(
        items=len(keys),
        new=None if first else fresh,
        limited=limited,
        oldest_at=min(dates, default=None),
        newest_at=max(dates, default=None),
        read_at=outcome.started_at,
        full_polls=(0 if known is None else known.full_polls) + int(full),
    )


def nothing_new(window: FeedWindow | None) -> FeedWindow | None:
    """Returns the window after a poll at which the feed was as before."""
    return window if window is None or not window.new else replace(window, new=0)


def with_items(
    evidence: Evidence, fresh: Sequence[FeedEntry], window: FeedWindow, outcome: Outcome, elapsed: float
) -> Evidence:
    """Returns the evidence of a poll after `elapsed` s with the number of new items, and the time in which they came.

    The time is needed only if all are new, and known only if all are dated within the gap, one by one: dates of a burst
    tell of the burst, not of the feed.
    """
    if not fresh:
        return evidence
    span = None
    if window.full:
        ages = _ages(fresh, outcome)
        if len(set(ages)) == len(fresh) and min(ages) > TOLERANCE_S and max(ages) <= elapsed:
            span = max(ages)
    return replace(evidence, at_least=len(fresh), span=span)


def of_first_poll(entries: Sequence[FeedEntry], outcome: Outcome) -> Evidence | None:
    """Returns the evidence of a first poll: within how long the newer half of the items came; None: it has none.

    The half, because some feeds keep old items at hand. None if dates are missing, not in the past, or the same.
    """
    ages = sorted(_ages(entries[:LARGEST_WINDOW], outcome))
    half = (len(ages) + 1) // 2
    if len(ages) < max(_FEWEST_DATED, len(entries[:LARGEST_WINDOW])) or ages[0] <= TOLERANCE_S:
        return None
    if len(set(ages[:half])) < half:
        return None
    return Evidence(changed=False, at_least=half, span=ages[half - 1])


def _ages(entries: Sequence[FeedEntry], outcome: Outcome) -> list[float]:
    """Returns the seconds from the first date of each dated entry to the response."""
    return [server_age(outcome, min(entry.dates)) for entry in entries if entry.dates]
