"""The one place where markup is made outside of templates: its inputs are numbers, or are escaped here."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from pollerd.plots.ticks import moment_text
from pollerd.timestamps import rfc3339
from pollerd.web.words.sentences import Moment, Part, Strong
from pollerd.web.words.visible import visible

_LONG = 200_000
"""Most characters of a page's text that are shown."""


def moment(at: float | None) -> Markup:
    """Returns a time, epoch s, as an element that says its zone; a script writes it in the reader's."""
    if at is None:
        return Markup("–")
    return Markup('<time datetime="{}">{} UTC</time>').format(rfc3339(at), moment_text(at))


def sentence(parts: Iterable[Part]) -> Markup:
    """Returns a sentence with its times and what stands out."""
    return Markup("").join(map(_part, parts))


def whole(text: str) -> Markup:
    """Returns text to be edited: all of it, as it is."""
    return escape(text)


def cut(text: str) -> Markup:
    """Returns a long text, such as that of a page, made visible and cut."""
    return escape(visible(text, _LONG))


def drawing(svg: str) -> Markup:
    """Returns an SVG of ours. Its builders draw from numbers alone, and escape the texts of their titles."""
    return Markup(svg)


def marked(text: str, marks: Iterable[tuple[int, int]]) -> Markup:
    """Returns a line of a difference with the parts `marks`, [from, to) in characters, as `<mark>`."""
    made, done = Markup(""), 0
    for start, end in marks:
        made += escape(visible(text[done:start])) + Markup("<mark>{}</mark>").format(visible(text[start:end]))
        done = end
    return made + escape(visible(text[done:]))


def _part(part: Part) -> Markup:
    if isinstance(part, Moment):
        return moment(part.at)
    if isinstance(part, Strong):
        return Markup("<strong>{}</strong>").format(visible(part.text))
    return escape(visible(part))
