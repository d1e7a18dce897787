"""Channels as rows; their secrets are encrypted."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.events import NoticeState
from pollerd.storage.db.schema.notifications import channel, outbox
from pollerd.storage.encoding.encryption import Encryption
from pollerd.storage.encoding.text_encoding import storable_word
from pollerd.storage.notifications import rules
from pollerd.storage.notifications.notification_values import ChannelSpec, Origin, Pause, StoredChannel

RESUMED: dict[str, Any] = {"paused_at": None, "paused_reason": "", "probe_at": None}
"""Columns of a channel that is not paused."""


class Channels:
    """Reads and writes channels within the caller's transaction."""

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    def all(self, connection: Connection) -> list[StoredChannel]:
        """Returns all channels, by id."""
        return [self._channel(row) for row in connection.execute(select(channel).order_by(channel.c.id))]

    def get(self, connection: Connection, channel_id: int) -> StoredChannel:
        """Returns the channel. Raises `NotFoundError`."""
        row = connection.execute(select(channel).where(channel.c.id == channel_id)).one_or_none()
        if row is None:
            raise NotFoundError("channel", channel_id)
        return self._channel(row)

    def find(self, connection: Connection, name: str) -> StoredChannel | None:
        """Returns the channel of this name."""
        row = connection.execute(select(channel).where(channel.c.name == name)).one_or_none()
        return None if row is None else self._channel(row)

    def add(self, connection: Connection, spec: ChannelSpec, now: float) -> StoredChannel:
        """Adds a channel. Raises `DuplicateError`, and `InvalidValueError` if there is no key for its secrets."""
        self._require_new_name(connection, spec.name)
        values = {**self._values(spec), "created_at": now, "changed_at": now}
        new = connection.execute(insert(channel).values(values).returning(channel.c.id)).scalar_one()
        return self.get(connection, new)

    def update(self, connection: Connection, channel_id: int, spec: ChannelSpec, now: float) -> StoredChannel:
        """Sets what a channel is, all of it; rules follow another name. A pause ends if where or how it sends changed.

        Raises as `add` does, and `NotFoundError`.
        """
        before = self.get(connection, channel_id).spec
        if spec.name != before.name:
            self._require_new_name(connection, spec.name)
            rules.rename(connection, before.name, spec.name)
        values = {**self._values(spec), "changed_at": now}
        if (spec.kind, spec.settings, spec.secrets) != (before.kind, before.settings, before.secrets):
            values |= RESUMED
        connection.execute(update(channel).where(channel.c.id == channel_id).values(values))
        return self.get(connection, channel_id)

    def delete(self, connection: Connection, channel_id: int, now: float, *, from_rules: bool) -> None:
        """Deletes a channel; what it had still to tell is dead.

        from_rules: take it out of rules that name it; else it is refused. Raises `NotFoundError`, `InvalidValueError`.
        """
        name = self.get(connection, channel_id).spec.name
        if from_rules:
            rules.rename(connection, name, None)
        named = rules.naming(connection, name)
        if named:
            names = ", ".join(one.spec.name for one in named)
            raise InvalidValueError("channel", f"named by no rule; named by {names}", name)
        c = outbox.c
        ended = {"state": NoticeState.DEAD.value, "ended_at": now, "last_detail": "its channel was deleted"}
        connection.execute(update(outbox).where(c.channel_id == channel_id, c.ended_at.is_(None)).values(ended))
        connection.execute(delete(channel).where(channel.c.id == channel_id))

    def pause(self, connection: Connection, channel_id: int, pause: Pause | None, now: float) -> StoredChannel:
        """Pauses a channel, or resumes it (None); a channel that is paused stays so since then.

        Raises `NotFoundError`.
        """
        connection.execute(pause_statement(channel_id, pause, now))
        return self.get(connection, channel_id)

    def _require_new_name(self, connection: Connection, name: str) -> None:
        there = self.find(connection, name)
        if there is not None:
            raise DuplicateError("channel", name, there.id)

    def _values(self, spec: ChannelSpec) -> dict[str, Any]:
        return {
            "name": spec.name,
            "kind": spec.kind,
            "settings": spec.settings,
            "secrets": None if spec.secrets is None else self._encryption.close_text(spec.secrets, "secrets"),
            "enabled": spec.enabled,
            "origin": spec.origin.value,
        }

    def _channel(self, row: Any) -> StoredChannel:
        secrets = None if row.secrets is None else self._encryption.open_text(row.secrets)
        spec = ChannelSpec(row.name, row.kind, row.settings, secrets, bool(row.enabled), Origin(row.origin))
        return StoredChannel(
            id=row.id,
            spec=spec,
            created_at=row.created_at,
            changed_at=row.changed_at,
            paused_at=row.paused_at,
            paused_reason=row.paused_reason,
            probe_at=row.probe_at,
            last_sent_at=row.last_sent_at,
            last_error=row.last_error,
        )


def pause_statement(channel_id: int, pause: Pause | None, now: float) -> Any:
    """Returns the statement that pauses a channel, or resumes it."""
    values = RESUMED
    if pause is not None:
        since = func.coalesce(channel.c.paused_at, now)
        values = {"paused_at": since, "paused_reason": storable_word(pause.reason), "probe_at": pause.probe_at}
    return update(channel).where(channel.c.id == channel_id).values(values)
