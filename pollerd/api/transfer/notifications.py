"""The sections `channels` and `rules`. Those of the configuration file are left out: the file says how they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import orjson

from pollerd.api.http.context import ApiPorts
from pollerd.api.transfer.document import BLOCK, Blocks, Counts, Record
from pollerd.api.transfer.sites import LEFT_OUT, SEALED
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.notifications.delivery.stored import given_again, with_settings, without_secrets
from pollerd.notifications.specs import checked_name, rule_spec
from pollerd.storage import ChannelSpec, Origin, RuleSpec

_CHANNEL = frozenset({"section", "channel", "kind", "enabled", "settings", LEFT_OUT, SEALED})
_RULE = frozenset({"section", "rule", "muted_until"})


class ChannelsSection:
    """One record per channel: its settings, and its secrets, encrypted or named as left out."""

    name = "channels"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all channels of the API, by id."""
        found = [one.spec for one in await daemon.store.notifications.channels() if one.spec.origin is Origin.API]
        for start in range(0, len(found), BLOCK):
            yield [_channel_record(spec, vault) for spec in found[start : start + BLOCK]]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _channel(record, vault, {})

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new channels, disabled where secrets are missing, and sets existing ones; others stay."""
        there = await _channels(daemon)
        specs = [_channel(record, vault, there) for record in _all(blocks)]
        counts = _counted(specs, there)
        await daemon.control.notifications.restore(specs, {})
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged channels."""
        there = await _channels(daemon)
        return _counted([_channel(record, vault, there) for record in _all(blocks)], there)


class RulesSection:
    """One record per rule: all of it, and until when it is muted."""

    name = "rules"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all rules of the API, by id."""
        found = [one for one in await daemon.store.notifications.rules() if one.spec.origin is Origin.API]
        for start in range(0, len(found), BLOCK):
            yield [
                {"rule": orjson.loads(one.spec.settings), "muted_until": one.muted_until}
                for one in found[start : start + BLOCK]
            ]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _rule(record)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new rules, and sets existing ones; others stay."""
        counts = await self.compare(daemon, blocks, vault)
        await daemon.control.notifications.restore([], dict(map(_rule, _all(blocks))))
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged rules."""
        there = {one.spec.name: (one.spec, one.muted_until) for one in await daemon.store.notifications.rules()}
        counts = Counts()
        for spec, muted_until in map(_rule, _all(blocks)):
            _count(counts, there.get(spec.name), (spec, muted_until))
        return counts


def _all(blocks: Blocks) -> Iterator[Record]:
    return (record for block in blocks() for _, record in block)


async def _channels(daemon: ApiPorts) -> dict[str, ChannelSpec]:
    return {one.spec.name: one.spec for one in await daemon.store.notifications.channels()}


def _counted(specs: Sequence[ChannelSpec], there: Mapping[str, ChannelSpec]) -> Counts:
    counts = Counts()
    for spec in specs:
        _count(counts, there.get(spec.name), spec)
    return counts


def _count(counts: Counts, before: object, after: object) -> None:
    if before is None:
        counts.added += 1
    elif before == after:
        counts.unchanged += 1
    else:
        counts.changed += 1


def _channel_record(spec: ChannelSpec, vault: Vault | None) -> Record:
    settings = orjson.loads(spec.settings)
    record = {"channel": spec.name, "kind": spec.kind, "enabled": spec.enabled, "settings": settings}
    if spec.secrets is None:
        return record
    if vault is None:
        return {**record, LEFT_OUT: sorted(orjson.loads(spec.secrets))}
    return {**record, SEALED: vault.seal(_owner(spec.name), spec.secrets.encode())}


def _channel(record: Record, vault: Vault | None, there: Mapping[str, ChannelSpec]) -> ChannelSpec:
    """Returns the channel of a record; secrets that the export left out are those that it has here."""
    _check_fields(record, _CHANNEL)
    name, kind, enabled = checked_name(record.get("channel")), record.get("kind"), record.get("enabled")
    settings, left_out = record.get("settings"), record.get(LEFT_OUT, [])
    if not isinstance(kind, str) or not isinstance(enabled, bool) or not isinstance(settings, dict):
        raise InvalidValueError("channel", "a kind, whether it is enabled, and settings, as an export has it", name)
    if not (isinstance(left_out, list) and all(isinstance(one, str) and len(one) <= 100 for one in left_out)):
        raise InvalidValueError(LEFT_OUT, "a list of names of secrets", "(not shown)")
    spec = ChannelSpec(name, kind, enabled=enabled)
    if not left_out:
        return with_settings(spec, given_again(settings, _secrets(record, name, vault)))
    before = there.get(name)
    return (
        without_secrets(spec, settings)
        if before is None or before.kind != kind or before.secrets is None
        else with_settings(spec, settings, before)
    )


def _secrets(record: Record, name: str, vault: Vault | None) -> dict[str, str]:
    if SEALED not in record:
        return {}
    if vault is None:
        raise InvalidValueError("document", "one whose first line tells of its secrets", "a channel with secrets")
    found: dict[str, str] = orjson.loads(vault.open(_owner(name), record[SEALED]))
    return found


def _rule(record: Record) -> tuple[RuleSpec, float | None]:
    _check_fields(record, _RULE)
    rule, until = record.get("rule"), record.get("muted_until")
    if not isinstance(rule, dict):
        raise InvalidValueError("rule", "an object", type(rule).__name__)
    if until is not None and (isinstance(until, bool) or not isinstance(until, int | float) or abs(until) > 1e12):
        raise InvalidValueError("muted_until", "epoch seconds", str(until)[:100])
    return rule_spec(rule), until


def _check_fields(record: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(record.keys() - known)
    if unknown:
        raise InvalidValueError(unknown[0][:100], f"left out; known are {', '.join(sorted(known))}", "(not shown)")


def _owner(name: str) -> str:
    """Returns what its secrets are bound to; no tag and no URL is like it."""
    return f"channel {name}"
