"""JSONPaths for people who click: a JSON document as lines, and for one of them paths that will last.

Pure. An entry of a list is found by what names it (its id, key or name) where one of them is the entry's alone, and by
its place only where nothing does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from pollerd.detection.media import parsed, to_utf8
from pollerd.detection.selection.expressions.jsonpath import compile_jsonpath
from pollerd.detection.selection.picker import LINE_MAX, LINES_MAX, Offer, PageLine, kind_of_value
from pollerd.errors import InvalidValueError, SelectionLimitError

Path = tuple[str | int, ...]
"""The names and places on the way from the document to one of its values."""

_NAMING = ("id", "@id", "key", "uid", "uuid", "sku", "slug", "code", "url", "name", "title")
"""Names of fields that tell the entries of a list apart, the surest first."""
_NAME_MAX = 200
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def json_parts(body: bytes, content_type: str | None) -> tuple[tuple[PageLine, ...], list[str]]:
    """Returns the values of a document in its order, a line each, at most `LINES_MAX`, and their paths.

    Paths are the same for all entries of a list. There are none of either if it cannot be read.
    """
    values = list(_values_of(body, content_type))
    lines = tuple(PageLine("json", len(path) - 1, _line(path, value)) for path, value in values)
    paths = (
        _written(tuple("*" if isinstance(key, int) else key for key in path), stars=True) for path, _value in values
    )
    return lines, list(dict.fromkeys(paths))


def json_offers(bodies: Sequence[tuple[bytes, str | None]], line: int, texts: Sequence[str] = ()) -> list[Offer]:
    """Returns what a click on a line of a document can mean: the value, what it belongs to, that of all entries.

    bodies: versions with their content types, newest first. line: of the newest, as in `json_parts`. texts: not used.
    Empty if there is no such line.
    """
    lines = list(_values_of(*bodies[0]))
    if not 0 <= line < len(lines):
        return []
    documents = [parsed(to_utf8(*body)) for body in bodies]
    path, value = lines[line]
    made = [_offer("part", _candidates(documents[0], path), documents, value)]
    if len(path) > 1:
        made.append(_offer("around", _candidates(documents[0], path[:-1]), documents, _at(documents[0], path[:-1])))
    places = [n for n, key in enumerate(path) if isinstance(key, int)]
    if places:
        of_all = _written(path[: places[-1]]) + "[*]" + _written(path[places[-1] + 1 :], root="")
        made.append(_offer("all", [of_all], documents, value, several=True))
    text = _text(value)
    kind = "" if isinstance(value, bool | dict | list) or value is None else kind_of_value(text, machine=True)
    if kind and made[0] is not None:
        part = made[0]
        made.append(Offer("value", part.selectors, 1, part.versions, text, kind))
    return [offer for offer in made if offer is not None]


def _values_of(body: bytes, content_type: str | None) -> Iterator[tuple[Path, Any]]:
    """Yields the values of a document with their paths, each before those in it; iteratively: it can be nested deep."""
    waiting: list[tuple[Path, Any]] = [((), parsed(to_utf8(body, content_type)))]
    for _ in range(LINES_MAX + 1):
        if not waiting:
            return
        path, value = waiting.pop()
        if path:
            yield path, value
        if isinstance(value, dict):
            waiting += reversed([((*path, key), below) for key, below in value.items()])
        elif isinstance(value, list):
            waiting += reversed([((*path, place), below) for place, below in enumerate(value[:LINES_MAX])])


def _line(path: Path, value: Any) -> str:
    key = path[-1]
    return f"{key + 1}. {_text(value)}" if isinstance(key, int) else f"{key}: {_text(value)}"[:LINE_MAX]


def _text(value: Any) -> str:
    """Returns a value as a line shows it: of an object or a list the number of what is in it."""
    if isinstance(value, dict):
        return f"{{{len(value)}}}"
    if isinstance(value, list):
        return f"[{len(value)}]"
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return " ".join(text.split())[:LINE_MAX]


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _candidates(document: Any, path: Path) -> list[str]:
    """Returns paths to a value, best first: entries of lists by a field that names them, then by their places."""
    named, way, value = "$", list[str | int](), document
    for key in path:
        entries, value = value, value[key]
        name = _name_of(entries, value) if isinstance(key, int) else ""
        named += name or _written((key,), root="")
        way.append(key)
    return list(dict.fromkeys((named, _written(tuple(way)))))


def _name_of(entries: list[Any], entry: Any) -> str:
    """Returns the filter that finds an entry of a list by a field that is its own; empty: there is none."""
    if not isinstance(entry, dict) or len(entries) < 2:
        return ""
    for field in _NAMING:
        name = entry.get(field)
        if not isinstance(name, str | int) or isinstance(name, bool) or len(str(name)) > _NAME_MAX:
            continue
        same = sum(isinstance(other, dict) and other.get(field) == name for other in entries)
        if same == 1:
            return f"[?@{_written((field,), root='')} == {_quoted(name) if isinstance(name, str) else name}]"
    return ""


def _written(path: Path, *, root: str = "$", stars: bool = False) -> str:
    """Returns a path as RFC 9535 writes it. stars: `*` stands for all entries of a list."""
    return root + "".join(
        f"[{key}]"
        if isinstance(key, int) or (stars and key == "*")
        else f".{key}"
        if _PLAIN.fullmatch(key)
        else f"[{_quoted(key)}]"
        for key in path
    )


def _quoted(text: str) -> str:
    return "'" + orjson.dumps(text).decode()[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


def _offer(
    what: str, candidates: Sequence[str], documents: Sequence[Any], value: Any, *, several: bool = False
) -> Offer | None:
    """Returns the offer of the paths that find something in the newest document, best first; None if none does."""
    found: dict[str, tuple[int, int]] = {}
    for candidate in candidates:
        try:
            path = compile_jsonpath("pick", candidate)
            matches = [len(path.find(document)) for document in documents]
        except (InvalidValueError, SelectionLimitError):
            continue  # longer or deeper than a path may be
        if matches[0] == 1 or (several and matches[0]):
            found[candidate] = sum(n >= 1 if several else n == 1 for n in matches), matches[0]
    best = sorted(found, key=lambda candidate: -found[candidate][0])  # stable
    if not best:
        return None
    versions, count = found[best[0]]
    return Offer(what, tuple(best), count, versions, _text(value))
