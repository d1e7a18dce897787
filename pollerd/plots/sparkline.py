"""Draws values as one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

_BARS = "▁▂▃▄▅▆▇█"
_GAP = " "
_LARGEST = 1e300
"""Beyond it a range may be larger than numbers can be."""


def sparkline(values: Sequence[float | None], most: int = 60) -> str:
    """Returns a bar for each of the last `most` values, lowest to highest; a space where one could not be read,
    or is beyond ±1e300.

    >>> sparkline([1.0, 2.0, None, 3.0])
    '▁▅ █'
    """
    shown = values[-most:]
    known = [value for value in shown if _readable(value)]
    if not known:
        return _GAP * len(shown)
    low, high = min(known), max(known)
    return "".join(_bar(value, low, high) for value in shown)


def _readable(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and abs(value) <= _LARGEST


def _bar(value: float | None, low: float, high: float) -> str:
    if not _readable(value):
        return _GAP
    if high <= low:
        return _BARS[len(_BARS) // 2]
    return _BARS[min(int((value - low) / (high - low) * (len(_BARS) - 1) + 0.5), len(_BARS) - 1)]
