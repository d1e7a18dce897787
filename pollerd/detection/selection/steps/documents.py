"""Selection steps on feeds (items and their fields), JSON and XML documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from pollerd.detection import media
from pollerd.detection.feed import Feed, FeedEntry, json_feed, xml_feed
from pollerd.detection.html import MAX_WORK, is_entity_bomb, is_tag_bomb
from pollerd.detection.selection.document import known_table, one_of, one_or_more
from pollerd.detection.selection.expressions.jsonpath import JsonPath
from pollerd.detection.selection.expressions.pattern import Pattern, compile_pattern
from pollerd.detection.selection.expressions.xpath import XPathExpression, parse_xml
from pollerd.detection.selection.steps.page import Expression, Keep
from pollerd.detection.selection.values.currencies import CODES
from pollerd.errors import SelectionLimitError
from pollerd.texts import _

FIELDS = ("title", "link", "summary", "content")
_PATTERNS_MAX = 100


@dataclass(frozen=True, slots=True)
class FeedItems:
    """The items that count, and their fields."""

    fields: tuple[str, ...] = ()
    """The fields that are kept, in this order; none: all, as without a selection."""
    where: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()
    """Each field must fit one of its patterns."""

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


def compile_items(field: str, value: object) -> FeedItems:
    """Compiles `{"fields": ["title", ...], "where": {"title": pattern or list}}`. Raises InvalidValueError."""
    settings: Mapping[str, Any] = known_table(field, value, ("fields", "where"))
    fields: tuple[str, ...] = ()
    if "fields" in settings:
        names = one_or_more(f"{field}.fields", settings["fields"], len(FIELDS))
        fields = tuple(one_of(f"{field}.fields[{i}]", name, FIELDS) for i, name in enumerate(names))
    where = []
    for name, patterns in known_table(f"{field}.where", settings.get("where", {}), FIELDS).items():
        at = f"{field}.where.{name}"
        many = isinstance(patterns, list)
        compiled = [
            compile_pattern(f"{at}[{i}]" if many else at, pattern)
            for i, pattern in enumerate(one_or_more(at, patterns, _PATTERNS_MAX))
        ]
        where.append((name, tuple(compiled)))
    return FeedItems(tuple(dict.fromkeys(fields)), tuple(where))


def read_feed(text: bytes, reader: int) -> Feed | None:
    """Returns a feed of any kind; None if it is none."""
    return xml_feed(text, reader) if text.lstrip()[:1] == b"<" else json_feed(text, reader)


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


def without_json(text: bytes, removals: Iterable[Expression]) -> bytes:
    """Returns a JSON document without what the paths select. Raises SelectionLimitError if that takes too long."""
    value = media.parsed(text)
    for path in removals:
        assert isinstance(path, JsonPath)
        path.remove(value)
    return orjson.dumps(value)


def kept_of_json(text: bytes, keeps: Sequence[Keep]) -> tuple[bytes, str]:
    """Returns what is kept, and the position of a step that matched nothing; empty: all matched.

    One match is written bare, several as a list, each step's matches one after the other. `text` is a JSON document.
    """
    kept: list[Any] = [media.parsed(text)]
    missing = ""
    for keep in keeps:
        matches = []
        for value in kept:
            for expression in keep.expressions:
                assert isinstance(expression, JsonPath)
                matches += expression.find(value)
        kept = keep.cut(matches)
        missing = missing or ("" if kept or keep.optional else keep.field)
    return _written(kept), missing


_CURRENCY_KEYS = ("priceCurrency", "currency", "currencyCode", "currency_code")
_BARE_NUMBER = re.compile(r"\s*-?[0-9]+(?:\.[0-9]+)?\s*")


def texts_in_json(text: bytes, path: JsonPath, *, with_currency: bool = False) -> list[str]:
    """Returns the matches of a path as texts; what is no text or number as JSON.

    with_currency: a bare number has the currency behind it that stands beside it, as `priceCurrency` in JSON-LD.
    """
    texts = []
    for value, holder in path.find_held(media.parsed(text)):
        shown = value if isinstance(value, str) else orjson.dumps(value).decode()
        if with_currency and isinstance(holder, dict) and _BARE_NUMBER.fullmatch(shown):
            beside = (holder.get(key) for key in _CURRENCY_KEYS)
            code = next((part.strip().upper() for part in beside if isinstance(part, str)), "")
            shown = f"{shown.strip()} {code}" if code in CODES else shown
        texts.append(shown)
    return texts


def _written(values: list[Any]) -> bytes:
    if not values:
        return b""
    if len(values) > 1:
        return orjson.dumps(values, option=_CANONICAL)
    value = values[0]
    return value.encode("utf-8", "replace") if isinstance(value, str) else orjson.dumps(value, option=_CANONICAL)


# XML: elements removed and kept by XPath, written with one element a line.


_COPIED_MAX = 50_000
"""Elements of the longest document that is also read by local names."""
_NOTHING = ([""], ["0"], ["false"], ["NaN"])
"""Results of expressions that yield no elements, where they found none."""


class XmlDocument:
    """One XML document, from which steps remove and keep elements."""

    def __init__(self, xml: bytes, *, by_local_names: bool = True) -> None:
        """`xml` is UTF-8. by_local_names: whether what matches nothing as it is written is tried by these.

        Raises ValueError if it is not XML, SelectionLimitError if it cannot be read safely.
        """
        if is_tag_bomb(xml) or is_entity_bomb(xml):
            raise SelectionLimitError(
                "page", _("steps over open elements, or bytes of entities, to parse it"), MAX_WORK
            )
        self._root = parse_xml(xml)
        if self._root is None:
            raise ValueError(_("it has no element that can be read"))
        self._tries_local_names, self._by_local_names = by_local_names, False
        """Whether an expression matched by local names alone."""
        self._bare: list[tuple[dict[Any, Any], dict[Any, Any]]] | None = None

    def texts_at(self, expression: Expression, attribute: str | None) -> list[str]:
        """Returns the text of what an XPath matches, each on one line, or an attribute where it is there."""
        assert isinstance(expression, XPathExpression)
        texts = []
        for match in self._found(expression, self._root):
            if isinstance(match, str):
                texts.append(match)
            elif attribute is None:
                texts.append("".join(match.itertext()))
            elif attribute in match.attrib:
                texts.append(match.attrib[attribute])
        return [" ".join(text.split()) for text in texts]

    def remove(self, expressions: Iterable[Expression]) -> None:
        """Removes what the expressions match."""
        for expression in expressions:
            assert isinstance(expression, XPathExpression)
            for element in self._found(expression, self._root):
                if not isinstance(element, str) and (parent := element.getparent()) is not None:
                    parent.remove(element)
                    self._bare = None

    def whole(self) -> bytes:
        """Returns the document with an element a line."""
        return self._written(self._root)

    def kept(self, keeps: Sequence[Keep]) -> tuple[bytes, str]:
        """Returns what is kept, and the position of a step that matched nothing; empty: all matched."""
        kept: list[Any] = [self._root]
        missing = ""
        for keep in keeps:
            matches: list[Any] = []
            for node in kept:
                for expression in keep.expressions:
                    assert isinstance(expression, XPathExpression)
                    matches += [] if isinstance(node, str) else self._found(expression, node)
            kept = keep.cut(matches)
            missing = missing or ("" if kept or keep.optional else keep.field)
        lines = [" ".join(node.split()).encode() if isinstance(node, str) else self._written(node) for node in kept]
        return b"\n".join(lines), missing

    def _found(self, expression: XPathExpression, context: Any) -> list[Any]:
        """Returns what the expression matches in the context; if that is nothing, what it matches by local names.

        First elements of the root's namespace count as having none (`//entry` in Atom), then all (`//creator`).
        """
        nodes = expression.evaluate(context)
        if not self._tries_local_names or (nodes and nodes not in _NOTHING):
            return nodes
        for copies, originals in self._copies():
            matches = expression.evaluate(copies[context])
            if matches and matches not in _NOTHING:
                self._by_local_names = True
                return [match if isinstance(match, str) else originals[match] for match in matches]
        return nodes

    def _copies(self) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
        """Returns the copies without namespaces: of each element its copy, and the other way round."""
        namespace = self._root.tag.rpartition("}")[0]
        if self._bare is None:
            self._bare = []
            few = sum(1 for _element in islice(self._root.iter("*"), _COPIED_MAX + 1)) <= _COPIED_MAX
            for uri in ((namespace, None) if namespace else (None,)) if few else ():
                copy = deepcopy(self._root)
                copies = dict(zip(self._root.iter("*"), copy.iter("*"), strict=True))
                for element in copies.values():
                    prefix, _brace, name = element.tag.rpartition("}")
                    element.tag = name if uri in (None, prefix) else element.tag
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
    for nested in alone.iter("*") if bare else ():
        nested.tag = nested.tag.rpartition("}")[2]
    etree.cleanup_namespaces(alone)
    etree.indent(alone)
    written: bytes = etree.tostring(alone, encoding="utf-8", with_tail=False)
    return written.strip()
