"""The least size of a change: smaller ones are no changes."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.detection.selection.conditions.change_size import ChangeSize, change_size
from pollerd.detection.selection.document import known_keys, share, table, whole_number

MOST_CHARS = 100_000_000


@dataclass(frozen=True, slots=True)
class Least:
    """A change is reached by at least `chars` characters that are at least `share` (0 to 1) of the larger content."""

    chars: int = 1
    share: float = 0.0

    def reached(self, before: str, after: str) -> bool:
        """Returns whether the change between two contents is that large. Equal contents never reach it."""
        return before != after and self.reached_by(change_size(before, after))

    def reached_by(self, size: ChangeSize) -> bool:
        """Returns whether a change of this size is that large."""
        return size.chars >= max(1, self.chars) and size.share >= self.share


def parse_least(field: str, document: object) -> Least:
    """Returns the least size that a document says: `{"chars": 20, "share": 0.01}`; absent, any difference.

    Both must be reached where both are given. Raises `InvalidValueError` with the field.
    """
    if document is None:
        return Least()
    given = table(field, document, "a table with chars, share, or both")
    known_keys(field, given, ("chars", "share"), "a table with chars, share, or both")
    chars, part = given.get("chars"), given.get("share")
    return Least(
        chars=1 if chars is None else whole_number(f"{field}.chars", chars, 0, MOST_CHARS),
        share=0.0 if part is None else share(f"{field}.share", part),
    )
