"""Selects from feeds: which items, and which of their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pollerd.detection.feed import FeedEntry, json_entries, xml_entries
from pollerd.detection.selection.document import known_table, one_of, one_or_more
from pollerd.detection.selection.expressions.pattern import Pattern, compile_pattern

FIELDS = ("title", "link", "summary", "content")
_PATTERNS_MAX = 100


@dataclass(frozen=True, slots=True)
class FeedItems:
    """The items that count, and their fields."""

    fields: tuple[str, ...] = ()
    """The fields that are kept, in this order; none: id, title, newest date and summary, as without a selection."""
    where: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()
    """Each field must fit one of its patterns."""

    @property
    def full_text(self) -> bool:
        """Whether the content of items is needed."""
        return "content" in self.fields or any(field == "content" for field, _ in self.where)

    def kept(self, entries: Sequence[FeedEntry]) -> tuple[FeedEntry, ...]:
        """Returns the items that count, in their order."""
        return tuple(
            entry
            for entry in entries
            if all(any(one.search(_field(entry, name)) for one in patterns) for name, patterns in self.where)
        )

    def lines(self, entries: Sequence[FeedEntry]) -> bytes:
        """Returns the chosen fields of each item, separated by tabs, a line each, sorted."""
        lines = {"\t".join(_field(entry, name) for name in self.fields) for entry in entries}
        return "\n".join(sorted(lines)).encode("utf-8", "replace")


def compile_items(field: str, given: object) -> FeedItems:
    """Compiles `{"fields": ["title", ...], "where": {"title": pattern or list}}`. Raises InvalidValueError."""
    found: Mapping[str, Any] = known_table(field, given, ("fields", "where"))
    fields: tuple[str, ...] = ()
    if "fields" in found:
        names = one_or_more(f"{field}.fields", found["fields"], len(FIELDS))
        fields = tuple(one_of(f"{field}.fields[{i}]", name, FIELDS) for i, name in enumerate(names))
    where = []
    for name, patterns in known_table(f"{field}.where", found.get("where", {}), FIELDS).items():
        at = f"{field}.where.{name}"
        many = isinstance(patterns, list)
        compiled = [
            compile_pattern(f"{at}[{i}]" if many else at, one)
            for i, one in enumerate(one_or_more(at, patterns, _PATTERNS_MAX))
        ]
        where.append((name, tuple(compiled)))
    return FeedItems(tuple(dict.fromkeys(fields)), tuple(where))


def feed_entries(text: bytes, *, full_text: bool) -> tuple[FeedEntry, ...] | None:
    """Returns the items of a feed of any kind, in order; None if it is none."""
    if text.lstrip()[:1] == b"<":
        return xml_entries(text, full_text=full_text)
    return json_entries(text, full_text=full_text)


def _field(entry: FeedEntry, name: str) -> str:
    match name:
        case "title":
            return entry.title
        case "link":
            return entry.link
        case "content":
            return entry.full_text or entry.text
        case _:
            return entry.text
