"""What a poll changes of what lists of sites sort by: written only where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pollerd.storage.values import PollRecord

ListedState = tuple[Any, ...]
"""State, failures, believed changes per day (-1: nothing is believed) and time of the last change (0: never) of a site,
as in `LISTED_STATE`."""
NOTICEABLE = 0.02
"""Share by which a rate must differ from the stored one to be stored: else nearly every poll would move it."""


def listed_states(records: Sequence[PollRecord], before: dict[int, ListedState]) -> list[ListedState]:
    """Returns what is listed after each record; `before`, by site, follows them."""
    states = []
    for record in records:
        was = before[record.poll.site_id]
        rate = -1.0 if record.rate is None else record.rate
        changed_at = record.poll.at if record.changes else was[3]
        now = (record.state.value, record.failures, was[2] if _alike(was[2], rate) else rate, changed_at)
        before[record.poll.site_id] = now
        states.append(now)
    return states


def listed_rows(records: Sequence[PollRecord], before: dict[int, ListedState]) -> list[tuple[Any, ...]]:
    """Returns a row of `update_listed` for each record that differs from `before`, by site, which follows them."""
    rows = []
    for record in records:
        site_id = record.poll.site_id
        was = before[site_id]
        (now,) = listed_states([record], before)
        if now != was:
            rows.append((*now, site_id))
    return rows


def _alike(stored: Any, rate: float) -> bool:
    """Returns whether a stored rate, which may have been damaged by hand, is near enough to this one."""
    return isinstance(stored, float) and (stored < 0) == (rate < 0) and abs(rate - stored) <= NOTICEABLE * abs(stored)


def times_row(record: PollRecord) -> tuple[float, float, int]:
    """Returns the row of `update_times`."""
    poll = record.poll
    earliest = record.not_before if record.next_poll_at is None else record.next_poll_at
    return poll.at, poll.at if earliest is None else max(poll.at, earliest), poll.site_id
