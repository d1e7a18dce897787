"""What a document is made of. A further kind of thing that users set is a further module and a line here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pollerd.api.http.context import ApiPorts
from pollerd.api.transfer.document import Blocks, Record
from pollerd.api.transfer.vault import Vault


@dataclass
class Counts:
    """What became, or would become, of the records of a section."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0


class Section(Protocol):
    """One kind of thing that users set."""

    name: str

    def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """All there is, some at a time, in an order that does not change. Secrets are sealed, or named as left out."""

    def check(self, record: Record, vault: Vault | None) -> None:
        """Raises `InvalidValueError` for a record that cannot be used."""

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Puts all of it in force, or nothing. Raises `InvalidValueError` where the daemon cannot take it."""

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """What `put` would do."""


def sections() -> Sequence[Section]:
    """All of them, in the order in which they are written and put in force: sites under the allocator they suit."""
    from pollerd.api.transfer import allocation, deleted, sites

    return (allocation.AllocationSection(), sites.SitesSection(), deleted.DeletedSection())
