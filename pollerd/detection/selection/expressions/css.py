"""CSS selectors, run by lexbor, and checked by it when they are set.

lexbor ignores a selector that it cannot read within `:is()`, `:where()` and `:has()`, so each of them is checked by
itself. It accepts namespaces and states of a browser, which match nothing in a fetched page: they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from pollerd.detection.selection.expressions.refusal import Refusal, checked_source
from pollerd.texts import N_, _

MAX_DEPTH, MAX_ALTERNATIVES, MAX_CHEAP = 10, 100, 20
"""Maximum depth of brackets; number of selectors; number of parts (tags, classes, …) that is cheap."""

# Pseudo-classes that are supported, and hints for those that are not, and for signs that are not CSS.

_PLAIN = frozenset(
    (
        *("any-link", "blank", "checked", "disabled", "empty", "enabled", "first-child", "first-of-type", "last-child"),
        *("last-of-type", "link", "only-child", "only-of-type", "optional", "placeholder-shown", "read-only"),
        *("read-write", "required", "root"),
    )
)
"""Pseudo-classes without brackets."""
_LISTS = frozenset(("has", "is", "not", "where"))
_COUNTED = frozenset(("nth-child", "nth-last-child", "nth-last-of-type", "nth-of-type"))
_IN_BRACKETS = {
    **dict.fromkeys(_LISTS, "a selector"),
    **dict.fromkeys(_COUNTED, N_("a count (2, odd, even or 2n+1)")),
    "lexbor-contains": "a text",
}
"""Pseudo-classes with brackets, and what is in them."""
_OTHER_PSEUDO = N_("is not supported; name the elements by tag, class or attribute")
_PSEUDO_HINTS = {
    **dict.fromkeys(
        ("contains", "-soup-contains", "-soup-contains-own", "has-text", "icontains"),
        N_('is not CSS; write ":lexbor-contains(\\"…\\")" or use lines.keep'),
    ),
    "": N_("needs a name"),
    "first": N_("is not CSS; set limit: 1 next to it"),
    **dict.fromkeys(
        ("eq", "gt", "lt", "last", "nth"), N_('is not CSS; write ":nth-child(…)", or set skip and limit next to it')
    ),
    **dict.fromkeys(("even", "odd"), N_('is not CSS; write ":nth-child(even)" or ":nth-child(odd)"')),
    **dict.fromkeys(("matches", "any", "-webkit-any", "-moz-any"), N_('is not CSS; write ":is(…)"')),
    **dict.fromkeys(("text", "attr"), N_("is not CSS; text is taken anyway, and a value has its field attribute")),
    **dict.fromkeys(("visible", "hidden"), N_("is not CSS; name the hidden elements by class or attribute")),
    **dict.fromkeys(
        (
            *("active", "autofill", "current", "default", "focus", "focus-visible", "focus-within", "fullscreen"),
            *("future", "hover", "in-range", "indeterminate", "invalid", "local-link", "modal", "open", "out-of-range"),
            *("past", "paused", "playing", "popover-open", "target", "target-within", "user-invalid", "user-valid"),
            *("valid", "visited"),
        ),
        N_("is a state in a browser, which a fetched page does not have; remove it"),
    ),
    **dict.fromkeys(("scope", "defined", "host"), N_("is not supported; remove it")),
    **dict.fromkeys(("lang", "dir"), N_('is not supported; write it as an attribute, for example "[lang=…]"')),
}
_NOT_CSS = (
    (r"!=", N_('"!=" is not CSS; write ":not([…=…])"')),
    (r"!", N_('"!" is not CSS; write ":not(…)"')),
    (r"@", N_("attributes cannot be selected; a value has its field attribute")),
    (r"/", N_("this is not CSS; a path with / is for xpath")),
    (r"\$(?!=)", N_("this is not CSS; a path with $ is for jsonpath")),
    (r"&", N_("nesting is not supported; write the whole selector")),
    (r"\|(?!=)", N_('namespaces are not supported; leave out what is before "|"')),
    (r"<", N_("this is not CSS; a tag is written without < and >")),
    (r"[{}]", N_("write only the selector, without { and what follows")),
    (
        r"[#.]-?(?=[\d\s#.:,>+~*()\[\]]|$)",
        N_('no ID or class begins like this; if it does, write [id="…"] or [class~="…"]'),
    ),
    (r"(?<==)\s*-?\d", N_("the value of an attribute needs quotes")),
    (r"\[\s*(?=[\]=]|$)", N_('"[" needs an attribute name')),
    (r"[(,]\s*(?=[,)]|$)", N_("something is missing behind this")),
    (r"[>+~]\s*(?=[,)>+~]|$)", N_("a selector is missing behind this")),
    (r"^\s*[>+~]", N_("a selector cannot begin with this")),
)
_NOT_CSS_PATTERN = re.compile("|".join(f"({pattern})" for pattern, _refusal in _NOT_CSS), re.A)


# The check. Strings, escapes and comments are masked first, so that every other sign means what it says.

_MASKED = re.compile(
    r"""(?P<comment>/\*(?:[^*]|\*(?!/))*(?P<ended>\*/)?)
    |(?P<text>"(?:[^"\\\r\n\f]|\\[\s\S])*(?P<closed>")?|'(?:[^'\\\r\n\f]|\\[\s\S])*(?P<closed_too>')?)
    |\\(?:[0-9a-fA-F]{1,6}[ \t\r\n\f]?|[\s\S])""",
    re.X,
)
_ATTRIBUTE = re.compile(r"\[[^\]]*\]?")
_PSEUDO_CLASS = re.compile(r"(?P<colons>::?)(?P<name>[\w-]*)(?P<bracket>\(?)")
_INNERMOST = re.compile(r"\((?P<inside>[^()]*)(?P<closed>\)|$)")
_COUNT = re.compile(
    r"\s*(?:even|odd|[+-]?\d{0,9}n(?:\s*[+-]\s*\d{1,9})?|[+-]?\d{1,9})(?:(?P<of>\s+of\s)|\s*$)", re.A | re.I
)
_PART = re.compile(r"\[|\*|[.#]?[^\s.#,>\[*]+", re.A)


class _Check:
    """Checks one selector; `cheap` and `warnings` are its results."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal, self._source, self._engine = refusal, refusal.source, LexborHTMLParser("<p>")
        self.warnings: list[str] = []
        self._number = 0
        if (len(self._source) - len(self._source.rstrip("\\"))) % 2:
            refusal.at(len(self._source) - 1, _(r'a single "\" at the end; write \\'))
        plain = _MASKED.sub(self._mask, self._source)
        unknown = _NOT_CSS_PATTERN.search(plain)
        if unknown is not None and unknown.lastindex is not None:
            refusal.at(unknown.start(), _(_NOT_CSS[unknown.lastindex - 1][1]))
        plain = _ATTRIBUTE.sub(self._mask_attribute, plain)
        self.cheap = not set(":+~") & set(plain) and len(_PART.findall(plain)) <= MAX_CHEAP
        for match in _PSEUDO_CLASS.finditer(plain):
            self._check_pseudo_class(match)
        self._check_depth(plain)
        while (innermost := _INNERMOST.search(plain)) is not None:
            colon = max(plain.rfind(":", 0, innermost.start()), 0)
            self._check_bracket(plain[colon : innermost.start()].lower(), colon, innermost)
            plain = plain[:colon] + "'" * (innermost.end() - colon) + plain[innermost.end() :]
        self._check_list(plain, 0, relative=False)

    def _mask(self, match: re.Match[str]) -> str:
        """Returns as many characters that mean nothing."""
        if match["comment"]:
            if not match["ended"]:
                self._refusal.at(match.start(), _('"/*" is never closed'))
            return " " * len(match[0])
        if match["text"] and not (match["closed"] or match["closed_too"]):
            if match.end() < len(self._source):
                self._refusal.at(match.end(), _("a line ends within the text that {match} opens", match=match[0][0]))
            self._warn_of_open(match.start())
        return ("'" if match["text"] else "x") * len(match[0])

    def _mask_attribute(self, match: re.Match[str]) -> str:
        if not match[0].endswith("]"):
            self._warn_of_open(match.start())
        return "[".ljust(len(match[0]), "x")

    def _warn_of_open(self, at: int) -> None:
        self.warnings.append(
            _('character {at}: "{source}" is left open; it is closed at the end', at=at + 1, source=self._source[at])
        )

    def _check_pseudo_class(self, match: re.Match[str]) -> None:
        name = match["name"].lower()
        if match["colons"] == "::":
            hint = _('"::" does not name an element: select the element itself; its text is taken anyway')
            self._refusal.at(match.start(), hint)
        if name in _IN_BRACKETS and not match["bracket"]:
            self._refusal.at(
                match.start(),
                _('":{name}" needs {in_brackets} in brackets', name=match["name"], in_brackets=_(_IN_BRACKETS[name])),
            )
        if name not in (_IN_BRACKETS if match["bracket"] else _PLAIN):
            hint = _(_PSEUDO_HINTS.get(name, _OTHER_PSEUDO))
            self._refusal.at(match.start(), _('":{name}" {hint}', name=match["name"], hint=hint))

    def _check_depth(self, plain: str) -> None:
        depth = 0
        for at, sign in enumerate(plain):
            depth += (sign == "(") - (sign == ")")
            if depth > MAX_DEPTH:
                self._refusal.at(at, _("more than {max_depth} brackets within each other", max_depth=MAX_DEPTH))

    def _check_bracket(self, name: str, colon: int, match: re.Match[str]) -> None:
        """Checks the selectors in an innermost bracket. name: of its pseudo-class, with the colon before it."""
        inside, start = match["inside"], match.start("inside")
        if not name.startswith(":") or name[1:] not in _IN_BRACKETS:
            self._refusal.at(match.start(), _('"(" can only be behind a pseudo-class, for example :not(…)'))
        if not match["closed"]:
            self._warn_of_open(match.start())
        if name[1:] in _COUNTED:
            count = _COUNT.match(inside)
            if count is None or (count["of"] and name.endswith("-of-type")):
                self._refusal.at(
                    colon,
                    _('"{name}" needs {in_brackets} in brackets', name=name, in_brackets=_(_IN_BRACKETS[name[1:]])),
                )
            if count["of"]:
                self._check_list(inside[count.end() :], start + count.end(), relative=False)
        elif name[1:] in _LISTS:
            self._check_list(inside, start, relative=name == ":has")

    def _check_list(self, plain: str, start: int, *, relative: bool) -> None:
        """Lets lexbor check each selector of a list, which begins at `start`. relative: a combinator may come first."""
        for part in plain.split(","):
            self._number += 1
            if self._number > MAX_ALTERNATIVES:
                self._refusal.at(
                    start,
                    _("more than {max_alternatives} selectors; use several steps", max_alternatives=MAX_ALTERNATIVES),
                )
            selector = self._source[start : start + len(part)]
            if relative and part.lstrip().startswith((">", "+", "~")):
                selector = f"*{selector}"
            try:
                self._engine.css(selector)
            except SelectolaxError:
                self._refusal.at(
                    min(start, len(self._source) - 1), _("{selector!r} is no selector", selector=selector.strip()[:40])
                )
            start += len(part) + 1


_KIND = N_("a CSS selector")
_PATH = re.compile(r"([^,]*?[^,\\])((?: > [a-z][a-z0-9]*:nth-of-type\([1-9][0-9]{0,5}\))+)")
"""A selector that ends with a path of positions, which takes lexbor time quadratic in the number of siblings."""
_STEP = re.compile(r" > ([a-z][a-z0-9]*):nth-of-type\(([0-9]+)\)")


def _below(node: LexborNode, steps: Iterable[tuple[str, str]]) -> list[LexborNode]:
    """Returns the element at the end of a path of positions: of each step a tag, and its place among those alike."""
    for tag, place in steps:
        alike = (child for child in node.iter() if child.tag == tag)
        child = next(islice(alike, int(place) - 1, None), None)
        if child is None:
            return []
        node = child
    return [node]


class CssSelector:
    """A checked selector. Pure; pickled as its text."""

    def __init__(self, field: str, selector: str, cheap: bool, warnings: tuple[str, ...]) -> None:
        self.field, self.selector, self.warnings = field, selector, warnings
        """Where it was set; as it was set; what a user should know about it."""
        self.cheap = cheap
        """Whether it has only tags, IDs, classes, attributes, `>`, descendants and commas, and few of them: its time is
        linear in the page, so that small pages may be searched in the event loop. Others may be quadratic."""

    def select(self, tree: LexborHTMLParser) -> list[LexborNode]:
        """Returns the elements that it matches, in document order, each once."""
        path = _PATH.fullmatch(self.selector)
        begun = list({node.mem_id: node for node in tree.css(self.selector if path is None else path[1])}.values())
        if path is None or not begun:
            return begun
        if len(begun) > 1:  # what is below them might have another order
            return list({node.mem_id: node for node in tree.css(self.selector)}.values())
        return _below(begun[0], _STEP.findall(path[2]))

    def __reduce__(self) -> tuple[object, ...]:
        return (compile_css, (self.field, self.selector))

    def __repr__(self) -> str:
        return f"CssSelector({self.selector!r})"


def compile_css(field: str, selector: object) -> CssSelector:
    """Returns a checked selector.

    Raises `InvalidValueError`: it is no selector of 1 to 1,000 characters, or one that cannot be run; names the
    character and the way out.
    """
    source = checked_source(field, _(_KIND), selector)
    check = _Check(Refusal(field, _(_KIND), source))
    return CssSelector(field, source, check.cheap, tuple(check.warnings))
