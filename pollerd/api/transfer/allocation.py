"""The section `allocation`: allocator, objective, budget, deadline and shadows."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

from pollerd import allocation
from pollerd.allocation.registered import OBJECTIVES
from pollerd.api.http.context import ApiPorts
from pollerd.api.transfer.document import Blocks, Counts, Record
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.ranges import BUDGET
from pollerd.site_settings import SITE

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
            raise InvalidValueError("allocation", f"{', '.join(_FIELDS)} and nothing else", ", ".join(record)[:200])
        _among("allocator", record["allocator"], allocation.names())
        _among("objective", record["objective"], OBJECTIVES)
        budget = record["budget"]
        number = isinstance(budget, int | float) and not isinstance(budget, bool) and math.isfinite(budget)
        if not (number and BUDGET.holds(budget)):
            allowed = f"{BUDGET.lowest:g} to {BUDGET.highest:g} {BUDGET.unit}"
            raise InvalidValueError("budget", allowed, str(budget)[:100])
        deadline = record.get(_DEADLINE, SITE[_DEADLINE].lowest)
        if isinstance(deadline, bool) or not isinstance(deadline, int | float):
            raise InvalidValueError(_DEADLINE, "a number of seconds", str(deadline)[:100])
        SITE[_DEADLINE].check(deadline)
        shadows = record.get(_SHADOWS, [])
        if not isinstance(shadows, list) or not all(name in allocation.names() for name in shadows):
            allowed = f"a list of some of {', '.join(allocation.names())}"
            raise InvalidValueError(_SHADOWS, allowed, str(shadows)[:100])

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
        present = await _present(daemon) or {}
        return Counts(unchanged=1) if present | wanted == present else Counts(changed=1)


async def _present(daemon: ApiPorts) -> Record | None:
    row = await daemon.store.load_allocation()
    if row is None:
        return None
    present: Record = {"allocator": row.allocator, "objective": row.objective, "budget": row.budget}
    present |= {} if row.deadline is None else {_DEADLINE: row.deadline}
    return {**present, _SHADOWS: list(row.shadows)}


def _wanted(blocks: Blocks) -> dict[str, Any]:
    records = [record for block in blocks() for _, record in block]
    given = (*_FIELDS, _DEADLINE, _SHADOWS)
    return {name: records[-1][name] for name in given if name in records[-1]} if records else {}


def _among(field: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidValueError(field, f"one of {', '.join(known)}", str(given)[:100])
