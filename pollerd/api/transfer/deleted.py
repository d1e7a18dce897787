"""The section `deleted_urls`: URLs deleted by the user, which lists do not add again."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator

from pollerd.api.http.context import ApiPorts
from pollerd.api.transfer.document import BLOCK, Blocks, Counts, Record
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.urls import normalise_url


class DeletedSection:
    """One record per URL. A URL that is a site in the target is skipped."""

    name = "deleted_urls"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all of them, by URL."""
        after = ""
        while found := await daemon.store.sites.deleted_urls(after, BLOCK):
            yield [{"url": url, "deleted_at": at} for url, at in found]
            after = found[-1][0]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        if record.keys() != {"section", "url", "deleted_at"}:
            raise InvalidValueError("deleted_urls", "url and deleted_at and nothing else", ", ".join(record)[:200])
        url, at = record["url"], record["deleted_at"]
        if not isinstance(url, str) or normalise_url(url) != url:
            raise InvalidValueError("url", "a normalised URL", str(url)[:200])
        if isinstance(at, bool) or not (isinstance(at, int | float) and math.isfinite(at)):
            raise InvalidValueError("deleted_at", "epoch seconds", str(at)[:100])

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Marks those that are neither sites nor marked."""
        return Counts(*await daemon.store.sites.mark_deleted(lambda: _pairs(blocks)))

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts the new ones."""
        counts = Counts()
        for block in _pairs(blocks):
            urls = [url for url, _ in block]
            there = (await daemon.store.sites.at(urls)).keys() | await daemon.store.sites.deleted_among(urls)
            counts.added += len(set(urls) - there)
            counts.unchanged += len(block) - len(set(urls) - there)
        return counts


def _pairs(blocks: Blocks) -> Iterator[list[tuple[str, float]]]:
    for block in blocks():
        yield [(record["url"], float(record["deleted_at"])) for _, record in block]
