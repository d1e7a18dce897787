"""What plots have in common: scales, and the frame with what is read aloud instead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to whole coordinates, linearly or by their logarithm."""

    low: float
    high: float
    start: int
    end: int
    log: bool = False

    def __call__(self, value: float) -> int:
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return round(self.start + (at - low) / (high - low) * (self.end - self.start))


def framed(inside: str, width: int, height: int, *, key: str, title: str, description: str) -> str:
    """Returns an SVG of shapes and texts, whose colours are those of the page's stylesheet.

    key: letters and hyphens, unique on the page.
    """
    return (
        f'<svg viewBox="0 0 {width} {height}" width="100%" class="plot {key}" role="img" '
        f'aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">{escape(title)}</title>'
        f'<desc id="{key}-desc">{escape(description)}</desc>{inside}</svg>'
    )


def text(x: int, y: int, words: str, *, anchor: str = "start", name: str = "") -> str:
    """Returns a text of ours at a place."""
    marked = f' class="{name}"' if name else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{marked}>{escape(words)}</text>'
