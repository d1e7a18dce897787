"""What was expected of past minutes, and what was found in them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from pollerd.storage.db.schema.history import change, yield_minute
from pollerd.storage.db.statements import Statements

_MINUTE = 60.0
KEPT_SECONDS = 8 * 86_400.0
"""Minutes are kept for so long."""


@dataclass(frozen=True, slots=True)
class YieldMinute:
    """Changes that were expected to be found in `seconds` of one minute: as scheduled, evenly split, best split."""

    at: float
    """A time in the minute, epoch s."""
    seconds: float
    scheduled: float
    uniform: float
    best: float


@dataclass(frozen=True, slots=True)
class YieldSum:
    """Changes found in a span, and those that were expected in the part of it for which that is known."""

    found: int
    seconds: float
    """Of the part that is known."""
    scheduled: float
    uniform: float
    best: float


def add_yield(connection: Connection, sql: Statements, given: YieldMinute) -> None:
    """Adds to what is stored of the minute, and drops minutes that are too old."""
    values = {"seconds": given.seconds, "scheduled": given.scheduled, "uniform": given.uniform, "best": given.best}
    statement = sql.insert_for(yield_minute).values(minute=int(given.at // _MINUTE), **values)
    added = {name: yield_minute.c[name] + statement.excluded[name] for name in values}
    connection.execute(statement.on_conflict_do_update(index_elements=["minute"], set_=added))
    connection.execute(delete(yield_minute).where(yield_minute.c.minute < (given.at - KEPT_SECONDS) // _MINUTE))


def yield_since(connection: Connection, since: float) -> YieldSum:
    """Returns what was found since a time (epoch s), and what was expected."""
    c = yield_minute.c
    sums = [func.coalesce(func.sum(column), 0.0) for column in (c.seconds, c.scheduled, c.uniform, c.best)]
    expected = connection.execute(select(*sums).where(c.minute >= since // _MINUTE)).one()
    found = connection.execute(select(func.count()).select_from(change).where(change.c.detected_at >= since))
    return YieldSum(int(found.scalar_one()), *map(float, expected))
