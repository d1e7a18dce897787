"""Checks at the allocators' public entries."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError


def positive(field: str, value: float) -> float:
    """The value as a float, finite and > 0."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidValueError(field, "finite and > 0", value)
    return float(value)


def distinct_slots(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Slots as int64[k]: >= 0, one-dimensional, none twice."""
    given = np.asarray(slots, np.int64)
    if given.ndim != 1 or (given.size and (given.min() < 0 or np.unique(given).size != given.size)):
        raise InvalidValueError("slots", "distinct row numbers >= 0", slots)
    return given


def column(
    field: str, values: NDArray[np.float64], k: int, *, zero: bool = False, missing: bool = False
) -> NDArray[np.float64]:
    """Values as float64[k]: finite and > 0 (>= 0 with `zero`); nan is let through with `missing`."""
    given = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        good = np.isfinite(given) & (given >= 0 if zero else given > 0)
    if missing:
        good |= np.isnan(given)
    if given.shape != (k,) or not good.all():
        allowed = f"{k} finite values {'>= 0' if zero else '> 0'}{' or nan' if missing else ''}"
        raise InvalidValueError(field, allowed, values)
    return given


def host_numbers(host: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Numbers of hosts as int64[k], -1 for none."""
    given = np.asarray(host, np.int64)
    if given.shape != (k,) or (k and not -1 <= given.min() <= given.max() < 2**31):
        raise InvalidValueError("host", f"{k} whole numbers from -1 to 2147483647", host)
    return given
