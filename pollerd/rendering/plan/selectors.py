"""Checks CSS selectors before a browser has to: whatever cannot be one is refused, with its position."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from pollerd.errors import InvalidValueError

MAX_SELECTOR_LENGTH = 1_000
_OPEN, _CLOSE = "([", ")]"
_ALLOWED = "a CSS selector"


def checked_selector(field: str, given: object) -> str:
    """Returns a CSS selector. Raises `InvalidValueError` naming field and character, counted from 1."""
    if not isinstance(given, str) or not given.strip():
        raise InvalidValueError(field, _ALLOWED, given)
    if len(given) > MAX_SELECTOR_LENGTH:
        raise InvalidValueError(field, f"{_ALLOWED} of at most {MAX_SELECTOR_LENGTH} characters", given)
    found = _fault(given)
    if found is not None:
        position, reason = found
        raise InvalidValueError(f"{field}, character {position + 1}", f"{_ALLOWED}: {reason}", given)
    if not _readable(given):
        raise InvalidValueError(field, _ALLOWED, given)
    return given.strip()


def _fault(text: str) -> tuple[int, str] | None:
    """Returns where brackets, quotes or combinators cannot be, and why."""
    opened: list[int] = []
    quote_at: int | None = None
    at = 0
    while at < len(text):
        c = text[at]
        if c < " " or c == "\x7f":
            return at, "it holds a control character"
        if c == "\\":
            at += 2
            continue
        if quote_at is not None:
            quote_at = None if c == text[quote_at] else quote_at
        elif c in "\"'":
            quote_at = at
        elif (fault := _bracket_fault(text, at, opened)) is not None:
            return at, fault
        at += 1
    if quote_at is not None:
        return quote_at, "this quote is never closed"
    return (opened[-1], f"this {text[opened[-1]]} is never closed") if opened else None


def _bracket_fault(text: str, at: int, opened: list[int]) -> str | None:
    """Keeps track of open brackets; returns why the character cannot be there."""
    c = text[at]
    if c in _OPEN:
        opened.append(at)
    elif c in _CLOSE:
        if not opened or _OPEN.index(text[opened[-1]]) != _CLOSE.index(c):
            return f"this {c} closes nothing"
        opened.pop()
    elif c in "{}<;@":
        return f"{c} stands for nothing in one"
    elif c == ">" and text[at + 1 : at + 2] == ">":
        return ">> stands for nothing in one"
    return None


def _readable(text: str) -> bool:
    """Whether a parser takes it. Browsers know pseudo-classes that it does not: those pass."""
    try:
        LexborHTMLParser("<p></p>").css(text)
    except SelectolaxError:
        plain = re.sub(r"::?[a-zA-Z-]+(\([^()]*(\([^()]*\)[^()]*)*\))?", "", text)
        if plain == text or not plain.strip():
            return plain != text
        try:
            LexborHTMLParser("<p></p>").css(plain)
        except SelectolaxError:
            return False
    return True
