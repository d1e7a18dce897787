"""Adds, changes and removes rules and channels of the running daemon."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from pollerd.daemon.notifying.notifier import Notifier
from pollerd.errors import InvalidValueError
from pollerd.events import EventKind
from pollerd.storage import ChannelRow, NotificationStore, RuleRow

if TYPE_CHECKING:  # a daemon without rules loads none of it
    from pollerd.notifications.message import Answer
    from pollerd.notifications.rules.rule import Rule


class NotificationControl:
    """Changes rules and channels: first in the database, then in the live loop."""

    def __init__(self, *, store: NotificationStore, notifier: Notifier, clock: Callable[[], float]) -> None:
        self._store, self._notifier, self._clock = store, notifier, clock

    # Rules.

    async def add_rule(self, document: Mapping[str, Any], *, origin: str = "api") -> RuleRow:
        """Adds a rule. Raises InvalidValueError, and DuplicateError with the existing id."""
        return await self._put_rule(RuleRow(id=0, name="", settings="", origin=origin), document)

    async def change_rule(self, rule_id: int, document: Mapping[str, Any], *, origin: str = "api") -> RuleRow:
        """Sets all settings of a rule. Raises NotFoundError, InvalidValueError, DuplicateError."""
        before = await self._store.rule(rule_id)
        _check_origin("rule", before.name, before.origin, origin)
        return await self._put_rule(dataclasses.replace(before, origin=origin), document)

    async def delete_rule(self, rule_id: int, *, origin: str = "api") -> None:
        """Deletes a rule; what it has put into the outbox is still told. Raises NotFoundError."""
        before = await self._store.rule(rule_id)
        _check_origin("rule", before.name, before.origin, origin)
        await self._store.delete_rule(rule_id)
        await self._notifier.reload()

    async def _put_rule(self, row: RuleRow, document: Mapping[str, Any]) -> RuleRow:
        rule = parsed_rule(document)
        new = dataclasses.replace(row, name=rule.name, settings=_settings(rule))
        stored = await self._store.put_rule(new, rule.channels, self._clock())
        await self._notifier.reload()
        return stored

    # Channels.

    async def add_channel(
        self, name: str, kind: str, given: Mapping[str, Any], *, enabled: bool = True, origin: str = "api"
    ) -> ChannelRow:
        """Adds a channel from its settings and secrets. Raises InvalidValueError, DuplicateError."""
        row = ChannelRow(id=0, name=checked_name(name), kind=kind, settings="{}", enabled=enabled, origin=origin)
        return await self._put_channel(row, given)

    async def change_channel(
        self,
        channel_id: int,
        given: Mapping[str, Any],
        *,
        name: str | None = None,
        enabled: bool | None = None,
        origin: str = "api",
    ) -> ChannelRow:
        """Sets all settings of a channel; secrets that are not given stay, unless its address changes.

        Raises NotFoundError, InvalidValueError, DuplicateError.
        """
        before = await self._store.channel(channel_id)
        _check_origin("channel", before.name, before.origin, origin)
        row = dataclasses.replace(
            before,
            name=before.name if name is None else checked_name(name),
            enabled=before.enabled if enabled is None else enabled,
            origin=origin,
        )
        return await self._put_channel(row, given, before)

    async def _put_channel(
        self, row: ChannelRow, given: Mapping[str, Any], before: ChannelRow | None = None
    ) -> ChannelRow:
        from pollerd.notifications.channels.settings import parse_channel
        from pollerd.notifications.channels.stored import stored_channel, stored_settings

        parsed = parse_channel(row.kind, given, before=None if before is None else stored_channel(before))
        new = dataclasses.replace(row, settings=stored_settings(parsed), secrets=parsed.secrets)
        stored = await self._store.put_channel(new, self._clock())
        await self._notifier.reload()
        return stored

    async def delete_channel(self, channel_id: int, *, origin: str = "api") -> None:
        """Deletes a channel, with what waits for it.

        Raises NotFoundError, and InvalidValueError while rules name it.
        """
        before = await self._store.channel(channel_id)
        _check_origin("channel", before.name, before.origin, origin)
        await self._store.delete_channel(channel_id)
        await self._notifier.reload()

    async def rotate_secret(self, channel_id: int, overlap: float) -> ChannelRow:
        """Gives a webhook a new secret; for `overlap` seconds messages are signed with both.

        Raises NotFoundError, and InvalidValueError for a channel of another kind.
        """
        from pollerd.notifications.channels.rotation import rotated
        from pollerd.notifications.channels.stored import stored_channel, stored_settings

        before = await self._store.channel(channel_id)
        now = self._clock()
        parsed = rotated(stored_channel(before), until=now + overlap)
        new = dataclasses.replace(before, settings=stored_settings(parsed), secrets=parsed.secrets)
        stored = await self._store.put_channel(new, now)
        await self._notifier.reload()
        return stored

    async def try_channel(self, channel_id: int) -> Answer:
        """Sends a test message on the channel, at once; returns the answer. Raises NotFoundError."""
        from pollerd.daemon.results.announcing.rules_in_force import new_event_id
        from pollerd.notifications.channels.stored import look_of, stored_channel
        from pollerd.notifications.message import Event
        from pollerd.notifications.messages.build import message_of_one

        row = await self._store.channel(channel_id)
        event = Event(new_event_id(), EventKind.TEST, self._clock(), data={"channel": row.name})
        return await self._notifier.try_out(row, message_of_one(event, look_of(stored_channel(row), "")))

    async def resend(self, *, ids: Sequence[int] = (), channel_id: int | None = None) -> int:
        """Makes dead notices wait anew: those of these ids, or all of a channel. Returns how many."""
        count = await self._store.resend(self._clock(), ids=ids, channel_id=channel_id)
        if count:
            await self._notifier.reload()
        return count


def parsed_rule(document: Mapping[str, Any]) -> Rule:
    """Returns the rule of a document. Raises InvalidValueError."""
    from pollerd.notifications.rules.parsing import parse_rule

    return parse_rule(dict(document))


def checked_name(name: str) -> str:
    """Returns the name of a channel. Raises InvalidValueError."""
    if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip():
        raise InvalidValueError("name", "1 to 100 printable characters without white space around them", name[:100])
    return name


def _settings(rule: Rule) -> str:
    from pollerd.notifications.rules.canonical import document_of

    return orjson.dumps(document_of(rule)).decode()


def _check_origin(what: str, name: str, origin: str, by: str) -> None:
    if origin == "file" and by != "file":
        allowed = "one that the list of sites does not name: the file says how it is"
        raise InvalidValueError(what, allowed, name)
