"""Sections of a document. A new kind of user setting is a new module and a line here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from pollerd.api.http.context import ApiPorts
from pollerd.api.transfer import allocation, deleted, notifications, signals, sites, sources, tags
from pollerd.api.transfer.document import Blocks, Counts, Record
from pollerd.api.transfer.vault import Vault


class Section(Protocol):
    """One kind of user setting."""

    name: str

    def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all records, in pieces, in a stable order. Secrets are encrypted, or named as left out."""

    def check(self, record: Record, vault: Vault | None) -> None:
        """Raises `InvalidValueError` for an invalid record."""

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Applies all records or none. Raises `InvalidValueError` if the daemon refuses them."""

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Returns what `put` would do."""


def sections() -> Sequence[Section]:
    """Returns all sections, in the order of writing and applying: sites after the allocator that they suit.

    Tags come before their sites. Sources come last: their pages are noted at sites, and what a user deleted does not
    come back with them. Rules come after their channels.
    """
    return (
        allocation.AllocationSection(),
        tags.TagsSection(),
        sites.SitesSection(),
        deleted.DeletedSection(),
        sources.SourcesSection(),
        sources.SourceSitesSection(),
        signals.SignalSourcesSection(),
        notifications.ChannelsSection(),
        notifications.RulesSection(),
    )
