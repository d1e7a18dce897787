"""Copies that are kept for a day, so that what was deleted or marked can be undone. Times are epoch seconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from pollerd.errors import NotFoundError
from pollerd.storage.schema import kept_copy
from pollerd.texts import N_

UNDO_SECONDS = 86_400.0
"""Time for which copies are kept."""


class KeptKind(StrEnum):
    """Kinds of copies."""

    RULE = "rule"
    """A deleted rule."""
    CHANNEL = "channel"
    """A deleted channel."""
    SEEN = "seen"
    """Changes that a reader marked as read, or as unread."""
    COUNTS = "counts"
    """What counts on a site, before and after an edit."""


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A copy as stored."""

    id: int
    kind: KeptKind
    title: str
    """Name of the rule or channel; empty: it has none."""
    document: Mapping[str, Any]
    kept_at: float
    reader: str = ""
    """Only this reader sees it; empty: all do."""
    secrets: bytes | None = field(default=None, repr=False)
    """Encrypted, as they were."""


def keep(
    connection: Connection,
    kind: KeptKind,
    title: str,
    document: Mapping[str, Any],
    now: float,
    *,
    reader: str = "",
    secrets: bytes | None = None,
) -> None:
    """Keeps a copy. Of the marks of a reader only the last one is kept."""
    c = kept_copy.c
    if kind is KeptKind.SEEN:
        connection.execute(delete(kept_copy).where(c.kind == kind.value, c.reader == reader))
    values = {"kind": kind.value, "title": title, "document": json.dumps(document), "kept_at": now}
    connection.execute(insert(kept_copy).values(**values, reader=reader, secrets=secrets))


def kept_copies(connection: Connection, kinds: Iterable[KeptKind], now: float, reader: str = "") -> list[KeptCopy]:
    """Returns the copies of these kinds that can still be undone, newest first."""
    c = kept_copy.c
    fitting = (c.kind.in_([kind.value for kind in kinds]), c.kept_at > now - UNDO_SECONDS, c.reader == reader)
    return [_copy(row) for row in connection.execute(select(kept_copy).where(*fitting).order_by(c.id.desc()))]


def taken_copy(
    connection: Connection, copy_id: int, kinds: Iterable[KeptKind], now: float, reader: str = ""
) -> KeptCopy:
    """Returns a copy, and keeps it no longer. Raises `NotFoundError`, also if it was undone or is a day old."""
    for copy in kept_copies(connection, kinds, now, reader):
        if copy.id == copy_id:
            connection.execute(delete(kept_copy).where(kept_copy.c.id == copy_id))
            return copy
    raise NotFoundError(N_("undo"), copy_id)


def forget_copies(connection: Connection, now: float) -> None:
    """Deletes copies that cannot be undone any more."""
    connection.execute(delete(kept_copy).where(kept_copy.c.kept_at < now - UNDO_SECONDS))


def _copy(row: Any) -> KeptCopy:
    return KeptCopy(
        id=row.id,
        kind=KeptKind(row.kind),
        title=row.title,
        document=json.loads(row.document),
        kept_at=row.kept_at,
        reader=row.reader,
        secrets=row.secrets,
    )
