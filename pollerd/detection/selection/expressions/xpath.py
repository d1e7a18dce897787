"""XPath 1.0, run by libxml2 (lxml): no other documents, no variables, no prefixes, no extension functions.

An evaluation may take time quadratic in the page, or more: it belongs beside the event loop, under a time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pollerd.detection.selection.expressions.refusal import Refusal, checked_source
from pollerd.detection.selection.expressions.xpath_check import check_xpath
from pollerd.errors import InvalidValueError

_KIND = "an XPath 1.0 expression"


class XPathExpression:
    """A checked expression. Pure; pickled as its text."""

    def __init__(self, field: str, expression: str, run: Callable[[Any], Any]) -> None:
        self.field, self.expression = field, expression
        """Where it was set; as it was set."""
        self._run = run

    def evaluate(self, tree: Any) -> list[Any]:
        """Returns elements and texts in document order; a text, number or truth value as one text, as string() does.

        `tree` is an element of `parse_html` or `parse_xml`.

        Raises `InvalidValueError`: types do not fit, and that shows only on this page: `count("a")` behind a condition.
        """
        from lxml import etree

        try:
            found = self._run(tree)
        except etree.XPathError as error:
            raise InvalidValueError(self.field, f"{_KIND} that can be evaluated ({error})", self.expression) from error
        if not isinstance(found, list):
            return [_as_text(found)]
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return (compile_xpath, (self.field, self.expression))

    def __repr__(self) -> str:
        return f"XPathExpression({self.expression!r})"


def compile_xpath(field: str, expression: object) -> XPathExpression:
    """Returns a checked expression.

    Raises `InvalidValueError`: it is no XPath 1.0 expression of 1 to 1,000 characters; names the reason, and
    the character where that is known.
    """
    source = checked_source(field, _KIND, expression)
    refusal = Refusal(field, _KIND, source)
    check_xpath(refusal)
    from lxml import etree

    if not source.isprintable() and any(sign < " " and sign not in "\t\n\r" for sign in source):
        refusal.at(None, "control characters cannot be in it")
    try:
        run = etree.XPath(source, smart_strings=False)
        # Arguments of a wrong type show only when they are evaluated: most do on the smallest page.
        run(etree.fromstring("<html><body/></html>"))
    except etree.XPathError as error:
        refusal.at(None, f"{str(error)[:80]}; XPath 1.0 is understood")
    return XPathExpression(field, source, run)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value.is_integer() else f"{value:.15f}".rstrip("0")


def parse_html(text: bytes) -> Any:
    """Returns the root element of a page in UTF-8, or None where there is nothing in it.

    Comments and processing instructions are left out, so that the text around them is one. Errors are passed over. What
    is nested deeper than libxml2 allows (about 250 elements) is lost. Nothing is loaded.
    """
    from lxml import etree

    parser = etree.HTMLParser(
        encoding="utf-8", recover=True, no_network=True, huge_tree=False, remove_comments=True, remove_pis=True
    )
    return _root(text, parser)


def parse_xml(text: bytes) -> Any:
    """Returns the root element of a document in UTF-8, or None where it cannot be read.

    Entities other than XML's five are not resolved, no DTD is loaded; comments and processing instructions are left
    out. Errors are passed over as far as possible.
    """
    from lxml import etree

    parser = etree.XMLParser(
        encoding="utf-8",
        recover=True,
        no_network=True,
        huge_tree=False,
        resolve_entities=False,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        remove_comments=True,
        remove_pis=True,
    )
    return _root(text, parser)


def _root(text: bytes, parser: Any) -> Any:
    from lxml import etree

    if not text.strip():
        return None
    try:
        return etree.fromstring(text, parser)
    except etree.XMLSyntaxError:
        return None
