"""Lists of sites as text, CSV, JSON lines or OPML: bytes in, specs and refusals out, line by line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import orjson

from pollerd.api import access, opml
from pollerd.api.specs import check_spec
from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec
from pollerd.urls import normalise_url


class Format(StrEnum):
    """How a list of sites is written."""

    TEXT = "text"
    CSV = "csv"
    JSON_LINES = "jsonl"
    OPML = "opml"

    @property
    def media(self) -> str:
        """Its media type."""
        return _MEDIA[self]

    @property
    def suffix(self) -> str:
        """What names of such files end with."""
        return "txt" if self is Format.TEXT else self.value


_MEDIA = {
    Format.TEXT: "text/plain",
    Format.CSV: "text/csv",
    Format.JSON_LINES: "application/x-ndjson",
    Format.OPML: "text/x-opml",
}
_FORMATS = {
    **{media: form for form, media in _MEDIA.items()},
    "application/csv": Format.CSV,
    "application/jsonl": Format.JSON_LINES,
    "application/ndjson": Format.JSON_LINES,
    "application/json-lines": Format.JSON_LINES,
    "application/opml+xml": Format.OPML,
    "application/xml": Format.OPML,
    "text/opml": Format.OPML,
    "text/xml": Format.OPML,
}
FIELDS = ("url", "weight", "cost", "tags", "min_interval", "max_interval", "half_life", "paused")
"""The columns of CSV, the keys of JSON lines and the attributes of OPML. Only url is required."""
KNOWN_FIELDS = (*FIELDS, *access.FIELDS)
"""What is read. Headers, credentials and proxies are never written: they are secret."""
_COMMENT = re.compile(r"(?:^|\s)#")
_GIVEN_SHOWN = 200

Line = tuple[int, SiteSpec | InvalidValueError]
"""Line number from 1, and the site it asks for, or why it is refused."""


def parse_list(data: bytes, content_type: str) -> Iterator[Line]:
    """The sites a list names, one `Line` for each line that is neither empty nor a comment.

    content_type: `text/plain` (one URL a line, `#` starts a comment at the start of a line or after a space),
    `text/csv` (a header that names some of `FIELDS`, one line a site, tags parted by `;`), `application/x-ndjson`
    (one JSON object with some of `FIELDS` a line), all in UTF-8, or `text/x-opml` (see `opml`). Bad lines never
    raise: they come as refusals.

    Raises `InvalidValueError`: field `content_type` for another type, `header` for a CSV header that cannot be used,
    `document` for what is no OPML.
    """
    form = _FORMATS.get(media_type(content_type))
    if form is None:
        allowed = f"one of {', '.join(_MEDIA.values())}"
        raise InvalidValueError("content_type", allowed, content_type[:_GIVEN_SHOWN])
    if form is Format.OPML:
        return _parse(opml.read_outlines(data), lambda found: check_spec(_from_outline(found)))
    if form is Format.TEXT:
        return parse_text(io.BytesIO(data))
    lines = _lines(io.BytesIO(data))
    if form is Format.JSON_LINES:
        return _parse(((n, line) for n, line in lines if line.strip()), lambda line: check_spec(_from_json(line)))
    rows = ((n, text) for n, text in _texts(lines) if text.strip())
    header = _header(next(rows, (0, ""))[1])
    return _parse(rows, lambda text: check_spec(_from_csv(header, text)))


def parse_text(file: Iterable[bytes]) -> Iterator[Line]:
    """The sites that plain text names, as `parse_list`, read from an open binary file as they are asked for."""
    stripped = ((n, _without_comment(text)) for n, text in _texts(_lines(file)))
    return _parse(((n, text) for n, text in stripped if text), _from_text)


def _lines(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a binary file, numbered from 1, whatever ends them; a byte order mark is left out."""
    number = 0
    for piece in file:
        for line in piece.splitlines():
            number += 1
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _texts(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    # Bytes that are not UTF-8 become lone surrogates, which no check lets through: they spoil their line alone.
    return ((n, line.decode("utf-8", "surrogateescape")) for n, line in lines)


def media_type(content_type: str) -> str:
    """The media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _parse(lines: Iterator[tuple[int, Any]], read: Callable[[Any], SiteSpec]) -> Iterator[Line]:
    for number, line in lines:
        try:
            yield number, read(line)
        except InvalidValueError as error:
            yield number, error


def _from_text(url: str) -> SiteSpec:
    # All else has its default, which needs no check: a million lines are read at a start.
    return SiteSpec(normalise_url(url))


def _without_comment(text: str) -> str:
    if "#" in text:
        comment = _COMMENT.search(text)
        if comment is not None:
            text = text[: comment.start()]
    return text.strip()


# --- CSV -------------------------------------------------------------------------------------------------------------


def _header(line: str) -> list[str]:
    names = [name.strip().lower() for name in _cells(line, "header", line)]
    if "url" not in names or len(set(names)) < len(names) or not set(names) <= set(KNOWN_FIELDS):
        allowed = f"url and any of {', '.join(KNOWN_FIELDS[1:])}, none twice"
        raise InvalidValueError("header", allowed, line[:_GIVEN_SHOWN])
    return names


def _cells(line: str, field: str, shown: str) -> list[str]:
    """One record is one line: a quote left open spoils its own line, not the rest."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise InvalidValueError(field, f"readable CSV ({error})", shown[:_GIVEN_SHOWN]) from error


def _from_csv(header: list[str], line: str) -> SiteSpec:
    secret = set(header) & set(access.FIELDS)
    cells = _cells(line, "line", "(not shown)" if secret else line)
    if len(cells) > len(header):
        raise InvalidValueError("line", f"at most {len(header)} cells, as the header", f"{len(cells)} cells")
    return _from_texts(zip(header, cells, strict=False))


def _from_texts(fields: Iterable[tuple[str, str]]) -> SiteSpec:
    """Fields as texts; an empty one is not given."""
    stripped = ((name, text.strip()) for name, text in fields)
    return _spec({name: _cell(name, text) for name, text in stripped if text})


def _cell(field: str, text: str) -> object:
    """Texts as they are, tags parted by `;`, headers and credentials as JSON objects, true or false, else numbers."""
    if field in ("url", "proxy"):
        return text
    if field == "tags":
        return tuple(tag for tag in text.split(";") if tag.strip())
    if field == "paused":
        if text.lower() not in ("true", "false"):
            raise InvalidValueError(field, "true or false", text[:_GIVEN_SHOWN])
        return text.lower() == "true"
    if field not in access.FIELDS:
        return _number(field, text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError(field, "a JSON object", "(not shown)") from error


def _number(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidValueError(field, "a number", text[:_GIVEN_SHOWN]) from error


def _from_outline(found: dict[str, str] | InvalidValueError) -> SiteSpec:
    if isinstance(found, InvalidValueError):
        raise found
    _check_known(found)
    return _from_texts(found.items())


# --- JSON lines ------------------------------------------------------------------------------------------------------


def _from_json(line: bytes) -> SiteSpec:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        secret = any(name.encode() in line for name in access.FIELDS)
        shown = "(not shown)" if secret else line[:_GIVEN_SHOWN].decode("utf-8", "replace")
        raise InvalidValueError("line", "a JSON object", shown) from error
    if not isinstance(found, dict):
        raise InvalidValueError("line", "a JSON object", type(found).__name__)
    _check_known(found)
    return _spec({name: _typed(name, value) for name, value in found.items() if value is not None})


def _typed(field: str, value: object) -> object:
    if field in access.FIELDS:
        return value
    if field == "url":
        if isinstance(value, str):
            return value
        raise InvalidValueError(field, "a text", type(value).__name__)
    if field == "tags":
        if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
            return tuple(value)
        raise InvalidValueError(field, "a list of texts", type(value).__name__)
    if field == "paused":
        if isinstance(value, bool):
            return value
        raise InvalidValueError(field, "true or false", type(value).__name__)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError(field, "a number", type(value).__name__)
    return float(value)


def _check_known(given: Mapping[str, object]) -> None:
    unknown = given.keys() - set(KNOWN_FIELDS)
    if unknown:
        allowed = f"left out; known are {', '.join(KNOWN_FIELDS)}"
        name = min(unknown)
        shown = str(access.shown(name, given[name]))
        raise InvalidValueError(name[:_GIVEN_SHOWN], allowed, shown[:_GIVEN_SHOWN])


def _spec(values: dict[str, Any]) -> SiteSpec:
    if "url" not in values:
        raise InvalidValueError("url", "given", None)
    secret = {name: values.pop(name) for name in access.FIELDS if name in values}
    return SiteSpec(**values, access=access.access_of(secret)) if secret else SiteSpec(**values)
