"""Detects the character encoding of a body and decodes it. Never raises, whatever charset a server names.

Precedence, as in browsers: byte order mark, `charset` of the Content-Type, `<meta charset>` or the XML declaration
within the first 1,024 bytes, UTF-8 if the bytes are UTF-8, else windows-1252.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_PRESCAN = 1024
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_PARAMETER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_DECLARED = re.compile(
    rb"<meta[^>]{0,512}?charset\s*=\s*[\"']?\s*([\w.:-]+)|^\s*<\?xml[^>]{0,256}?encoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{1,39}\Z")

# Encodings to use for declared ones: servers name the left one and mean the right (WHATWG Encoding, section 4.2).
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
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


@lru_cache(maxsize=256)
def codec(name: str) -> str | None:
    """Returns the Python codec for an untrusted charset name, or None if it names no text encoding."""
    if _NAME.match(name) is None:
        return None
    try:
        found = codecs.lookup(name.replace(":", "_")).name
    except LookupError:
        return None
    found = _WIDER.get(found, found)
    return found if found in _READABLE else None


@lru_cache(maxsize=256)
def _stated(content_type: str | None) -> str | None:
    match = _PARAMETER.search(content_type) if content_type else None
    return codec(match[1]) if match else None


def _declared(body: bytes) -> str | None:
    match = _DECLARED.search(body, 0, _PRESCAN)
    found = codec((match[1] or match[2]).decode("ascii", "replace")) if match else None
    # The declaration was readable as ASCII, so UTF-16 cannot be right.
    return "utf-8" if found is not None and found.startswith("utf-16") else found


def strip_mark(body: bytes) -> tuple[bytes, str | None]:
    """Returns the body without its byte order mark, and the encoding of the mark (None: no mark)."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :], name
    return body, None


def to_utf8(body: bytes, content_type: str | None) -> bytes:
    """Returns the body re-encoded as UTF-8 without byte order mark; UTF-8 is returned unchanged, errors included.

    Undecodable bytes become U+FFFD. Raises nothing.
    """
    body, name = strip_mark(body)
    name = name or _stated(content_type) or _declared(body)
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
