"""Reads identifiers, strings and white space of CSS, and knows where it is."""

from __future__ import annotations

import re

from pollerd.detection.selection.expressions.refusal import Refusal

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
