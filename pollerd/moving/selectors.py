"""Selectors of other programs: CSS, XPath, JSONPath and jq, each as a step of ours, or why not."""

from __future__ import annotations

import json
import re

from pollerd.texts import _

_CONTAINS = re.compile(r":(?:-soup-)?contains\(")
_XPATH_2 = re.compile(
    r"\b(matches|lower-case|upper-case|string-join|replace|tokenize|ends-with|distinct-values|for|if|some|every|exists"
    r"|empty|index-of|min|max|avg|abs|current-date|current-dateTime|format-date|serialize|parse-json)\s*(?:\(|\$)"
)
_EXSLT = re.compile(r"\b(re|regexp|str|set|math|exslt):[\w-]+\(")
_STEP = re.compile(r"(?:\*|[A-Za-z_][\w.-]*)(?![\w.:(-])")
_FROM_ROOT = re.compile(r"(?:^|\|)\s*/(?!/)|[(\[,=<>+]\s*/|\b(?:and|or|not)\s*\(?\s*/")
_STRING = re.compile(r"\"[^\"]*\"|'[^']*'")
_SEQUENCE = re.compile(r"^\s*\([^()]*,[^()]*\)\s*$")
_JQ_PATH = re.compile(r"\.(?P<name>[A-Za-z_]\w*)|\.?\[\"(?P<quoted>[^\"\\]*)\"\]|\.?\[(?P<index>-?\d*)\]")
_FILTER_WITHOUT_AT = re.compile(r"\[\?\s*\(?\s*(?=[A-Za-z_])")
_REGEX_MATCH = re.compile(r"(@[\w.\[\]'\"]*)\s*=~\s*(['\"])(.*?)\2")


def css(text: str) -> str:
    """Returns the CSS selector with the parser's own word for "contains"."""
    return _CONTAINS.sub(":lexbor-contains(", text.strip())


def css_lacking(text: str) -> str | None:
    """Returns why the CSS selector cannot be carried over; None if it can."""
    return None if text.strip() else _("is empty")


def css_as_xpath(selector: str, *, xml: bool = False) -> str | None:
    """Returns the XPath that matches the same elements of what it is evaluated at; None if there is none."""
    from cssselect import GenericTranslator, HTMLTranslator, SelectorError

    try:
        return str((GenericTranslator() if xml else HTMLTranslator()).css_to_xpath(selector.strip()))
    except SelectorError:
        return None


def xpath_within(expression: str) -> str | None:
    """Returns the XPath for an element that was kept as the whole page before: `//a` is below it, or it is it.

    None for a path from the page's root, and for what is more than paths.
    """
    if _FROM_ROOT.search(_STRING.sub('""', expression)):
        return None
    parts = []
    for path in (part.strip() for part in expression.split("|")):
        if path.count("[") != path.count("]") or path.count("(") != path.count(")"):
            return None
        parts.append(f".{path}" if path.startswith("//") else path)
        if path.startswith("//") and _STEP.match(path, 2):
            parts.append(f"self::{path[2:]}")
    return " | ".join(parts)


def xpath_lacking(text: str) -> str | None:
    """Returns why the expression is no XPath 1.0 as pollerd takes it; None if it may be."""
    if not text.strip():
        return _("is empty")
    plain = _STRING.sub('""', text)
    match = _XPATH_2.search(plain)
    if match:
        return _('"{match}" is XPath 2 or 3; XPath 1.0 is understood', match=match[1])
    match = _EXSLT.search(plain)
    if match:
        return _('functions of "{match}:" are extensions; XPath 1.0 is understood', match=match[1])
    if "=>" in plain or "||" in plain or _SEQUENCE.match(plain):
        return _("is XPath 2 or 3; XPath 1.0 is understood")
    return None


def jq_path(query: str) -> str | None:
    """Returns jq's path (`.a.b[0]`, `.a[]`, `.[] | .x`) as JSONPath; None for what is more than a path."""
    path = "$"
    for part in query.split("|"):
        keys = _path_of(part.strip())
        if keys is None:
            return None
        path += keys
    return path


def _path_of(part: str) -> str | None:
    if part in ("", "."):
        return "" if part else None
    rest, path = part, ""
    while rest:
        match = _JQ_PATH.match(rest)
        if match is None:
            return None
        name = match["name"] if match["name"] is not None else match["quoted"]
        path += f"[{json.dumps(name)}]" if name is not None else f"[{match['index'] or '*'}]"
        rest = rest[match.end() :]
    return path


def jsonpath(text: str) -> tuple[str | None, str]:
    """Returns (RFC 9535's spelling, what was changed), or (None, why not), of jsonpath-ng's expression."""
    path = text.strip()
    if not path:
        return None, _("is empty")
    if "`" in path or re.search(r"\[[/\\]", path):
        return None, _("extensions of its library (`len`, `sub`, sorting …) are no part of JSONPath (RFC 9535)")
    if path.startswith("@"):
        return None, _("begins with @")
    changed = []
    if not path.startswith("$"):
        path = f"$.{path}" if path[0] not in "[." else f"${path}"
        changed.append(_("$ put in front"))
    path, number = _FILTER_WITHOUT_AT.subn(lambda match: f"{match[0]}@.", path)
    if number:
        changed.append(_("@. put before the fields of filters"))
    path, number = _REGEX_MATCH.subn(r"search(\1, \2\3\2)", path)
    if number:
        changed.append(_("=~ written as search()"))
    path, number = re.subn(r"(?<!&)&(?!&)", "&&", path)
    if number:
        changed.append(_("& written as &&"))
    return path, ", ".join(changed)
