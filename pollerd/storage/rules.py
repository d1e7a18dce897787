"""Rules and channels as rows, and their replacement by those of the configuration file or of an export.

The secrets of channels are encrypted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError, refusal, unknown_name
from pollerd.events import Incident, NoticeState
from pollerd.storage.encoding import storable_word
from pollerd.storage.encryption import Encryption
from pollerd.storage.engine import Database
from pollerd.storage.notification_values import (
    ChannelSpec,
    FileResult,
    Origin,
    Pause,
    RuleSpec,
    StoredChannel,
    StoredRule,
)
from pollerd.storage.schema import channel, incident, outbox, rule
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.undo import KeptCopy, KeptKind, keep, kept_copies, taken_copy
from pollerd.texts import N_, _

# Rules, and the channels that they name.


def naming(connection: Connection, name: str) -> list[StoredRule]:
    """Returns the rules that name this channel."""
    rules = map(_rule, connection.execute(select(rule).order_by(rule.c.id)))
    return [stored for stored in rules if name in channels_of(stored.spec)]


def rename(connection: Connection, old: str, new: str | None) -> None:
    """Puts another name of a channel into all rules, or takes it out."""
    for stored in naming(connection, old):
        settings = json.loads(stored.spec.settings)
        named = [new if name == old else name for name in settings["channels"]]
        settings["channels"] = [name for name in named if name is not None]
        connection.execute(update(rule).where(rule.c.id == stored.id).values(settings=json.dumps(settings)))


def channels_of(spec: RuleSpec) -> Sequence[str]:
    """Returns the names of channels in the settings. Raises `InvalidValueError` if there can be none."""
    try:
        settings = json.loads(spec.settings)
        named = settings.get("channels", [])
    except (ValueError, AttributeError) as error:
        raise InvalidValueError("settings", _("a JSON object"), "(not shown)") from error
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise InvalidValueError("channels", _("a list of names"), named)
    return named


def _require_channels(connection: Connection, spec: RuleSpec) -> None:
    known = set(connection.execute(select(channel.c.name)).scalars())
    unknown = [name for name in channels_of(spec) if name not in known]
    if unknown:
        if not known:
            raise refusal(
                "channels", _("there is no channel yet; add one first: pollerd channels add NAME --kind KIND")
            )
        raise unknown_name("channels", N_("channel"), unknown[0], sorted(known))


def _require_new_name(connection: Connection, name: str) -> None:
    existing = connection.execute(select(rule.c.id).where(rule.c.name == name)).scalar_one_or_none()
    if existing is not None:
        raise DuplicateError(N_("rule"), name, existing)


def _values(spec: RuleSpec) -> dict[str, Any]:
    return {"name": spec.name, "settings": spec.settings, "enabled": spec.enabled, "origin": spec.origin.value}


def _rule(row: Any) -> StoredRule:
    spec = RuleSpec(row.name, row.settings, bool(row.enabled), Origin(row.origin))
    return StoredRule(row.id, spec, row.created_at, row.changed_at, row.muted_until)


RESUMED: dict[str, Any] = {"paused_at": None, "paused_reason": "", "probe_at": None}
"""Columns of a channel that is not paused."""


class Channels(Subject):
    """Channels, with their secrets."""

    def __init__(self, *, database: Database, encryption: Encryption) -> None:
        self._database, self._encryption = database, encryption

    @reads
    def all(self, connection: Connection) -> list[StoredChannel]:
        """Returns all channels with their secrets, by id."""
        return [self._channel(row) for row in connection.execute(select(channel).order_by(channel.c.id))]

    @reads
    def get(self, connection: Connection, channel_id: int) -> StoredChannel:
        """Returns the channel with its secrets. Raises `NotFoundError`."""
        row = connection.execute(select(channel).where(channel.c.id == channel_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("channel"), channel_id)
        return self._channel(row)

    @writes
    def add(self, connection: Connection, spec: ChannelSpec, now: float) -> StoredChannel:
        """Adds a channel. Raises `DuplicateError`, and `InvalidValueError` if there is no key for its secrets."""
        self._require_new_name(connection, spec.name)
        values = {**self._values(spec), "created_at": now, "changed_at": now}
        new = connection.execute(insert(channel).values(values).returning(channel.c.id)).scalar_one()
        return self.get.within(connection, new)

    @writes
    def update(self, connection: Connection, channel_id: int, spec: ChannelSpec, now: float) -> StoredChannel:
        """Sets what a channel is, secrets included; rules follow another name.

        A pause ends if kind, settings or secrets changed. Raises as `add` does, and `NotFoundError`.
        """
        before = self.get.within(connection, channel_id).spec
        if spec.name != before.name:
            self._require_new_name(connection, spec.name)
            rename(connection, before.name, spec.name)
        values = {**self._values(spec), "changed_at": now}
        if (spec.kind, spec.settings, spec.secrets) != (before.kind, before.settings, before.secrets):
            values |= RESUMED
        connection.execute(update(channel).where(channel.c.id == channel_id).values(values))
        return self.get.within(connection, channel_id)

    @writes
    def delete(self, connection: Connection, channel_id: int, now: float, *, from_rules: bool = False) -> None:
        """Deletes a channel; its queued messages are dead. A copy of it is kept for `undelete`.

        from_rules: take it out of the rules that name it; else `InvalidValueError` names them. Raises `NotFoundError`.
        """
        name = self.get.within(connection, channel_id).spec.name
        if from_rules:
            rename(connection, name, None)
        named = naming(connection, name)
        if named:
            names = ", ".join(stored.spec.name for stored in named)
            raise InvalidValueError("channel", _("named by no rule; named by {names}", names=names), name)
        c = outbox.c
        _keep_row(connection, KeptKind.CHANNEL, channel, channel_id, now)
        ended = {"state": NoticeState.DEAD.value, "ended_at": now, "last_detail": _CHANNEL_DELETED}
        connection.execute(update(outbox).where(c.channel_id == channel_id, c.ended_at.is_(None)).values(ended))
        connection.execute(delete(channel).where(channel.c.id == channel_id))

    @writes
    def undelete(self, connection: Connection, copy_id: int, now: float) -> StoredChannel:
        """Brings a deleted channel back with its id, and queues again what ended when it was deleted.

        Raises `NotFoundError`, and `DuplicateError` if another channel has its name by now.
        """
        copy = taken_copy(connection, copy_id, [KeptKind.CHANNEL], now)
        self._require_new_name(connection, copy.document["name"])
        connection.execute(insert(channel).values(**copy.document, secrets=copy.secrets))
        c = outbox.c
        ended = (c.channel_id == copy.document["id"], c.ended_at == copy.kept_at, c.last_detail == _CHANNEL_DELETED)
        queued = {"state": NoticeState.WAITING.value, "ended_at": None, "message_id": None, "attempts": 0}
        connection.execute(update(outbox).where(*ended).values({**queued, "due_at": now, "last_detail": ""}))
        return self.get.within(connection, copy.document["id"])

    @writes
    def resume(self, connection: Connection, channel_id: int, now: float) -> StoredChannel:
        """Ends a pause; what waits for its next attempt is due now. Raises `NotFoundError`."""
        c = outbox.c
        waits = (c.channel_id == channel_id, c.ended_at.is_(None), c.message_id.is_not(None), c.due_at > now)
        connection.execute(update(outbox).where(*waits).values(due_at=now))
        connection.execute(pause_statement(channel_id, None, now))
        return self.get.within(connection, channel_id)

    def token_of(self, purpose: str) -> str:
        """Returns a token for links in messages; empty: PostgreSQL keeps no secrets without a key."""
        try:
            return self._encryption.token_of(purpose)
        except InvalidValueError:
            return ""

    def is_token_of(self, purpose: str, token: str) -> bool:
        """Returns whether a link's token was made here for this purpose."""
        return self._encryption.is_token_of(purpose, token)

    @staticmethod
    def _require_new_name(connection: Connection, name: str) -> None:
        existing = connection.execute(select(channel.c.id).where(channel.c.name == name)).scalar_one_or_none()
        if existing is not None:
            raise DuplicateError(N_("channel"), name, existing)

    def _values(self, spec: ChannelSpec) -> dict[str, Any]:
        return {
            "name": spec.name,
            "kind": spec.kind,
            "settings": spec.settings,
            "secrets": None if spec.secrets is None else self._encryption.encrypt_text(spec.secrets, "secrets"),
            "enabled": spec.enabled,
            "origin": spec.origin.value,
        }

    def _channel(self, row: Any) -> StoredChannel:
        secrets = None if row.secrets is None else self._encryption.decrypt_text(row.secrets)
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


_CHANNEL_DELETED = "its channel was deleted"


def _keep_row(connection: Connection, kind: KeptKind, table: Table, row_id: int, now: float) -> None:
    """Keeps a copy of a row that a user deletes; those of the configuration file come back with the file."""
    row = connection.execute(select(table).where(table.c.id == row_id)).mappings().one_or_none()
    if row is not None and row["origin"] == Origin.API.value:
        document = {name: value for name, value in row.items() if name != "secrets"}
        keep(connection, kind, row["name"], document, now, secrets=row.get("secrets"))


def pause_statement(channel_id: int, pause: Pause | None, now: float) -> Any:
    """Returns the statement that pauses a channel, or resumes it."""
    values = RESUMED
    if pause is not None:
        since = func.coalesce(channel.c.paused_at, now)
        values = {"paused_at": since, "paused_reason": storable_word(pause.reason), "probe_at": pause.probe_at}
    return update(channel).where(channel.c.id == channel_id).values(values)


class Rules(Subject):
    """Rules: who is notified of what."""

    def __init__(self, *, database: Database, channels: Channels) -> None:
        self._database, self._channels = database, channels

    @reads
    def all(self, connection: Connection) -> list[StoredRule]:
        """Returns all rules, by id."""
        return [_rule(row) for row in connection.execute(select(rule).order_by(rule.c.id))]

    @reads
    def get(self, connection: Connection, rule_id: int) -> StoredRule:
        """Returns the rule. Raises `NotFoundError`."""
        row = connection.execute(select(rule).where(rule.c.id == rule_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("rule"), rule_id)
        return _rule(row)

    @reads
    def find(self, connection: Connection, name: str) -> StoredRule | None:
        """Returns the rule of this name."""
        row = connection.execute(select(rule).where(rule.c.name == name)).one_or_none()
        return None if row is None else _rule(row)

    @writes
    def add(self, connection: Connection, spec: RuleSpec, now: float) -> StoredRule:
        """Adds a rule. Raises `DuplicateError`, and `InvalidValueError` if it names a channel that there is not."""
        _require_new_name(connection, spec.name)
        _require_channels(connection, spec)
        values = {**_values(spec), "created_at": now, "changed_at": now}
        new = connection.execute(insert(rule).values(values).returning(rule.c.id)).scalar_one()
        return self.get.within(connection, new)

    @writes
    def update(self, connection: Connection, rule_id: int, spec: RuleSpec, now: float) -> StoredRule:
        """Sets what a rule is; it stays muted. Raises as `add` does, and `NotFoundError`."""
        if self.get.within(connection, rule_id).spec.name != spec.name:
            _require_new_name(connection, spec.name)
        _require_channels(connection, spec)
        connection.execute(update(rule).where(rule.c.id == rule_id).values({**_values(spec), "changed_at": now}))
        return self.get.within(connection, rule_id)

    @writes
    def mute(self, connection: Connection, rule_id: int, until: float | None) -> StoredRule:
        """Mutes a rule until that time; None: no longer. Raises `NotFoundError`."""
        connection.execute(update(rule).where(rule.c.id == rule_id).values(muted_until=until))
        return self.get.within(connection, rule_id)

    @writes
    def delete(self, connection: Connection, rule_id: int, now: float) -> None:
        """Deletes a rule and its incidents; its queued messages are sent. A copy of it is kept for `undelete`.

        Raises `NotFoundError`.
        """
        _keep_row(connection, KeptKind.RULE, rule, rule_id, now)
        connection.execute(delete(incident).where(incident.c.rule_id == rule_id))
        if not connection.execute(delete(rule).where(rule.c.id == rule_id)).rowcount:
            raise NotFoundError(N_("rule"), rule_id)

    @reads
    def deleted(self, connection: Connection, now: float) -> list[KeptCopy]:
        """Returns the rules and channels that were deleted and can still come back, the last one first."""
        return kept_copies(connection, [KeptKind.RULE, KeptKind.CHANNEL], now)

    @writes
    def undelete(self, connection: Connection, copy_id: int, now: float) -> StoredRule:
        """Brings a deleted rule back with its id.

        Raises `NotFoundError`, `DuplicateError` if another rule has its name by now, and `InvalidValueError` if one of
        its channels is not there.
        """
        copy = taken_copy(connection, copy_id, [KeptKind.RULE], now)
        _require_new_name(connection, copy.document["name"])
        _require_channels(connection, RuleSpec(copy.document["name"], copy.document["settings"]))
        connection.execute(insert(rule).values(**copy.document))
        return self.get.within(connection, copy.document["id"])

    @writes
    def put_from_file(
        self, connection: Connection, channels: Sequence[ChannelSpec], rules: Sequence[RuleSpec], now: float
    ) -> FileResult:
        """Makes the configuration file's channels and rules these: known names keep their ids, others are removed.

        Those of the API stay as they are. Raises `InvalidValueError`, and writes nothing, for a name that one of them
        has, for unknown channels, and if a channel that is to be removed is named by a rule of the API.
        """
        first, second = self._put_all(connection, channels, rules, now, Origin.FILE)
        gone_rules = _gone(self.all.within(connection), rules)
        for gone in gone_rules:
            self.delete.within(connection, gone.id, now)
        gone_channels = _gone(self._channels.all.within(connection), channels)
        for unlisted in gone_channels:
            self._channels.delete.within(connection, unlisted.id, now)
        removed = [stored.spec.name for stored in (*gone_channels, *gone_rules)]
        return FileResult((*first[0], *second[0]), (*first[1], *second[1]), tuple(removed))

    @writes
    def restore(
        self,
        connection: Connection,
        channels: Sequence[ChannelSpec],
        rules: Mapping[RuleSpec, float | None],
        now: float,
    ) -> FileResult:
        """Adds or changes channels and rules of an export, all or none; rules: until when each is muted.

        Raises `InvalidValueError`.
        """
        first, second = self._put_all(connection, channels, tuple(rules), now, Origin.API)
        muted = {spec.name: until for spec, until in rules.items()}
        for stored in self.all.within(connection):
            if stored.spec.name in muted and stored.muted_until != muted[stored.spec.name]:
                self.mute.within(connection, stored.id, muted[stored.spec.name])
        return FileResult((*first[0], *second[0]), (*first[1], *second[1]), ())

    def _put_all(
        self, connection: Connection, channels: Sequence[ChannelSpec], rules: Sequence[RuleSpec], now: float, of: Origin
    ) -> tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]]:
        """Adds and updates; returns the names of those added and changed, of channels and of rules."""
        theirs = self._channels
        of_channels = _Writers(
            "channels",
            lambda spec: theirs.add.within(connection, spec, now),
            lambda id_, spec: theirs.update.within(connection, id_, spec, now),
        )
        of_rules = _Writers(
            "rules",
            lambda spec: self.add.within(connection, spec, now),
            lambda id_, spec: self.update.within(connection, id_, spec, now),
        )
        first = _put(theirs.all.within(connection), channels, of_channels, of)
        return first, _put(self.all.within(connection), rules, of_rules, of)

    @reads
    def incidents(self, connection: Connection) -> list[Incident]:
        """Returns the open incidents of all rules."""
        c = incident.c
        known = c.rule_id.in_(select(rule.c.id))
        statement = select(c.rule_id, c.site_id, c.id, c.since).where(known).order_by(c.rule_id, c.site_id)
        return [Incident(*row) for row in connection.execute(statement)]


# Rules and channels of the configuration file, which replace all earlier ones of a file, and those of an export.


@dataclass(frozen=True)
class _Writers:
    """How items of one kind are written."""

    section: str
    add: Callable[[Any], Any]
    update: Callable[[int, Any], Any]


def _put(
    stored: Sequence[StoredChannel | StoredRule],
    specs: Sequence[ChannelSpec | RuleSpec],
    writers: _Writers,
    origin: Origin,
) -> tuple[list[str], list[str]]:
    """Adds and updates; returns the names of those added, and of those changed."""
    existing = {row.spec.name: row for row in stored}
    added, changed, seen = [], [], set()
    for spec in specs:
        ours = replace(spec, origin=origin)
        known = existing.get(spec.name)
        if spec.name in seen:
            raise InvalidValueError(f"{writers.section}.{spec.name}", _("there once"), spec.name)
        seen.add(spec.name)
        if known is None:
            writers.add(ours)
            added.append(spec.name)
        elif known.spec.origin is not origin:
            other = _("the API") if origin is Origin.FILE else _("the configuration file")
            raise InvalidValueError(
                f"{writers.section}.{spec.name}", _("a name not taken by one of {other}", other=other), spec.name
            )
        elif known.spec != ours:
            writers.update(known.id, ours)
            changed.append(spec.name)
    return added, changed


def _gone(stored: Sequence[Any], specs: Sequence[ChannelSpec | RuleSpec]) -> list[Any]:
    names = {spec.name for spec in specs}
    return [row for row in stored if row.spec.origin is Origin.FILE and row.spec.name not in names]
