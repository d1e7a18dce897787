"""Durations in words, exact where users gave them, rounded to two digits or so where they are expected."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_UNITS = ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"))
_TWO_DIGITS = 10


def exactly(seconds: float) -> str:
    """Formats a given duration in the largest unit of which it is a whole number: "30 minutes", "1 day"."""
    for length, unit in _UNITS:
        if seconds >= length and seconds % length == 0:
            return _counted(seconds / length, unit)
    return _counted(seconds, "second")


def apart(seconds: float) -> str:
    """Formats how often something may happen: "a minute", "in 10 minutes", after "one request"."""
    if seconds != round(seconds):
        return f"in {about(seconds)}"
    number, _, unit = exactly(seconds).partition(" ")
    return f"{'an' if unit == 'hour' else 'a'} {unit}" if number == "1" else f"in {number} {unit}"


def about(seconds: float) -> str:
    """Formats an expected duration: "0.4 s", "45 s", "22 min", "3 h 10 min", "2 d 5 h", "14 d"."""
    if seconds < _TWO_DIGITS:
        return f"{float(f'{seconds:.2g}'):g} s"
    if round(seconds) < _MINUTE:
        return f"{seconds:.0f} s"
    if round(seconds / _MINUTE) < _MINUTE:
        return f"{seconds / _MINUTE:.0f} min"
    if round(seconds / _HOUR) < _DAY // _HOUR:
        return _in_two(seconds, _HOUR, "h", 600, _MINUTE, "min")
    return _in_two(seconds, _DAY, "d", _HOUR, _HOUR, "h")


def _in_two(seconds: float, large: int, unit: str, step: int, small: int, part: str) -> str:
    """Formats in two units, rounded to `step` s; from ten large ones on in these alone."""
    if seconds >= _TWO_DIGITS * large:
        return f"{seconds / large:,.0f} {unit}"
    whole, rest = divmod(round(seconds / step) * step, large)
    return f"{whole} {unit} {rest // small} {part}" if rest else f"{whole} {unit}"


def _counted(number: float, unit: str) -> str:
    shown = f"{number:,.10g}"
    return f"{shown} {unit}" + ("" if shown == "1" else "s")
