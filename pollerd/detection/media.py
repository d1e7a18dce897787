"""The media of a body, from its Content-Type and its content, its character encoding, and canonical JSON."""

from __future__ import annotations

import codecs
import json
import re
from functools import lru_cache
from typing import Any

import orjson

from pollerd.model import FIRST_READER, READER, Media

# Character encodings. Decoding never raises, whatever charset a server names, and no two bodies become one text.
#
# Precedence, as in browsers: byte order mark, `charset` of the Content-Type, `<meta charset>` or the XML declaration
# within the first 1,024 bytes, UTF-8 if the bytes are UTF-8. Where the bytes do not fit, browsers show one sign for all
# that they cannot read; here the next best is taken: what the page says elsewhere, what its language is usually written
# in, and last windows-1252, which shows every byte as a character of its own.

_PRESCAN, _LATE_PRESCAN = 1024, 256 * 1024
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_PARAMETER = re.compile(r"(?:^|[;,\s])charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_OTHER_PARAMETER = re.compile(r"(?<![\w-])(?!charset\b)[\w-]+\s*=\s*\"[^\"]*\"", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,256}?\sencoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_META = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style|title|textarea|noscript|xmp)\b.*?(?:</\1|\Z)|<meta[\s/]([^>]{1,1024})>",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(rb"([^\s=/>\"']+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"']+))")
_IN_CONTENT = re.compile(rb"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_LANGUAGE = re.compile(
    rb"<html[^>]{0,512}?\s(?:xml:)?lang\s*=\s*[\"']?([a-zA-Z]{2,3})(?:[-_]([a-zA-Z]{2,8}))?", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{1,39}\Z")

# Encodings to use for declared ones: servers name the left one and mean the right (WHATWG Encoding, section 4.2).
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
}
# Only text encodings used on the web: Python also has `unicode_escape`, `idna` and others that warn or are slow.
_NAMES = """
    utf-8 utf-16-le utf-16-be cp1252 cp1254 cp874 gb18030 cp932 cp949 big5 big5hkscs euc_jp iso2022_jp
    koi8-r koi8-u cp866 mac-roman mac-cyrillic cp1250 cp1251 cp1253 cp1255 cp1256 cp1257 cp1258
    iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10 iso8859-13
    iso8859-14 iso8859-15 iso8859-16
"""
_READABLE = frozenset(_NAMES.split())
# Labels of the WHATWG list (Encoding, section 4.2) that Python does not know, also without "x-" in front.
_LABELS = {
    label: name
    for name, labels in {
        "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8",
        "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff",
        "utf-16-be": "unicodefffe",
        **{f"iso8859-{part}": f"iso8859{part}" for part in (2, 3, 4, 5, 10, 13, 14)},
        "iso8859-6": "iso88596 csiso88596e csiso88596i iso-8859-6-e iso-8859-6-i",
        "iso8859-7": "iso88597 sun_eu_greek",
        "iso8859-8": "iso88598 csiso88598e csiso88598i iso-8859-8-e iso-8859-8-i logical visual",
        "iso8859-15": "iso885915 csisolatin9",
        "koi8-r": "koi koi8",
        "koi8-u": "koi8-ru",
        "mac-roman": "csmacintosh mac",
        "mac-cyrillic": "mac-ukrainian",
        "cp874": "dos-874 windows-874 iso-8859-11 iso8859-11 iso885911",
        "gb18030": "csgb2312 gb_2312 gb_2312-80",
        "big5": "cn-big5",
        "euc_jp": "cseucpkdfmtjapanese",
        "cp932": "windows-31j",
        "cp949": "cseuckr csksc56011987 iso-ir-149 ks_c_5601-1989 ksc_5601 windows-949",
        "cp1252": "iso88591",
        "cp1254": "iso88599",
    }.items()
    for label in labels.split()
}
# What pages in a language are written in if they are not UTF-8 (WHATWG HTML, section 13.2.3.2).
_OF_LANGUAGE = {
    language: name
    for name, languages in {
        "cp1251": "ru uk be bg mk sr ky kk tg mn",
        "cp1250": "pl cs sk hu sl hr bs",
        "cp1253": "el",
        "cp1254": "tr az ku",
        "cp1255": "he",
        "cp1256": "ar fa ur",
        "cp1257": "et lt lv",
        "cp1258": "vi",
        "cp874": "th",
        "cp932": "ja",
        "cp949": "ko",
        "gb18030": "zh",
    }.items()
    for language in languages.split()
}
_TRADITIONAL = frozenset({b"tw", b"hk", b"mo", b"hant"})
_ASCII_NEEDS_DECODING = frozenset({"utf-16-le", "utf-16-be", "iso2022_jp"})
_ESCAPE = b"\x1b"
_AS_BYTES = "pollerd.bytes"
_SURROGATES = {0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0x100)}


def _byte_by_byte(error: UnicodeError) -> tuple[str, int]:
    """Reads bytes that do not fit as windows-1252, a character each: what differs stays different."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(
        _SURROGATES.get(0xDC00 + byte, chr(byte)) for byte in error.object[error.start : error.end]
    ), error.end


codecs.register_error(_AS_BYTES, _byte_by_byte)


@lru_cache(maxsize=256)
def codec(name: str, reader: int = READER) -> str | None:
    """Returns the Python codec for an untrusted charset name, or None if it names no text encoding."""
    if _NAME.match(name) is None:
        return None
    label = name.lower()
    while reader > FIRST_READER and label.startswith("x-"):
        label = label.removeprefix("x-")
    codec_name = None if reader == FIRST_READER else _LABELS.get(label)
    if codec_name is None:
        try:
            codec_name = codecs.lookup(label.replace(":", "_")).name
        except LookupError:
            return None
    codec_name = _WIDER.get(codec_name, codec_name)
    return codec_name if codec_name in _READABLE else None


@lru_cache(maxsize=256)
def _stated(content_type: str | None) -> str | None:
    match = _PARAMETER.search(_OTHER_PARAMETER.sub("", content_type)) if content_type else None
    return codec(match[1]) if match else None


def _declared(body: bytes, end: int = _PRESCAN) -> str | None:
    """Returns the encoding that the XML declaration or a meta element in the first bytes names; None: none does."""
    xml = _XML_ENCODING.match(body, 0, end)
    names = [xml[1]] if xml else []
    for match in _META.finditer(body, 0, end) if b"charset" in body[:end] or b"CHARSET" in body[:end] else ():
        if match[2] is not None:
            attributes = {name.lower(): a or b or c for name, a, b, c in reversed(_ATTRIBUTE.findall(match[2]))}
            inside = None
            if attributes.get(b"http-equiv", b"").strip().lower() == b"content-type":
                inside = _IN_CONTENT.search(attributes.get(b"content", b""))
            names += [attributes[b"charset"].strip()] if b"charset" in attributes else [inside[1]] if inside else []
    encoding = next(filter(None, (codec(name.decode("ascii", "replace")) for name in names)), None)
    # The declaration was readable as ASCII, so UTF-16 cannot be right.
    return "utf-8" if encoding is not None and encoding.startswith("utf-16") else encoding


def _of_language(body: bytes) -> str | None:
    """Returns what a page in the language that it states is written in if it is not UTF-8; None: not known."""
    match = _LANGUAGE.search(body, 0, _HEAD)
    if match is None:
        return None
    if match[1].lower() == b"zh" and (match[2] or b"").lower() in _TRADITIONAL:
        return "big5"
    return _OF_LANGUAGE.get(match[1].lower().decode())


def strip_mark(body: bytes) -> tuple[bytes, str | None]:
    """Returns the body without its byte order mark, and the encoding of the mark (None: no mark)."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :], name
    return body, None


def to_utf8(body: bytes, content_type: str | None, reader: int = READER) -> bytes:
    """Returns the body re-encoded as UTF-8 without byte order mark. Bytes that fit nothing become a character each.

    Raises nothing.
    """
    if reader == FIRST_READER:
        return _to_utf8_at_first(body, content_type)
    body, mark = strip_mark(body)
    name = mark or _stated(content_type)
    if body.isascii() and name not in _ASCII_NEEDS_DECODING and _ESCAPE not in body:
        return body
    name = name or _declared(body)
    if name in (None, "utf-8") and is_utf8(body):
        return body
    return _decoded(body, name, mark).encode("utf-8", "replace")


def _decoded(body: bytes, name: str | None, mark: str | None) -> str:
    """Returns the text of a body that is no UTF-8, or is not to be. name: the encoding that it is said to be in."""
    if name not in (None, "utf-8") and (text := _strictly(body, name)) is not None:
        return text
    if mark is None and name != "utf-8" and is_utf8(body):
        return body.decode()
    if name in (None, "utf-8"):
        text = body.decode("utf-8", "surrogateescape")
        strays = len(text) - len(body.decode("utf-8", "ignore"))
        # UTF-8 into which a byte strayed, or none: letters of other encodings rarely look like it.
        if 2 * strays <= len(text) - len(text.encode("ascii", "ignore")):
            return text.translate(_SURROGATES)
    elsewhere = _declared(body) or _declared(body, _LATE_PRESCAN)
    for other in (elsewhere, _of_language(body)):
        if other not in (None, "utf-8", name) and (text := _strictly(body, other)) is not None:
            return text
    return body.decode("cp1252" if name in (None, "utf-8") else name, _AS_BYTES)


def _strictly(body: bytes, name: str | None) -> str | None:
    try:
        return body.decode(name or "utf-8")
    except UnicodeDecodeError:
        return None


_DECLARED_AT_FIRST = re.compile(
    rb"<meta[^>]{0,512}?charset\s*=\s*[\"']?\s*([\w.:-]+)|^\s*<\?xml[^>]{0,256}?encoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_PARAMETER_AT_FIRST = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)


def _to_utf8_at_first(body: bytes, content_type: str | None) -> bytes:
    """Returns what the first reader did: bytes that do not fit are U+FFFD, or stay as they are in UTF-8."""
    body, name = strip_mark(body)
    match = _PARAMETER_AT_FIRST.search(content_type) if name is None and content_type else None
    name = name or (codec(match[1], FIRST_READER) if match else None)
    if name is None and (declared := _DECLARED_AT_FIRST.search(body, 0, _PRESCAN)):
        name = codec((declared[1] or declared[2]).decode("ascii", "replace"), FIRST_READER)
        name = "utf-8" if name is not None and name.startswith("utf-16") else name
    if name == "utf-8" or (name is None and is_utf8(body)):
        return body
    return body.decode(name or "cp1252", "replace").encode("utf-8", "replace")


def is_utf8(body: bytes) -> bool:
    """Returns True if the bytes are well-formed UTF-8 (ASCII included)."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


_HEAD = 2048
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_PROLOGUE = re.compile(rb"<[?!][^>]*(?:>|\Z)")
_FEED_ROOT = re.compile(rb"\s*<(?:rss|feed|rdf:RDF|[A-Za-z_][\w.-]*:(?:feed|RDF|rss))[\s/>]")
_HTML_START = re.compile(
    rb"\s*<(?:!doctype\s+html|html|head|body|title|meta|script|style|link|div|p|h1|table|br)\b", re.IGNORECASE
)
_PAGE = re.compile(rb"\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json"})
_TEXT_TYPES = frozenset(
    {"application/xml", "application/javascript", "application/ecmascript", "application/yaml", "application/x-yaml"}
    | {"application/toml", "application/x-ndjson", "application/jsonl", "application/sql", "application/x-sh"}
)
_BINARY_BYTE = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""A byte that no text has (WHATWG MIME Sniffing, section 3)."""
_NEVER_TEXT = ("image/", "audio/", "video/", "font/", "application/pdf")


@lru_cache(maxsize=1024)
def essence(content_type: str | None) -> str:
    """Returns the media type without parameters, in lower case, the first of several; empty if none is stated."""
    stated = re.split("[;,]", content_type or "", maxsplit=1)[0].strip().lower()
    return stated if "/" in stated else ""


def classify(body: bytes, content_type: str | None, reader: int = READER) -> tuple[tuple[Media, ...], bytes]:
    """Returns candidate media, best first (the last always works), and the text to parse.

    The text is UTF-8 without byte order mark, or for BINARY alone the bytes unchanged.

    Feeds and JSON are recognised by content under any textual type, because servers often send both as `text/plain`,
    `text/xml` or `text/html`; HTML is assumed only if it is stated, or no type is. Under a type that says nothing of
    how to read it (`application/csv`, `application/force-download`) what begins as text is text.
    """
    if reader == FIRST_READER:
        return _classify_at_first(body, content_type)
    kind = essence(content_type)
    if _opaque(kind, body):
        return (Media.BINARY,), body
    text = to_utf8(body, content_type)
    return _candidates(kind, text[:_HEAD], _fallback(kind, text[:_HEAD])), text


def _opaque(kind: str, body: bytes) -> bool:
    """Returns True if only BINARY can apply: nothing needs to be decoded or inspected."""
    if _is_textual(kind):
        return False
    head = body[:_HEAD]
    return kind.startswith(_NEVER_TEXT) or (_BINARY_BYTE.search(head) is not None and strip_mark(head)[1] is None)


_UNSTATED_AT_FIRST = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"}
)


def _classify_at_first(body: bytes, content_type: str | None) -> tuple[tuple[Media, ...], bytes]:
    """Returns what the first reader did: only types that say so are text, of those that are stated."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    stated = kind not in _UNSTATED_AT_FIRST
    head = body[:_HEAD]
    if not _is_textual(kind) if stated else b"\0" in head and strip_mark(head)[1] is None:
        return (Media.BINARY,), body
    text = _to_utf8_at_first(body, content_type)
    head = text[:_HEAD]
    fallback = _looks(kind, head) if not stated else Media.HTML if kind in _HTML_TYPES else Media.TEXT
    return _candidates(kind, head, fallback), text


def _candidates(kind: str, head: bytes, fallback: Media) -> tuple[Media, ...]:
    """Returns candidate media for a text of the stated type that begins with `head`."""
    if kind in _HTML_TYPES and _PAGE.match(head):
        return (Media.HTML,)
    start = head.lstrip()[:1]
    if start in (b"{", b"["):
        # A JSON Feed is JSON that declares itself: the parser decides.
        return (Media.FEED, Media.JSON, fallback)
    if start == b"<" and _FEED_ROOT.match(_PROLOGUE.sub(b"", _COMMENT.sub(b"", head))):
        return (Media.FEED, fallback)
    if kind in _FEED_TYPES and start == b"<":
        return (Media.FEED, fallback)
    if _is_json(kind):
        return (Media.JSON, fallback)
    return (fallback,)


def _fallback(kind: str, head: bytes) -> Media:
    if kind in _HTML_TYPES:
        return Media.HTML
    return Media.TEXT if _is_textual(kind) else _looks(kind, head)


def _is_textual(kind: str) -> bool:
    named = kind in _TEXT_TYPES or kind in _HTML_TYPES or kind in _FEED_TYPES
    return named or kind.startswith("text/") or kind.endswith("+xml") or _is_json(kind)


def _looks(kind: str, head: bytes) -> Media:
    if b"\0" in head:
        return Media.BINARY
    if not kind and _HTML_START.match(_COMMENT.sub(b"", head)):
        return Media.HTML
    return Media.TEXT if _begins_as_text(head) else Media.BINARY


def _begins_as_text(head: bytes) -> bool:
    # The head may end within a character: up to three of its bytes are ignored.
    for cut in range(4):
        try:
            head[: len(head) - cut].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


def _is_json(kind: str) -> bool:
    return kind in ("application/json", "text/json") or kind.endswith("+json")


# Canonical JSON: sorted keys, indent of two spaces, so that formatting is no change and diffs are readable.

# orjson reads longer integers and decimals as the nearest double: two different ids would look the same.
_EXACT_DIGITS = 17
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG = b"0" * (_EXACT_DIGITS + 1)
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2


# What stands before JSON so that it cannot be run as a script.
_GUARD = re.compile(rb"\s*(?:\)\]\}'?,?|for\s*\(;;\);|while\s*\(1\);)\s*")
# Escaped characters. Half of a surrogate pair is no character: its digits are kept behind U+FFFD.
_ESCAPED = re.compile(
    r"\\(?:u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|(u[dD][89a-fA-F][0-9A-Fa-f]{2})|.)", re.DOTALL
)


def canonical(body: bytes, reader: int = READER) -> bytes | None:
    """Returns the canonical form as UTF-8, or None if the body is not JSON or is nested deeper than about 250 levels.

    `body` is UTF-8 without byte order mark. Arrays keep their order. The last of duplicate keys counts. Numbers of 18
    digits or more and `NaN`, `Infinity` (invalid in JSON, but sent by servers) keep their spelling, halves of
    surrogate pairs their digits. What stands in front to keep it from being run (`)]}',`) is left out. Raises nothing.
    """
    try:
        return orjson.dumps(_read(body, reader), option=_CANONICAL)
    except (ValueError, RecursionError, orjson.JSONEncodeError):
        return None


def parsed(body: bytes) -> Any:
    """Returns the value of a JSON body, or None if it cannot be parsed (or is `null`). Raises nothing.

    Of JSON lines it is the list of their values.
    """
    try:
        return _read(body)
    except (ValueError, RecursionError):
        pass
    try:
        values = [_read(line) for line in body.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
    return values or None


def _read(body: bytes, reader: int = READER) -> Any:
    if _LONG not in body.translate(_ZEROS):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    return _read_odd(body, reader)


def _read_odd(body: bytes, reader: int) -> Any:
    if reader == FIRST_READER:
        return json.loads(body.decode(), parse_int=_integer, parse_float=_decimal, parse_constant=str)
    guard = _GUARD.match(body)
    text = (body if guard is None else body[guard.end() :]).decode()
    whole = _ESCAPED.sub(lambda match: f"\ufffd{match[1][1:]}" if match[1] else match[0], text)
    return json.loads(whole, parse_int=_integer, parse_float=_decimal, parse_constant=str)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _EXACT_DIGITS else digits


def _decimal(digits: str) -> float | str:
    return float(digits) if len(digits) <= _EXACT_DIGITS else digits
