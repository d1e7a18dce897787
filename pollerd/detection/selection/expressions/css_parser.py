"""Checks a CSS selector: the part of Selectors Level 4 that the engine (lexbor) understands."""

from __future__ import annotations

import re

from pollerd.detection.selection.expressions.css_hints import (
    CONTAINS,
    COUNTED,
    OF_SELECTORS,
    PLAIN,
    pseudo_class_reason,
)
from pollerd.detection.selection.expressions.css_scanner import CssScanner

MOST_DEPTH, MOST_ALTERNATIVES, MOST_CHEAP = 10, 100, 20
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
        self.cheap = self.cheap and self._parts <= MOST_CHEAP

    def _list(self, closing: str, relative: bool, depth: int) -> None:
        scan = self._scan
        while True:
            self.alternatives += 1
            if self.alternatives > MOST_ALTERNATIVES:
                scan.refusal.at(scan.at, f"more than {MOST_ALTERNATIVES} selectors; use several steps")
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
        if depth >= MOST_DEPTH:
            scan.refusal.at(bracket, f"more than {MOST_DEPTH} brackets within each other")
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
