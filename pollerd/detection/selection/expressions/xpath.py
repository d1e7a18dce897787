"""XPath 1.0, run by libxml2 (lxml): no other documents, no variables, no prefixes, no extension functions.

An evaluation may take time quadratic in the page, or more: it belongs beside the event loop, under a time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pollerd.detection.selection.expressions.refusal import Refusal, checked_source
from pollerd.errors import InvalidValueError
from pollerd.texts import N_, _

# The check of an expression: functions, prefixes and variables, which libxml2 checks only when it evaluates.

MAX_DEPTH = 30
"""Maximum depth of brackets."""
_ARGUMENTS = {
    "last": (0, 0),
    "position": (0, 0),
    "count": (1, 1),
    "id": (1, 1),
    "local-name": (0, 1),
    "namespace-uri": (0, 1),
    "name": (0, 1),
    "string": (0, 1),
    "concat": (2, 99),
    "starts-with": (2, 2),
    "contains": (2, 2),
    "substring-before": (2, 2),
    "substring-after": (2, 2),
    "substring": (2, 3),
    "string-length": (0, 1),
    "normalize-space": (0, 1),
    "translate": (3, 3),
    "boolean": (1, 1),
    "not": (1, 1),
    "true": (0, 0),
    "false": (0, 0),
    "lang": (1, 1),
    "number": (0, 1),
    "sum": (1, 1),
    "floor": (1, 1),
    "ceiling": (1, 1),
    "round": (1, 1),
}
"""XPath 1.0's 27 functions, and how many arguments they take."""
_NODE_TESTS = frozenset(("text", "node", "comment", "processing-instruction"))
_LATER = {
    **dict.fromkeys(("lower-case", "upper-case"), N_("Use translate()")),
    "matches": N_("Use contains(), or lines.keep with re"),
    "replace": N_("Use the step replace"),
    "ends-with": N_("Use contains(), or substring() with string-length()"),
    **dict.fromkeys(("string-join", "tokenize"), N_("Select the parts, and use replace")),
    "distinct-values": N_("Use the step unique"),
    "exists": N_("Use boolean()"),
    "empty": N_("Use not()"),
    **dict.fromkeys(("abs", "avg", "max", "min"), N_("Use values with which")),
    **dict.fromkeys(("if", "for", "some", "every", "return", "let"), N_("Write the cases with | and [ ]")),
    **dict.fromkeys(("data", "head", "tail", "subsequence", "reverse", "sort"), N_("Use skip, limit and sort")),
    **dict.fromkeys(("string-to-codepoints", "codepoints-to-string", "compare", "index-of"), N_("Use lines.keep")),
    **dict.fromkeys(
        ("current-date", "current-dateTime", "parse-json", "json-doc", "unparsed-text"), N_("Leave it out")
    ),
    **dict.fromkeys(("doc", "doc-available", "collection", "root"), N_("Other documents are never read")),
}
_XSLT = frozenset(
    (
        *("current", "document", "element-available", "format-number", "function-available", "generate-id", "key"),
        *("system-property", "unparsed-entity-uri"),
    )
)
_NAME = r"[^\W\d][\w.-]*"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)|(?P<string>"[^"]*"|'[^']*')|(?P<axis>{_NAME})\s*::|(?P<prefixed>({_NAME}|\*):({_NAME}|\*))"""
    rf"""|(?P<call>{_NAME})\s*\(|(?P<name>{_NAME})|(?P<sign>.)""",
    re.DOTALL,
)


def check_xpath(refusal: Refusal) -> None:
    """Raises `InvalidValueError` for what XPath 1.0 does not know or what may not be used."""
    calls: list[tuple[str, int]] = []
    commas: list[int] = []
    empty: list[bool] = []
    for token in _TOKEN.finditer(refusal.source):
        kind, at = str(token.lastgroup), token.start()
        if kind == "space":
            continue
        sign = token["sign"]
        if empty and sign != ")":
            empty[-1] = False
        if token["call"] is not None or sign == "(":
            calls.append((_called(token["call"], at, refusal) if token["call"] else "", at))
            commas.append(0)
            empty.append(True)
            if len(calls) > MAX_DEPTH:
                refusal.at(at, _("more than {max_depth} brackets within each other", max_depth=MAX_DEPTH))
        elif sign == ")" and calls:
            _check_arguments(*calls.pop(), 0 if empty.pop() else commas.pop() + 1, refusal)
            del commas[len(calls) :]
        elif sign == "," and commas:
            commas[-1] += 1
        else:
            _check_token(token, at, refusal)


_PREFIX = N_('prefix "{prefix}:" is not understood; write *[local-name()="…"], and no extension functions')


def _check_token(token: re.Match[str], at: int, refusal: Refusal) -> None:
    if token["prefixed"] is not None:
        prefix = token["prefixed"].split(":")[0]
        refusal.at(at, _(_PREFIX, prefix=prefix))
    if token["axis"] == "namespace":
        refusal.at(at, _("the axis namespace selects nothing of a page; leave it out"))
    if token["sign"] == "$":
        refusal.at(at, _("there are no variables; write the value"))
    if token["sign"] in ("'", '"'):
        refusal.at(at, _("the text that {sign} opens is never closed", sign=token["sign"]))


def _called(name: str, at: int, refusal: Refusal) -> str:
    """Returns the name of a function that there is; empty for operators before a bracket and for node tests."""
    if name in _NODE_TESTS or name in ("and", "or", "div", "mod"):
        return ""
    if name in _LATER:
        refusal.at(at, _('"{name}" is XPath 2; XPath 1.0 is understood. {later}', name=name, later=_(_LATER[name])))
    if name in _XSLT:
        refusal.at(at, _('"{name}" is XSLT; other documents and the style sheet do not exist here', name=name))
    if name not in _ARGUMENTS:
        refusal.at(
            at,
            _(
                '"{name}" is none of the functions of XPath 1.0: {arguments}',
                name=name,
                arguments=", ".join(sorted(_ARGUMENTS)),
            ),
        )
    return name


def _check_arguments(name: str, at: int, count: int, refusal: Refusal) -> None:
    if not name:
        if count > 1:
            refusal.at(at, _("a list in brackets is XPath 2; XPath 1.0 is understood. Write the parts with |"))
        return
    least, most = _ARGUMENTS[name]
    if not least <= count <= most:
        numbers = str(least) if least == most else f"{least} to {most}"
        refusal.at(at, _('"{name}" takes {numbers} arguments, not {count}', name=name, numbers=numbers, count=count))


_KIND = N_("an XPath 1.0 expression")


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
            result = self._run(tree)
        except etree.XPathError as error:
            raise InvalidValueError(
                self.field, _("{kind} that can be evaluated ({error})", kind=_(_KIND), error=error), self.expression
            ) from error
        if not isinstance(result, list):
            return [_as_text(result)]
        return result

    def __reduce__(self) -> tuple[object, ...]:
        return (compile_xpath, (self.field, self.expression))

    def __repr__(self) -> str:
        return f"XPathExpression({self.expression!r})"


def compile_xpath(field: str, expression: object) -> XPathExpression:
    """Returns a checked expression.

    Raises `InvalidValueError`: it is no XPath 1.0 expression of 1 to 1,000 characters; names the reason, and
    the character where that is known.
    """
    source = checked_source(field, _(_KIND), expression)
    refusal = Refusal(field, _(_KIND), source)
    check_xpath(refusal)
    from lxml import etree

    if not source.isprintable() and any(sign < " " and sign not in "\t\n\r" for sign in source):
        refusal.at(None, _("control characters cannot be in it"))
    try:
        run = etree.XPath(source, smart_strings=False)
        # Arguments of a wrong type show only when they are evaluated: most do on the smallest page.
        run(etree.fromstring("<html><body/></html>"))
    except etree.XPathError as error:
        refusal.at(None, _("{error}; XPath 1.0 is understood", error=str(error)[:80]))
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
