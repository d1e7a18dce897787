"""Rows of channels and rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.events import Incident
from pollerd.storage.db.notification_schema import channel, incident, rule
from pollerd.storage.encoding.encryption import Encryption
from pollerd.storage.notifications.notification_values import ChannelRow, RuleRow


def all_channels(connection: Connection, encryption: Encryption) -> list[ChannelRow]:
    """Returns all channels, by id."""
    return [_channel(row, encryption) for row in connection.execute(select(channel).order_by(channel.c.id))]


def get_channel(connection: Connection, encryption: Encryption, channel_id: int) -> ChannelRow:
    """Returns a channel. Raises `NotFoundError`."""
    row = connection.execute(select(channel).where(channel.c.id == channel_id)).one_or_none()
    if row is None:
        raise NotFoundError("channel", channel_id)
    return _channel(row, encryption)


def put_channel(connection: Connection, encryption: Encryption, row: ChannelRow, now: float) -> int:
    """Adds a channel (id 0) or sets the settings of one; returns its id. Ends its pause.

    Raises `DuplicateError`, `NotFoundError`, and `InvalidValueError` where secrets cannot be kept.
    """
    _check_name(connection, channel, row.name, row.id)
    values: dict[str, Any] = {
        "name": row.name,
        "kind": row.kind,
        "settings": row.settings,
        "secrets": encryption.close_texts(row.secrets) if row.secrets else None,
        "enabled": row.enabled,
        "origin": row.origin,
        "changed_at": now,
        "paused_at": None,
        "paused_reason": "",
        "probe_at": None,
    }
    return _put(connection, channel, row.id, values, now)


def set_pause(
    connection: Connection, channel_id: int, at: float | None, reason: str = "", probe_at: float | None = None
) -> None:
    """Pauses a channel, or ends its pause (at: None). A pause under way keeps its begin."""
    c = channel.c
    begin = None if at is None else func.coalesce(c.paused_at, at)
    values = {"paused_at": begin, "paused_reason": reason, "probe_at": probe_at}
    connection.execute(update(channel).where(c.id == channel_id).values(values))


def delete_channel(connection: Connection, channel_id: int) -> None:
    """Deletes a channel, with what waits for it.

    Raises `NotFoundError`, and `InvalidValueError` while rules name it.
    """
    name = connection.execute(select(channel.c.name).where(channel.c.id == channel_id)).scalar()
    if name is None:
        raise NotFoundError("channel", channel_id)
    naming = [row.name for row in all_rules(connection) if name in json.loads(row.settings).get("channels", ())]
    if naming:
        raise InvalidValueError("channel", "one that no rule names", f"{name}, which {', '.join(naming)[:200]} name")
    connection.execute(delete(channel).where(channel.c.id == channel_id))


def all_rules(connection: Connection) -> list[RuleRow]:
    """Returns all rules, by id."""
    return [RuleRow(**row) for row in connection.execute(select(rule).order_by(rule.c.id)).mappings()]


def get_rule(connection: Connection, rule_id: int) -> RuleRow:
    """Returns a rule. Raises `NotFoundError`."""
    row = connection.execute(select(rule).where(rule.c.id == rule_id)).mappings().one_or_none()
    if row is None:
        raise NotFoundError("rule", rule_id)
    return RuleRow(**row)


def put_rule(connection: Connection, row: RuleRow, channels: Sequence[str], now: float) -> int:
    """Adds a rule (id 0) or sets the settings of one; returns its id. `channels`: those that it names.

    Raises `DuplicateError`, `NotFoundError`, and `InvalidValueError` for a channel that is not there.
    """
    _check_name(connection, rule, row.name, row.id)
    there = set(connection.execute(select(channel.c.name)).scalars())
    missing = [name for name in channels if name not in there]
    if missing:
        known = ", ".join(sorted(there)) or "there is none"
        raise InvalidValueError("channels", f"names of channels; known: {known}", missing[0])
    values = {"name": row.name, "settings": row.settings, "origin": row.origin, "changed_at": now}
    return _put(connection, rule, row.id, values, now)


def delete_rule(connection: Connection, rule_id: int) -> None:
    """Deletes a rule; what it has put into the outbox is still told. Raises `NotFoundError`."""
    if not connection.execute(delete(rule).where(rule.c.id == rule_id)).rowcount:
        raise NotFoundError("rule", rule_id)


def incidents(connection: Connection) -> list[Incident]:
    """Returns all open incidents."""
    i = incident.c
    rows = connection.execute(select(i.rule_id, i.site_id, i.id, i.since))
    return [Incident(*row) for row in rows]


def _check_name(connection: Connection, table: Table, name: str, own_id: int) -> None:
    there = connection.execute(select(table.c.id).where(table.c.name == name)).scalar()
    if there is not None and there != own_id:
        raise DuplicateError(table.name, name, there)


def _put(connection: Connection, table: Table, own_id: int, values: Mapping[str, Any], now: float) -> int:
    if own_id == 0:
        new = insert(table).values({**values, "created_at": now}).returning(table.c.id)
        return int(connection.execute(new).scalar_one())
    if not connection.execute(update(table).where(table.c.id == own_id).values(values)).rowcount:
        raise NotFoundError(table.name, own_id)
    return own_id


def _channel(row: Any, encryption: Encryption) -> ChannelRow:
    fields = dict(row._mapping)  # noqa: SLF001 (SQLAlchemy's public name)
    sealed = fields.pop("secrets")
    return ChannelRow(**fields, secrets={} if sealed is None else encryption.open_texts(sealed))
