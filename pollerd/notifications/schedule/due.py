"""When a notice is due, and which digest it belongs to."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

from msgspec import Struct

from pollerd.model import Windows
from pollerd.notifications.schedule.digest import Digest, next_digest
from pollerd.scheduling.times.local_time import local_time, zone_of
from pollerd.scheduling.windows import opening_times

_DAY_S = 86_400.0
_LONGEST_S = 8 * _DAY_S
_A_DAY = 20_458
"""2026-01-05: without a change of clocks near it in any zone with people in it."""


class Due(Struct, frozen=True, gc=False):
    """When a notice may be sent (epoch s), and the key of its digest; empty: it is told alone."""

    at: float
    digest: str = ""


def due_at(
    rule_id: int, now: float, digest: Digest | None = None, quiet: Windows | None = None, told: Container[str] = ()
) -> Due:
    """Returns when a rule's notice of something that happened `now` is due.

    At once; with the next digest; or, where that lies in quiet hours, at their end, in one digest of all that they held
    back. told: as of `next_digest`. Pure: the same arguments give the same answer, also years later.
    """
    due = Due(now) if digest is None else Due(*next_digest(rule_id, digest, now, told))
    return due if quiet is None else _after_quiet_hours(rule_id, due, quiet)


def _after_quiet_hours(rule_id: int, due: Due, quiet: Windows) -> Due:
    for begin, end in _silences(quiet, int(due.at // _DAY_S)):
        if begin <= due.at < end:
            if end - due.at > _LONGEST_S:  # quiet hours without an end would hold back for ever
                return due
            local = local_time(zone_of(quiet.zone, "quiet.zone"), begin)
            return Due(end, f"{rule_id}:quiet:{local:%Y-%m-%dT%H:%M}")
    return due


@lru_cache(maxsize=256)
def _silences(quiet: Windows, day: int) -> tuple[tuple[float, float], ...]:
    """Returns the quiet hours around a day since the epoch, in UTC: the path of a change has no time to find them."""
    return tuple(opening_times(quiet).spans((day + 0.5) * _DAY_S, back=9))


def ends_some_time(quiet: Windows) -> bool:
    """Returns whether quiet hours leave some time of the week."""
    return all(end - begin <= _LONGEST_S for begin, end in _silences(quiet, _A_DAY))
