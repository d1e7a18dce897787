"""Which sites are closed by their windows now. What has none costs one comparison a choice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pollerd.model import Windows

if TYPE_CHECKING:
    from pollerd.scheduling.sites import SiteTable
    from pollerd.scheduling.windows import OpeningTimes


class Timetable:
    """When the windows of sites open and close. Sites with equal windows share a row, numbered in `SiteTable.hours`.

    Row 0 is always open. `turn` brings it up to a time; all else is as of the last one.
    """

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites
        self._windows: dict[Windows, int] = {}
        self._times: list[OpeningTimes | None] = [None]
        self._opens_at = np.array([-math.inf])
        self._opened_at = np.array([-math.inf])
        self._turns_at = np.array([math.inf])
        self._free: list[int] = []
        self.next_turn = math.inf
        """When windows open or close next, epoch s; inf: never."""

    def put(self, slots: NDArray[np.int64], windows: Windows | None) -> None:
        """Gives the slots int64[k] these windows, in force from the next turn on; None: they are always open."""
        number = 0 if windows is None else self._number(windows)
        if number or not self._sites.is_as_ever("hours"):
            self._sites.put("hours", slots, number)
            self._sites.touch(slots)

    def turn(self, now: float) -> None:
        """Opens and closes what does so by `now`, epoch s. Costs nothing before `next_turn`."""
        if now < self.next_turn:
            return
        closed = []
        for number in np.flatnonzero(self._turns_at <= now).tolist():
            self._look(number, now)
            if self._opens_at[number] > now:
                closed.append(number)
        self.next_turn = float(self._turns_at.min())
        for number in closed:  # those that open are awaited by the index
            self._sites.touch(np.flatnonzero(self._sites.hours[: self._sites.size] == number))

    def windows_of(self, slot: int) -> OpeningTimes | None:
        """Returns the opening times of the site in the slot; None: it is always open."""
        return self._times[int(self._sites.hours[slot])]

    def opens_at(self, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: when closed sites of those rows open, epoch s; -inf, or a time that is past: open."""
        hours = self._sites.hours[part]  # first: other threads may read while rows are added
        return self._opens_at.take(hours)

    def opened_at(self, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: since when open sites of those rows are open; -inf: always."""
        hours = self._sites.hours[part]
        return self._opened_at.take(hours)

    def is_open(self, part: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Returns bool[k]: which of those rows are open, as of the last `turn`."""
        return np.asarray(self.opens_at(part) == -math.inf)

    def _number(self, windows: Windows) -> int:
        number = self._windows.get(windows)
        if number is None:
            from pollerd.scheduling.windows import opening_times  # who has no windows needs no zones

            times = opening_times(windows)
            number = self._windows[windows] = self._free_number()
            self._times[number] = times
            self._opens_at[number] = self._opened_at[number] = -math.inf
            self._turns_at[number] = self.next_turn = -math.inf
        return number

    def _free_number(self) -> int:
        """Returns the number of a row that no site uses; adds as many as there are where all are used."""
        if not self._free:
            used = np.unique(self._sites.hours[: self._sites.size])
            self._free = sorted(set(range(1, len(self._times))) - set(used.tolist()), reverse=True)
            self._windows = {one: number for one, number in self._windows.items() if number not in set(self._free)}
            self._turns_at[self._free] = math.inf
        if not self._free:
            rows = len(self._times)
            self._times += [None] * rows
            self._free = [*range(2 * rows - 1, rows - 1, -1)]
            self._opens_at = np.append(self._opens_at, np.full(rows, -math.inf))
            self._opened_at = np.append(self._opened_at, np.full(rows, -math.inf))
            self._turns_at = np.append(self._turns_at, np.full(rows, math.inf))
        return self._free.pop()

    def _look(self, number: int, now: float) -> None:
        times = self._times[number]
        if times is None:
            return
        opens = times.next_open(now)
        if opens > now:
            self._opens_at[number], self._turns_at[number] = opens, opens
        else:
            self._opens_at[number], self._turns_at[number] = -math.inf, times.next_close(now)
            self._opened_at[number] = times.opened_at(now)
