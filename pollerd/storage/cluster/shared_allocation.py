"""The allocation of all nodes: one row, written under the lock under which nodes join.

So nobody joins between a look at who is there and a change that depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select, text, update

from pollerd.storage.db.engine import Database
from pollerd.storage.db.schema.cluster import node, shared_budget
from pollerd.storage.db.schema.runs import allocation
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.text_encoding import split_names
from pollerd.storage.values import AllocationRow

if TYPE_CHECKING:  # PostgreSQL's driver
    from pollerd.storage.cluster.node_session import NodeSession

Choose = Callable[[AllocationRow | None], AllocationRow]
"""Returns the allocation to store, of the one that is stored."""
Check = Callable[[AllocationRow, Sequence[str]], None]
"""Raises if the nodes of these names, beside the one that asks, cannot have this allocation."""
_COLUMNS = tuple(allocation.c[name] for name in ("allocator", "objective", "budget", "shadows", "deadline"))


class SharedAllocation:
    """Reads and writes it on the node's own session. Methods raise `DatabaseUnavailableError`."""

    def __init__(self, *, database: Database, sql: Statements, session: NodeSession) -> None:
        self._database, self._sql, self._session = database, sql, session

    async def join(self, choose: Choose, check: Check) -> AllocationRow:
        """Joins the others and returns their allocation; the first node stores what it chooses.

        Raises what `check` raises; the node has not joined then.
        """

        def work(connection: Connection) -> AllocationRow:
            others = self._others(connection)
            kept = _stored(connection)
            row = kept if others and kept is not None else choose(kept)
            check(row, others)
            if not others or kept is None:
                self._store(connection, row)
                # Nobody spends anything now: what is granted is divided anew with the next report.
                connection.execute(update(shared_budget).values(budget=row.budget))
            connection.execute(update(node).where(node.c.id == self._session.node_id).values(joined=True))
            return row

        row = await self._database.write(work)
        self._session.joined = True
        return row

    async def change(self, choose: Choose, check: Check) -> AllocationRow:
        """Stores what `choose` makes of the stored allocation, for all nodes, and returns it; they follow the news.

        Raises what `check` raises; nothing has changed then.
        """

        def work(connection: Connection) -> AllocationRow:
            others = self._others(connection)
            row = choose(_stored(connection))
            check(row, others)
            self._store(connection, row)
            return row

        return await self._database.write(work)

    async def stored(self) -> AllocationRow | None:
        """Returns the allocation, without what was learned; None before the first node."""
        return await self._database.read(_stored)

    def _others(self, connection: Connection) -> list[str]:
        """Returns the names of the other nodes that have joined, and keeps out others until the transaction ends."""
        connection.execute(text("LOCK TABLE allocation IN SHARE ROW EXCLUSIVE MODE"))
        living = self._session.look(connection).nodes - {self._session.node_id}
        c = node.c
        return list(connection.execute(select(c.name).where(c.id.in_(living), c.joined).order_by(c.id)).scalars())

    def _store(self, connection: Connection, row: AllocationRow) -> None:
        values: dict[str, Any] = {"allocator": row.allocator, "objective": row.objective, "budget": row.budget}
        values |= {"shadows": ",".join(row.shadows), "deadline": row.deadline}
        statement = self._sql.insert_for(allocation).values(id=1, **values)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))


def _stored(connection: Connection) -> AllocationRow | None:
    row = connection.execute(select(*_COLUMNS)).one_or_none()
    if row is None:
        return None
    names = split_names(row.shadows)
    return AllocationRow(row.allocator, row.objective, row.budget, deadline=row.deadline, shadows=names)
