"""Draws what each budget would find: the best split, the even one, and where the daemon is now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pollerd.web.plots.drawing import Scale, framed, text
from pollerd.web.words.numbers import figure

WIDTH, HEIGHT = 560, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 64, 24, 30


@dataclass(frozen=True, slots=True)
class BenefitRow:
    """One budget of the curve."""

    budget: float
    """Polls/s."""
    found: float
    """An hour, at the best split."""
    x: int
    sentence: str

    @property
    def budget_text(self) -> str:
        """The budget as it may be set."""
        return f"{self.budget:.3g}"


@dataclass(frozen=True, slots=True)
class BenefitPlot:
    """The plot, and the same numbers as rows."""

    svg: str
    rows: Sequence[BenefitRow]
    step: int
    """The chosen row."""

    @property
    def sentence(self) -> str:
        """Of the chosen row."""
        return self.rows[self.step].sentence

    @property
    def budget(self) -> float:
        """Of the chosen row."""
        return self.rows[self.step].budget


def benefit_plot(
    curve: Sequence[tuple[float, float]],
    budget: float,
    scheduled: float,
    uniform: float | None,
    step: int | None = None,
) -> BenefitPlot | None:
    """Returns the plot of (budget, found an hour at the best split), ascending; None without two budgets.

    budget: the present one; scheduled, uniform: what it finds an hour as it is scheduled, and evenly split; step: the
    chosen row, by default that of the present budget.
    """
    curve = [(polls, found) for polls, found in curve if polls > 0]
    if len(curve) < 2 or curve[0][0] >= curve[-1][0]:
        return None
    most = max(max(found for _, found in curve), scheduled, uniform or 0.0)
    if most <= 0:
        return None
    x = Scale(curve[0][0], curve[-1][0], _LEFT, WIDTH - _RIGHT, log=True)
    y = Scale(0.0, most, HEIGHT - _BOTTOM, _TOP)
    now = min(range(len(curve)), key=lambda n: abs(curve[n][0] - budget))
    chosen = now if step is None else min(max(step, 0), len(curve) - 1)
    rows = [BenefitRow(polls, found, x(polls), _sentence(polls, found, budget, scheduled)) for polls, found in curve]
    return BenefitPlot(_drawn(rows, x, y, (budget, scheduled, uniform), chosen), rows, chosen)


def _sentence(polls: float, found: float, budget: float, scheduled: float) -> str:
    if abs(polls / budget - 1.0) < 0.02:
        return f"At {figure(polls)} polls/s, as now, about {figure(scheduled)} an hour."
    return f"At {figure(polls)} polls/s about {figure(found)} an hour instead of {figure(scheduled)}."


def _drawn(rows: Sequence[BenefitRow], x: Scale, y: Scale, now: tuple[float, float, float | None], chosen: int) -> str:
    budget, scheduled, uniform = now
    bottom = HEIGHT - _BOTTOM
    path = "L".join(f"{row.x} {y(row.found)}" for row in rows)
    inside = [
        f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{WIDTH - _RIGHT}"/>',
        text(_LEFT - 6, y(y.high) + 4, figure(y.high), anchor="end"),
        text(_LEFT - 6, bottom, "0", anchor="end"),
        *(text(x(at), HEIGHT - 10, figure(at), anchor="middle") for at in (x.low, budget, x.high)),
        text(WIDTH - _RIGHT + 20, HEIGHT - 10, "polls/s"),
        f'<path class="best" d="M{path}"/>',
        text(WIDTH - _RIGHT + 6, y(rows[-1].found) + 4, "best"),
    ]
    if uniform is not None and uniform > 0:
        inside.append(f'<path class="uniform" d="M{x(budget) - 24} {y(uniform)}H{x(budget) + 24}"/>')
        inside.append(text(x(budget) + 28, y(uniform) + 4, "evenly"))
    inside.append(f'<circle class="now" cx="{x(budget)}" cy="{y(scheduled)}" r="5"/>')
    inside.append(text(x(budget) - 8, y(scheduled) - 8, "now", anchor="end"))
    inside.append(f'<path class="chosen" id="benefit-line" d="M{rows[chosen].x} {_TOP}V{bottom}"/>')
    first, last = rows[0], rows[-1]
    description = (
        f"{first.sentence} {last.sentence} Now {figure(scheduled)} an hour"
        + ("" if uniform is None else f", evenly split {figure(uniform)}")
        + "."
    )
    return framed(
        "".join(inside), WIDTH, HEIGHT, key="benefit-plot", title="Found an hour, by budget", description=description
    )
