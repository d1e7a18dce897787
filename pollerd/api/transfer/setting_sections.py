"""Sections of a document: allocation, notifications, signal sources.

The section `allocation`: allocator, objective, budget, deadline and shadows.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import orjson

from pollerd.allocation import registry
from pollerd.allocation.registered import OBJECTIVES
from pollerd.api.http import ApiPorts
from pollerd.api.list_diff import signal_source_of
from pollerd.api.transfer.document import BLOCK, Blocks, Counts, Record, Vault
from pollerd.api.transfer.site_sections import LEFT_OUT, SEALED
from pollerd.errors import InvalidValueError, kind_of, unknown_name
from pollerd.notifications.specs import checked_name, rule_spec
from pollerd.notifications.stored_channels import given_again, with_settings, without_secrets
from pollerd.ranges import BUDGET
from pollerd.site_settings import SITE
from pollerd.storage.notification_values import ChannelSpec, Origin, RuleSpec
from pollerd.storage.signals import ListedSignalSource, SignalOrigin
from pollerd.texts import N_, _

_FIELDS = ("allocator", "objective", "budget")
_DEADLINE = "deadline"
"""Left out where none was set, and in documents of earlier versions."""
_SHADOWS = "shadows"
"""Left out in documents of earlier versions."""


class AllocationSection:
    """A section of one record."""

    name = "allocation"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields the current allocation."""
        if present := await _present(daemon):
            yield [present]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        if record.keys() - {_DEADLINE, _SHADOWS} != {"section", *_FIELDS}:
            raise InvalidValueError(
                "allocation", _("{fields} and nothing else", fields=", ".join(_FIELDS)), ", ".join(record)[:200]
            )
        _among("allocator", record["allocator"], registry.names())
        _among("objective", record["objective"], OBJECTIVES)
        budget = record["budget"]
        number = isinstance(budget, int | float) and not isinstance(budget, bool) and math.isfinite(budget)
        if not (number and BUDGET.holds(budget)):
            allowed = f"{BUDGET.lowest:g} to {BUDGET.highest:g} {BUDGET.unit}"
            raise InvalidValueError("budget", allowed, str(budget)[:100])
        deadline = record.get(_DEADLINE, SITE[_DEADLINE].lowest)
        if isinstance(deadline, bool) or not isinstance(deadline, int | float):
            raise InvalidValueError(_DEADLINE, _("a number of seconds"), str(deadline)[:100])
        SITE[_DEADLINE].check(deadline)
        shadows = record.get(_SHADOWS, [])
        if not isinstance(shadows, list) or not all(name in registry.names() for name in shadows):
            allowed = _("a list of some of {names}", names=", ".join(registry.names()))
            raise InvalidValueError(_SHADOWS, allowed, str(shadows)[:100])

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Applies the last record."""
        counts = await self.compare(daemon, blocks, vault)
        if counts.changed or counts.added:
            await daemon.control.allocation.set(**_wanted(blocks))
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Compares the last record with the current allocation."""
        allocation = _wanted(blocks)
        if not allocation:
            return Counts()
        present = await _present(daemon) or {}
        return Counts(unchanged=1) if present | allocation == present else Counts(changed=1)


async def _present(daemon: ApiPorts) -> Record | None:
    row = await daemon.store.allocation.load()
    if row is None:
        return None
    present: Record = {"allocator": row.allocator, "objective": row.objective, "budget": row.budget}
    present |= {} if row.deadline is None else {_DEADLINE: row.deadline}
    return {**present, _SHADOWS: list(row.shadows)}


def _wanted(blocks: Blocks) -> dict[str, Any]:
    records = [record for block in blocks() for _line, record in block]
    names = (*_FIELDS, _DEADLINE, _SHADOWS)
    return {name: records[-1][name] for name in names if name in records[-1]} if records else {}


def _among(field: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidValueError(field, _("one of {known}", known=", ".join(known)), str(value)[:100])


# The sections `channels` and `rules`. Those of the configuration file are left out: the file says how they are.

_CHANNEL = frozenset({"section", "channel", "kind", "enabled", "settings", LEFT_OUT, SEALED})
_RULE = frozenset({"section", "rule", "muted_until"})


class ChannelsSection:
    """One record per channel: its settings, and its secrets, encrypted or named as left out."""

    name = "channels"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all channels of the API, by id."""
        specs = [
            channel.spec
            for channel in await daemon.store.notifications.channels.all()
            if channel.spec.origin is Origin.API
        ]
        for start in range(0, len(specs), BLOCK):
            yield [_channel_record(spec, vault) for spec in specs[start : start + BLOCK]]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _channel(record, vault, {})

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new channels, disabled where secrets are missing, and sets existing ones; others stay."""
        stored = await _channels(daemon)
        specs = [_channel(record, vault, stored) for record in _all(blocks)]
        counts = _counted(specs, stored)
        await daemon.control.notifications.restore(specs, {})
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged channels."""
        stored = await _channels(daemon)
        return _counted([_channel(record, vault, stored) for record in _all(blocks)], stored)


class RulesSection:
    """One record per rule: all of it, and until when it is muted."""

    name = "rules"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all rules of the API, by id."""
        rules = [rule for rule in await daemon.store.notifications.rules.all() if rule.spec.origin is Origin.API]
        for start in range(0, len(rules), BLOCK):
            yield [
                {"rule": orjson.loads(rule.spec.settings), "muted_until": rule.muted_until}
                for rule in rules[start : start + BLOCK]
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
        stored = {
            rule.spec.name: (rule.spec, rule.muted_until) for rule in await daemon.store.notifications.rules.all()
        }
        counts = Counts()
        for spec, muted_until in map(_rule, _all(blocks)):
            _count(counts, stored.get(spec.name), (spec, muted_until))
        return counts


def _all(blocks: Blocks) -> Iterator[Record]:
    return (record for block in blocks() for _line, record in block)


async def _channels(daemon: ApiPorts) -> dict[str, ChannelSpec]:
    return {channel.spec.name: channel.spec for channel in await daemon.store.notifications.channels.all()}


def _counted(specs: Sequence[ChannelSpec], stored: Mapping[str, ChannelSpec]) -> Counts:
    counts = Counts()
    for spec in specs:
        _count(counts, stored.get(spec.name), spec)
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


def _channel(record: Record, vault: Vault | None, stored: Mapping[str, ChannelSpec]) -> ChannelSpec:
    """Returns the channel of a record; secrets that the export left out are those that it has here."""
    _check_fields(record, _CHANNEL)
    name, kind, enabled = checked_name(record.get("channel")), record.get("kind"), record.get("enabled")
    settings, left_out = record.get("settings"), record.get(LEFT_OUT, [])
    if not isinstance(kind, str) or not isinstance(enabled, bool) or not isinstance(settings, dict):
        raise InvalidValueError("channel", _("a kind, whether it is enabled, and settings, as an export has it"), name)
    if not (isinstance(left_out, list) and all(isinstance(field, str) and len(field) <= 100 for field in left_out)):
        raise InvalidValueError(LEFT_OUT, _("a list of names of secrets"), "(not shown)")
    spec = ChannelSpec(name, kind, enabled=enabled)
    if not left_out:
        return with_settings(spec, given_again(settings, _secrets(record, name, vault)))
    before = stored.get(name)
    return (
        without_secrets(spec, settings)
        if before is None or before.kind != kind or before.secrets is None
        else with_settings(spec, settings, before)
    )


def _secrets(record: Record, name: str, vault: Vault | None) -> dict[str, str]:
    if SEALED not in record:
        return {}
    if vault is None:
        raise InvalidValueError("document", _("one whose first line names its secrets"), _("a channel with secrets"))
    secrets: dict[str, str] = orjson.loads(vault.open(_owner(name), record[SEALED]))
    return secrets


def _rule(record: Record) -> tuple[RuleSpec, float | None]:
    _check_fields(record, _RULE)
    rule, until = record.get("rule"), record.get("muted_until")
    if not isinstance(rule, dict):
        raise InvalidValueError("rule", _("an object"), kind_of(rule))
    if until is not None and (isinstance(until, bool) or not isinstance(until, int | float) or abs(until) > 1e12):
        raise InvalidValueError("muted_until", _("epoch seconds"), str(until)[:100])
    return rule_spec(rule), until


def _check_fields(record: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(record.keys() - known)
    if unknown:
        raise unknown_name(unknown[0][:100], N_("field"), unknown[0][:100], sorted(known))


def _owner(name: str) -> str:
    """Returns what its secrets are bound to; no tag and no URL is like it."""
    return f"channel {name}"


# The section `signal_sources`: sites and programs that say when pages change. What they said is not exported.


class SignalSourcesSection:
    """One record per signal source; those that stand in an index come by themselves."""

    name = "signal_sources"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all signal sources by id."""
        signals = [signal for signal in await daemon.store.signals.all() if signal.origin is not SignalOrigin.INDEX]
        for start in range(0, len(signals), BLOCK):
            yield [
                {"kind": signal.spec.kind, "url": signal.url, "name": signal.spec.name, "hosts": signal.spec.hosts}
                for signal in signals[start : start + BLOCK]
            ]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _listed(record)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new signal sources, and applies the records to existing ones; all others stay.

        Raises `InvalidValueError` for one whose site is not there.
        """
        for block in blocks():
            await _require_sites(daemon, [_listed(record) for _line, record in block])
        counts = Counts()
        for block in blocks():
            result = await daemon.control.signals.restore([_listed(record) for _line, record in block])
            counts.added += len(result.added)
            counts.changed += len(result.changed)
            counts.unchanged += len(block) - len(result.added) - len(result.changed)
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged signal sources."""
        counts, stored = Counts(), {signal.key: signal.spec for signal in await daemon.store.signals.all()}
        for source in (_listed(record) for block in blocks() for _line, record in block):
            spec = stored.get(source.key)
            if spec is None:
                counts.added += 1
            elif (spec.kind, spec.hosts) == (source.kind, source.hosts):
                counts.unchanged += 1
            else:
                counts.changed += 1
        return counts


async def _require_sites(daemon: ApiPorts, listed: Sequence[ListedSignalSource]) -> None:
    """Raises `InvalidValueError` for a signal source whose site is not there: nothing of the section is applied."""
    urls = [source.url for source in listed if source.url is not None]
    stored = await daemon.store.signals.sites_at(urls)
    for url in urls:
        if url not in stored:
            raise InvalidValueError("url", _("that of a site, which comes before its signal source"), url)


def _listed(record: Record) -> ListedSignalSource:
    return signal_source_of({name: value for name, value in record.items() if name != "section"})
