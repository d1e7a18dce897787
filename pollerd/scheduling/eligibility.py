"""How each site of a long list stands, kept up to date by what happens to it: nobody goes through millions a tick."""

from __future__ import annotations

import heapq
from array import array
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import Columns, stretches
from pollerd.model import STATE_CODE, STATES, SiteState

if TYPE_CHECKING:
    from pollerd.scheduling.sites import SiteTable

LONG = 65_536
"""With more sites it is kept, and figures are as old as the last look at all; fewer are gone through in no time."""
PAUSED, EMPTY = len(STATES), len(STATES) + 1
"""Codes of `EligibilityIndex.code` beside those of `STATE_CODE`: of a site that is paused, and of a row without one."""
_GONE = STATE_CODE[SiteState.GONE]
SUSPECT_AFTER = 2
"""Informative polls, all of which found a change, after which a site may be asked twice."""
_REBUILD_SHARE = 0.1
"""Where more rows than this share are to be looked at, all are: one by one they take many times as long."""
_WIDTHS = ((8_192.0, 4_096), (128.0, 64), (-np.inf, 1))
"""(wait, width), s: a site that waits longer than the first is looked at again at a multiple of the second."""


class EligibilityIndex(Columns):
    """What `SiteTable` says of each row, as of the last `update`, and how many sites stand where.

    Columns, each [capacity], meaningful up to the table's size:
        ready bool: as `SiteTable.pollable` · known bool: it was polled · suspect bool: as `changes_always` after 2
        polls · code uint8: its state, `PAUSED` or `EMPTY`

    Whoever writes into the table's columns says so by `SiteTable.touch`. What becomes true by the clock alone is looked
    at when its moment comes: sites that wait stand in a calendar, by the second, those that wait long by the hour and
    anew when it strikes. An entry is no more than a call to look; that it is outdated does no harm.
    """

    _DEFAULTS = {  # noqa: RUF012
        "ready": (np.bool_, False),
        "known": (np.bool_, False),
        "suspect": (np.bool_, False),
        "code": (np.uint8, EMPTY),
    }

    ready: NDArray[np.bool_]
    known: NDArray[np.bool_]
    suspect: NDArray[np.bool_]
    code: NDArray[np.uint8]

    def __init__(self, sites: SiteTable) -> None:
        super().__init__()
        self._sites = sites
        self.is_kept = False
        """Whether it is; else nothing here means anything."""
        self._now = -np.inf
        self._min_interval = np.nan
        self._touched: list[NDArray[np.int64]] = []
        self._number_touched = 0
        self._calendar: dict[int, array[int]] = {}
        """Second (epoch) -> slots to look at from then on."""
        self._seconds: list[int] = []
        """The calendar's, a heap."""
        self._counts = np.zeros(EMPTY, np.int64)

    def touch(self, slots: NDArray[np.int64] | list[int]) -> None:
        """Something of the rows in the slots int64[k] may be another."""
        if self.is_kept:
            self._touched.append(np.asarray(slots, np.int64))
            self._number_touched += len(slots)
            if self._number_touched > max(LONG, _REBUILD_SHARE * self._sites.size):
                self.touch_all()

    def touch_all(self) -> None:
        """Something of every row may be another."""
        self.is_kept = False
        self._touched, self._number_touched = [], 0
        self._calendar, self._seconds = {}, []

    def update(self, now: float, min_interval: float) -> bool:
        """Brings all up to `now` (epoch s), min_interval s for sites without one; False: the list is short, nothing is.

        Rows that were not touched stand as they would if all had been looked at now.
        """
        if self._sites.size <= LONG:
            self.touch_all()
            return False
        if not self.is_kept or now < self._now or min_interval != self._min_interval:
            self._rebuild(now, min_interval)
        else:
            self._now = now
            self._look_at_pending()
        return True

    def counts(self) -> NDArray[np.int64]:
        """int64[EMPTY]: how many sites there are of each code now; only where it is kept."""
        self._look_at_pending()
        return self._counts

    def live(self) -> NDArray[np.bool_]:
        """bool[size]: as `SiteTable.in_force`; only where it is kept."""
        self._look_at_pending()
        return self.code[: self._sites.size] < _GONE

    def next_look(self) -> float:
        """When a row is to be looked at next unless something happens, epoch s, inf: never; only where it is kept.

        No site that waits becomes ready before; whoever is in flight is touched when that is over.
        """
        return float(self._seconds[0]) if self._seconds else np.inf

    def _rebuild(self, now: float, min_interval: float) -> None:
        self.touch_all()
        self._now, self._min_interval = now, min_interval
        self.grow(self._sites.capacity)
        self._counts[:] = 0
        for part in stretches(self._sites.size):
            self._look(part)
            self._counts += self._counted(part)
        self.is_kept = True

    def _look_at_pending(self) -> None:
        """Looks at what was touched, and at those whose moment has come."""
        slots = self._touched
        while self._seconds and self._seconds[0] <= self._now:
            due = self._calendar.pop(heapq.heappop(self._seconds))
            slots.append(np.frombuffer(due, np.int32).astype(np.int64))
        if not slots:
            return
        self._touched, self._number_touched = [], 0
        if sum(map(len, slots)) > max(LONG, _REBUILD_SHARE * self._sites.size):
            self._rebuild(self._now, self._min_interval)
            return
        self.grow(self._sites.capacity)
        rows = np.unique(np.concatenate(slots))
        self._counts -= self._counted(rows)
        self._look(rows)
        self._counts += self._counted(rows)

    def _counted(self, part: NDArray[np.int64] | slice) -> NDArray[np.int64]:
        """int64[EMPTY]: how many of those rows are of each code."""
        return np.bincount(self.code[part], minlength=EMPTY + 1)[:EMPTY]

    def _look(self, part: NDArray[np.int64] | slice) -> None:
        sites, now = self._sites, self._now
        occupied = sites.site_id[part] >= 0
        code = np.where(sites.paused[part], np.uint8(PAUSED), sites.state[part])
        self.code[part] = np.where(occupied, code, np.uint8(EMPTY))
        self.known[part] = np.isfinite(sites.last_poll[part])
        self.suspect[part] = sites.changes_always(part, after=SUSPECT_AFTER)
        earliest = sites.earliest(self._min_interval, part)
        waits, free = earliest > now, sites.in_force(part) & ~sites.in_flight[part]
        self.ready[part] = free & ~waits
        rows = np.flatnonzero(free & waits & (earliest < np.inf))
        if rows.size:
            slots = rows + part.start if isinstance(part, slice) else part[rows]
            self._enter(slots.astype(np.int32), earliest[rows])

    def _enter(self, slots: NDArray[np.int32], at: NDArray[np.float64]) -> None:
        """Has the slots int32[k] looked at no later than at float64[k], epoch s, nor much earlier."""
        second = np.floor(at)
        for wait, width in _WIDTHS[:-1]:
            second = np.where(at - self._now > wait, np.floor(second / width) * width, second)
        order = np.argsort(second, kind="stable")
        slots, second = slots[order], second[order]
        ends = np.flatnonzero(np.r_[second[1:] != second[:-1], True]) + 1
        for begin, end in zip(np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True):
            key = int(second[begin])
            if key not in self._calendar:
                self._calendar[key] = array("i")
                heapq.heappush(self._seconds, key)
            self._calendar[key].frombytes(slots[begin:end].tobytes())
