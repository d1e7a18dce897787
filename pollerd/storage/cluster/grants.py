"""One budget for several nodes, in the database: each report is one transaction under the lock of one row.

There is no leader: whichever node reports divides the budget anew for all. The server orders the reports, since each
holds the lock until it is committed; of a report whose answer was lost the next one says what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, func, insert, select, text, update

from pollerd.ranges import BUDGET
from pollerd.storage.cluster.grant_rules import (
    SETTLE_SECONDS,
    Divide,
    GrantAnswer,
    GrantReport,
    GrantRow,
    settled,
)
from pollerd.storage.db.engine import Database
from pollerd.storage.db.schema.cluster import budget_grant, shared_budget

_ROW = 1
"""Id of the only row of `shared_budget`."""

_FIRST = text("INSERT INTO shared_budget (id, budget) VALUES (:id, :budget) ON CONFLICT DO NOTHING")
_COLUMNS = tuple(budget_grant.c[name] for name in GrantRow.__dataclass_fields__)

Living = Callable[[Connection], Collection[str]]
"""Returns the names of the nodes whose sessions are there; called in the transaction, under the lock."""


def server_time(connection: Connection) -> float:
    """Returns PostgreSQL's present time, not that of the transaction's beginning, in epoch seconds."""
    return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())


@dataclass(frozen=True)
class BudgetStatus:
    """The budget of all nodes as it stands.

    budget: polls per second; None: no node has reported yet. in_force: what all may be spending at most: the budget,
    or, after it was lowered, what nodes have not yet acknowledged to have given back.
    """

    budget: float | None
    in_force: float
    nodes: tuple[GrantRow, ...]


class GrantStore:
    """The grants of all nodes, on PostgreSQL. Methods raise `DatabaseUnavailableError` as those of `Store` do.

    A report runs on the session on which the node's commits run, so a node whose session ended gets no grant.
    """

    def __init__(
        self,
        *,
        database: Database,
        divide: Divide,
        settle_seconds: float = SETTLE_SECONDS,
        clock: Callable[[Connection], float] = server_time,
    ) -> None:
        """settle_seconds: time from when a node's session is missed until what it had is free.

        clock: epoch seconds; the same for all nodes.
        """
        self._database, self._divide = database, divide
        self._settle_seconds, self._clock = settle_seconds, clock

    async def report(self, report: GrantReport, living: Living, first_budget: float) -> GrantAnswer:
        """Stores a node's report, divides the budget anew, and returns what the node may spend from now on.

        A node has one report under way at a time. After an error it goes on spending what it did, and reports again.
        first_budget: the budget, where none is stored yet.
        """
        BUDGET.check(first_budget)
        return await self._database.write(lambda c: self._report(c, report, living, first_budget))

    def _report(self, connection: Connection, report: GrantReport, living: Living, first: float) -> GrantAnswer:
        budget = _locked(connection, first)
        before = _rows(connection)
        answer, after = settled(
            before,
            report,
            living(connection),
            budget=budget,
            now=self._clock(connection),
            divide=self._divide,
            settle_seconds=self._settle_seconds,
        )
        for name in before.keys() - after.keys():
            connection.execute(delete(budget_grant).where(budget_grant.c.node == name))
        for name, row in after.items():
            if name not in before:
                connection.execute(insert(budget_grant).values(asdict(row)))
            elif row != before[name]:
                connection.execute(update(budget_grant).where(budget_grant.c.node == name).values(_changed(row)))
        return answer

    async def set_budget(self, budget: float) -> None:
        """Stores another budget of all nodes, in polls per second; nodes follow with their next reports.

        Raises InvalidValueError if it is out of range.
        """
        BUDGET.check(budget)

        def work(connection: Connection) -> None:
            _locked(connection, budget)
            connection.execute(update(shared_budget).where(shared_budget.c.id == _ROW).values(budget=budget))

        await self._database.write(work)

    async def leave(self, node: str) -> None:
        """Frees what a node has that stops, and has written its last request; it reports no more."""

        def work(connection: Connection) -> None:
            connection.execute(select(shared_budget.c.id).with_for_update())
            connection.execute(delete(budget_grant).where(budget_grant.c.node == node))

        await self._database.write(work)

    async def status(self) -> BudgetStatus:
        """Returns how the budget stands, nodes by name, in one snapshot."""

        def work(connection: Connection) -> BudgetStatus:
            joined = select(shared_budget.c.budget, *_COLUMNS).select_from(
                shared_budget.outerjoin(budget_grant, shared_budget.c.id == _ROW)
            )
            found = connection.execute(joined.order_by(budget_grant.c.node)).all()
            budget = float(found[0][0]) if found else None
            nodes = tuple(GrantRow(*row[1:]) for row in found if row[1] is not None)
            return BudgetStatus(budget, max(budget or 0.0, sum(row.reserved for row in nodes)), nodes)

        return await self._database.read(work)


def _locked(connection: Connection, first: float) -> float:
    """Returns the budget, with its row locked until the transaction ends; stores the first one where there is none."""
    wanted = select(shared_budget.c.budget).where(shared_budget.c.id == _ROW).with_for_update()
    budget = connection.execute(wanted).scalar_one_or_none()
    if budget is None:
        connection.execute(_FIRST, {"id": _ROW, "budget": first})
        budget = connection.execute(wanted).scalar_one()
    return float(budget)


def _rows(connection: Connection) -> dict[str, GrantRow]:
    return {row[0]: GrantRow(*row) for row in connection.execute(select(*_COLUMNS))}


def _changed(row: GrantRow) -> dict[str, object]:
    values = asdict(row)
    del values["node"]
    return values
