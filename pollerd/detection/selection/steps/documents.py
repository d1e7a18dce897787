"""Selection steps on feeds (items and their fields), JSON, XML and PDF documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from pollerd.detection import media
from pollerd.detection.feed import FeedEntry, json_entries, xml_entries
from pollerd.detection.html import MAX_WORK, is_entity_bomb, is_tag_bomb
from pollerd.detection.selection.document import known_table, one_of, one_or_more
from pollerd.detection.selection.expressions.jsonpath import JsonPath
from pollerd.detection.selection.expressions.pattern import Pattern, compile_pattern
from pollerd.detection.selection.expressions.xpath import XPathExpression, parse_xml
from pollerd.detection.selection.steps.page import Expression, Keep
from pollerd.errors import SelectionLimitError

FIELDS = ("title", "link", "summary", "content")
_PATTERNS_MAX = 100


@dataclass(frozen=True, slots=True)
class FeedItems:
    """The items that count, and their fields."""

    fields: tuple[str, ...] = ()
    """The fields that are kept, in this order; none: id, title, newest date and summary, as without a selection."""
    where: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()
    """Each field must fit one of its patterns."""

    @property
    def full_text(self) -> bool:
        """Whether the content of items is needed."""
        return "content" in self.fields or any(field == "content" for field, _ in self.where)

    def kept(self, entries: Sequence[FeedEntry]) -> tuple[FeedEntry, ...]:
        """Returns the items that count, in their order."""
        return tuple(
            entry
            for entry in entries
            if all(any(pattern.search(_field(entry, name)) for pattern in patterns) for name, patterns in self.where)
        )

    def lines(self, entries: Sequence[FeedEntry]) -> bytes:
        """Returns the chosen fields of each item, separated by tabs, a line each, sorted."""
        lines = {"\t".join(_field(entry, name) for name in self.fields) for entry in entries}
        return "\n".join(sorted(lines)).encode("utf-8", "replace")


def compile_items(field: str, given: object) -> FeedItems:
    """Compiles `{"fields": ["title", ...], "where": {"title": pattern or list}}`. Raises InvalidValueError."""
    found: Mapping[str, Any] = known_table(field, given, ("fields", "where"))
    fields: tuple[str, ...] = ()
    if "fields" in found:
        names = one_or_more(f"{field}.fields", found["fields"], len(FIELDS))
        fields = tuple(one_of(f"{field}.fields[{i}]", name, FIELDS) for i, name in enumerate(names))
    where = []
    for name, patterns in known_table(f"{field}.where", found.get("where", {}), FIELDS).items():
        at = f"{field}.where.{name}"
        many = isinstance(patterns, list)
        compiled = [
            compile_pattern(f"{at}[{i}]" if many else at, one)
            for i, one in enumerate(one_or_more(at, patterns, _PATTERNS_MAX))
        ]
        where.append((name, tuple(compiled)))
    return FeedItems(tuple(dict.fromkeys(fields)), tuple(where))


def feed_entries(text: bytes, *, full_text: bool) -> tuple[FeedEntry, ...] | None:
    """Returns the items of a feed of any kind, in order; None if it is none."""
    if text.lstrip()[:1] == b"<":
        return xml_entries(text, full_text=full_text)
    return json_entries(text, full_text=full_text)


def _field(entry: FeedEntry, name: str) -> str:
    match name:
        case "title":
            return entry.title
        case "link":
            return entry.link
        case "content":
            return entry.full_text or entry.text
        case _:
            return entry.text


# JSON, by JSONPath (RFC 9535).

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2


def kept_of_json(text: bytes, keeps: Sequence[Keep]) -> tuple[bytes, str]:
    """Returns what is kept, and the position of a step that matched nothing; empty: all matched.

    One match is written bare, several as a list, each step's matches one after the other. `text` is a JSON document.
    """
    found: list[Any] = [media.parsed(text)]
    missing = ""
    for keep in keeps:
        matches = []
        for value in found:
            for expression in keep.expressions:
                assert isinstance(expression, JsonPath)
                matches += expression.find(value)
        found = keep.cut(matches)
        missing = missing or ("" if found or keep.optional else keep.field)
    return _written(found), missing


def texts_in_json(text: bytes, path: JsonPath) -> list[str]:
    """Returns the matches of a path as texts; what is no text or number as JSON."""
    return [
        value if isinstance(value, str) else orjson.dumps(value).decode() for value in path.find(media.parsed(text))
    ]


def _written(found: list[Any]) -> bytes:
    if not found:
        return b""
    if len(found) > 1:
        return orjson.dumps(found, option=_CANONICAL)
    one = found[0]
    return one.encode("utf-8", "replace") if isinstance(one, str) else orjson.dumps(one, option=_CANONICAL)


# XML: elements removed and kept by XPath, written with one element a line.


_COPIED_MAX = 50_000
"""Elements of the longest document that is also read by local names."""
_NOTHING = ([""], ["0"], ["false"], ["NaN"])
"""Results of expressions that yield no elements, where they found none."""


class XmlDocument:
    """One XML document, from which steps remove and keep elements."""

    def __init__(self, xml: bytes) -> None:
        """`xml` is UTF-8. Raises ValueError if it is not XML, SelectionLimitError if it cannot be read safely."""
        if is_tag_bomb(xml) or is_entity_bomb(xml):
            raise SelectionLimitError("page", "steps over open elements, or bytes of entities, to parse it", MAX_WORK)
        self._root = parse_xml(xml)
        if self._root is None:
            raise ValueError("it has no element that can be read")
        self._by_local_names = False
        """Whether an expression matched by local names alone."""
        self._bare: list[tuple[dict[Any, Any], dict[Any, Any]]] | None = None

    def texts_at(self, expression: Expression, attribute: str | None) -> list[str]:
        """Returns the text of what an XPath matches, each on one line, or an attribute where it is there."""
        assert isinstance(expression, XPathExpression)
        texts = []
        for one in self._found(expression, self._root):
            if isinstance(one, str):
                texts.append(one)
            elif attribute is None:
                texts.append("".join(one.itertext()))
            elif attribute in one.attrib:
                texts.append(one.attrib[attribute])
        return [" ".join(text.split()) for text in texts]

    def remove(self, expressions: Iterable[Expression]) -> None:
        """Removes what the expressions match."""
        for expression in expressions:
            assert isinstance(expression, XPathExpression)
            for found in self._found(expression, self._root):
                if not isinstance(found, str) and (parent := found.getparent()) is not None:
                    parent.remove(found)
                    self._bare = None

    def whole(self) -> bytes:
        """Returns the document with an element a line."""
        return self._written(self._root)

    def kept(self, keeps: Sequence[Keep]) -> tuple[bytes, str]:
        """Returns what is kept, and the position of a step that matched nothing; empty: all matched."""
        found: list[Any] = [self._root]
        missing = ""
        for keep in keeps:
            matches: list[Any] = []
            for one in found:
                for expression in keep.expressions:
                    assert isinstance(expression, XPathExpression)
                    matches += [] if isinstance(one, str) else self._found(expression, one)
            found = keep.cut(matches)
            missing = missing or ("" if found or keep.optional else keep.field)
        lines = [" ".join(one.split()).encode() if isinstance(one, str) else self._written(one) for one in found]
        return b"\n".join(lines), missing

    def _found(self, expression: XPathExpression, context: Any) -> list[Any]:
        """Returns what the expression matches in the context; if that is nothing, what it matches by local names.

        First elements of the root's namespace count as having none (`//entry` in Atom), then all (`//creator`).
        """
        found = expression.evaluate(context)
        if found and found not in _NOTHING:
            return found
        for copies, originals in self._copies():
            matches = expression.evaluate(copies[context])
            if matches and matches not in _NOTHING:
                self._by_local_names = True
                return [one if isinstance(one, str) else originals[one] for one in matches]
        return found

    def _copies(self) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
        """Returns the copies without namespaces: of each element its copy, and the other way round."""
        namespace = self._root.tag.rpartition("}")[0]
        if self._bare is None:
            self._bare = []
            few = sum(1 for _ in islice(self._root.iter("*"), _COPIED_MAX + 1)) <= _COPIED_MAX
            for one in ((namespace, None) if namespace else (None,)) if few else ():
                copy = deepcopy(self._root)
                copies = dict(zip(self._root.iter("*"), copy.iter("*"), strict=True))
                for element in copies.values():
                    prefix, _, name = element.tag.rpartition("}")
                    element.tag = name if one in (None, prefix) else element.tag
                self._bare.append((copies, {copied: original for original, copied in copies.items()}))
        return self._bare

    def _written(self, element: Any) -> bytes:
        return _pretty(element, bare=self._by_local_names)


def _pretty(element: Any, *, bare: bool) -> bytes:
    """Returns the element by itself, without the namespaces that the document declares for other elements.

    bare: also without those of its own.
    """
    from lxml import etree

    alone = deepcopy(element)
    for one in alone.iter("*") if bare else ():
        one.tag = one.tag.rpartition("}")[2]
    etree.cleanup_namespaces(alone)
    etree.indent(alone)
    written: bytes = etree.tostring(alone, encoding="utf-8", with_tail=False)
    return written.strip()


# PDF. pdfium is not safe in threads: call it in a process of its own only.

PAGES_MAX = 2_000
CHARACTERS_MAX = 20_000_000
_BREAKS = re.compile(r"\r\n?|\x0c")


def is_pdf(body: bytes, content_type: str | None) -> bool:
    """Returns whether a body is a PDF document, by its type or its first bytes."""
    return (content_type or "").partition(";")[0].strip().lower() == "application/pdf" or body[:5] == b"%PDF-"


def pdf_text(body: bytes, password: str | None = None) -> bytes:
    """Returns the text of all pages as UTF-8, without empty lines; `password` opens an encrypted document.

    Raises ValueError if the document cannot be read, SelectionLimitError if it has too many pages or characters.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body, password=password)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD:
            which = "a pdf_password" if password is None else "another pdf_password"
            raise ValueError(f"the PDF document is encrypted, and needs {which}") from None
        raise ValueError(f"not a PDF document that can be read: {error}") from error
    try:
        if len(document) > PAGES_MAX:
            raise SelectionLimitError("page", "pages of PDF", PAGES_MAX)
        return _texts(document)
    finally:
        document.close()


def _texts(document: object) -> bytes:
    lines: list[str] = []
    size = 0
    for page in document:  # type: ignore[attr-defined]
        text = _BREAKS.sub("\n", page.get_textpage().get_text_range())
        size += len(text)
        if size > CHARACTERS_MAX:
            raise SelectionLimitError("page", "characters of PDF", CHARACTERS_MAX)
        lines += [line.strip() for line in text.split("\n")]
        page.close()
    return "\n".join(filter(None, lines)).encode("utf-8", "replace")
