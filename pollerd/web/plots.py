"""Plots of beliefs, benefits, calibration and polls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.planning import pace
from pollerd.plots import Scale, framed, text, time_ticks
from pollerd.storage.values import StripColumns
from pollerd.texts import N_, _, n_
from pollerd.web.words import figure, how_often, percent


def _named(key: str, width: int) -> str:
    """Returns the key of a plot among those of its page, where the narrow one is another."""
    return f"{key}-narrow" if width <= NARROW else key


# Draws what is believed of a page's rate of change, and how often it is polled.

WIDTH, HEIGHT = 640, 84
NARROW = 320
"""Pixels of plots on phones: each is drawn for both, so that no letter is scaled or cut."""
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
    """What is believed of a page, in changes per day, and how often it is polled."""

    rate: float
    low: float | None
    """Of the 90 % interval; None: the allocator has none."""
    high: float | None
    polled: float | None
    """Polls a day."""
    known: bool
    """Whether polls support it, or it is only the prior."""


def belief_plot(belief: PageBelief, width: int = WIDTH) -> str:
    """Returns the plot, `width` pixels wide."""
    rate, low, high, polled = belief.rate, belief.low, belief.high, belief.polled
    x = Scale(_LOWEST, _HIGHEST, _LEFT, width - _RIGHT, log=True)
    inside = [f'<path class="axis" d="M{_LEFT} {_LINE}H{width - _RIGHT}"/>']
    for name, at in _MARKS:
        inside.append(f'<path class="axis" d="M{x(at)} {_LINE}v8"/>')
        inside.append(text(x(at), _LINE + 22, name, anchor="middle"))
    description = _("Changes (estimate): {how_often}", how_often=how_often(rate))
    if low is not None and high is not None:
        length = max(x(high) - x(low), 2)
        shape = "interval" if belief.known else "interval prior"
        inside.append(f'<rect class="{shape}" x="{x(low)}" y="{_LINE - 8}" width="{length}" height="16" rx="3"/>')
        description += _(", 90 % confidence: between {low} and {high}", low=how_often(low), high=how_often(high))
    inside.append(f'<circle class="mean" cx="{x(rate)}" cy="{_LINE}" r="6"/>')
    if polled is not None:
        at = x(polled)
        inside.append(f'<path class="polled" d="M{at} {_LINE - 12}l-6 -10h12z"/>')
        inside.append(
            text(
                min(max(at, _LABEL), width - _LABEL),
                10,
                _("checked {how_often}", how_often=how_often(polled)),
                anchor="middle",
            )
        )
        description += _("; checked {how_often}", how_often=how_often(polled))
    inside.append(text(_LEFT, HEIGHT - 6, _("● typical   ▬ 90 % interval   ▼ checks"), name="key"))
    said, title = f"{description}.", _("Estimated rate of change")
    return framed("".join(inside), width, HEIGHT, key=_named("belief-plot", width), title=title, description=said)


# Draws what each budget would find: the best split, the even one, and where the daemon is now.

BENEFIT_WIDTH, BENEFIT_HEIGHT = 760, 240
_BENEFIT_LEFT, _BENEFIT_RIGHT, _TOP, _BOTTOM = 60, 64, 24, 30


@dataclass(frozen=True, slots=True)
class BenefitRow:
    """One budget of the curve."""

    budget: float
    """Polls/s."""
    found: float
    """An hour, at the best split."""
    x: float
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
    width: int = BENEFIT_WIDTH,
) -> BenefitPlot | None:
    """Returns the plot of (budget, found an hour at the best split), ascending; None without two budgets.

    budget: the present one; scheduled, uniform: what it finds an hour as it is scheduled, and evenly split; step: the
    chosen row, by default that of the present budget; width: of the plot, in pixels.
    """
    curve = [(polls, found) for polls, found in curve if polls > 0]
    if len(curve) < 2 or curve[0][0] >= curve[-1][0]:
        return None
    most = max(max(found for _polls, found in curve), scheduled, uniform or 0.0)
    if most <= 0:
        return None
    x = Scale(curve[0][0], curve[-1][0], _BENEFIT_LEFT, width - _BENEFIT_RIGHT, log=True)
    y = Scale(0.0, most, BENEFIT_HEIGHT - _BOTTOM, _TOP)
    now = min(range(len(curve)), key=lambda n: abs(curve[n][0] - budget))
    chosen = now if step is None else min(max(step, 0), len(curve) - 1)
    rows = [BenefitRow(polls, found, x(polls), _sentence(polls, found, *curve[now])) for polls, found in curve]
    return BenefitPlot(_drawn(rows, x, y, (budget, scheduled, uniform), chosen, width), rows, chosen)


def _sentence(polls: float, found: float, budget: float, best: float) -> str:
    """best: what the present budget finds an hour if it is split as well as the others are here."""
    if polls == budget:
        return _(
            "With {budget}, as now, about {found} changes per hour at best.",
            budget=pace(polls),
            found=figure(found),
        )
    share = found / best if best > 0 else 1.0
    if share <= 1:
        return _(
            "With {budget}, about {share} of the changes that {present} find.",
            budget=pace(polls, budget),
            share=percent(share),
            present=pace(budget, polls),
        )
    return _(
        "With {budget}, about {share} more changes than {present} find.",
        budget=pace(polls, budget),
        share=percent(share - 1),
        present=pace(budget, polls),
    )


def _drawn(
    rows: Sequence[BenefitRow], x: Scale, y: Scale, now: tuple[float, float, float | None], chosen: int, width: int
) -> str:
    budget, scheduled, uniform = now
    bottom = BENEFIT_HEIGHT - _BOTTOM
    path = "L".join(f"{row.x} {y(row.found)}" for row in rows)
    inside = [
        f'<path class="axis" d="M{_BENEFIT_LEFT} {_TOP}V{bottom}H{width - _BENEFIT_RIGHT}"/>',
        text(_BENEFIT_LEFT - 6, y(y.high) + 4, figure(y.high), anchor="end"),
        text(_BENEFIT_LEFT - 6, bottom, "0", anchor="end"),
        *(text(x(at), BENEFIT_HEIGHT - 10, figure(at), anchor="middle") for at in (x.low, budget)),
        text(width - 2, BENEFIT_HEIGHT - 10, _("{figure} checks/s", figure=figure(x.high)), anchor="end"),
        f'<path class="best" d="M{path}"/>',
        text(width - _BENEFIT_RIGHT + 6, y(rows[-1].found) + 4, _("best")),
    ]
    if uniform is not None and uniform > 0:
        inside.append(f'<path class="uniform" d="M{x(budget) - 24} {y(uniform)}H{x(budget) + 24}"/>')
        inside.append(text(x(budget) + 28, y(uniform) + 4, _("evenly")))
    inside.append(f'<circle class="now" cx="{x(budget)}" cy="{y(scheduled)}" r="5"/>')
    inside.append(text(x(budget) - 8, y(scheduled) - 8, _("now"), anchor="end"))
    inside.append(f'<path class="chosen" d="M{rows[chosen].x} {_TOP}V{bottom}"/>')
    first, last = rows[0], rows[-1]
    description = (
        _(
            "{first} {last} Now {scheduled} an hour",
            first=first.sentence,
            last=last.sentence,
            scheduled=figure(scheduled),
        )
        + ("" if uniform is None else _(", if polled equally {uniform}", uniform=figure(uniform)))
        + "."
    )
    return framed(
        "".join(inside),
        width,
        BENEFIT_HEIGHT,
        key=_named("benefit-plot", width),
        title=_("Found an hour, by budget"),
        description=description,
    )


# Draws how often changes came that were foretold with a probability.

SIZE = 260
_CALIBRATION_LEFT, _CALIBRATION_RIGHT, _CALIBRATION_BOTTOM, _CALIBRATION_TOP = 48, 22, 34, 10
_Z = 1.6448536269514722
"""Of a two-sided 90 % interval."""
_ENOUGH = 20


@dataclass(frozen=True, slots=True)
class DecilePoint:
    """Polls whose predicted probability lay in one tenth."""

    polls: int
    predicted: float
    found: float


def wilson(share: float, polls: int) -> tuple[float, float]:
    """Returns the 90 % score interval of a share `found` of `polls` (Wilson 1927)."""
    spread = _Z * _Z / polls
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / polls + spread / (4 * polls))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def calibration_plot(points: Sequence[DecilePoint]) -> str:
    """Returns the plot of the tenths in which there were polls."""
    right, bottom = SIZE - _CALIBRATION_RIGHT, SIZE - _CALIBRATION_BOTTOM
    x, y = Scale(0.0, 1.0, _CALIBRATION_LEFT, right), Scale(0.0, 1.0, bottom, _CALIBRATION_TOP)
    inside = [
        f'<path class="axis" d="M{_CALIBRATION_LEFT} {_CALIBRATION_TOP}V{bottom}H{right}"/>',
        f'<path class="uniform" d="M{x(0)} {y(0)}L{x(1)} {y(1)}"/>',
        *(text(x(at), SIZE - 14, f"{100 * at:.0f} %", anchor="middle") for at in (0.0, 0.5, 1.0)),
        *(text(_CALIBRATION_LEFT - 4, y(at) + 4, f"{100 * at:.0f} %", anchor="end") for at in (0.0, 0.5, 1.0)),
    ]
    most = max((point.polls for point in points), default=1)
    for point in points:
        low, high = wilson(point.found, point.polls)
        radius = round(3 + 6 * math.sqrt(point.polls / most))
        shape = "mean" if point.polls >= _ENOUGH else "mean few"
        inside.append(f'<path class="whisker" d="M{x(point.predicted)} {y(low)}V{y(high)}"/>')
        inside.append(f'<circle class="{shape}" cx="{x(point.predicted)}" cy="{y(point.found)}" r="{radius}"/>')
    description = sentence(points) or _("No check was predicted yet.")
    return framed(
        "".join(inside), SIZE, SIZE, key="calibration-plot", title=_("Predicted and found"), description=description
    )


def sentence(points: Sequence[DecilePoint]) -> str:
    """Returns what the best supported tenth says; empty without any."""
    if not points:
        return ""
    best = max(points, key=lambda point: point.polls)
    return _(
        "When it said {predicted}, it was {found} (of {polls:,} polls).",
        predicted=percent(best.predicted),
        found=percent(best.found),
        polls=best.polls,
    )


# Draws a page's polls over time in three lanes: changes found, polls, failures.

STRIP_HEIGHT = 88
_COLUMN = 2
"""Pixels."""
_STRIP_LEFT, _STRIP_RIGHT = 56, 4
_FOUND, _POLLS, _FAILED, _AXIS = 24, 44, 48, 84
"""Bottom of the lane of changes, bottom of the polls', top of the failures', base line of the axis' texts."""
_LANES = {N_("found"): _FOUND, N_("checks"): _POLLS, N_("failed"): 62}
"""Name of each lane -> base line of its name."""
_FOUND_HEIGHT, _POLLS_HEIGHT, _FAILED_HEIGHT = 20, 14, 16
_LEAST = 4
_TICK, _HALF_TICK = 90, 38
"""Pixels between two labels of the axis, at least, and half of the widest one."""


@dataclass(frozen=True, slots=True)
class Strip:
    """The plot, and its numbers by column: (from, polls, found, failed), without empty ones."""

    svg: str
    rows: Sequence[tuple[float, int, int, int]]


def poll_strip(
    polls: StripColumns, since: float, until: float, expected: float | None = None, width: int = WIDTH
) -> Strip:
    """Returns the strip of the time from `since` to `until` (epoch s).

    expected: when the next poll is expected; it is drawn within the axis, which ends no earlier. width: in pixels.
    """
    columns = (width - _STRIP_RIGHT - _STRIP_LEFT) // _COLUMN
    end = until if expected is None else max(until, min(expected, until + (until - since)))
    inside_range = (polls.at >= since) & (polls.at <= until)
    column = ((polls.at[inside_range] - since) / (end - since) * columns).astype(np.int64).clip(0, columns - 1)
    lanes = [
        np.bincount(column[chosen], minlength=columns)
        for chosen in (slice(None), polls.changed[inside_range], polls.failed[inside_range])
    ]
    every, found, failed = lanes
    x = Scale(since, end, _STRIP_LEFT, width - _STRIP_RIGHT)
    places = [_STRIP_LEFT + _COLUMN * n for n in range(columns)]
    drawn = [
        *(text(_STRIP_LEFT - 6, at, _(name), anchor="end") for name, at in _LANES.items()),
        f'<path class="axis" d="M{_STRIP_LEFT} {_POLLS + 1}H{width - _STRIP_RIGHT}"/>',
        *(
            text(min(x(tick.at), width - _HALF_TICK), _AXIS, tick.text, anchor="middle")
            for tick in time_ticks(since, end, max(width // _TICK, 2))
        ),
        _lane("found", places, found, _FOUND, -_FOUND_HEIGHT),
        _lane("polls", places, every, _POLLS, -_POLLS_HEIGHT),
        _lane("failed", places, failed, _FAILED, _FAILED_HEIGHT),
    ]
    if expected is not None and expected >= until:
        drawn.append(f'<path class="expected" d="M{x(expected)} 4V{_FAILED}"/>')
    rows = [
        (since + n * (end - since) / columns, int(every[n]), int(found[n]), int(failed[n]))
        for n in np.flatnonzero(every)
    ]
    total = (int(every.sum()), int(found.sum()), int(failed.sum()))
    description = n_(
        "{count} poll, {found:,} found a change, {failed:,} failed.",
        "{count} polls, {found:,} found a change, {failed:,} failed.",
        total[0],
        found=total[1],
        failed=total[2],
    )
    return Strip(
        framed(
            "".join(drawn),
            width,
            STRIP_HEIGHT,
            key=_named("strip-plot", width),
            title=_("Polls over time"),
            description=description,
        ),
        rows,
    )


def _lane(name: str, places: Sequence[int], counts: NDArray[np.int64], base: int, height: int) -> str:
    """Returns one path: an upright line for each column that is not empty, as long as its count."""
    most = int(counts.max(initial=0))
    if not most:
        return ""
    sign = -1 if height < 0 else 1
    lines = [
        f"M{places[n]} {base}v{sign * max(_LEAST, round(abs(height) * int(counts[n]) / most))}"
        for n in np.flatnonzero(counts).tolist()
    ]
    return f'<path class="{name}" d="{"".join(lines)}"/>'


# Draws how many changes each hour of the last day had; the same rows at any width, as it has no letters inside.

_HOUR_WIDTH, _HOUR_HEIGHT = 10, 48


def hours_plot(counts: Sequence[int]) -> str:
    """Returns a bar for each hour, the last one at the right."""
    most = max(counts, default=0) or 1
    bars = [
        f"M{_HOUR_WIDTH * n + 5} {_HOUR_HEIGHT}v-{max(round(_HOUR_HEIGHT * count / most), 2)}"
        for n, count in enumerate(counts)
        if count
    ]
    description = n_("{count} change in the last day", "{count} changes in the last day", sum(counts))
    inside = f'<path class="bars" d="{"".join(bars)}"/>'
    width = _HOUR_WIDTH * len(counts)
    return framed(
        inside, width, _HOUR_HEIGHT, key="hours-plot", title=_("Changes per hour"), description=f"{description}."
    )


# Draws in one line of a list when a site's changes were found in the last day.

_MINI_WIDTH, _MINI_HEIGHT = 96, 16


def mini_strip(times: Sequence[float], now: float, span: float = 86_400.0) -> str:
    """Returns the path of upright lines at these times, epoch s; empty: there are none."""
    columns = sorted({round((at - now + span) / span * (_MINI_WIDTH - 2)) + 1 for at in times})
    return "".join(f"M{column} 2v12" for column in columns)
