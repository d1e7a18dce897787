"""Reads the values that selections of a site had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from pollerd.model import StoredReading
from pollerd.storage.db.schema.history import reading
from pollerd.storage.encoding.cursors import Order, Position
from pollerd.storage.values import ListPage


@dataclass(frozen=True, slots=True)
class ReadingFilter:
    """A filter on values: all fields that are not None must match."""

    since: float | None = None
    """Read at or after this time, epoch s."""
    selection: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedReading:
    """A value as it was first read at a time, until the next record of it."""

    id: int
    selection: str
    name: str
    at: float
    """Epoch s."""
    value: StoredReading


def list_readings(
    connection: Connection, site_id: int, wanted: ReadingFilter, limit: int, cursor: str | None, order: Order | None
) -> ListPage[RecordedReading]:
    """Returns a site's values, in the cursor's order, else in `order`, else newest first."""
    c = reading.c
    statement = select(reading).where(c.site_id == site_id)
    if wanted.since is not None:
        statement = statement.where(c.at >= wanted.since)
    if wanted.selection is not None:
        statement = statement.where(c.selection == wanted.selection)
    if wanted.name is not None:
        statement = statement.where(c.name == wanted.name)
    position = Position.of("v", cursor, order, unnamed=Order.NEWEST)
    rows = connection.execute(position.select(statement, c.id, limit)).mappings()
    return position.page([_recorded(row) for row in rows], limit)


def _recorded(row: Any) -> RecordedReading:
    value = StoredReading(row["text"], row["number"], row["moment"], row["currency"], row["problem"])
    return RecordedReading(row["id"], row["selection"], row["name"], row["at"], value)
