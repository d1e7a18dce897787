"""Channels and rules of the configuration file, of which all are replaced, and those of an export."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from pollerd.errors import InvalidValueError
from pollerd.storage.notifications import rules
from pollerd.storage.notifications.channels import Channels
from pollerd.storage.notifications.notification_values import (
    ChannelSpec,
    FileResult,
    Origin,
    RuleSpec,
    StoredChannel,
    StoredRule,
)


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
    gone_rules = _gone(rules.all_rules(c), ruled)
    for rule in gone_rules:
        rules.delete_rule(c, rule.id)
    gone_channels = _gone(channels.all(c), given)
    for channel in gone_channels:
        channels.delete(c, channel.id, now, from_rules=False)
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
    for one in rules.all_rules(connection):
        if one.spec.name in muted and one.muted_until != muted[one.spec.name]:
            rules.mute_rule(connection, one.id, muted[one.spec.name])
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
    of_rules = _Writers("rules", lambda s: rules.add_rule(c, s, now), lambda i, s: rules.update_rule(c, i, s, now))
    first = _put(channels.all(c), given, of_channels, origin)
    return first, _put(rules.all_rules(c), ruled, of_rules, origin)


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
