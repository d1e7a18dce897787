"""Words of pages: numbers, sentences, text from outside.

Sentences with marked parts: times, which browsers write in the reader's zone, and figures to stand out.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pollerd.plots import moment_text
from pollerd.site_settings import DAYS
from pollerd.texts import N_, _, localised


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, epoch s."""

    at: float

    def __str__(self) -> str:
        return _("{moment} UTC", moment=moment_text(self.at))


@dataclass(frozen=True, slots=True)
class Strong:
    """Text that stands out."""

    text: str

    def __str__(self) -> str:
        return self.text


Part = str | Moment | Strong
Sentence = tuple[Part, ...]


def sentence(english: str, /, **values: Part | None) -> Sentence:
    """Returns a text in the reader's language with the values of its `{name}`s; `N_` marks it where it is used."""
    try:
        return _filled(_(english), values)
    except (KeyError, ValueError):  # a translation that names another value, or is no template
        return _filled(english, values)


def _filled(template: str, values: Mapping[str, Part | None]) -> Sentence:
    parts: list[Part] = []
    for before, name, _spec, _conversion in string.Formatter().parse(template):
        parts.append(before)
        value = None if name is None else values[name]
        if value is not None:
            parts.append(value)
    return tuple(part for part in parts if part != "")


def in_a_row(*sentences: Sentence) -> Sentence:
    """Returns sentences as one, with a space between them; empty ones are skipped."""
    said = [one for one in sentences if one]
    return tuple(part for number, one in enumerate(said) for part in ((" ", *one) if number else one))


def plain(sentence: Iterable[Part]) -> str:
    """Returns the sentence as text, with times in UTC."""
    return "".join(map(str, sentence))


# Numbers as sentences name them: two digits that count, and how often.

_PER = (
    (N_("once a second"), N_("{figure} times a second"), 86_400.0),
    (N_("once a minute"), N_("{figure} times a minute"), 1_440.0),
    (N_("once an hour"), N_("{figure} times an hour"), 24.0),
    (N_("once a day"), N_("{figure} times a day"), 1.0),
    (N_("once a week"), N_("{figure} times a week"), 1.0 / 7.0),
    (N_("once a month"), N_("{figure} times a month"), 12.0 / 365.25),
    (N_("once a year"), N_("{figure} times a year"), 1.0 / 365.25),
)
_ONCE_BELOW = 1.35
_SMALLEST = 1e-9
_IN_USE = (  # also in live.js
    (1, N_("{rate}/{budget} checks per second")),
    (60, N_("{rate}/{budget} checks per minute")),
    (3_600, N_("{rate}/{budget} checks per hour")),
    (86_400, N_("{rate}/{budget} checks per day")),
)


def figure(value: float) -> str:
    """Writes a number with two digits that count, as in 0.015, 3.2, 48 and 1,204; whole from 10 on."""
    if not math.isfinite(value):
        return _("unknown")
    if abs(value) < _SMALLEST:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, decimals)
    text = f"{rounded:,.{decimals}f}"
    return localised(text.rstrip("0").rstrip(".") if "." in text else text)


def percent(share: float) -> str:
    """Writes a share of 0 to 1 as percent; never "100 %" or "0 %" for what is only near it."""
    if not math.isfinite(share):
        return _("unknown")
    value = 100.0 * share
    if 0.0 < value < 0.001:
        return _("under 0.001 %")
    if 99.5 <= value < 100.0:
        return _("over 99 %")
    return _("{figure} %", figure=figure(value))


def how_often(per_day: float) -> str:
    """Writes a rate as people say it: "6 times a day", "once a week", "less than once a year"."""
    if not math.isfinite(per_day) or per_day < 0:
        return _("unknown")
    for once, often, times in _PER:
        count = per_day / times
        if count >= 0.95:
            return _(once) if count < _ONCE_BELOW else _(often, figure=figure(count))
    return _("less than once a year")


def in_use(rate: float, budget: float) -> str:
    """Writes how much of a budget is used, both in polls/s, in the unit in which the budget is 1 or more."""
    for seconds, text in _IN_USE:
        if budget * seconds >= 1:
            return _(text, rate=figure(rate * seconds), budget=figure(budget * seconds))
    return _(_IN_USE[-1][1], rate=figure(rate * 86_400), budget=figure(budget * 86_400))


DAY_WORDS: Mapping[str, str] = dict(
    zip(DAYS, (N_("Mon"), N_("Tue"), N_("Wed"), N_("Thu"), N_("Fri"), N_("Sat"), N_("Sun")), strict=True)
)


# Makes text from outside harmless to look at: control and direction characters become symbols, long text is cut.

SHOWN = 2_000
"""Most characters of one text on a page."""
_NAMES = {
    "\N{LEFT-TO-RIGHT MARK}": "LRM",
    "\N{RIGHT-TO-LEFT MARK}": "RLM",
    "\N{ARABIC LETTER MARK}": "ALM",
    "\N{LEFT-TO-RIGHT EMBEDDING}": "LRE",
    "\N{RIGHT-TO-LEFT EMBEDDING}": "RLE",
    "\N{POP DIRECTIONAL FORMATTING}": "PDF",
    "\N{LEFT-TO-RIGHT OVERRIDE}": "LRO",
    "\N{RIGHT-TO-LEFT OVERRIDE}": "RLO",
    "\N{LEFT-TO-RIGHT ISOLATE}": "LRI",
    "\N{RIGHT-TO-LEFT ISOLATE}": "RLI",
    "\N{FIRST STRONG ISOLATE}": "FSI",
    "\N{POP DIRECTIONAL ISOLATE}": "PDI",
    "\N{ZERO WIDTH NO-BREAK SPACE}": "BOM",
    "\N{ZERO WIDTH SPACE}": "ZWSP",
    "\x1b": "ESC",
    "\x7f": "DEL",
}
_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def visible(text: str, most: int = SHOWN) -> str:
    """Returns the text with what would hide or reorder it made visible, as in "⟨RLO⟩", and cut after `most`."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    if cut.isascii() and cut.isprintable():  # most of what pages show: it has nothing to replace
        return cut
    return _HIDDEN.sub(_symbol, _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", cut))


def _symbol(match: re.Match[str]) -> str:
    letter = match[0]
    return f"⟨{_NAMES.get(letter) or f'{ord(letter):02X}'}⟩"


# Jobs: an action on many sites, as done.

JOB_DONE = {
    "pause": N_("paused"),
    "resume": N_("resumed"),
    "tag": N_("tagged"),
    "untag": N_("with a tag removed"),
    "weight": N_("with another weight"),
    "limits": N_("with another interval"),
    "delete": N_("deleted"),
    "poll": N_("to be checked at once"),
}
"""Action -> what was done to the sites."""
