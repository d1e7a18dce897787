"""Input checks of the allocators' public methods."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError


def _number(value: object) -> float:
    """Returns the value as a float; nan if it is not a number, or overflows."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def positive(field: str, value: float) -> float:
    """Returns the value as a float, finite and > 0."""
    given = _number(value)
    if not (math.isfinite(given) and given > 0):
        raise InvalidValueError(field, "finite and > 0", value)
    return given


def positive_or_0(field: str, value: float) -> float:
    """Returns the value as a float, finite and >= 0."""
    given = _number(value)
    if not (math.isfinite(given) and given >= 0):
        raise InvalidValueError(field, "finite and > 0, or 0 for the default", value)
    return given


def between(field: str, value: float, low: float, high: float) -> float:
    """Returns the value as a float, low <= value <= high."""
    given = _number(value)
    if not low <= given <= high:
        raise InvalidValueError(field, f"from {low:g} to {high:g}", value)
    return given


def whole(field: str, value: float, low: int, high: int) -> int:
    """Returns the value as an int, low <= value <= high; accepts integral floats."""
    given = _number(value)
    if not low <= given <= high or given != int(given):
        raise InvalidValueError(field, f"a whole number from {low} to {high}", value)
    return int(given)


def one_of(field: str, value: object, allowed: Iterable[str]) -> str:
    """Returns the value, which must be one of the allowed words."""
    words = tuple(allowed)
    if not (isinstance(value, str) and value in words):
        raise InvalidValueError(field, f"one of {', '.join(words)}", value)
    return value


def put(settings: object, **values: Any) -> None:
    """Sets checked values on frozen settings, for their `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)


def floats(field: str, values: Any) -> NDArray[np.float64]:
    """Returns values as float64 of their own shape; refuses anything but numbers."""
    try:
        return np.asarray(values, np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(field, "numbers", values) from error


def row_numbers(field: str, values: Any) -> NDArray[np.int64]:
    """Returns values as int64 of their own shape; accepts integral floats."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        return values
    numbers = floats(field, values)
    kind = np.asarray(values).dtype.kind
    if kind == "b" or not (np.abs(numbers) < 2.0**63).all() or (numbers != np.floor(numbers)).any():
        raise InvalidValueError(field, "whole numbers", values)
    return np.asarray(values).astype(np.int64)


def distinct_slots(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns slots as int64[k]: >= 0, one-dimensional, distinct."""
    given = row_numbers("slots", slots)
    if given.ndim != 1 or (given.size and (given.min() < 0 or _any_twice(given))):
        raise InvalidValueError("slots", "distinct row numbers >= 0", slots)
    return given


def _any_twice(given: NDArray[np.int64]) -> bool:
    if (given[1:] > given[:-1]).all():  # ascending, as from a list: this check takes a hundredth of the time
        return False
    return bool(np.unique(given).size != given.size)


def column(
    field: str, values: NDArray[np.float64], k: int, *, zero: bool = False, missing: bool = False
) -> NDArray[np.float64]:
    """Returns values as float64[k]: finite and > 0 (>= 0 with `zero`); nan is allowed with `missing`."""
    given = floats(field, values)
    with np.errstate(invalid="ignore"):
        good = np.isfinite(given) & (given >= 0 if zero else given > 0)
    if missing:
        good |= np.isnan(given)
    if given.shape != (k,) or not good.all():
        allowed = f"{k} finite values {'>= 0' if zero else '> 0'}{' or nan' if missing else ''}"
        raise InvalidValueError(field, allowed, values)
    return given


def host_numbers(host: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Returns host numbers as int64[k], -1 for none."""
    given = row_numbers("host", host)
    if given.shape != (k,) or (k and not -1 <= given.min() <= given.max() < 2**31):
        raise InvalidValueError("host", f"{k} whole numbers from -1 to 2147483647", host)
    return given
