"""Plots of values: ticks of axes, a line plot as SVG, and a sparkline as text.

The SVG holds no script and refers to nothing outside of itself; colours follow the reader's light or dark scheme. All
texts are escaped: they may come from a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TypeGuard

# Ticks of axes, and their labels. Times are UTC epoch seconds.

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_STEPS = (
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1_825, 3_650, 18_250, 365_000)),
)
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_799.0
"""Times that a calendar of four digits has."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis."""

    at: float
    text: str


def number_ticks(low: float, high: float, most: int) -> Sequence[Tick]:
    """Returns at most `most` (2 or more) round numbers from `low` to `high`, which is larger."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = _fitting((factor * power for factor in (1.0, 2.0, 5.0, 10.0, 20.0)), low, high, most)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [Tick(n * step, f"{n * step:,.{decimals}f}") for n in _multiples(step, low, high)][:most]


def time_ticks(low: float, high: float, most: int) -> Sequence[Tick]:
    """Returns at most `most` (2 or more) round times from `low` to `high`, which is larger."""
    low, high = max(low, _EARLIEST), min(high, _LATEST)
    step = _fitting(_STEPS, low, high, most)
    form = "%H:%M" if high - low < _DAY else "%m-%d %H:%M" if step < _DAY else "%Y-%m-%d"
    return [Tick(n * step, moment_text(n * step, form)) for n in _multiples(step, low, high)][:most]


def _fitting(steps: Iterable[float], low: float, high: float, most: int) -> float:
    """Returns the first of the steps, which grow, of which at most `most` multiples are between; else the last."""
    step = 1.0
    for step in steps:
        if (high - low) / step <= most and len(_multiples(step, low, high)) <= most:
            break
    return step


def _multiples(step: float, low: float, high: float) -> range:
    return range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)


def moment_text(at: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """Returns a time in UTC; one beyond the years 1 to 9999 as the nearest within them."""
    return datetime.fromtimestamp(min(max(at, _EARLIEST), _LATEST), UTC).strftime(form)


WIDTH, HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 36, 34
_MAX_X_TICKS, _MAX_Y_TICKS = 7, 6
_NARROWEST_SECONDS = 3_600.0
_PRINTED_MOST = 200
_LARGEST = 1e300
"""Beyond it a range may be larger than numbers can be."""
_STYLE = """\
.plot{font:12px system-ui,sans-serif;fill:#222}
.plot .back{fill:#fff}.plot .grid{stroke:#ddd;stroke-width:1}
.plot .line{fill:none;stroke:#0b57d0;stroke-width:2}.plot .dot{fill:#0b57d0}.plot .head{font-weight:600}
@media (prefers-color-scheme:dark){
.plot{fill:#e3e3e3}.plot .back{fill:#1b1b1f}.plot .grid{stroke:#3c3c40}
.plot .line{stroke:#a8c7fa}.plot .dot{fill:#a8c7fa}}"""


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A value from a time on, until the next point."""

    at: float
    """Epoch s."""
    value: float | None
    """None, not finite, or beyond ±1e300: it could not be read."""


@dataclass(frozen=True, slots=True)
class PlotLabels:
    """What a plot says of itself."""

    title: str
    unit: str = ""
    """As a currency; empty: none."""
    dates: bool = False
    """Whether the values are times, epoch s."""
    key: str = "plot"
    """Makes the ids of its parts unique where a page shows several; letters, digits and hyphens."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> str:
        share = (value - self.low) / (self.high - self.low)
        return f"{self.start + share * (self.end - self.start):.1f}"


def line_plot(points: Sequence[PlotPoint], labels: PlotLabels, until: float) -> str:
    """Returns the SVG of points in the order of their times; the last value holds until `until` (epoch s)."""
    points = [point if _readable(point) else PlotPoint(point.at, None) for point in points]
    values = [point.value for point in points if point.value is not None]
    inside = f'<text class="head" x="{_LEFT}" y="20">{_text(_headline(labels))}</text>\n'
    if values:
        until = max(until, points[-1].at)
        x = _Scale(*_times(points[0].at, until), _LEFT, WIDTH - _RIGHT)
        y = _Scale(*_range(min(values), max(values)), HEIGHT - _BOTTOM, _TOP)
        inside += _axes(x, y, dates=labels.dates) + _line(points, until, x, y)
    else:
        inside += f'<text x="{_LEFT}" y="{HEIGHT // 2}">no value could be read</text>\n'
    key = "".join(letter for letter in labels.key if letter.isascii() and (letter.isalnum() or letter == "-")) or "plot"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'class="plot" role="img" aria-labelledby="{key}-title {key}-desc">\n'
        f'<title id="{key}-title">{_text(labels.title)}</title>\n'
        f'<desc id="{key}-desc">{_text(_described(points, labels))}</desc>\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>\n{inside}</svg>\n'
    )


def _readable(point: PlotPoint) -> bool:
    return point.value is not None and math.isfinite(point.value) and abs(point.value) <= _LARGEST


def _headline(labels: PlotLabels) -> str:
    return f"{labels.title} ({labels.unit})" if labels.unit else labels.title


def _described(points: Sequence[PlotPoint], labels: PlotLabels) -> str:
    """Returns in words what the plot shows, for those who do not see it."""
    read = [(point.at, point.value) for point in points if point.value is not None]
    if not read:
        return "No value could be read."
    (first_at, first), (last_at, last) = read[0], read[-1]
    values = [value for _, value in read]
    gaps = sum(point.value is None for point in points)
    unread = f" {gaps} times it could not be read." if gaps else ""
    return (
        f"{_written(first, labels)} at {moment_text(first_at)} UTC, {_written(last, labels)} since "
        f"{moment_text(last_at)} UTC; lowest {_written(min(values), labels)}, highest {_written(max(values), labels)}, "
        f"{len(values)} values.{unread}"
    )


def _written(value: float, labels: PlotLabels) -> str:
    if labels.dates:
        return moment_text(value)
    return f"{value:,.12g} {labels.unit}".rstrip()


def _times(low: float, high: float) -> tuple[float, float]:
    spare = max(_NARROWEST_SECONDS - (high - low), 0.0) / 2
    return low - spare, high + spare


def _range(low: float, high: float) -> tuple[float, float]:
    """Returns the range of the axis: with a margin, and never empty, also where numbers are very large."""
    margin = (high - low) * 0.08
    if margin <= max(abs(low), abs(high)) * 1e-12:
        margin = max(abs(low), abs(high)) * 0.05 or 1.0
    return low - margin, high + margin


def _axes(x: _Scale, y: _Scale, *, dates: bool) -> str:
    across = (time_ticks if dates else number_ticks)(y.low, y.high, _MAX_Y_TICKS)
    return _across(across, y) + _upright(time_ticks(x.low, x.high, _MAX_X_TICKS), x)


def _across(ticks: Iterable[Tick], y: _Scale) -> str:
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(tick.at)}" y2="{y(tick.at)}"/>'
        f'<text x="{_LEFT - 8}" y="{y(tick.at)}" dy="4" text-anchor="end">{_text(tick.text)}</text>\n'
        for tick in ticks
    )


def _upright(ticks: Iterable[Tick], x: _Scale) -> str:
    return "".join(
        f'<line class="grid" x1="{x(tick.at)}" x2="{x(tick.at)}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        f'<text x="{x(tick.at)}" y="{HEIGHT - 12}" text-anchor="middle">{_text(tick.text)}</text>\n'
        for tick in ticks
    )


def _line(points: Sequence[PlotPoint], until: float, x: _Scale, y: _Scale) -> str:
    """Returns the path of the values, and a dot for the last one."""
    path: list[str] = []
    drawing = False
    for point, after in zip(points, [*(one.at for one in points[1:]), until], strict=True):
        if point.value is None:
            drawing = False
            continue
        path.append(f"{'L' if drawing else 'M'}{x(point.at)} {y(point.value)}H{x(after)}")
        drawing = True
    last = points[-1]
    dot = f'<circle class="dot" cx="{x(until)}" cy="{y(last.value)}" r="4"/>' if last.value is not None else ""
    return f'<path class="line" d="{"".join(path)}"/>{dot}\n'


def _text(text: str) -> str:
    """Returns text as XML holds it: escaped, shortened, without characters that XML does not have."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:_PRINTED_MOST])
    return escape(shown.encode("utf-8", "replace").decode())


# Sparklines.

_BARS = "▁▂▃▄▅▆▇█"
_GAP = " "


def sparkline(values: Sequence[float | None], most: int = 60) -> str:
    """Returns a bar for each of the last `most` values, lowest to highest; a space where one could not be read,
    or is beyond ±1e300.

    >>> sparkline([1.0, 2.0, None, 3.0])
    '▁▅ █'
    """
    shown = values[-most:]
    known = [value for value in shown if _drawable(value)]
    if not known:
        return _GAP * len(shown)
    low, high = min(known), max(known)
    return "".join(_bar(value, low, high) for value in shown)


def _drawable(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and abs(value) <= _LARGEST


def _bar(value: float | None, low: float, high: float) -> str:
    if not _drawable(value):
        return _GAP
    if high <= low:
        return _BARS[len(_BARS) // 2]
    return _BARS[min(int((value - low) / (high - low) * (len(_BARS) - 1) + 0.5), len(_BARS) - 1)]
