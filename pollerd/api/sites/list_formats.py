"""Lists of sites as text, CSV, JSON lines or OPML: bytes in, specs and refusals out, line by line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import orjson

from pollerd.api.http import access
from pollerd.api.http.format_names import MEDIA, Format, media_type
from pollerd.api.http.limits import check_spec
from pollerd.api.sites import opml
from pollerd.errors import InvalidValueError
from pollerd.list_document import Entry
from pollerd.masking import masked, masked_line
from pollerd.model import SiteSpec
from pollerd.quantities import seconds, share
from pollerd.urls import normalise_url

_FORMATS = {
    **{media: form for form, media in MEDIA.items()},
    "application/csv": Format.CSV,
    "application/jsonl": Format.JSON_LINES,
    "application/ndjson": Format.JSON_LINES,
    "application/json-lines": Format.JSON_LINES,
    "application/opml+xml": Format.OPML,
    "application/xml": Format.OPML,
    "text/opml": Format.OPML,
    "text/xml": Format.OPML,
}
FIELDS = (
    "url",
    "weight",
    "cost",
    "tags",
    "min_interval",
    "max_interval",
    "min_yield",
    "respect_ttl",
    "half_life",
    "paused",
)
"""The columns of CSV, the keys of JSON lines and the attributes of OPML. Only url is required."""
KNOWN_FIELDS = (*FIELDS, *access.FIELDS)
"""What is read. Headers, credentials and proxies are never written: they are secret."""
_SWITCHES = frozenset({"paused", "respect_ttl"})
_READERS = {"min_interval": seconds, "max_interval": seconds, "half_life": seconds, "min_yield": share}
"""How numbers are read that may have a unit."""
_COMMENT = re.compile(r"(?:^|\s)#")
_BREATH = 1_000
_HEADER_WITHIN = 1_000

LIST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The list as it is. Its own media type says its format, too, in place of `format`.",
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": "# news\nhttps://example.org/news\nhttps://example.org/blog\n",
            }
        },
    }
}
"""What OpenAPI says of calls that take a list. One type for all formats: generated clients know no other."""

Line = tuple[int, SiteSpec | InvalidValueError | None]
"""Line number from 1, and the site it asks for, or why it is refused; None: of many lines, none asked for anything."""


def parse_list(data: bytes, content_type: str) -> Iterator[Line]:
    """The sites a list names, one `Line` for each line that is neither empty nor a comment, and some for many of those.

    content_type: `text/plain` (one URL a line, `#` starts a comment at the start of a line or after a space),
    `text/csv` (a header that names some of `FIELDS`, one line a site, tags parted by `;`), `application/x-ndjson`
    (one JSON object with some of `FIELDS` a line), all in UTF-8, or `text/x-opml` (see `opml`). Bad lines never
    raise: they come as refusals.

    Raises `InvalidValueError`: field `content_type` for another type, `header` for a CSV header that cannot be used,
    `document` for what is no OPML.
    """
    form = _FORMATS.get(media_type(content_type))
    if form is None:
        allowed = f"one of {', '.join(MEDIA.values())}"
        raise InvalidValueError("content_type", allowed, content_type)
    return parse_file(io.BytesIO(data), form)


def parse_file(file: BinaryIO, form: Format) -> Iterator[Line]:
    """The sites of an open binary file, as `parse_list`, read as they are asked for; OPML is read whole."""
    if form is Format.OPML:
        return _parse(opml.read_outlines(file.read()), _from_outline)
    if form is Format.TEXT:
        return parse_text(file)
    lines = _lines(file)
    if form is Format.JSON_LINES:
        return _parse(lines, _from_json)
    rows = _texts(lines)
    header = _header(next((text for _, text in islice(rows, _HEADER_WITHIN) if text.strip()), ""))
    return _parse(rows, partial(_from_csv, header))


def parse_text(file: Iterable[bytes]) -> Iterator[Line]:
    """The sites that plain text names, as `parse_list`, read from an open binary file as they are asked for."""
    return _parse(_texts(_lines(file)), _from_text)


def may_name_a_site(refusal: InvalidValueError) -> bool:
    """Whether a line that is refused so may be about a site that there is: all but its URL can be wrong.

    A list that is the whole truth must not have such a site removed for a slip of the pen.
    """
    return refusal.field != "url"


def parse_entries(entries: Iterable[Entry]) -> Iterator[Line]:
    """The sites of a TOML or YAML document, as `list_document` reads it: numbered by their place in it."""
    return _parse(iter(entries), _from_entry)


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


def _parse(lines: Iterator[tuple[int, Any]], read: Callable[[Any], SiteSpec | None]) -> Iterator[Line]:
    """What `read` makes of each line. Of those of which it makes nothing, one in a thousand is told.

    Else whoever asks for the next line waits for as long as there is nothing.
    """
    nothing = 0
    for number, line in lines:
        found: SiteSpec | InvalidValueError | None = None
        if line is not None:
            try:
                found = read(line)
            except InvalidValueError as error:
                found = error
            if found is None:
                nothing += 1
                if nothing % _BREATH:
                    continue
        yield number, found


def _from_text(line: str) -> SiteSpec | None:
    # All but the URL has its default, which needs no check: a million lines are read at a start.
    url = _without_comment(line)
    return SiteSpec(normalise_url(url)) if url else None


def _without_comment(text: str) -> str:
    if "#" in text:
        comment = _COMMENT.search(text)
        if comment is not None:
            text = text[: comment.start()]
    return text.strip()


# --- CSV -------------------------------------------------------------------------------------------------------------


def _header(line: str) -> list[str]:
    names = [name.strip().lower() for name in _cells(line, "header")]
    if "url" not in names or len(set(names)) < len(names) or not set(names) <= set(KNOWN_FIELDS):
        allowed = f"url and any of {', '.join(KNOWN_FIELDS[1:])}, none twice"
        raise InvalidValueError("header", allowed, line)
    return names


def _cells(line: str, field: str) -> list[str]:
    """One record is one line: a quote left open spoils its own line, not the rest."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise InvalidValueError(field, f"readable CSV ({error})", masked_line(line)) from error


def _from_csv(header: list[str], line: str) -> SiteSpec | None:
    if not line.strip():
        return None
    cells = _cells(line, "line")
    if len(cells) > len(header):
        raise InvalidValueError("line", f"at most {len(header)} cells, as the header", f"{len(cells)} cells")
    return check_spec(_from_texts(zip(header, cells, strict=False)))


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
    if field in _SWITCHES:
        if text.lower() not in ("true", "false"):
            raise InvalidValueError(field, "true or false", text)
        return text.lower() == "true"
    if field not in access.FIELDS:
        return _number(field, text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError(field, "a JSON object", "(not shown)") from error


def _number(field: str, text: str) -> float:
    try:
        return _READERS.get(field, float)(text)
    except ValueError as error:
        allowed = str(error) if field in _READERS else "a number"
        raise InvalidValueError(field, allowed, text) from error


def _from_outline(found: dict[str, str] | InvalidValueError) -> SiteSpec:
    if isinstance(found, InvalidValueError):
        raise found
    _check_known(found)
    return check_spec(_from_texts(found.items()))


# --- JSON lines ------------------------------------------------------------------------------------------------------


def _from_json(line: bytes) -> SiteSpec | None:
    if not line.strip():
        return None
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError("line", "a JSON object", masked_line(line.decode("utf-8", "replace"))) from error
    if not isinstance(found, dict):
        raise InvalidValueError("line", "a JSON object", type(found).__name__)
    return spec_of(found)


def _from_entry(found: dict[str, Any] | InvalidValueError) -> SiteSpec:
    if isinstance(found, InvalidValueError):
        raise found
    return check_spec(spec_of(found))


def spec_of(found: Mapping[str, Any]) -> SiteSpec:
    """The site of a JSON object with some of `KNOWN_FIELDS`, its ranges unchecked. Raises `InvalidValueError`."""
    _check_known(found)
    return check_spec(_spec({name: _typed(name, value) for name, value in found.items() if value is not None}))


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
    if field in _SWITCHES:
        if isinstance(value, bool):
            return value
        raise InvalidValueError(field, "true or false", type(value).__name__)
    if isinstance(value, str) and field in _READERS:
        return _number(field, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError(field, "a number", type(value).__name__)
    return float(value)


def _check_known(given: Mapping[str, object]) -> None:
    unknown = given.keys() - set(KNOWN_FIELDS)
    if unknown:
        allowed = f"left out; known are {', '.join(KNOWN_FIELDS)}"
        name = min(unknown)
        raise InvalidValueError(masked(name), allowed, str(access.shown(name, given[name])))


def _spec(values: dict[str, Any]) -> SiteSpec:
    if "url" not in values:
        raise InvalidValueError("url", "given", None)
    secret = {name: values.pop(name) for name in access.FIELDS if name in values}
    return SiteSpec(**values, access=access.access_of(secret)) if secret else SiteSpec(**values)
