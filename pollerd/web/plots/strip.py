"""Draws a page's polls over time in three lanes: changes found, polls, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.plots.ticks import time_ticks
from pollerd.quantities import counted
from pollerd.storage import StripColumns
from pollerd.web.plots.drawing import Scale, framed, text

WIDTH, HEIGHT = 720, 88
COLUMNS = 360
_LEFT, _RIGHT = 56, 4
_FOUND, _POLLS, _FAILED, _AXIS = 24, 44, 48, 84
"""Bottom of the lane of changes, bottom of the polls', top of the failures', base line of the axis' texts."""
_LANES = {"found": _FOUND, "polls": _POLLS, "failed": 62}
"""Name of each lane -> base line of its name."""
_FOUND_HEIGHT, _POLLS_HEIGHT, _FAILED_HEIGHT = 20, 14, 16
_LEAST = 4
_TICKS = 6


@dataclass(frozen=True, slots=True)
class Strip:
    """The plot, and its numbers by column: (from, polls, found, failed), without empty ones."""

    svg: str
    rows: Sequence[tuple[float, int, int, int]]


def poll_strip(polls: StripColumns, since: float, until: float, expected: float | None = None) -> Strip:
    """Returns the strip of the time from `since` to `until` (epoch s).

    expected: when the next poll is expected; it is drawn within the axis, which ends no earlier.
    """
    end = until if expected is None else max(until, min(expected, until + (until - since)))
    inside_range = (polls.at >= since) & (polls.at <= until)
    column = ((polls.at[inside_range] - since) / (end - since) * COLUMNS).astype(np.int64).clip(0, COLUMNS - 1)
    lanes = [
        np.bincount(column[chosen], minlength=COLUMNS)
        for chosen in (slice(None), polls.changed[inside_range], polls.failed[inside_range])
    ]
    every, found, failed = lanes
    x = Scale(since, end, _LEFT, WIDTH - _RIGHT)
    width = (WIDTH - _RIGHT - _LEFT) / COLUMNS
    places = [round(_LEFT + n * width) for n in range(COLUMNS)]
    drawn = [
        *(
            text(_LEFT - 6, at, name, anchor="end")
            for at, name in ((_FOUND, "found"), (_POLLS, "polls"), (62, "failed"))
        ),
        f'<path class="axis" d="M{_LEFT} {_POLLS + 1}H{WIDTH - _RIGHT}"/>',
        *(text(x(tick.at), _AXIS, tick.text, anchor="middle") for tick in time_ticks(since, end, _TICKS)),
        _lane("found", places, found, _FOUND, -_FOUND_HEIGHT),
        _lane("polls", places, every, _POLLS, -_POLLS_HEIGHT),
        _lane("failed", places, failed, _FAILED, _FAILED_HEIGHT),
    ]
    if expected is not None and expected >= until:
        drawn.append(f'<path class="expected" d="M{x(expected)} 4V{_FAILED}"/>')
    rows = [
        (since + n * (end - since) / COLUMNS, int(every[n]), int(found[n]), int(failed[n]))
        for n in np.flatnonzero(every)
    ]
    total = (int(every.sum()), int(found.sum()), int(failed.sum()))
    said = f"{counted(total[0], 'poll')}, {total[1]:,} found a change, {total[2]:,} failed."
    return Strip(
        framed("".join(drawn), WIDTH, HEIGHT, key="strip-plot", title="Polls over time", description=said), rows
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
