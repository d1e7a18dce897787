"""The section `allocation`: allocator, objective and budget."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

from pollerd import allocation
from pollerd.api.http.context import ApiPorts
from pollerd.api.transfer.document import Blocks, Record
from pollerd.api.transfer.sections import Counts
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.ranges import BUDGET

_OBJECTIVES = ("changes", "freshness", "interest")
_FIELDS = ("allocator", "objective", "budget")


class AllocationSection:
    """A section of one record."""

    name = "allocation"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields the current allocation."""
        if present := await _present(daemon):
            yield [present]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        if record.keys() != {"section", *_FIELDS}:
            raise InvalidValueError("allocation", f"{', '.join(_FIELDS)} and nothing else", ", ".join(record)[:200])
        _among("allocator", record["allocator"], allocation.names())
        _among("objective", record["objective"], _OBJECTIVES)
        budget = record["budget"]
        number = isinstance(budget, int | float) and not isinstance(budget, bool) and math.isfinite(budget)
        if not (number and BUDGET.holds(budget)):
            allowed = f"{BUDGET.lowest:g} to {BUDGET.highest:g} {BUDGET.unit}"
            raise InvalidValueError("budget", allowed, str(budget)[:100])

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Applies the last record."""
        counts = await self.compare(daemon, blocks, vault)
        if counts.changed or counts.added:
            await daemon.control.allocation.set(**_wanted(blocks))
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Compares the last record with the current allocation."""
        wanted = _wanted(blocks)
        if not wanted:
            return Counts()
        return Counts(unchanged=1) if await _present(daemon) == wanted else Counts(changed=1)


async def _present(daemon: ApiPorts) -> Record | None:
    row = await daemon.store.load_allocation()
    return None if row is None else {"allocator": row.allocator, "objective": row.objective, "budget": row.budget}


def _wanted(blocks: Blocks) -> dict[str, Any]:
    records = [record for block in blocks() for _, record in block]
    return {name: records[-1][name] for name in _FIELDS} if records else {}


def _among(field: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidValueError(field, f"one of {', '.join(known)}", str(given)[:100])
