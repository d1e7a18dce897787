"""Selects from XML: elements removed and kept by XPath, written with one element a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from pollerd.detection.parser_bombs import MOST_WORK, is_entity_bomb, is_tag_bomb
from pollerd.detection.selection.expressions.xpath import XPathExpression, parse_xml
from pollerd.detection.selection.steps.elements import Expression, Keep
from pollerd.errors import SelectionLimitError


class XmlDocument:
    """One XML document, from which steps remove and keep elements."""

    def __init__(self, xml: bytes) -> None:
        """`xml` is UTF-8. Raises ValueError if it is not XML, SelectionLimitError if it cannot be read safely."""
        if is_tag_bomb(xml) or is_entity_bomb(xml):
            raise SelectionLimitError("page", "steps over open elements, or bytes of entities, to parse it", MOST_WORK)
        self._root = parse_xml(xml)
        if self._root is None:
            raise ValueError("it has no element that can be read")

    def texts_at(self, expression: Expression, attribute: str | None) -> list[str]:
        """Returns the text of what an XPath matches, each on one line, or an attribute where it is there."""
        assert isinstance(expression, XPathExpression)
        texts = []
        for one in expression.evaluate(self._root):
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
            for found in expression.evaluate(self._root):
                if not isinstance(found, str) and (parent := found.getparent()) is not None:
                    parent.remove(found)

    def whole(self) -> bytes:
        """Returns the document with an element a line."""
        return _pretty(self._root)

    def kept(self, keeps: Sequence[Keep]) -> tuple[bytes, str]:
        """Returns what is kept, and the position of a step that matched nothing; empty: all matched."""
        found: list[Any] = [self._root]
        missing = ""
        for keep in keeps:
            matches: list[Any] = []
            for one in found:
                for expression in keep.expressions:
                    assert isinstance(expression, XPathExpression)
                    matches += [] if isinstance(one, str) else expression.evaluate(one)
            found = keep.cut(matches)
            missing = missing or ("" if found or keep.optional else keep.field)
        return b"\n".join(" ".join(one.split()).encode() if isinstance(one, str) else _pretty(one) for one in found), (
            missing
        )


def _pretty(element: Any) -> bytes:
    """Returns the element by itself, without the namespaces that the document declares for other elements."""
    from lxml import etree

    alone = deepcopy(element)
    etree.cleanup_namespaces(alone)
    etree.indent(alone)
    written: bytes = etree.tostring(alone, encoding="utf-8", with_tail=False)
    return written.strip()
