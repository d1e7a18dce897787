"""Bounds of one rendering: steps of loops, sizes of texts, lists and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from pollerd.notifications.templates.error import TemplateError

MOST_CHARACTERS = 200_000
"""Of a text made within a template, and of what it renders."""
MOST_ITEMS = 100_000
MOST_STEPS = 100_000
"""LoopSteps of all loops of one rendering together."""
_MOST_BITS = 256


class LoopSteps:
    """Counts the steps of all loops of one rendering."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def counted(self, items: Iterable[Any]) -> Iterable[Any]:
        """Returns the items of a loop. Raises TemplateError: they are too many, at once where their number is known."""
        if isinstance(items, Sized):
            self._spend(len(items))
            return items
        return self._one_by_one(items)

    def _one_by_one(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._spend(1)
            yield item

    def _spend(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise TemplateError(f"more than {MOST_STEPS:,} steps of loops")


def bounded(value: Any) -> Any:
    """Returns a value. Raises TemplateError: it is too long."""
    if isinstance(value, str):
        if len(value) > MOST_CHARACTERS:
            raise TemplateError(f"a text of more than {MOST_CHARACTERS:,} characters")
    elif isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise TemplateError("a number with too many digits")
    elif isinstance(value, Sized) and len(value) > MOST_ITEMS:
        raise TemplateError(f"a list of more than {MOST_ITEMS:,} items")
    return value


def check_operation(operator: str, left: Any, right: Any) -> None:
    """Raises TemplateError if the result would be too large to be computed first and checked after."""
    if operator == "%" and isinstance(left, str):
        raise TemplateError("texts are put together by ~, not by %")
    if operator == "**":
        if isinstance(left, int) and isinstance(right, int) and right * max(left.bit_length(), 1) > _MOST_BITS:
            raise TemplateError("a number with too many digits")
    elif operator == "*":
        for some, times in ((left, right), (right, left)):
            if isinstance(some, str | list | tuple) and isinstance(times, int) and len(some) * times > MOST_ITEMS:
                raise TemplateError("a repetition that is too long")
