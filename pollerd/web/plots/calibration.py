"""Draws how often changes came that were foretold with a probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pollerd.web.plots.drawing import Scale, framed, text
from pollerd.web.words.numbers import percent

SIZE = 260
_LEFT, _BOTTOM, _TOP = 40, 34, 10
_Z = 1.6448536269514722
"""Of a two-sided 90 % interval."""
_ENOUGH = 20


@dataclass(frozen=True, slots=True)
class DecilePoint:
    """Polls whose predicted probability lay in one tenth."""

    polls: int
    predicted: float
    found: float


def wilson(found: float, polls: int) -> tuple[float, float]:
    """Returns the 90 % score interval of a share `found` of `polls` (Wilson 1927)."""
    spread = _Z * _Z / polls
    middle = (found + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(found * (1 - found) / polls + spread / (4 * polls))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def calibration_plot(points: Sequence[DecilePoint]) -> str:
    """Returns the plot of the tenths in which there were polls."""
    x, y = Scale(0.0, 1.0, _LEFT, SIZE - 10), Scale(0.0, 1.0, SIZE - _BOTTOM, _TOP)
    inside = [
        f'<path class="axis" d="M{_LEFT} {_TOP}V{SIZE - _BOTTOM}H{SIZE - 10}"/>',
        f'<path class="uniform" d="M{x(0)} {y(0)}L{x(1)} {y(1)}"/>',
        *(text(x(at), SIZE - 14, f"{100 * at:.0f} %", anchor="middle") for at in (0.0, 0.5, 1.0)),
        *(text(_LEFT - 4, y(at) + 4, f"{100 * at:.0f} %", anchor="end") for at in (0.0, 0.5, 1.0)),
    ]
    most = max((point.polls for point in points), default=1)
    for point in points:
        low, high = wilson(point.found, point.polls)
        radius = round(3 + 6 * math.sqrt(point.polls / most))
        shape = "mean" if point.polls >= _ENOUGH else "mean few"
        inside.append(f'<path class="whisker" d="M{x(point.predicted)} {y(low)}V{y(high)}"/>')
        inside.append(f'<circle class="{shape}" cx="{x(point.predicted)}" cy="{y(point.found)}" r="{radius}"/>')
    said = sentence(points) or "No poll was foretold yet."
    return framed("".join(inside), SIZE, SIZE, key="calibration-plot", title="Foretold and found", description=said)


def sentence(points: Sequence[DecilePoint]) -> str:
    """Returns what the best supported tenth says; empty without any."""
    if not points:
        return ""
    best = max(points, key=lambda point: point.polls)
    return f"When it said {percent(best.predicted)}, it was {percent(best.found)} (of {best.polls:,} polls)."
