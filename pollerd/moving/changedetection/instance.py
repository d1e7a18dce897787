"""What is known of an installation: its watches, groups and settings, wherever they were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pollerd.moving.moved import StoredResult

Item = dict[str, object]


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch with what lies beside it."""

    uuid: str
    fields: Item
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of its headers.txt."""
    result: StoredResult | None = None
    """What it kept last."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Everything that was read of an installation."""

    watches: list[Watch]
    groups: Mapping[str, Item]
    """Tags by uuid: each may hold fields of a watch."""
    settings: Item | None
    """None: not readable (the API does not show them)."""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """(what, why) of what could not be read."""


def table(raw: object) -> Item:
    """Returns a table with names that are texts; empty, where it is none."""
    return {str(name): value for name, value in raw.items()} if isinstance(raw, Mapping) else {}


def texts(value: object) -> list[str]:
    """Returns the texts of a list that are not empty."""
    entries = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    return [entry for entry in entries if isinstance(entry, str) and entry.strip()]
