"""Parses lists of sites as text, CSV, JSON lines or OPML: bytes to specs and refusals, by line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import orjson

from pollerd.api import access, opml
from pollerd.api.formats import MEDIA, Format, text_of_csv
from pollerd.api.http import media_type
from pollerd.api.inputs import check_render, check_selections, check_spec, check_tag_settings
from pollerd.errors import InvalidValueError, kind_of, refusal, unknown_name
from pollerd.lists.list_document import Entry, utf_16_of
from pollerd.masking import masked, masked_line
from pollerd.quantities import seconds, share
from pollerd.scheduling.windows import windows_of
from pollerd.site_settings import INHERITED, SITE, SITE_SETTINGS, Kind, RespectTtl, Setting, SiteSpec, TagSettings
from pollerd.texts import N_, _
from pollerd.urls import normalise_url, spelling_of

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


def list_fields(settings: Mapping[str, Setting]) -> tuple[str, ...]:
    """Returns the columns of CSV, keys of JSON lines and attributes of OPML for these settings, in their order."""
    return *(name for name, setting in settings.items() if setting.kind is not Kind.ACCESS), "method"


FIELDS = list_fields(SITE_SETTINGS)
"""Fields of a list. Only url is required."""
KNOWN_FIELDS = (*FIELDS, *(name for name in access.FIELDS if name not in FIELDS))
"""Fields that are read. Headers, credentials and proxies are never written: they are secret."""
_READERS: Mapping[Kind, Callable[[str], float]] = {Kind.SECONDS: seconds, Kind.SHARE: share}
"""Parsers of numbers with optional units."""
_JSON_ACCESS = frozenset({"headers", "credentials", "typed"})
_COMMENT = re.compile(r"(?:^|\s)#")
_BEGINNING = re.compile(r"<?(?:https?://|feed:)", re.IGNORECASE)
_BETWEEN = re.compile(rf"[\s,;]+(?={_BEGINNING.pattern})", re.IGNORECASE)
_SHORTEST_URL = len("http://a")
_ONLY_URLS = N_(
    'a URL, or several with spaces between; titles and settings need a .csv with a header, as in "url,title"'
)
_NOT_BLANK = re.compile(rb"[^\s][^\r\n]*")
_BLOCK_BYTES = 64 * 1024
_BREATH = 1_000
_HEADER_WITHIN = 1_000

LIST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The list as it is. Its media type can name the format instead of `format`.",
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": "# news\nhttps://example.org/news\nhttps://example.org/blog\n",
            }
        },
    }
}
"""OpenAPI of calls that accept a list. One type for all formats, as generated clients support only one."""

Line = tuple[int, SiteSpec | InvalidValueError | None]
"""Line number from 1, and its site, or its refusal; None: progress through lines without sites."""


def parse_list(data: bytes, content_type: str) -> Iterator[Line]:
    """Yields a `Line` for each line of the list that is neither empty nor a comment, and some for many of those.

    content_type: `text/plain` (URLs, `#` starts a comment at the start of a line or after a space), `text/csv` (a
    header that names some of `FIELDS`, with commas, semicolons or tabs between, one site per line, tags with `;`),
    `application/x-ndjson` (one JSON object with some of `FIELDS` per line), all in UTF-8 or UTF-16, or `text/x-opml`
    (see `opml`). Bad lines never raise: they are returned as refusals.

    Raises `InvalidValueError`: field `content_type` for another type, `header` for an unusable CSV header, `document`
    for text that is not OPML.
    """
    form = _FORMATS.get(media_type(content_type))
    if form is None:
        allowed = _("one of {media}", media=", ".join(MEDIA.values()))
        raise InvalidValueError("content_type", allowed, content_type)
    return parse_file(io.BytesIO(data), form)


def parse_file(file: BinaryIO, form: Format) -> Iterator[Line]:
    """Yields the sites of an open binary file, as `parse_list`, read lazily; OPML is read at once."""
    if form is Format.OPML:
        return _parse(opml.read_outlines(file.read()), _from_outline)
    if form is Format.TEXT:
        return parse_text(file)
    lines = _lines(file)
    if form is Format.JSON_LINES:
        return _parse(lines, _from_json)
    rows = _texts(lines)
    line = next((text for _place, text in islice(rows, _HEADER_WITHIN) if text.strip()), "")
    delimiter = next((character for character in "\t;" if character in line.strip() and "," not in line), ",")
    return _parse(rows, partial(_from_csv, _header(line, delimiter), delimiter))


def parse_text(file: BinaryIO) -> Iterator[Line]:
    """Yields the sites of plain text, as `parse_list`, read lazily from an open binary file."""
    return _parse(_addresses(_texts(_lines(file))), _from_text)


def may_name_a_site(refusal: InvalidValueError) -> bool:
    """Returns whether a refused line may name an existing site: anything but its URL may be wrong.

    With `sync` such a site must not be removed because of a typo.
    """
    return refusal.field != "url"


def parse_entries(entries: Iterable[Entry]) -> Iterator[Line]:
    """Yields the sites of a TOML or YAML document read by `list_document`, numbered by position."""
    return _parse(iter(entries), _from_entry)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a binary file that are not blank, numbered from 1, with any line ending, without the blanks
    before them; skips a byte order mark.

    Of millions of blank lines it yields an empty one now and then: they are searched through, not read one by one.
    """
    number, rest = 1, b""
    for more in _utf_8_blocks(file):
        block = rest + more
        whole = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1  # the last byte may be half of "\r\n"
        block, rest = block[:whole], block[whole:]
        yield from _numbered(block, number)
        number += _ends(block, 0, whole)
        if whole and not block.strip():
            yield number - 1, b""
    yield from _numbered(rest, number)


def _utf_8_blocks(file: BinaryIO) -> Iterator[bytes]:
    read = getattr(file, "read1", file.read)  # what a pipe has, at once
    first = read(_BLOCK_BYTES)
    while len(first) == 1 and (more := read(_BLOCK_BYTES)):
        first += more
    codec = utf_16_of(first)
    decoder = codecs.getincrementaldecoder(codec)("replace") if codec else None
    while first:
        yield first if decoder is None else decoder.decode(first).encode("utf-8", "replace")
        first = read(_BLOCK_BYTES)


def _numbered(block: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a block that are not blank; `number`: of its first line."""
    at = 0
    for match in _NOT_BLANK.finditer(block):
        start, end = match.span()
        number += 1 if start - at == 1 else _ends(block, at, start)  # most lines follow one another
        line, at = block[start:end], end
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _ends(block: bytes, start: int, end: int) -> int:
    """Returns how many lines end between two places."""
    ends = block.count(b"\n", start, end)
    others = block.count(b"\r", start, end)
    return ends + others - block.count(b"\r\n", start, end) if others else ends


def _texts(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    # Bytes that are not UTF-8 become lone surrogates, which every check refuses: they affect only their line.
    return ((n, line.decode("utf-8", "surrogateescape")) for n, line in lines)


def _parse(lines: Iterator[tuple[int, Any]], read: Callable[[Any], SiteSpec | None]) -> Iterator[Line]:
    """Yields the results of `read` by line. Of empty results, yields one in a thousand, and those of `_lines`.

    Otherwise a caller would wait through any number of empty lines.
    """
    nothing = 0
    for number, line in lines:
        spec: SiteSpec | InvalidValueError | None = None
        if line is not None:
            try:
                spec = read(line)
            except InvalidValueError as error:
                spec = error
            if spec is None:
                nothing += 1
                if line not in ("", b"") and nothing % _BREATH:
                    continue
        yield number, spec


def _addresses(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yields each URL of a line that has several, other lines as they are."""
    for number, line in lines:
        if line.find("://", _SHORTEST_URL) < 0 or _BEGINNING.match(line.lstrip()) is None:
            yield number, line
        else:
            yield from ((number, part) for part in _parts(_without_comment(line)))


def _parts(text: str) -> Iterator[str]:
    start = 0
    for between in _BETWEEN.finditer(text):
        part = text[start : between.start()]
        if "?" not in part or any(map(str.isspace, between[0])):  # a query may hold a list of URLs
            yield part
            start = between.end()
    yield text[start:]


def _from_text(line: str) -> SiteSpec | None:
    # All other fields have defaults, which need no check: a start may read a million lines.
    url = _without_comment(line).removeprefix("<").removesuffix(">")
    if any(map(str.isspace, url)):
        raise InvalidValueError("line", _(_ONLY_URLS), masked_line(url, SITE))
    if not url:
        return None
    normal = normalise_url(url)
    return SiteSpec(normal, spelling=spelling_of(url, normal))


def _without_comment(text: str) -> str:
    if "#" in text:
        comment = _COMMENT.search(text)
        if comment is not None:
            text = text[: comment.start()]
    return text.strip()


# --- CSV -------------------------------------------------------------------------------------------------------------


def _header(line: str, delimiter: str) -> list[str]:
    names = [name.strip().lower() for name in _cells(line, "header", delimiter)]
    if "://" in line:
        columns = _('the names of the columns, as in "url,weight,tags"')
        raise refusal("header", _("a line before the first site has to hold {columns}", columns=columns))
    twice = next((name for name in names if names.count(name) > 1), None)
    unknown = next((name for name in names if name not in KNOWN_FIELDS), None)
    if unknown is not None:
        raise unknown_name("header", N_("column"), masked(unknown), KNOWN_FIELDS)
    if twice is not None:
        raise refusal("header", _("column {twice} is there twice", twice=twice))
    if "url" not in names:
        raise refusal("header", _("a column url is needed"))
    return names


def _cells(line: str, field: str, delimiter: str) -> list[str]:
    """Parses one line as one record: an unclosed quote affects only its own line."""
    try:
        return next(csv.reader([line], strict=True, delimiter=delimiter))
    except csv.Error as error:
        raise InvalidValueError(field, _("readable CSV ({error})", error=error), masked_line(line, SITE)) from error


def _from_csv(header: list[str], delimiter: str, line: str) -> SiteSpec | None:
    if not line.strip():
        return None
    cells = _cells(line, "line", delimiter)
    if len(cells) > len(header):
        raise refusal("line", _("it has {cells} cells, and the header {names}", cells=len(cells), names=len(header)))
    return check_spec(_from_texts(zip(header, map(text_of_csv, cells), strict=False)))


def _from_texts(fields: Iterable[tuple[str, str]]) -> SiteSpec:
    """Parses fields given as texts; an empty one is absent."""
    stripped = ((name, text.strip()) for name, text in fields)
    return _spec({name: _cell(name, text) for name, text in stripped if text})


def _cell(field: str, text: str) -> object:
    """Parses a cell: tags separated by `;`, windows, selections, plans, headers and credentials as JSON."""
    if field in access.FIELDS:
        return _json(field, text) if field in _JSON_ACCESS else text
    setting = SITE_SETTINGS[field]
    return cell_of(setting, text)


def cell_of(setting: Setting, text: str) -> object:
    """Returns the value of a setting that a cell says. Raises `InvalidValueError`."""
    field = setting.name
    match setting.kind:
        case Kind.TEXT:
            return text
        case Kind.TAGS:
            return tuple(tag for tag in text.split(";") if tag.strip())
        case Kind.SWITCH:
            if text.lower() not in ("true", "false"):
                raise InvalidValueError(field, _("true or false"), text)
            return text.lower() == "true"
        case Kind.WINDOWS | Kind.SELECTIONS | Kind.RENDER:
            return typed_value(setting, _json(field, text))
        case Kind.TRUST:
            return _respect_ttl(field, text)
    return _number(setting, text)


def _json(field: str, text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError(field, _("a JSON object"), "(not shown)") from error


def _number(setting: Setting, text: str) -> float:
    read = _READERS.get(setting.kind)
    try:
        return read(text) if read else float(text)
    except ValueError as error:
        raise InvalidValueError(setting.name, str(error) if read else _("a number"), text) from error


def _from_outline(attributes: dict[str, str] | InvalidValueError) -> SiteSpec:
    if isinstance(attributes, InvalidValueError):
        raise attributes
    _check_known(attributes)
    return check_spec(_from_texts(attributes.items()))


# --- JSON lines ------------------------------------------------------------------------------------------------------


def _from_json(line: bytes) -> SiteSpec | None:
    if not line.strip():
        return None
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError(
            "line", _("a JSON object"), masked_line(line.decode("utf-8", "replace"), SITE)
        ) from error
    if not isinstance(fields, dict):
        raise InvalidValueError("line", _("a JSON object"), kind_of(fields))
    return spec_of(fields)


def _from_entry(fields: dict[str, Any] | InvalidValueError) -> SiteSpec:
    if isinstance(fields, InvalidValueError):
        raise fields
    return check_spec(spec_of(fields))


def spec_of(fields: Mapping[str, Any]) -> SiteSpec:
    """Returns the site of a JSON object with some of `KNOWN_FIELDS`, checked. Raises `InvalidValueError`."""
    _check_known(fields)
    return check_spec(_spec({name: _typed(name, value) for name, value in fields.items() if value is not None}))


def tag_of(name: str, fields: Mapping[str, Any]) -> TagSettings:
    """Returns the settings of a tag from the fields of a site that are no site's alone. Raises `InvalidValueError`."""
    allowed = [*INHERITED, *access.FIELDS]
    for field in fields:
        if field not in allowed:
            raise unknown_name(masked(field), N_("setting"), masked(field), list(allowed))
    typed = {field: _typed(field, value) for field, value in fields.items() if value is not None}
    secret = {field: typed.pop(field) for field in access.FIELDS if field in typed}
    if "render" in typed:
        typed["render"], secret["typed"] = check_render(typed["render"], secret.get("typed"))
    return check_tag_settings(TagSettings(name, typed, access.access_of(secret)))


def tags_of(tags: Mapping[str, Mapping[str, Any]]) -> list[TagSettings]:
    """Returns the tags of a TOML or YAML document. Raises `InvalidValueError`, naming tag and field."""
    settings = []
    for name, fields in tags.items():
        try:
            settings.append(tag_of(name, fields))
        except InvalidValueError as error:
            raise error.of(f"tags.{masked(name)}.{error.field}") from error
    return settings


def _typed(field: str, value: object) -> object:
    return value if field in access.FIELDS else typed_value(SITE_SETTINGS[field], value)


def typed_value(setting: Setting, value: object) -> object:
    """Returns the value of a setting that JSON, TOML or YAML has. Raises `InvalidValueError`."""
    field = setting.name
    match setting.kind:
        case Kind.TEXT:
            return _text(field, value)
        case Kind.TAGS:
            return _tags(field, value)
        case Kind.SWITCH:
            if isinstance(value, bool):
                return value
            raise InvalidValueError(field, _("true or false"), value if isinstance(value, str) else kind_of(value))
        case Kind.TRUST:
            return _respect_ttl(field, value)
        case Kind.WINDOWS:
            return windows_of(value)
        case Kind.SELECTIONS:
            return check_selections(value)
        case Kind.RENDER:
            return value  # checked with its secrets
    return _typed_number(setting, value)


def _typed_number(setting: Setting, value: object) -> float:
    if isinstance(value, str) and setting.kind in _READERS:
        return _number(setting, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError(setting.name, _("a number"), value if isinstance(value, str) else kind_of(value))
    return float(value)


def _text(field: str, value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    raise InvalidValueError(field, _("a text"), kind_of(value))


def _tags(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return tuple(value)
    raise InvalidValueError(field, _("a list of texts"), kind_of(value))


def _respect_ttl(field: str, value: object) -> RespectTtl:
    try:
        return RespectTtl.of(value)
    except ValueError as error:
        shown = value if isinstance(value, str) else kind_of(value)
        raise InvalidValueError(field, str(error), shown) from error


def _check_known(fields: Mapping[str, object]) -> None:
    unknown = fields.keys() - set(KNOWN_FIELDS)
    if unknown:
        name = masked(min(unknown))
        raise unknown_name(name, N_("setting"), name, KNOWN_FIELDS)


def _spec(values: dict[str, Any]) -> SiteSpec:
    if "url" not in values:
        raise refusal("url", _("is needed"))
    secret = {name: values.pop(name) for name in access.FIELDS if name in values}
    if "render" in values:
        values["render"], typed = check_render(values["render"], secret.pop("typed", None))
        if typed:
            secret["typed"] = typed
    return SiteSpec(**values, access=access.access_of(secret)) if secret else SiteSpec(**values)
