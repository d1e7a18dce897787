"""CSS selectors, run by lexbor: checked when set, with the character at which something is wrong."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from pollerd.detection.selection.expressions.refusal import Refusal, checked_source

# Pseudo-classes that are supported, and hints for those that are not.

_CONTAINS = 'write ":lexbor-contains(\\"…\\")" or use lines.keep'
PLAIN = frozenset(
    (
        *("any-link", "blank", "checked", "disabled", "empty", "enabled", "first-child", "first-of-type", "last-child"),
        *("last-of-type", "link", "only-child", "only-of-type", "optional", "placeholder-shown", "read-only"),
        *("read-write", "required", "root"),
    )
)
"""Pseudo-classes without brackets."""
OF_SELECTORS = frozenset(("has", "is", "not", "where"))
"""Pseudo-classes with selectors in brackets."""
COUNTED = frozenset(("nth-child", "nth-last-child", "nth-last-of-type", "nth-of-type"))
"""Pseudo-classes with a count in brackets."""
CONTAINS = "lexbor-contains"
_NOT_CSS = {
    **dict.fromkeys(("contains", "-soup-contains", "-soup-contains-own", "has-text", "icontains"), _CONTAINS),
    **dict.fromkeys(("first",), "set limit: 1 beside it"),
    **dict.fromkeys(("eq", "gt", "lt", "last", "nth"), 'write ":nth-child(…)", or set skip and limit beside it'),
    **dict.fromkeys(("even", "odd"), 'write ":nth-child(even)" or ":nth-child(odd)"'),
    **dict.fromkeys(("matches", "any", "-webkit-any", "-moz-any"), 'write ":is(…)"'),
    **dict.fromkeys(("text", "attr"), "the text is taken of what is kept; a value has its field attribute"),
    **dict.fromkeys(("visible", "hidden"), "name what is hidden by class or attribute"),
}
_STATES = frozenset(
    (
        *("active", "autofill", "current", "default", "focus", "focus-visible", "focus-within", "fullscreen", "future"),
        *("hover", "in-range", "indeterminate", "invalid", "local-link", "modal", "open", "out-of-range", "past"),
        *("paused", "playing", "popover-open", "target", "target-within", "user-invalid", "user-valid", "valid"),
        *("visited",),
    )
)
_OTHERS = {
    "scope": "leave it out: the page is what is searched",
    "lang": 'write "[lang=…]"',
    "dir": 'write "[dir=…]"',
    "defined": "leave it out",
    "host": "leave it out",
}


def pseudo_class_reason(name: str, given: str) -> str:
    """Returns why a pseudo-class is refused, and the way out. `name` is its lower case, `given` as written."""
    if name in _NOT_CSS:
        return f'":{given}" is not CSS; {_NOT_CSS[name]}'
    if name in _STATES:
        return f'":{given}" is a state in a browser, which a page as fetched does not have; leave it out'
    if name in _OTHERS:
        return f'":{given}" is not understood; {_OTHERS[name]}'
    if name in OF_SELECTORS:
        return f'":{given}" needs a selector in brackets'
    if name in COUNTED:
        return f'":{given}" needs a count in brackets: 2, odd, even or 2n+1'
    if name == CONTAINS:
        return f'":{given}" needs a text in brackets'
    return f'":{given}" is not understood; name what is meant by tag, class or attribute'


# A scanner of identifiers, strings and white space of CSS, which knows its position.

_SPACE = re.compile(r"(?:[ \t\r\n\f]|/\*(?:[^*]|\*(?!/))*\*/)+")
_ESCAPE = r"\\(?:[0-9a-fA-F]{1,6}[ \t\r\n\f]?|[^0-9a-fA-F\r\n\f])"
_IDENTIFIER = re.compile(rf"(?:--|-?(?:[a-zA-Z_]|[^\x00-\x7f]|{_ESCAPE}))(?:[a-zA-Z0-9_-]|[^\x00-\x7f]|{_ESCAPE})*")
_LIKE_IDENTIFIER = re.compile(r"[\w-]+")


class CssScanner:
    """A selector and a place in it. What is left open at its end is closed there, with a warning, as in browsers."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal, self.text, self.at = refusal, refusal.source, 0
        self.warnings: list[str] = []

    @property
    def sign(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def space(self) -> bool:
        """Skips white space and comments; returns whether there were any."""
        found = _SPACE.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        if self.text.startswith("/*", self.at):
            self.refusal.at(self.at, '"/*" is never closed')
        return found is not None

    def take(self, sign: str) -> bool:
        """Skips a sign if it is next; returns whether it was."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def identifier(self, reason: str) -> str:
        """Returns the identifier that is next; refuses with the reason where there is none."""
        found = _IDENTIFIER.match(self.text, self.at)
        if found is None:
            begun = _LIKE_IDENTIFIER.match(self.text, self.at)
            hint = f'; a name cannot begin like "{begun[0][:20]}": write [id="…"] or [class~="…"]' if begun else ""
            self.refusal.at(self.at if begun else max(self.at - 1, 0), reason + hint)
        self.at = found.end()
        return found[0]

    def has_identifier(self) -> bool:
        """Returns whether an identifier is next."""
        return _IDENTIFIER.match(self.text, self.at) is not None

    def string(self) -> None:
        """Skips a text in quotes."""
        opened, quote = self.at, self.sign
        self.at += 1
        while self.at < len(self.text):
            sign = self.sign
            if sign in "\r\n\f":
                self.refusal.at(self.at, f"a line ends within the text that {quote} opens")
            self.at += 2 if sign == "\\" else 1
            if sign == quote:
                return
        if self.at > len(self.text):
            self.refusal.at(len(self.text) - 1, r'a single "\" at the end; write \\')
        self.left_open(opened)

    def close(self, sign: str, opened: int, reason: str) -> None:
        """Skips what closes a bracket; at the end it may be left out; refuses anything else."""
        self.space()
        if self.at >= len(self.text):
            self.left_open(opened)
        elif not self.take(sign):
            self.refusal.at(self.at, reason)

    def left_open(self, opened: int) -> None:
        """Warns of what is left open at the end."""
        self.warnings.append(f'character {opened + 1}: "{self.text[opened]}" is left open; it is closed at the end')


# The check of a selector: the part of Selectors Level 4 that the engine (lexbor) understands.

MAX_DEPTH, MAX_ALTERNATIVES, MAX_CHEAP = 10, 100, 20
"""Maximum depth of brackets; number of selectors; number of parts (tags, classes, …) that is cheap."""
_COUNT = re.compile(
    r"[ \t\r\n\f]*(?:even|odd|[+-]?\d{0,9}n(?:[ \t\r\n\f]*[+-][ \t\r\n\f]*\d{1,9})?|[+-]?\d{1,9})", re.I
)
_NAMESPACE = 'namespaces are not understood; leave out what stands before "|"'
_ODD = {
    "@": "attributes are not selected; a value has its field attribute",
    "/": "this is no CSS; a path with / is for xpath",
    "$": "this is no CSS; a path with $ is for jsonpath",
    "&": "nesting is not understood; write the selector in full",
    "|": _NAMESPACE,
    "<": "this is no CSS; a tag is written without < and >",
    "{": "only the selector is wanted, without { and what follows",
    "!": '"!" is not CSS; write ":not(…)"',
}


class CssParser:
    """Reads a selector from left to right; `cheap` and `warnings` tell what was found."""

    def __init__(self, scanner: CssScanner) -> None:
        self._scan, self.cheap, self.alternatives, self._parts = scanner, True, 0, 0

    def parse(self) -> None:
        """Reads all of it. Raises `InvalidValueError`."""
        self._list("", relative=False, depth=0)
        self.cheap = self.cheap and self._parts <= MAX_CHEAP

    def _list(self, closing: str, relative: bool, depth: int) -> None:
        scan = self._scan
        while True:
            self.alternatives += 1
            if self.alternatives > MAX_ALTERNATIVES:
                scan.refusal.at(scan.at, f"more than {MAX_ALTERNATIVES} selectors; use several steps")
            self._complex(relative, depth)
            if scan.take(","):
                continue
            if scan.at >= len(scan.text) or (closing and scan.sign == closing):
                return
            self._unexpected()

    def _complex(self, relative: bool, depth: int) -> None:
        """Compounds and combinators, up to a comma, a closing bracket or the end."""
        scan = self._scan
        scan.space()
        if relative and scan.sign and scan.sign in ">+~":
            scan.at += 1
            scan.space()
        self._compound(depth)
        while True:
            spaced = scan.space()
            if not scan.sign or scan.sign in ",)":
                return
            if scan.sign in ">+~":
                self.cheap = self.cheap and scan.sign == ">"
                scan.at += 1
                scan.space()
            elif not spaced:
                self._unexpected()
            self._compound(depth)

    def _compound(self, depth: int) -> None:
        scan = self._scan
        start = scan.at
        if not scan.take("*") and scan.has_identifier():
            scan.identifier("")
        if scan.sign == "|":
            scan.refusal.at(scan.at, _NAMESPACE)
        self._parts += scan.at > start
        while scan.sign and scan.sign in "#.[:":
            self._parts += 1
            self._simple(scan.sign, depth)
        if scan.at == start:
            self._missing()

    def _simple(self, sign: str, depth: int) -> None:
        scan = self._scan
        opened = scan.at
        scan.at += 1
        if sign == "#":
            scan.identifier('"#" needs an ID')
        elif sign == ".":
            scan.identifier('"." needs a class')
        elif sign == "[":
            self._attribute(opened)
        else:
            self.cheap = False
            self._pseudo(opened, depth)

    def _attribute(self, opened: int) -> None:
        scan = self._scan
        scan.space()
        if scan.sign in ("|", "*"):
            scan.refusal.at(scan.at, _NAMESPACE)
        if not scan.has_identifier() and (not scan.sign or not (scan.sign.isalnum() or scan.sign == "-")):
            scan.refusal.at(opened, '"[" needs an attribute name')
        scan.identifier('"[" needs an attribute name')
        if scan.sign == "|" and not scan.text.startswith("|=", scan.at):
            scan.refusal.at(scan.at, _NAMESPACE)
        scan.space()
        if scan.sign in ("]", ""):
            scan.close("]", opened, "")
            return
        if scan.text.startswith("!=", scan.at):
            scan.refusal.at(scan.at, '"!=" is not CSS; write ":not([…=…])"')
        if scan.sign in "~|^$*":
            scan.at += 1
        if not scan.take("="):
            scan.refusal.at(scan.at, "after an attribute come =, ~=, |=, ^=, $=, *= or ]")
        self._attribute_value()
        scan.close("]", opened, '"[" has to be closed by "]" here')

    def _attribute_value(self) -> None:
        scan = self._scan
        scan.space()
        if scan.sign in ("'", '"'):
            scan.string()
        elif scan.has_identifier():
            scan.identifier("")
        else:
            scan.refusal.at(min(scan.at, len(scan.text) - 1), "the value of an attribute needs quotes")
        if scan.space() and scan.sign and scan.sign in "iIsS":
            scan.at += 1

    def _pseudo(self, opened: int, depth: int) -> None:
        scan = self._scan
        if scan.sign == ":":
            scan.refusal.at(
                opened, '"::" names no element of a page; its text is taken, a value has its field attribute'
            )
        given = scan.identifier('":" needs a name')
        name = given.lower()
        if scan.sign == "(":
            self._function(name, given, opened, depth)
        elif name not in PLAIN:
            scan.refusal.at(opened, pseudo_class_reason(name, given))

    def _function(self, name: str, given: str, opened: int, depth: int) -> None:
        scan = self._scan
        bracket = scan.at
        scan.at += 1
        if depth >= MAX_DEPTH:
            scan.refusal.at(bracket, f"more than {MAX_DEPTH} brackets within each other")
        if name in OF_SELECTORS:
            scan.space()
            if scan.sign in (")", ""):
                scan.refusal.at(opened, pseudo_class_reason(name, given))
            self._list(")", relative=name == "has", depth=depth + 1)
        elif name in COUNTED:
            self._count(name, given, opened, depth)
        elif name == CONTAINS:
            self._text(given, opened)
        else:
            scan.refusal.at(opened, pseudo_class_reason(name, given))
        scan.close(")", bracket, '"(" has to be closed by ")" here')

    def _count(self, name: str, given: str, opened: int, depth: int) -> None:
        scan = self._scan
        found = _COUNT.match(scan.text, scan.at)
        if found is None:
            scan.refusal.at(opened, pseudo_class_reason(name, given))
        scan.at = found.end()
        if scan.space() and scan.text[scan.at : scan.at + 3].lower() == "of ":
            if not name.endswith("-child"):
                scan.refusal.at(scan.at, f'":{given}" takes no selectors; ":nth-child(… of …)" does')
            scan.at += 3
            self._list(")", relative=False, depth=depth + 1)

    def _text(self, given: str, opened: int) -> None:
        scan = self._scan
        scan.space()
        if scan.sign in ("'", '"'):
            scan.string()
        elif scan.has_identifier():
            scan.identifier("")
        else:
            scan.refusal.at(opened, f'":{given}" needs a text in quotes')
        if scan.space() and scan.sign in ("i", "I"):
            scan.at += 1

    def _missing(self) -> None:
        """Refuses a place at which a tag, class, … has to stand."""
        scan = self._scan
        before = scan.text[: scan.at].rstrip()
        if scan.sign in _ODD or (scan.sign and scan.sign not in ",>+~)"):
            self._unexpected()
        if not before:
            scan.refusal.at(scan.at, f'"{scan.sign}" needs a selector before it')
        scan.refusal.at(len(before) - 1, f'"{before[-1]}" needs a selector after it')

    def _unexpected(self) -> None:
        scan = self._scan
        sign = scan.sign
        reason = _ODD.get(sign, f'"{sign}" cannot stand here')
        if sign and sign.isdigit():
            reason = "a name cannot begin with a digit"
        scan.refusal.at(min(scan.at, len(scan.text) - 1), reason)


_KIND = "a CSS selector"


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
        return list({node.mem_id: node for node in tree.css(self.selector)}.values())

    def __reduce__(self) -> tuple[object, ...]:
        return (compile_css, (self.field, self.selector))

    def __repr__(self) -> str:
        return f"CssSelector({self.selector!r})"


def compile_css(field: str, selector: object) -> CssSelector:
    """Returns a checked selector.

    Raises `InvalidValueError`: it is no selector of 1 to 1,000 characters, or one that cannot be run; names the
    character and the way out.
    """
    source = checked_source(field, _KIND, selector)
    refusal = Refusal(field, _KIND, source)
    scanner = CssScanner(refusal)
    parser = CssParser(scanner)
    parser.parse()
    try:
        LexborHTMLParser("<p>").css(source)
    except SelectolaxError:
        refusal.at(None, "the engine (lexbor) does not understand it")
    return CssSelector(field, source, parser.cheap, tuple(scanner.warnings))
