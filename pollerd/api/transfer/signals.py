"""The section `signal_sources`: sites and programs that say when pages change. What they said is not exported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from pollerd.api.http.context import ApiPorts
from pollerd.api.signals.listed import signal_source_of
from pollerd.api.transfer.document import BLOCK, Blocks, Counts, Record
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.storage import ListedSignalSource, SignalOrigin


class SignalSourcesSection:
    """One record per signal source; those that stand in an index come by themselves."""

    name = "signal_sources"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all signal sources by id."""
        found = [one for one in await daemon.store.signals.all() if one.origin is not SignalOrigin.INDEX]
        for start in range(0, len(found), BLOCK):
            yield [
                {"kind": one.spec.kind, "url": one.url, "name": one.spec.name, "hosts": one.spec.hosts}
                for one in found[start : start + BLOCK]
            ]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _listed(record)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new signal sources, and applies the records to existing ones; all others stay.

        Raises `InvalidValueError` for one whose site is not there.
        """
        for block in blocks():
            await _require_sites(daemon, [_listed(record) for _, record in block])
        counts = Counts()
        for block in blocks():
            result = await daemon.control.signals.restore([_listed(record) for _, record in block])
            counts.added += len(result.added)
            counts.changed += len(result.changed)
            counts.unchanged += len(block) - len(result.added) - len(result.changed)
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged signal sources."""
        counts, there = Counts(), {one.key: one.spec for one in await daemon.store.signals.all()}
        for one in (_listed(record) for block in blocks() for _, record in block):
            spec = there.get(one.key)
            if spec is None:
                counts.added += 1
            elif (spec.kind, spec.hosts) == (one.kind, one.hosts):
                counts.unchanged += 1
            else:
                counts.changed += 1
        return counts


async def _require_sites(daemon: ApiPorts, listed: Sequence[ListedSignalSource]) -> None:
    """Raises `InvalidValueError` for a signal source whose site is not there: nothing of the section is applied."""
    wanted = [one.url for one in listed if one.url is not None]
    there = await daemon.store.signals.sites_at(wanted)
    for url in wanted:
        if url not in there:
            raise InvalidValueError("url", "that of a site, which comes before its signal source", url)


def _listed(record: Record) -> ListedSignalSource:
    return signal_source_of({name: value for name, value in record.items() if name != "section"})
