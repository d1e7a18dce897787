"""The templates' environment: everything is escaped, and names that are not there are errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from pollerd.planning.durations import about
from pollerd.quantities import counted
from pollerd.web.http import markup
from pollerd.web.http.addresses import query
from pollerd.web.words import numbers
from pollerd.web.words.visible import visible

_TAG_COLOURS = 8


def environment(asset_url: Callable[[str], str]) -> Environment:
    """Returns the environment; all templates are compiled here, so that a fault in one shows at the start."""
    made = Environment(
        loader=PackageLoader("pollerd.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"asset": asset_url, "query": query}
    made.filters |= {
        "words": markup.sentence,
        "at": markup.moment,
        "whole": markup.whole,
        "cut": markup.cut,
        "marked": markup.marked,
        "figure": numbers.figure,
        "percent": numbers.percent,
        "about": about,
        "how_often": numbers.how_often,
        "counted": counted,
        "link": _link,
        "tag_colour": _tag_colour,
        "shown_url": _shown_url,
    }
    for name in made.list_templates():
        made.get_template(name)
    return made


def _shown(value: Any) -> Any:
    """Makes the text of an expression visible; what is markup already stays."""
    if value is None:
        return ""
    return visible(value) if type(value) is str else value


def _link(url: str) -> str | None:
    """Returns an address that a link may have; None for schemes that would run something."""
    return url if url.lower().startswith(("http://", "https://")) else None


def _shown_url(url: str) -> str:
    """Returns an address as people read it: without scheme, and the slash at its end."""
    return url.partition("://")[2].removesuffix("/") or url


def _tag_colour(tag: str) -> int:
    """Returns which of the colours a tag has."""
    return sum(tag.encode("utf-8", "replace")) % _TAG_COLOURS
