"""Draws what is believed of a page's rate of change, and how often it is polled."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.web.plots.drawing import Scale, framed, text
from pollerd.web.words.numbers import how_often

WIDTH, HEIGHT = 720, 84
_LEFT, _RIGHT, _LINE = 20, 20, 36
_LABEL = 90
"""Half of the widest label."""
_MARKS = (
    ("1/month", 12 / 365.25),
    ("1/week", 1 / 7),
    ("1/day", 1.0),
    ("1/hour", 24.0),
    ("1/min", 1_440.0),
)
_LOWEST, _HIGHEST = 6 / 365.25, 5_760.0


@dataclass(frozen=True, slots=True)
class PageBelief:
    """What is believed of a page, in changes a day, and how often it is polled."""

    rate: float
    low: float | None
    """Of the 90 % interval; None: the allocator has none."""
    high: float | None
    polled: float | None
    """Polls a day."""
    known: bool
    """Whether polls support it, or it is only the prior."""


def belief_plot(belief: PageBelief) -> str:
    """Returns the plot."""
    rate, low, high, polled = belief.rate, belief.low, belief.high, belief.polled
    x = Scale(_LOWEST, _HIGHEST, _LEFT, WIDTH - _RIGHT, log=True)
    inside = [f'<path class="axis" d="M{_LEFT} {_LINE}H{WIDTH - _RIGHT}"/>']
    for name, at in _MARKS:
        inside.append(f'<path class="axis" d="M{x(at)} {_LINE}v8"/>')
        inside.append(text(x(at), _LINE + 22, name, anchor="middle"))
    description = f"Believed to change {how_often(rate)}"
    if low is not None and high is not None:
        width = max(x(high) - x(low), 2)
        shape = "interval" if belief.known else "interval prior"
        inside.append(f'<rect class="{shape}" x="{x(low)}" y="{_LINE - 8}" width="{width}" height="16" rx="3"/>')
        description += f", 90 % sure: between {how_often(low)} and {how_often(high)}"
    inside.append(f'<circle class="mean" cx="{x(rate)}" cy="{_LINE}" r="6"/>')
    if polled is not None:
        at = x(polled)
        inside.append(f'<path class="polled" d="M{at} {_LINE - 12}l-6 -10h12z"/>')
        inside.append(text(min(max(at, _LABEL), WIDTH - _LABEL), 10, f"polled {how_often(polled)}", anchor="middle"))
        description += f"; polled {how_often(polled)}"
    inside.append(text(_LEFT, HEIGHT - 6, "● mean   ▬ 90 % interval   ▼ how often it is polled", name="key"))
    said, title = f"{description}.", "Believed rate of change"
    return framed("".join(inside), WIDTH, HEIGHT, key="belief-plot", title=title, description=said)
