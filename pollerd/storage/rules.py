"""Rules and channels as rows, and their replacement by those of the configuration file or of an export.

The secrets of channels are encrypted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.events import Incident, NoticeState
from pollerd.storage.encoding import storable_word
from pollerd.storage.encryption import Encryption
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

# Rules, and the channels that they name.


def all_rules(connection: Connection) -> list[StoredRule]:
    """Returns all rules, by id."""
    return [_rule(row) for row in connection.execute(select(rule).order_by(rule.c.id))]


def get_rule(connection: Connection, rule_id: int) -> StoredRule:
    """Returns the rule. Raises `NotFoundError`."""
    row = connection.execute(select(rule).where(rule.c.id == rule_id)).one_or_none()
    if row is None:
        raise NotFoundError("rule", rule_id)
    return _rule(row)


def find_rule(connection: Connection, name: str) -> StoredRule | None:
    """Returns the rule of this name."""
    row = connection.execute(select(rule).where(rule.c.name == name)).one_or_none()
    return None if row is None else _rule(row)


def add_rule(connection: Connection, spec: RuleSpec, now: float) -> StoredRule:
    """Adds a rule. Raises `DuplicateError`, and `InvalidValueError` if it names unknown channels."""
    _require_new_name(connection, spec.name)
    _require_channels(connection, spec)
    values = {**_values(spec), "created_at": now, "changed_at": now}
    new = connection.execute(insert(rule).values(values).returning(rule.c.id)).scalar_one()
    return get_rule(connection, new)


def update_rule(connection: Connection, rule_id: int, spec: RuleSpec, now: float) -> StoredRule:
    """Sets what a rule is. Raises as `add_rule` does, and `NotFoundError`."""
    if get_rule(connection, rule_id).spec.name != spec.name:
        _require_new_name(connection, spec.name)
    _require_channels(connection, spec)
    connection.execute(update(rule).where(rule.c.id == rule_id).values({**_values(spec), "changed_at": now}))
    return get_rule(connection, rule_id)


def mute_rule(connection: Connection, rule_id: int, until: float | None) -> StoredRule:
    """Mutes a rule until that time; None: no longer. Raises `NotFoundError`."""
    connection.execute(update(rule).where(rule.c.id == rule_id).values(muted_until=until))
    return get_rule(connection, rule_id)


def delete_rule(connection: Connection, rule_id: int) -> None:
    """Deletes a rule and its incidents. Raises `NotFoundError`."""
    connection.execute(delete(incident).where(incident.c.rule_id == rule_id))
    if not connection.execute(delete(rule).where(rule.c.id == rule_id)).rowcount:
        raise NotFoundError("rule", rule_id)


def incidents(connection: Connection) -> list[Incident]:
    """Returns the open incidents of all rules."""
    c = incident.c
    known = c.rule_id.in_(select(rule.c.id))
    wanted = select(c.rule_id, c.site_id, c.id, c.since).where(known).order_by(c.rule_id, c.site_id)
    return [Incident(*row) for row in connection.execute(wanted)]


def naming(connection: Connection, name: str) -> list[StoredRule]:
    """Returns the rules that name this channel."""
    return [one for one in all_rules(connection) if name in channels_of(one.spec)]


def rename(connection: Connection, old: str, new: str | None) -> None:
    """Puts another name of a channel into all rules, or takes it out."""
    for one in naming(connection, old):
        settings = json.loads(one.spec.settings)
        named = [new if name == old else name for name in settings["channels"]]
        settings["channels"] = [name for name in named if name is not None]
        connection.execute(update(rule).where(rule.c.id == one.id).values(settings=json.dumps(settings)))


def channels_of(spec: RuleSpec) -> Sequence[str]:
    """Returns the names of channels in the settings. Raises `InvalidValueError` if there can be none."""
    try:
        settings = json.loads(spec.settings)
        named = settings.get("channels", [])
    except (ValueError, AttributeError) as error:
        raise InvalidValueError("settings", "a JSON object", "(not shown)") from error
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise InvalidValueError("channels", "a list of names", named)
    return named


def _require_channels(connection: Connection, spec: RuleSpec) -> None:
    known = set(connection.execute(select(channel.c.name)).scalars())
    unknown = [name for name in channels_of(spec) if name not in known]
    if unknown:
        there = ", ".join(sorted(known)) or "there are none"
        raise InvalidValueError("channels", f"names of channels ({there})", unknown[0])


def _require_new_name(connection: Connection, name: str) -> None:
    there = find_rule(connection, name)
    if there is not None:
        raise DuplicateError("rule", name, there.id)


def _values(spec: RuleSpec) -> dict[str, Any]:
    return {"name": spec.name, "settings": spec.settings, "enabled": spec.enabled, "origin": spec.origin.value}


def _rule(row: Any) -> StoredRule:
    spec = RuleSpec(row.name, row.settings, bool(row.enabled), Origin(row.origin))
    return StoredRule(row.id, spec, row.created_at, row.changed_at, row.muted_until)


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
            rename(connection, before.name, spec.name)
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
            rename(connection, name, None)
        named = naming(connection, name)
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


def pause_statement(channel_id: int, pause: Pause | None, now: float) -> Any:
    """Returns the statement that pauses a channel, or resumes it."""
    values = RESUMED
    if pause is not None:
        since = func.coalesce(channel.c.paused_at, now)
        values = {"paused_at": since, "paused_reason": storable_word(pause.reason), "probe_at": pause.probe_at}
    return update(channel).where(channel.c.id == channel_id).values(values)


# Rules and channels of the configuration file, which replace all earlier ones of a file, and those of an export.


@dataclass(frozen=True)
class _Writers:
    """How items of one kind are written."""

    section: str
    add: Callable[[Any], Any]
    update: Callable[[int, Any], Any]


def put_from_file(
    connection: Connection, channels: Channels, given: Sequence[ChannelSpec], ruled: Sequence[RuleSpec], now: float
) -> FileResult:
    """Makes the file's channels and rules these. Raises `InvalidValueError`, with the place in the file."""
    first, second = _put_all(connection, channels, given, ruled, now, Origin.FILE)
    c = connection
    gone_rules = _gone(all_rules(c), ruled)
    for gone in gone_rules:
        delete_rule(c, gone.id)
    gone_channels = _gone(channels.all(c), given)
    for unlisted in gone_channels:
        channels.delete(c, unlisted.id, now, from_rules=False)
    removed = [one.spec.name for one in (*gone_channels, *gone_rules)]
    return FileResult((*first[0], *second[0]), (*first[1], *second[1]), tuple(removed))


def restore(
    connection: Connection,
    channels: Channels,
    given: Sequence[ChannelSpec],
    ruled: Mapping[RuleSpec, float | None],
    now: float,
) -> FileResult:
    """Adds or changes channels and rules of an export; others stay. ruled: rule -> until when it is muted.

    Raises `InvalidValueError`: then nothing has changed.
    """
    first, second = _put_all(connection, channels, given, tuple(ruled), now, Origin.API)
    muted = {spec.name: until for spec, until in ruled.items()}
    for one in all_rules(connection):
        if one.spec.name in muted and one.muted_until != muted[one.spec.name]:
            mute_rule(connection, one.id, muted[one.spec.name])
    return FileResult((*first[0], *second[0]), (*first[1], *second[1]), ())


def _put_all(
    c: Connection,
    channels: Channels,
    given: Sequence[ChannelSpec],
    ruled: Sequence[RuleSpec],
    now: float,
    origin: Origin,
) -> tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]]:
    of_channels = _Writers("channels", lambda s: channels.add(c, s, now), lambda i, s: channels.update(c, i, s, now))
    of_rules = _Writers("rules", lambda s: add_rule(c, s, now), lambda i, s: update_rule(c, i, s, now))
    first = _put(channels.all(c), given, of_channels, origin)
    return first, _put(all_rules(c), ruled, of_rules, origin)


def _put(
    stored: Sequence[StoredChannel | StoredRule],
    given: Sequence[ChannelSpec | RuleSpec],
    writers: _Writers,
    origin: Origin,
) -> tuple[list[str], list[str]]:
    """Adds and updates; returns the names of those added, and of those changed."""
    there = {one.spec.name: one for one in stored}
    added, changed, seen = [], [], set()
    for spec in given:
        ours = replace(spec, origin=origin)
        known = there.get(spec.name)
        if spec.name in seen:
            raise InvalidValueError(f"{writers.section}.{spec.name}", "there once", spec.name)
        seen.add(spec.name)
        if known is None:
            writers.add(ours)
            added.append(spec.name)
        elif known.spec.origin is not origin:
            other = "the API" if origin is Origin.FILE else "the configuration file"
            raise InvalidValueError(f"{writers.section}.{spec.name}", f"a name not taken by one of {other}", spec.name)
        elif known.spec != ours:
            writers.update(known.id, ours)
            changed.append(spec.name)
    return added, changed


def _gone(stored: Sequence[Any], given: Sequence[ChannelSpec | RuleSpec]) -> list[Any]:
    names = {spec.name for spec in given}
    return [one for one in stored if one.spec.origin is Origin.FILE and one.spec.name not in names]
