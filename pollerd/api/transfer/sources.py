"""The sections `sources` and `source_sites`: sitemaps and feeds, and which sites they brought."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from pollerd.api.http.context import ApiPorts
from pollerd.api.schemas.sources import settings_of, source_of
from pollerd.api.transfer.document import BLOCK, Blocks, Counts, Record
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.storage import SourceSpec, StoredMember
from pollerd.urls import normalise_url

_READ_AFTER_SECONDS = 300.0
"""A source that an import adds is read when its pages are noted: else it would take its own sites for the user's."""
_MEMBER = {"section", "source", "url", "site", "joined", "added", "paused", "since"}


class SourcesSection:
    """One record per source: its settings."""

    name = "sources"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all sources by id."""
        found = await daemon.store.sources.all()
        for start in range(0, len(found), BLOCK):
            yield [settings_of(source.spec) for source in found[start : start + BLOCK]]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _spec(record)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new sources, and applies the records' settings to existing ones; all others stay."""
        return await self._go_through(daemon, blocks, apply=True)

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged sources."""
        return await self._go_through(daemon, blocks, apply=False)

    async def _go_through(self, daemon: ApiPorts, blocks: Blocks, *, apply: bool) -> Counts:
        counts = Counts()
        for specs in ([_spec(record) for _, record in block] for block in blocks()):
            there = await daemon.store.sources.at([spec.url for spec in specs])
            for spec in specs:
                source = there.get(spec.url)
                if source is None:
                    counts.added += 1
                elif source.spec == spec:
                    counts.unchanged += 1
                    continue
                else:
                    counts.changed += 1
                if apply and source is None:
                    await daemon.control.sources.add(spec, after=_READ_AFTER_SECONDS)
                elif apply and source is not None:
                    await daemon.control.sources.update(source.id, spec)
        return counts


class SourceSitesSection:
    """One record per page of a source: without them no source would pause or resume what it brought before."""

    name = "source_sites"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields the pages of all sources, by source and URL."""
        for source in await daemon.store.sources.all():
            after = ""
            while found := await daemon.store.sources.stored_members(source.id, after, BLOCK):
                yield [{"source": source.spec.url, **one.fields()} for one in found]
                after = found[-1].url

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _member(record)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Notes the pages of sources and sites that are there; pages that are known stay as they are."""
        added, unchanged = await daemon.store.sources.put_members(lambda: _members(blocks))
        return Counts(added=added, unchanged=unchanged)

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts the new ones, as if sources and sites of the document were there."""
        counts = Counts()
        for block in _members(blocks):
            known = await daemon.store.sources.known_members(block)
            counts.added += len(block) - known
            counts.unchanged += known
        return counts


def _spec(record: Record) -> SourceSpec:
    given = {name: value for name, value in record.items() if name != "section"}
    return source_of(given)


def _member(record: Record) -> tuple[str, StoredMember]:
    if record.keys() != _MEMBER:
        allowed = f"{', '.join(sorted(_MEMBER - {'section'}))} and nothing else"
        raise InvalidValueError("source_sites", allowed, ", ".join(record)[:200])
    for name in ("source", "url", "site"):
        _expect(name, record[name], isinstance(record[name], str) and normalise_url(record[name]) == record[name])
    for name in ("joined", "added", "paused"):
        _expect(name, record[name], isinstance(record[name], bool))
    since = record["since"]
    _expect("since", since, isinstance(since, int | float) and not isinstance(since, bool) and abs(since) < 1e12)
    values: dict[str, Any] = {name: record[name] for name in ("url", "site", "joined", "added", "paused")}
    return record["source"], StoredMember(**values, since=float(since))


def _expect(field: str, given: object, fits: bool) -> None:
    if not fits:
        raise InvalidValueError(field, "as an export has it", str(given)[:200])


def _members(blocks: Blocks) -> Iterator[list[tuple[str, StoredMember]]]:
    for block in blocks():
        yield [_member(record) for _, record in block]
