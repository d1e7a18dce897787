"""Writes notices and incidents into the transaction of the polls that brought them about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection

from pollerd.events import Incident, Notice
from pollerd.storage.db.rows import run_each
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.text_encoding import storable_word

ChangeId = Callable[[Notice], int | None]
"""Returns the id of the change that a notice tells of."""


def write_notices(connection: Connection, sql: Statements, notices: Sequence[Notice], change_id: ChangeId) -> None:
    """Puts notices into the outbox; one that is there for its channel stays as it is."""
    run_each(connection, sql.insert_notice, [_row(one, change_id(one)) for one in notices])


def write_incidents(
    connection: Connection, sql: Statements, opened: Iterable[Incident], closed: Iterable[tuple[int, int]]
) -> None:
    """Opens incidents, and closes those of these rules and sites."""
    run_each(connection, sql.delete_incident, list(closed))
    run_each(connection, sql.insert_incident, [(one.rule_id, one.site_id, one.id, one.since) for one in opened])


def _row(one: Notice, change_id: int | None) -> tuple[Any, ...]:
    return (
        one.event_id,
        one.kind.value,
        one.at,
        one.site_id,
        change_id,
        storable_word(one.data),
        one.rule_id,
        one.channel_id,
        one.due_at,
        one.digest,
    )
