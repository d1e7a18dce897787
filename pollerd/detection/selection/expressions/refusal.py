"""Refuses an expression, with its field, the character, the reason and the way out."""

from __future__ import annotations

from typing import NoReturn

from pollerd.errors import InvalidValueError
from pollerd.texts import _

MAX_CHARACTERS = 1_000
"""Maximum length of an expression."""


class Refusal:
    """Raises the errors of one expression: `kind` is what it has to be, for example "a CSS selector"."""

    def __init__(self, field: str, kind: str, source: str) -> None:
        self.field, self.kind, self.source = field, kind, source

    def at(self, index: int | None, reason: str) -> NoReturn:
        """Raises `InvalidValueError` for the character at an index from 0; None: for the whole."""
        field = self.field
        if index is not None:
            field = _("{field}, character {position}", field=field, position=index + 1)
        raise InvalidValueError(field, f"{self.kind}: {reason}", self.source)


def checked_source(field: str, kind: str, value: object) -> str:
    """Returns an expression that is a text of 1 to 1,000 characters, none of them NUL or half of a surrogate pair.

    Raises `InvalidValueError` for all else.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_CHARACTERS or not value.strip():
        raise InvalidValueError(
            field, _("{kind} of 1 to {max_characters:,} characters", kind=kind, max_characters=MAX_CHARACTERS), value
        )
    for index, sign in enumerate(value):
        if sign == "\0" or "\ud800" <= sign <= "\udfff":
            Refusal(field, kind, value).at(index, _("NUL and halves of surrogate pairs cannot be in it"))
    return value
