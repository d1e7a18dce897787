"""Numbers as sentences name them: two digits that count, and how often."""

from __future__ import annotations

import math

_PER = (
    ("a second", 86_400.0),
    ("a minute", 1_440.0),
    ("an hour", 24.0),
    ("a day", 1.0),
    ("a week", 1.0 / 7.0),
    ("a month", 12.0 / 365.25),
    ("a year", 1.0 / 365.25),
)
_ONCE_BELOW = 1.35
_SMALLEST = 1e-9


def figure(value: float) -> str:
    """Writes a number with two digits that count, as in 0.015, 3.2, 48 and 1,204; whole from 10 on."""
    if not math.isfinite(value):
        return "unknown"
    if abs(value) < _SMALLEST:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, decimals)
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """Writes a share of 0 to 1 as percent; never "100 %" or "0 %" for what is only near it."""
    if not math.isfinite(share):
        return "unknown"
    value = 100.0 * share
    if 0.0 < value < 0.001:
        return "under 0.001 %"
    if 99.5 <= value < 100.0:
        return "over 99 %"
    return f"{figure(value)} %"


def how_often(per_day: float) -> str:
    """Writes a rate as people say it: "6 times a day", "once a week", "less than once a year"."""
    if not math.isfinite(per_day) or per_day < 0:
        return "unknown"
    for unit, times in _PER:
        count = per_day / times
        if count >= 0.95:
            return f"once {unit}" if count < _ONCE_BELOW else f"{figure(count)} times {unit}"
    return "less than once a year"
