"""Real changes from a file: one line `page,time` for each change, time in seconds (any zero)."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.simulation.environments.changes import Changes


@dataclass(frozen=True)
class History:
    """Changes of n pages over a span.

    names: n strings. times: float64[m] s since the first change in the file, sorted within each page; counts int64[n]
    says how many are each page's, page after page. span s > 0: from the file's first change to its last.
    """

    names: tuple[str, ...]
    times: NDArray[np.float64]
    counts: NDArray[np.int64]
    span: float

    @property
    def rates(self) -> NDArray[np.float64]:
        """Each page's average changes per second over the span, float64[n]."""
        return np.asarray(self.counts / self.span)


def read_history(path: Path) -> History:
    """The history in a CSV file with columns page and time; a first line `page,time` is skipped.

    Raises InvalidValueError for a line that is not a page and a finite number, and where nothing is left to poll.
    """
    found: dict[str, list[float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if row and not (number == 1 and row[:2] == ["page", "time"]):
                page, time = _change(row, number)
                found.setdefault(page, []).append(time)
    every = [time for times in found.values() for time in times]
    if not every or max(every) <= min(every):
        raise InvalidValueError("history", "changes at two moments or more", f"{len(every)} changes")
    times = [np.sort(np.array(times)) - min(every) for times in found.values()]
    counts = np.array([len(of_page) for of_page in times])
    return History(tuple(found), np.concatenate(times), counts, max(every) - min(every))


def _change(row: list[str], number: int) -> tuple[str, float]:
    try:
        page, time = row[0], float(row[1])
    except (IndexError, ValueError) as error:
        raise InvalidValueError(f"history, line {number}", "a page and a time in seconds", row) from error
    if not math.isfinite(time):
        raise InvalidValueError(f"history, line {number}", "a finite time", row)
    return page, time


class HistoryChanges(Changes):
    """A history lived through in steps of `step` seconds; all pages are known at its begin."""

    def __init__(self, history: History, step: float) -> None:
        super().__init__(len(history.names))
        self._history, self._step = history, step

    def _block(self, begin: float) -> tuple[float, NDArray[np.float64], NDArray[np.int64]]:
        if begin > 0:
            return math.inf, np.empty(0), np.zeros(self.pages, np.int64)
        times, owner = self._history.times / self._step, np.repeat(np.arange(self.pages), self._history.counts)
        later = times > 0
        return float(times.max()), times[later], np.bincount(owner[later], minlength=self.pages)
