"""Reads and writes OPML, the list format of feed readers. Safe for untrusted documents.

Nothing is fetched, and a document that defines an entity is refused: without entities there is no entity expansion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from pollerd.api.inputs import MAX_TAG_LENGTH, MAX_TAGS
from pollerd.errors import InvalidValueError
from pollerd.lists.list_document import as_utf_8
from pollerd.texts import _

NAMESPACE = "urn:pollerd:opml"
"""Namespace of attributes that OPML does not define."""
HEAD = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    f'<opml version="2.0" xmlns:pollerd="{NAMESPACE}">\n<head><title>Sites</title></head>\n<body>\n'
)
TAIL = "</body>\n</opml>\n"
_OURS = f"{NAMESPACE} "
_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)")
_URLS = ("xmlurl", "url", "htmlurl")
_CHUNK = 64 * 1024
_DEPTH = 100

Outline = tuple[int, dict[str, str] | InvalidValueError | None]
"""Line number from 1, and a site's fields as texts (tags separated by `;`), or an error; None: progress."""


def read_outlines(data: bytes) -> Iterator[Outline]:
    """Yields the outlines that have a URL: `xmlUrl`, else `url`, else `htmlUrl`.

    Fields other than the URL are read from attributes in `NAMESPACE`. An outline without any of those, as other
    programs write them, gets the names of its folders and its categories as tags. A `&` that begins no reference, as
    in URLs, is taken as it is. If the document breaks off, the outlines before are kept, and the last `Outline` says
    where and why. Raises `InvalidValueError`, field `document`, if it is not OPML from the start, or defines entities.
    """
    text = as_utf_8(data)
    reader = _Reader("utf-8" if text is not data else None)
    data = text.removeprefix(b"\xef\xbb\xbf").lstrip()  # a declaration of XML stands first, also behind blank lines
    reader.lines_before = text.count(b"\n", 0, len(text) - len(data))
    data = _BARE.sub(b"&amp;", data)
    chunks = (data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))
    for chunk in chunks:
        reader.feed(chunk)
        if reader.begun:
            return _rest(reader, chunks)
        if reader.broken is not None:
            raise reader.broken[1]
    raise InvalidValueError("document", "OPML", _("an empty document"))


def _rest(reader: _Reader, chunks: Iterator[bytes]) -> Iterator[Outline]:
    yield from reader.taken()
    for chunk in chunks:
        reader.feed(chunk)
        yield from reader.taken() or [(reader.line, None)]
        if reader.broken is not None:
            break
    else:
        reader.feed(b"", last=True)
    if reader.broken is not None:
        yield reader.broken


class _Reader:
    """Incremental parser of one document."""

    def __init__(self, encoding: str | None) -> None:
        """`encoding`: goes before the declared one."""
        self.begun = False
        self.lines_before = 0
        """Blank lines that are not parsed."""
        self.broken: tuple[int, InvalidValueError] | None = None
        self._outlines: list[Outline] = []
        self._folders: list[str | None] = []
        """Name of each open outline, None if it is a site or unused."""
        self._unused = 0
        """Depth of the outermost outline that is commented out; 0: none is."""
        self._parser = expat.ParserCreate(encoding, namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._refuse_entities

    @property
    def line(self) -> int:
        """Line reached so far."""
        return self.lines_before + self._parser.CurrentLineNumber

    def feed(self, data: bytes, last: bool = False) -> None:
        """Parses more data; `broken` says where that failed."""
        if self.broken is not None:
            return
        try:
            self._parser.Parse(data, last)
        except InvalidValueError as error:
            self.broken = (self.line, error)
        except (expat.ExpatError, ValueError, LookupError) as error:
            self.broken = (self.line, InvalidValueError("document", _("readable XML"), str(error)))

    def taken(self) -> list[Outline]:
        """Returns the outlines found since the last call."""
        outlines, self._outlines = self._outlines, []
        return outlines

    def _refuse_entities(self, name: str, *_declaration: object) -> NoReturn:
        raise InvalidValueError("document", _("free of entity definitions"), name)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.begun:
            if name != "opml":
                raise InvalidValueError("document", _("OPML, its first element <opml>"), name)
            self.begun = True
        if name != "outline":
            return
        if len(self._folders) == _DEPTH:
            raise InvalidValueError("document", _("nested at most {depth} deep", depth=_DEPTH), "more")
        folder: str | None = None
        plain = {key.lower(): value for key, value in attributes.items() if " " not in key}
        if not self._unused and plain.get("iscomment", "").lower() == "true":
            self._unused = len(self._folders) + 1
        if not self._unused:
            folder = self._take(plain, attributes)
        self._folders.append(folder)

    def _end(self, name: str) -> None:
        if name == "outline":
            if self._unused == len(self._folders):
                self._unused = 0
            self._folders.pop()

    def _take(self, plain: dict[str, str], attributes: dict[str, str]) -> str | None:
        """Records a site; returns the name of a folder instead."""
        url = next((plain[name] for name in _URLS if plain.get(name, "").strip()), None)
        if url is None:
            return plain.get("text") or plain.get("title")
        ours = {
            key.removeprefix(f"{NAMESPACE} "): value for key, value in attributes.items() if key.startswith(NAMESPACE)
        }
        names = [folder for folder in self._folders if folder] + plain.get("category", "").split(",")
        fields = ours or {"tags": ";".join(_tags(names))}
        self._outlines.append((self.line, {**fields, "url": url}))
        return None


def _tags(names: list[str]) -> list[str]:
    """Converts names of folders and categories to tags."""
    tags: dict[str, None] = {}
    for name in names:
        printable = "".join(c if c.isprintable() else " " for c in name.replace(";", ","))
        tag = printable.strip(" /")[:MAX_TAG_LENGTH].strip()
        if tag:
            tags[tag] = None
    return list(tags)[:MAX_TAGS]


def outline(url: str, fields: dict[str, str]) -> str:
    """Returns one line that `read_outlines` and feed readers understand."""
    ours = "".join(f" pollerd:{name}={quoteattr(value)}" for name, value in fields.items())
    quoted = quoteattr(url)
    return f'<outline type="rss" text={quoted} xmlUrl={quoted}{ours}/>\n'
