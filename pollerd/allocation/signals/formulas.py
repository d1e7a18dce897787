"""Formulas of noisy signals for known rates, recall and false rate (docs/signals.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LEAST = 1e-300
_ROWS = np.r_[0.0, np.exp(np.linspace(-30.0, 0.0, 3000))]
"""Probabilities F at which the price of a due page is tabulated."""
_PRICES = 1.0 - _ROWS + _ROWS * np.log(np.maximum(_ROWS, _LEAST))

Array = NDArray[np.float64]


def signal_weight(rate: Array, recall: Array | float, false_rate: Array | float) -> Array:
    """Returns b = ln(1 + r λ / ν), by which one signal raises -ln P(unchanged); shapes that broadcast, rates in 1/s."""
    return np.asarray(np.log1p(recall * rate / false_rate))


def due_level(price: Array) -> Array:
    """Returns F*, P(unchanged) at which a page is due: 1 - F* + F* ln F* = price; 0 for prices of 1 or more.

    price: of a poll, divided by the value of a change found, any shape, >= 0.
    """
    return np.where(price >= 1.0, 0.0, np.interp(-price, -_PRICES, _ROWS))


def waiting_value(unchanged: Array, due: Array, value: Array) -> Array:
    """Returns the value k(F) of not having to poll yet, >= 0; 0 where P(unchanged) is at most the level `due`."""
    fresh = unchanged > due
    safe = np.maximum(due, _LEAST)
    kept = unchanged - due - due * np.log(np.maximum(unchanged, safe) / safe)
    return np.where(fresh, value * kept, 0.0)


def fetch_gain(
    before: Array,
    window: Array,
    rate: Array,
    recall: Array | float,
    false_rate: Array | float,
    due: Array,
    value: Array,
) -> Array:
    """Returns the expected gain, float64[k] >= 0, of learning for each page whether its source named it.

    before: P(unchanged) at the last information; window: s since then; rate: changes per s; due: F*; value: of a
    change found.
    """
    now = before * np.exp(-rate * window)
    silent = np.exp(-(recall * rate + false_rate) * window)
    if_silent = before * np.exp(-(1.0 - recall) * rate * window)
    if_named = np.clip((now - silent * if_silent) / np.maximum(1.0 - silent, 1e-12), 0.0, 1.0)
    gain = silent * waiting_value(if_silent, due, value) + (1.0 - silent) * waiting_value(if_named, due, value)
    return np.asarray(np.maximum(gain - waiting_value(now, due, value), 0.0))
