"""Recorded changes from a file: one line `page,time` for each change, time in seconds (any origin, within 10^11)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.lab.environments.changes import Changes

FARTHEST_S = 1e11
"""Bound of times in seconds from zero, 3,000 years: excludes current times in milliseconds."""
_SHOWN = 80
"""Number of characters of an invalid line that an error shows."""


@dataclass(frozen=True)
class History:
    """Changes of n pages over a span.

    names: n strings. times: float64[m] s since the first change in the file, sorted within each page; counts int64[n]:
    number of changes of each page, page after page. span s > 0: from the file's first change to its last.
    """

    names: tuple[str, ...]
    times: NDArray[np.float64]
    counts: NDArray[np.int64]
    span: float

    @property
    def rates(self) -> NDArray[np.float64]:
        """Each page's mean changes per second over the span, float64[n]."""
        return np.asarray(self.counts / self.span)


def read_history(path: Path) -> History:
    """Reads a history from a CSV file with columns page and time; a first line `page,time` is skipped.

    Raises InvalidValueError, with the file and the line, for a file that cannot be read as UTF-8, for a line that is
    not a page and a number within `FARTHEST_S` of 0, and if there are fewer than two different times.
    """
    times_by_page: dict[str, list[float]] = {}
    for line, row in _rows(path):
        if row and not (line == 1 and row[:2] == ["page", "time"]):
            page, time = _change(row, f"{path}, line {line}")
            times_by_page.setdefault(page, []).append(time)
    every = [time for times in times_by_page.values() for time in times]
    if not every or max(every) <= min(every):
        raise InvalidValueError(str(path), "changes at two moments or more", f"{len(every)} changes")
    times = [np.sort(np.array(times)) - min(every) for times in times_by_page.values()]
    counts = np.array([len(of_page) for of_page in times])
    return History(tuple(times_by_page), np.concatenate(times), counts, max(every) - min(every))


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the file's rows, each with the number of its last line."""
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for row in reader:
                line = reader.line_num
                yield line, row
    except OSError as error:
        raise InvalidValueError(str(path), "a file that can be read", error.strerror) from error
    except UnicodeDecodeError as error:
        raise InvalidValueError(str(path), "UTF-8 text", error.object[error.start : error.end]) from error
    except csv.Error as error:
        raise InvalidValueError(f"{path}, line {line + 1}", "a page and a time in seconds", str(error)) from error


def _change(row: list[str], place: str) -> tuple[str, float]:
    shown = ",".join(row)[:_SHOWN]
    try:
        page, time = row[0], float(row[1])
    except (IndexError, ValueError) as error:
        raise InvalidValueError(place, "a page and a time in seconds", shown) from error
    if not abs(time) <= FARTHEST_S:
        raise InvalidValueError(place, f"a page and a time from {-FARTHEST_S:g} to {FARTHEST_S:g} s", shown)
    return page, time


class HistoryChanges(Changes):
    """Changes of a history in steps of `step` seconds; all pages are known at its begin."""

    def __init__(self, history: History, step: float) -> None:
        super().__init__(len(history.names))
        self._history, self._step = history, step

    def block(self, begin: float) -> tuple[float, NDArray[np.float64], NDArray[np.int64]]:
        if begin > 0:
            return math.inf, np.empty(0), np.zeros(self.pages, np.int64)
        times, owner = self._history.times / self._step, np.repeat(np.arange(self.pages), self._history.counts)
        later = times > 0
        return float(times.max()), times[later], np.bincount(owner[later], minlength=self.pages)
