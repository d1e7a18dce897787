"""Selection steps on HTML: elements removed and kept, then their visible text, as `detection.html` reads a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from pollerd.detection.html import (
    HIDDEN_ELEMENTS,
    MAX_WORK,
    fold_white_space,
    is_block,
    is_tag_bomb,
    mark_blocks,
    remove_hidden,
    revealed,
    simplified,
    with_marks,
)
from pollerd.detection.selection.document import flag, known_table, one_or_more, shown, whole_number
from pollerd.detection.selection.expressions.css import CssSelector, compile_css
from pollerd.detection.selection.expressions.jsonpath import JsonPath, compile_jsonpath
from pollerd.detection.selection.expressions.xpath import XPathExpression, compile_xpath, parse_html
from pollerd.errors import InvalidValueError, SelectionLimitError
from pollerd.model import FIRST_READER, READER
from pollerd.texts import _

# Expressions of the steps, by CSS or XPath, compiled for pages and documents.

ALTERNATIVES_MAX = 50
"""Most expressions of one step."""
COUNT_MAX = 100_000

Expression = CssSelector | XPathExpression | JsonPath


@dataclass(frozen=True, slots=True)
class Keep:
    """One step that keeps parts: what any of the expressions matches, expression by expression."""

    field: str
    expressions: tuple[Expression, ...]
    optional: bool = False
    """Whether matching nothing is a state of the page, not a fault of the selection."""
    skip: int = 0
    """How many matches are left out at the start."""
    limit: int | None = None
    """The largest number of matches that stay; None: all."""

    def cut(self, candidates: list[Any]) -> list[Any]:
        """Returns the matches that stay."""
        end = None if self.limit is None else self.skip + self.limit
        return candidates[self.skip : end]

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its expressions: css, xpath, jsonpath."""
        return frozenset(map(kind_of, self.expressions))


def kind_of(expression: Expression) -> str:
    """Returns css, xpath or jsonpath."""
    if isinstance(expression, CssSelector):
        return "css"
    return "xpath" if isinstance(expression, XPathExpression) else "jsonpath"


def compile_keep(field: str, step: Mapping[str, Any]) -> Keep:
    """Compiles `{"keep": expression or list, "optional": false, "skip": 0, "limit": null}`.

    `field` is the position of the step. Raises InvalidValueError.
    """
    known_table(field, step, ("keep", "optional", "skip", "limit"))
    many = isinstance(step["keep"], list)
    expressions = tuple(
        compile_expression(f"{field}.keep[{i}]" if many else f"{field}.keep", expression, ("css", "xpath", "jsonpath"))
        for i, expression in enumerate(one_or_more(f"{field}.keep", step["keep"], ALTERNATIVES_MAX))
    )
    kinds = {kind_of(expression) for expression in expressions}
    if len(kinds) > 1 and "jsonpath" in kinds:
        raise InvalidValueError(f"{field}.keep", _("css and xpath for pages, or jsonpath for JSON"), sorted(kinds))
    limit = step.get("limit")
    return Keep(
        field,
        expressions,
        flag(f"{field}.optional", step.get("optional", False)),
        whole_number(f"{field}.skip", step.get("skip", 0), 0, COUNT_MAX),
        None if limit is None else whole_number(f"{field}.limit", limit, 1, COUNT_MAX),
    )


def compile_removals(field: str, value: object) -> Sequence[Expression]:
    """Compiles `{"css": ...}`, `{"xpath": ...}`, `{"jsonpath": ...}` or a list of them. Raises InvalidValueError."""
    many = isinstance(value, list)
    return [
        compile_expression(f"{field}[{i}]" if many else field, expression, ("css", "xpath", "jsonpath"))
        for i, expression in enumerate(one_or_more(field, value, ALTERNATIVES_MAX))
    ]


def compile_expression(field: str, value: object, allowed: Sequence[str]) -> Expression:
    """Compiles a table of one key, such as `{"css": "#price"}`. Raises InvalidValueError."""
    fields = known_table(field, value, allowed)
    if len(fields) != 1:
        raise InvalidValueError(field, _("a table with one of {allowed}", allowed=", ".join(allowed)), shown(value))
    ((name, expression),) = fields.items()
    if not isinstance(expression, str):
        raise InvalidValueError(f"{field}.{name}", _("a text"), shown(expression))
    match name:
        case "css":
            return compile_css(f"{field}.css", expression)
        case "xpath":
            return compile_xpath(f"{field}.xpath", expression)
        case _:
            return compile_jsonpath(f"{field}.jsonpath", expression)


_BREAK = "\f"
"""Ends a line, as block elements do; HTML takes it for white space."""
_CELL_END, _ROW_END = "\ufdd0", "\ufdd1"
"""End a cell that another follows, and the last of a row; noncharacters, which no page has in its text."""
_CELL_ENDS = re.compile(rf"\s*{_CELL_END}\s*")
_CELL_BYTES = _CELL_END.encode()
_MARKED = re.compile(rb"\f<")


class HtmlPage:
    """One HTML page, from which steps remove and keep elements, one after the other."""

    def __init__(self, html: bytes, reader: int = READER) -> None:
        """`html` is UTF-8. Raises SelectionLimitError if no parser can read it in a bounded time."""
        html = simplified(html)
        self._hides = reader != FIRST_READER
        self._html = mark_blocks(html if reader == FIRST_READER else revealed(html, keep=True))
        if is_tag_bomb(self._html):
            raise SelectionLimitError("page", _("steps over open elements to parse it"), MAX_WORK)
        self._tree: LexborHTMLParser | None = None
        self._language: str | None = None

    @property
    def tree(self) -> LexborHTMLParser:
        """The page as it is now, with `\\f` where a line begins or ends."""
        if self._tree is None:
            self._tree = LexborHTMLParser(self._html, scripting=True)
        return self._tree

    @property
    def language(self) -> str | None:
        """The language that the page states, such as `de-DE`."""
        root = self.tree.root
        return None if root is None else root.attributes.get("lang") or None

    def scripts(self, media_type: str) -> list[bytes]:
        """Returns the texts of scripts of this type, such as JSON-LD."""
        nodes = self.tree.css("script[type]")
        scripts = [node for node in nodes if (node.attributes.get("type") or "").strip().lower() == media_type]
        return [_MARKED.sub(b"<", (node.text_lexbor() or "").encode("utf-8", "replace")) for node in scripts]

    def texts_at(self, expression: Expression, attribute: str | None) -> list[str]:
        """Returns the text of what an expression matches, each on one line, or an attribute where it is there."""
        matches = self._matches(expression)
        texts = (_text_of(node) if attribute is None else _attribute_of(node, attribute) for node in matches)
        return [" ".join(folded(without_marks(text)).split()) for text in texts if text is not None]

    def remove(self, expressions: Iterable[Expression]) -> None:
        """Removes what the expressions match."""
        for expression in expressions:
            if isinstance(expression, CssSelector):
                for node in expression.select(self.tree):
                    node.decompose()
            elif isinstance(expression, XPathExpression):
                self._remove_by_xpath(expression)

    def show_links(self, base: str | None) -> None:
        """Writes the target of each link behind its text; `base` makes it absolute."""
        for node in self.tree.css("a[href]"):
            target = (node.attributes.get("href") or "").strip()
            if base is not None:
                target = _joined(base, target)
            if target:
                node.insert_child(f" ({target})")

    def mark_cells(self) -> None:
        """Has the cells of a table's row parted by tabs, and on one line each, also where one holds a block."""
        for node in self.tree.css("td, th"):
            after = node.next
            while after is not None and not after.is_element_node:
                after = after.next
            node.insert_child(_CELL_END if after is not None and after.tag in ("td", "th") else _ROW_END)

    def whole(self) -> bytes:
        """Returns the visible text of what is left of the page."""
        tree = self.tree
        if self._hides:
            remove_hidden(tree)
        tree.strip_tags(HIDDEN_ELEMENTS, recursive=True)
        return _lines([tree.root.text_lexbor() if tree.root is not None else ""])

    def kept(self, keeps: Sequence[Keep]) -> tuple[bytes, str]:
        """Returns the text of what is kept, and the position of a step that matched nothing; empty: all matched."""
        first, *rest = keeps
        kept = first.cut([match for expression in first.expressions for match in self._matches(expression)])
        missing = "" if kept or first.optional else first.field
        for keep in rest:
            kept = keep.cut(_within(kept, keep.expressions))
            missing = missing or ("" if kept or keep.optional else keep.field)
        return _lines([_text_of(node) for node in kept]), missing

    def _matches(self, expression: Expression) -> list[Any]:
        if isinstance(expression, CssSelector):
            return list(expression.select(self.tree))
        assert isinstance(expression, XPathExpression)
        root = parse_html(_unmarked(self.tree))
        return [] if root is None else list(expression.evaluate(root))

    def _remove_by_xpath(self, expression: XPathExpression) -> None:
        from lxml import etree

        tree = parse_html(_unmarked(self.tree))
        if tree is None:
            return
        for node in expression.evaluate(tree):
            if not isinstance(node, str) and (parent := node.getparent()) is not None:
                _keep_tail(node, parent)
                parent.remove(node)
        html = etree.tostring(tree, encoding="utf-8", method="html")
        self._tree = LexborHTMLParser(mark_blocks(simplified(html)), scripting=True)


def folded(text: str) -> str:
    """Returns text with white space folded, a line per block."""
    return fold_white_space(text.encode("utf-8", "replace")).decode()


def without_marks(text: str) -> str:
    """Returns a text for a value, without signs of what is chosen or struck out."""
    return with_marks(text.encode("utf-8", "replace"), shown=False).decode()


def _within(nodes: Sequence[Any], expressions: Sequence[Expression]) -> list[Any]:
    """Returns what the expressions match below, or at, what was found."""
    matches: list[Any] = []
    for node in nodes:
        for expression in expressions:
            if isinstance(expression, CssSelector) and not isinstance(node, str):
                matches += expression.select(node)
            elif isinstance(expression, XPathExpression) and not isinstance(node, str):
                matches += expression.evaluate(node)
    return matches


def _lines(texts: Iterable[str]) -> bytes:
    text = with_marks(_BREAK.join(texts).encode("utf-8", "replace")).decode()
    if _CELL_END not in text and _ROW_END not in text:
        return fold_white_space(text.encode("utf-8", "replace"))
    text = _CELL_ENDS.sub(_CELL_END, text).replace(_ROW_END, _BREAK)
    rows = fold_white_space(text.encode("utf-8", "replace")).replace(_CELL_BYTES, b"\t").split(b"\n")
    return b"\n".join(row.rstrip(b"\t") for row in rows if row.strip())


def _text_of(match: Any) -> str:
    if isinstance(match, str):
        return match
    if hasattr(match, "text_lexbor"):
        return _lexbor_text(match)
    return "".join(_lxml_texts(match))


def _lexbor_text(node: Any) -> str:
    hidden = ", ".join(HIDDEN_ELEMENTS)
    if node.tag not in HIDDEN_ELEMENTS and node.css_first(hidden) is not None:
        node.strip_tags(HIDDEN_ELEMENTS, recursive=True)
    return node.text_lexbor() or ""


def _lxml_texts(element: Any) -> Iterable[str]:
    """Yields the texts of an element in order, iteratively: a page may be nested very deep."""
    from lxml import etree

    hidden = 0
    for event, node in etree.iterwalk(element, events=("start", "end")):
        name = node.tag if isinstance(node.tag, str) else ""
        outside = name in HIDDEN_ELEMENTS or not name
        if event == "start":
            hidden += outside
            if is_block(name):
                yield _BREAK
            if not hidden and node.text:
                yield node.text
            continue
        hidden -= outside
        if is_block(name):
            yield _BREAK
        elif name in ("td", "th"):
            yield " "
        if node is not element and not hidden and node.tail:
            yield node.tail


def _attribute_of(match: Any, name: str) -> str | None:
    if isinstance(match, str):
        return None
    attributes: Mapping[str, str | None] = match.attributes if hasattr(match, "text_lexbor") else match.attrib
    return attributes.get(name.lower())


def _unmarked(tree: LexborHTMLParser) -> bytes:
    return (tree.html or "").replace("\f", " ").encode("utf-8", "replace")


def _keep_tail(element: Any, parent: Any) -> None:
    if not element.tail:
        return
    before = element.getprevious()
    if before is None:
        parent.text = (parent.text or "") + element.tail
    else:
        before.tail = (before.tail or "") + element.tail


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return target
