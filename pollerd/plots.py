"""What all plots are drawn with: scales, ticks of axes, texts and the frame of an SVG; a line plot, and a sparkline.

An SVG has no script and refers to nothing outside of itself. All texts are escaped: they may come from a page. Colours
follow the reader's light or dark scheme: by the page's stylesheet, or by that of a plot that stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TypeGuard

from pollerd.texts import N_, _, n_

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
    form = N_("%H:%M") if high - low < _DAY else N_("%m-%d %H:%M") if step < _DAY else N_("%Y-%m-%d")
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


def moment_text(at: float, form: str = N_("%Y-%m-%d %H:%M")) -> str:
    """Returns a time in UTC; one beyond the years 1 to 9999 as the nearest within them.

    form: for strftime; a language has its own order of the parts.
    """
    return datetime.fromtimestamp(min(max(at, _EARLIEST), _LATEST), UTC).strftime(_(form))


# Scales, texts and the frame.

_PRINTED_MOST = 200
_STYLE = """\
<style>
.plot{font:12px system-ui,sans-serif;fill:#222}
.plot .back{fill:#fff}.plot .grid{stroke:#ddd;stroke-width:1}
.plot .line{fill:none;stroke:#0b57d0;stroke-width:2}.plot .dot{fill:#0b57d0}.plot .head{font-weight:600}
@media (prefers-color-scheme:dark){
.plot{fill:#e3e3e3}.plot .back{fill:#1b1b1f}.plot .grid{stroke:#3c3c40}
.plot .line{stroke:#a8c7fa}.plot .dot{fill:#a8c7fa}}
</style><rect class="back" width="100%" height="100%"/>"""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to coordinates, linearly or by their logarithm; those beyond the ends to the ends."""

    low: float
    high: float
    start: int
    end: int
    log: bool = False
    digits: int | None = None
    """Of coordinates, behind the point; None: they are whole."""

    def __call__(self, value: float) -> float:
        """Returns the coordinate."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return round(self.start + (at - low) / (high - low) * (self.end - self.start), self.digits)


def framed(inside: str, width: int, height: int, *, key: str, title: str, description: str, alone: bool = False) -> str:
    """Returns an SVG of shapes and texts.

    key: letters and hyphens, unique on the page. alone: it is a file of its own, with its colours; otherwise part of a
    page, as wide as there is room.
    """
    size = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"' if alone else f'width="{width}"'
    name = "plot" if alone else f"plot {key}"
    return (
        f'<svg viewBox="0 0 {width} {height}" {size} class="{name}" role="img" '
        f'aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">{escape(title)}</title>'
        f'<desc id="{key}-desc">{escape(description)}</desc>{_STYLE if alone else ""}{inside}</svg>'
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", name: str = "") -> str:
    """Returns a text at a place."""
    marked = f' class="{name}"' if name else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{marked}>{escape(words)}</text>'


def printable(words: str) -> str:
    """Returns a text from a page as XML can hold it: shortened, without characters that XML does not have."""
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in words[:_PRINTED_MOST])
    return shown.encode("utf-8", "replace").decode()


# A line plot of values over time.

WIDTH, HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 36, 34
_MAX_X_TICKS, _MAX_Y_TICKS = 7, 6
_NARROWEST_SECONDS = 3_600.0
_LARGEST = 1e300
"""Beyond it a range may be larger than numbers can be."""


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


def line_plot(points: Sequence[PlotPoint], labels: PlotLabels, until: float) -> str:
    """Returns the SVG of points in the order of their times; the last value holds until `until` (epoch s)."""
    points = [point if _drawable(point.value) else PlotPoint(point.at, None) for point in points]
    values = [point.value for point in points if point.value is not None]
    inside = text(_LEFT, 20, printable(_headline(labels)), name="head")
    if values:
        until = max(until, points[-1].at)
        x = Scale(*_times(points[0].at, until), _LEFT, WIDTH - _RIGHT, digits=1)
        y = Scale(*_range(min(values), max(values)), HEIGHT - _BOTTOM, _TOP, digits=1)
        inside += _axes(x, y, dates=labels.dates) + _line(points, until, x, y)
    else:
        inside += text(_LEFT, HEIGHT // 2, _("no value could be read"))
    key = "".join(letter for letter in labels.key if letter.isascii() and (letter.isalnum() or letter == "-")) or "plot"
    title, description = printable(labels.title), printable(_described(points, labels))
    return framed(inside, WIDTH, HEIGHT, key=key, title=title, description=description, alone=True)


def _headline(labels: PlotLabels) -> str:
    return f"{labels.title} ({labels.unit})" if labels.unit else labels.title


def _described(points: Sequence[PlotPoint], labels: PlotLabels) -> str:
    """Returns in words what the plot shows, for those who do not see it."""
    read = [(point.at, point.value) for point in points if point.value is not None]
    if not read:
        return _("No value could be read.")
    (first_at, first), (last_at, last) = read[0], read[-1]
    values = [value for _, value in read]
    gaps = sum(point.value is None for point in points)
    unread = n_("{count} time it could not be read.", "{count} times it could not be read.", gaps) if gaps else ""
    said = n_(
        "{first} at {first_at} UTC, {last} since {last_at} UTC; lowest {lowest}, highest {highest}, {count} value.",
        "{first} at {first_at} UTC, {last} since {last_at} UTC; lowest {lowest}, highest {highest}, {count} values.",
        len(values),
        first=_written(first, labels),
        first_at=moment_text(first_at),
        last=_written(last, labels),
        last_at=moment_text(last_at),
        lowest=_written(min(values), labels),
        highest=_written(max(values), labels),
    )
    return f"{said} {unread}".rstrip()


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


def _axes(x: Scale, y: Scale, *, dates: bool) -> str:
    left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
    drawn = []
    for tick in (time_ticks if dates else number_ticks)(y.low, y.high, _MAX_Y_TICKS):
        at = y(tick.at)
        drawn.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at}" y2="{at}"/>')
        drawn.append(text(left - 8, at + 4, tick.text, anchor="end"))
    for tick in time_ticks(x.low, x.high, _MAX_X_TICKS):
        at = x(tick.at)
        drawn.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{top}" y2="{bottom}"/>')
        drawn.append(text(at, HEIGHT - 12, tick.text, anchor="middle"))
    return "".join(drawn)


def _line(points: Sequence[PlotPoint], until: float, x: Scale, y: Scale) -> str:
    """Returns the path of the values, and a dot for the last one."""
    path: list[str] = []
    drawing = False
    for point, after in zip(points, [*(later.at for later in points[1:]), until], strict=True):
        if point.value is None:
            drawing = False
            continue
        path.append(f"{'L' if drawing else 'M'}{x(point.at)} {y(point.value)}H{x(after)}")
        drawing = True
    last = points[-1]
    dot = f'<circle class="dot" cx="{x(until)}" cy="{y(last.value)}" r="4"/>' if last.value is not None else ""
    return f'<path class="line" d="{"".join(path)}"/>{dot}'


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
