"""The filters that templates may use: those of Jinja2 whose time and memory are bounded, and some of our own.

There is no `safe`: all values are escaped, and `escape` changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
from jinja2.filters import FILTERS as ALL

from pollerd.notifications.messages.escaping import web_url
from pollerd.notifications.templates.bounds import MOST_CHARACTERS
from pollerd.notifications.templates.error import TemplateError

_JINJA = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "sum", "title", "trim", "truncate", "unique", "upper", "urlencode", "wordcount"),
)
_MOST_PLACES = 20
_TOO_LONG = f"a text of more than {MOST_CHARACTERS:,} characters"


def _join(items: Iterable[Any], by: str = "", attribute: str | None = None) -> str:
    """Joins items, or one of their values each."""
    texts, length = [], 0
    for item in items:
        texts.append(str(item[attribute] if attribute is not None else item))
        length += len(texts[-1]) + len(by)
        if length > MOST_CHARACTERS:
            raise TemplateError(_TOO_LONG)
    return str(by).join(texts)


def _replace(text: Any, old: str, new: str) -> str:
    """Replaces a part of a text wherever it is."""
    found = str(text)
    if len(found) + found.count(str(old)) * len(str(new)) > MOST_CHARACTERS:
        raise TemplateError(_TOO_LONG)
    return found.replace(str(old), str(new))


def _round(number: float, places: Any = 0) -> float:
    """Rounds to decimal places."""
    if not isinstance(places, int) or abs(places) > _MOST_PLACES:
        raise TemplateError(f"round takes at most {_MOST_PLACES} places")
    return round(number, places)


def tojson(value: Any) -> str:
    """Returns a value as JSON, which is escaped for the medium like any text."""
    return orjson.dumps(value).decode()


def _unchanged(value: Any) -> Any:
    """Stands for `escape`: everything is escaped anyway."""
    return value


def _url(value: Any) -> str:
    """Returns a URL of http or https; empty if it is none: for attributes of HTML."""
    return web_url(str(value))


FILTERS: Mapping[str, Callable[..., Any]] = {name: ALL[name] for name in _JINJA} | {
    "e": _unchanged,
    "escape": _unchanged,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "tojson": tojson,
    "url": _url,
}
