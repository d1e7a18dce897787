"""Where the axes of a plot have marks, and how these are written. Times are UTC epoch seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_STEPS = (
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1_825, 3_650, 18_250, 365_000)),
)
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_799.0
"""Times that a calendar of four digits has."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis."""

    at: float
    text: str


def number_ticks(low: float, high: float, most: int) -> Sequence[Tick]:
    """Returns at most `most` (2 or more) round numbers from `low` to `high`, which is larger."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = _fitting((factor * power for factor in (1.0, 2.0, 5.0, 10.0, 20.0)), low, high, most)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [Tick(n * step, f"{n * step:,.{decimals}f}") for n in _multiples(step, low, high)][:most]


def time_ticks(low: float, high: float, most: int) -> Sequence[Tick]:
    """Returns at most `most` (2 or more) round times from `low` to `high`, which is larger."""
    low, high = max(low, _EARLIEST), min(high, _LATEST)
    step = _fitting(_STEPS, low, high, most)
    form = "%H:%M" if high - low < _DAY else "%m-%d %H:%M" if step < _DAY else "%Y-%m-%d"
    return [Tick(n * step, moment_text(n * step, form)) for n in _multiples(step, low, high)][:most]


def _fitting(steps: Iterable[float], low: float, high: float, most: int) -> float:
    """Returns the first of the steps, which grow, of which at most `most` multiples are between; else the last."""
    step = 1.0
    for step in steps:
        if (high - low) / step <= most and len(_multiples(step, low, high)) <= most:
            break
    return step


def _multiples(step: float, low: float, high: float) -> range:
    return range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)


def moment_text(at: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """Returns a time in UTC; one beyond the years 1 to 9999 as the nearest within them."""
    return datetime.fromtimestamp(min(max(at, _EARLIEST), _LATEST), UTC).strftime(form)
