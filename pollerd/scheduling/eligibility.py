"""Index of the eligible sites of a long list, updated incrementally instead of by a scan per tick."""

from __future__ import annotations

import heapq
from array import array
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import Columns, chunks
from pollerd.model import STATE_CODE, STATES, SiteState

if TYPE_CHECKING:
    from pollerd.scheduling.sites import SiteTable

LONG = 65_536
"""The index is kept for lists longer than this, and figures are as of its last update; shorter lists are scanned."""
PAUSED, EMPTY = len(STATES), len(STATES) + 1
"""Codes of `EligibilityIndex.code` besides those of `STATE_CODE`: a paused site, and a row without a site."""
_GONE = STATE_CODE[SiteState.GONE]
_REBUILD_SHARE = 0.1
"""Share of rows to update above which all rows are updated: individual updates are many times slower."""
_WIDTHS = ((8_192.0, 4_096), (128.0, 64), (-np.inf, 1))
"""(wait, width), s: a site that waits longer than `wait` is checked again at a multiple of `width`."""


class EligibilityIndex(Columns):
    """Properties of each row of `SiteTable` as of the last `update`, and the number of sites of each code.

    Columns, each [capacity], meaningful up to the table's size:
        ready bool: as `SiteTable.pollable` · known bool: it was polled · changing bool: as
        `SiteTable.changes_always` · code uint8: its state, `PAUSED` or `EMPTY`

    Code that writes into the table's columns must call `SiteTable.touch`. Conditions that depend on the clock are
    checked by a calendar of waiting sites: by the second for short waits, by coarser steps for long ones, which are
    entered again when their step comes. An entry only triggers a check; an outdated one is harmless.
    """

    _DEFAULTS = {  # noqa: RUF012
        "ready": (np.bool_, False),
        "known": (np.bool_, False),
        "changing": (np.bool_, False),
        "code": (np.uint8, EMPTY),
    }

    ready: NDArray[np.bool_]
    known: NDArray[np.bool_]
    changing: NDArray[np.bool_]
    code: NDArray[np.uint8]

    def __init__(self, sites: SiteTable) -> None:
        super().__init__()
        self._sites = sites
        self.is_kept = False
        """Whether the index is kept; if not, its contents are meaningless."""
        self._now = -np.inf
        self._min_interval = np.nan
        self._touched: list[NDArray[np.int64]] = []
        self._number_touched = 0
        self._calendar: dict[int, array[int]] = {}
        """Second (epoch) -> slots to check from then on."""
        self._seconds: list[int] = []
        """Keys of the calendar, a heap."""
        self._counts = np.zeros(EMPTY, np.int64)

    def touch(self, slots: NDArray[np.int64] | list[int]) -> None:
        """Marks the rows in slots int64[k] as possibly changed."""
        if self.is_kept:
            self._touched.append(np.asarray(slots, np.int64))
            self._number_touched += len(slots)
            if self._number_touched > max(LONG, _REBUILD_SHARE * self._sites.size):
                self.touch_all()

    def touch_all(self) -> None:
        """Marks every row as possibly changed."""
        self.is_kept = False
        self._touched, self._number_touched = [], 0
        self._calendar, self._seconds = {}, []

    def update(self, now: float, min_interval: float) -> bool:
        """Updates all rows to `now` (epoch s); min_interval s is the default of sites. Returns False for a short list.

        The result equals a scan of all rows now, provided that all written rows were touched.
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
        """Returns int64[EMPTY]: the number of sites of each code now; only while the index is kept."""
        self._look_at_pending()
        return self._counts

    def live(self) -> NDArray[np.bool_]:
        """Returns bool[size]: as `SiteTable.in_force`; only while the index is kept."""
        self._look_at_pending()
        return self.code[: self._sites.size] < _GONE

    def next_look(self) -> float:
        """Returns when a row must next be checked if nothing happens, epoch s, inf: never; only while it is kept.

        No waiting site becomes ready earlier; a site in flight is touched when its poll ends.
        """
        return float(self._seconds[0]) if self._seconds else np.inf

    def _rebuild(self, now: float, min_interval: float) -> None:
        self.touch_all()
        self._now, self._min_interval = now, min_interval
        self.grow(self._sites.capacity)
        self._counts[:] = 0
        for part in chunks(self._sites.size):
            self._look(part)
            self._counts += self._counted(part)
        self.is_kept = True

    def _look_at_pending(self) -> None:
        """Updates the touched rows and those whose time has come."""
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
        """Returns int64[EMPTY]: how many of those rows have each code."""
        return np.bincount(self.code[part], minlength=EMPTY + 1)[:EMPTY]

    def _look(self, part: NDArray[np.int64] | slice) -> None:
        sites, now = self._sites, self._now
        occupied = sites.site_id[part] >= 0
        code = np.where(sites.paused[part], np.uint8(PAUSED), sites.state[part])
        self.code[part] = np.where(occupied, code, np.uint8(EMPTY))
        self.known[part] = np.isfinite(sites.last_poll[part])
        self.changing[part] = sites.changes_always(part)
        earliest = sites.earliest(self._min_interval, part)
        waits, free = earliest > now, sites.watched(part) & ~sites.in_flight[part]
        self.ready[part] = free & ~waits
        rows = np.flatnonzero(free & waits & (earliest < np.inf))
        if rows.size:
            slots = rows + part.start if isinstance(part, slice) else part[rows]
            self._enter(slots.astype(np.int32), earliest[rows])

    def _enter(self, slots: NDArray[np.int32], at: NDArray[np.float64]) -> None:
        """Schedules a check of slots int32[k] no later than float64[k], epoch s, and not much earlier."""
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
