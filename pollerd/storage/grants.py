"""Grants: the shares of several nodes in one budget, and the allocation that the nodes have in common.

At any moment the sum of `reserved` is at most the budget, or falls towards one that was lowered. A node's `reserved` is
the most that it may be spending: it rises only by what is free, and falls only when the node itself reports that it
spends less, or when it is gone for so long that nothing of it can be under way. Up to `GrantStore` these rules are
arithmetic over the rows of all nodes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, func, insert, select, text, update

from pollerd.errors import InvalidValueError
from pollerd.ranges import BUDGET
from pollerd.storage.encoding import split_names
from pollerd.storage.engine import Database
from pollerd.storage.node_values import clock_ahead
from pollerd.storage.schema import allocation, budget_grant, node, shared_budget
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.values import AllocationRow
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.storage.node_session import NodeSession


SETTLE_SECONDS = 15.0
"""Time from when a node's session is missed until what it had is free: above the time for which a node whose session
does not answer goes on polling, 10 s."""
_UNIT = 2.0**-20
"""Grants are multiples of this, so that sums of them are exact."""

Divide = Callable[
    [float, NDArray[np.float64], Sequence[bytes | None], NDArray[np.float64], NDArray[np.float64]],
    tuple[float, NDArray[np.float64]],
]
"""Divides a budget among n nodes with costs float64[n], curves, last targets float64[n], nan: none, and what each is
able to spend, float64[n], inf: whatever it is given; returns price and targets float64[n], whose sum is at most the
budget: `pollerd.allocation.budget_split.divide_reported`."""


@dataclass(frozen=True)
class GrantReport:
    """What a node says of itself.

    node: its name, which no later process takes over. spending: polls per second that its pacer is set to, and stays
    set to until it is answered; 0: it writes no request. cost: of a poll of each of its sites, in sum. curve: bytes of
    its `PriceCurve`; None: it has no belief. able: the most that it can spend, > 0; None: whatever it is given. spent:
    polls per second that it started of late. Raises InvalidValueError for numbers that are not finite or below 0.
    """

    node: str
    spending: float
    cost: float
    curve: bytes | None = None
    able: float | None = None
    spent: float = 0.0

    def __post_init__(self) -> None:
        for name in ("spending", "cost", "spent"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InvalidValueError(name, _("a finite number of at least 0"), getattr(self, name))
        if not self.node:
            raise InvalidValueError("node", _("a name"), self.node)


@dataclass(frozen=True)
class GrantRow:
    """A node's share of the budget, in polls per second; times in epoch seconds of the database's clock.

    reserved: the most that it may be spending. spending: what it last said it does. target: what it is to have; None
    before the first division. price: value of one more poll per second at the division of its last report. gone_at:
    when its session was first missed; None: it is there. able: the most that it can spend; None: whatever it is given.
    spent: what it did of late. clock_ahead: how far its clock is ahead of the database's, s. Both None: not known.
    """

    node: str
    reserved: float
    spending: float
    target: float | None
    price: float
    cost: float
    curve: bytes | None
    reported_at: float
    gone_at: float | None
    able: float | None = None
    spent: float | None = None
    clock_ahead: float | None = None


@dataclass(frozen=True)
class GrantAnswer:
    """What a node may spend from now on.

    grant: polls per second. If that is less than it spends, it lowers its pacer at once and reports again: only then is
    the difference free for others. target: what it gets as soon as so much is free. price: value of one more poll per
    second, the same at all nodes. budget: of all nodes. clock_ahead: how far this node's clock is ahead of the
    database's, s.
    """

    grant: float
    target: float
    price: float
    budget: float
    clock_ahead: float = 0.0


def settled(
    rows: Mapping[str, GrantRow],
    report: GrantReport,
    living: Collection[str],
    *,
    budget: float,
    now: float,
    divide: Divide,
    settle_seconds: float = SETTLE_SECONDS,
) -> tuple[GrantAnswer, dict[str, GrantRow]]:
    """Returns the answer to a report, and the rows of all nodes after it.

    living: names of the nodes whose sessions are there; the reporting node is. A node that reports more than it has
    reserved (it was given up, and went on) is answered by what it has.
    """
    after = {
        name: row
        for name, row in ((name, _seen(row, name in living, now)) for name, row in rows.items())
        if row.gone_at is None or now - row.gone_at < settle_seconds or name == report.node
    }
    before = after.get(report.node)
    own = min(_up(report.spending), before.reserved if before else 0.0)
    after[report.node] = GrantRow(
        node=report.node,
        reserved=own,
        spending=report.spending,
        target=before.target if before else None,
        price=0.0,
        cost=report.cost,
        curve=report.curve,
        reported_at=now,
        gone_at=None,
        able=report.able,
        spent=report.spent,
    )
    price, targets = _targets(after, budget, divide)
    for name, target in targets.items():
        after[name] = replace(after[name], target=target)
    free = max(budget - sum(row.reserved for row in after.values()), 0.0)
    target = targets[report.node]
    grant = _down(min(target, own + free))
    after[report.node] = replace(after[report.node], reserved=max(own, grant), price=price)
    return GrantAnswer(grant, target, price, budget), after


def _seen(row: GrantRow, present: bool, now: float) -> GrantRow:
    if present:
        return replace(row, gone_at=None)
    return row if row.gone_at is not None else replace(row, gone_at=now)


def _targets(rows: Mapping[str, GrantRow], budget: float, divide: Divide) -> tuple[float, dict[str, float]]:
    """Returns the price, and what each node that is there is to have; nodes in the order of their names."""
    present = [rows[name] for name in sorted(rows) if rows[name].gone_at is None]
    held = np.array([math.nan if row.target is None else row.target for row in present])
    able = np.array([math.inf if row.able is None else row.able for row in present])
    price, targets = divide(budget, np.array([row.cost for row in present]), [row.curve for row in present], held, able)
    return price, dict(zip((row.node for row in present), targets.tolist(), strict=True))


def _down(value: float) -> float:
    return math.floor(value / _UNIT) * _UNIT


def _up(value: float) -> float:
    return math.ceil(value / _UNIT) * _UNIT


# The budget in the database: each report is one transaction under the lock of one row.
#
# There is no leader: whichever node reports divides the budget again for all. The server orders the reports, since each
# holds the lock until it is committed; if the answer to a report was lost, the next report is answered from its result.

_ROW = 1
"""Id of the only row of `shared_budget`."""

_FIRST = text("INSERT INTO shared_budget (id, budget) VALUES (:id, :budget) ON CONFLICT DO NOTHING")
_GRANT_COLUMNS = tuple(budget_grant.c[name] for name in GrantRow.__dataclass_fields__)

Living = Callable[[Connection], Collection[str]]
"""Returns the names of the nodes whose sessions are there; called in the transaction, under the lock."""


def server_time(connection: Connection) -> float:
    """Returns PostgreSQL's present time, not that of the transaction's beginning, in epoch seconds."""
    return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())


@dataclass(frozen=True)
class BudgetStatus:
    """The budget of all nodes as it stands.

    budget: polls per second; None: no node has reported yet. in_force: what all may be spending at most: the budget,
    or, after it was lowered, what nodes have not yet acknowledged to have given back. at: the server's time, epoch s.
    """

    budget: float | None
    in_force: float
    nodes: tuple[GrantRow, ...]
    at: float = 0.0


class GrantStore(Subject):
    """The grants of all nodes, on PostgreSQL.

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
        return await self._report(report, living, first_budget)

    @writes
    def _report(self, connection: Connection, report: GrantReport, living: Living, first: float) -> GrantAnswer:
        budget = _locked(connection, first)
        before = _rows(connection)
        asked_at = time.time()
        now, answered_at = self._clock(connection), time.time()
        answer, after = settled(
            before,
            report,
            living(connection),
            budget=budget,
            now=now,
            divide=self._divide,
            settle_seconds=self._settle_seconds,
        )
        ahead = clock_ahead(asked_at, now, answered_at)
        after[report.node] = replace(after[report.node], clock_ahead=ahead)
        answer = replace(answer, clock_ahead=ahead)
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
        await self._set_budget(budget)

    @writes
    def _set_budget(self, connection: Connection, budget: float) -> None:
        _locked(connection, budget)
        connection.execute(update(shared_budget).where(shared_budget.c.id == _ROW).values(budget=budget))

    @writes
    def leave(self, connection: Connection, node: str) -> None:
        """Frees what a node has that stops, and has written its last request; it reports no more."""
        connection.execute(select(shared_budget.c.id).with_for_update())
        connection.execute(delete(budget_grant).where(budget_grant.c.node == node))

    @reads
    def status(self, connection: Connection) -> BudgetStatus:
        """Returns how the budget stands, nodes by name, in one snapshot."""
        joined = select(shared_budget.c.budget, *_GRANT_COLUMNS).select_from(
            shared_budget.outerjoin(budget_grant, shared_budget.c.id == _ROW)
        )
        rows = connection.execute(joined.order_by(budget_grant.c.node)).all()
        budget = float(rows[0][0]) if rows else None
        nodes = tuple(GrantRow(*row[1:]) for row in rows if row[1] is not None)
        in_force = max(budget or 0.0, sum(row.reserved for row in nodes))
        return BudgetStatus(budget, in_force, nodes, self._clock(connection))


def _locked(connection: Connection, first: float) -> float:
    """Returns the budget, with its row locked until the transaction ends; stores the first one where there is none."""
    statement = select(shared_budget.c.budget).where(shared_budget.c.id == _ROW).with_for_update()
    budget = connection.execute(statement).scalar_one_or_none()
    if budget is None:
        connection.execute(_FIRST, {"id": _ROW, "budget": first})
        budget = connection.execute(statement).scalar_one()
    return float(budget)


def _rows(connection: Connection) -> dict[str, GrantRow]:
    return {row[0]: GrantRow(*row) for row in connection.execute(select(*_GRANT_COLUMNS))}


def _changed(row: GrantRow) -> dict[str, object]:
    values = asdict(row)
    del values["node"]
    return values


# The allocation of all nodes: one row, written under the lock under which nodes join.
#
# So no node joins between a look at the present nodes and a change that depends on them.

Choose = Callable[[AllocationRow | None], AllocationRow]
"""Returns the allocation to store, of the one that is stored."""
Check = Callable[[AllocationRow], None]
"""Raises if nodes cannot have this allocation."""
_ALLOCATION_COLUMNS = tuple(allocation.c[name] for name in ("allocator", "objective", "budget", "shadows", "deadline"))


class SharedAllocation(Subject):
    """Reads and writes it on the node's own session."""

    def __init__(self, *, database: Database, sql: Statements, session: NodeSession) -> None:
        self._database, self._sql, self._session = database, sql, session

    async def join(self, choose: Choose, check: Check) -> AllocationRow:
        """Joins the others and returns their allocation; the first node stores what it chooses.

        Raises what `check` raises; the node has not joined then.
        """
        row = await self._join(choose, check)
        self._session.joined = True
        return row

    @writes
    def _join(self, connection: Connection, choose: Choose, check: Check) -> AllocationRow:
        others = self._others(connection)
        kept = self.stored.within(connection)
        row = kept if others and kept is not None else choose(kept)
        check(row)
        if not others or kept is None:
            self._store(connection, row)
            # Nobody spends anything now: what is granted is divided anew with the next report.
            connection.execute(update(shared_budget).values(budget=row.budget))
        connection.execute(update(node).where(node.c.id == self._session.node_id).values(joined=True))
        return row

    @writes
    def change(self, connection: Connection, choose: Choose, check: Check) -> AllocationRow:
        """Stores what `choose` makes of the stored allocation, for all nodes, and returns it; they follow the news.

        Raises what `check` raises; nothing has changed then.
        """
        self._wait_for_others(connection)
        row = choose(self.stored.within(connection))
        check(row)
        self._store(connection, row)
        return row

    @reads
    def stored(self, connection: Connection) -> AllocationRow | None:
        """Returns the allocation, without what was learned; None before the first node."""
        row = connection.execute(select(*_ALLOCATION_COLUMNS)).one_or_none()
        if row is None:
            return None
        names = split_names(row.shadows)
        return AllocationRow(row.allocator, row.objective, row.budget, deadline=row.deadline, shadows=names)

    def _others(self, connection: Connection) -> int:
        """Returns how many other nodes have joined, and keeps out others until the transaction ends."""
        self._wait_for_others(connection)
        living = self._session.look(connection).nodes - {self._session.node_id}
        joined = select(func.count()).where(node.c.id.in_(living), node.c.joined)
        return int(connection.execute(joined).scalar_one())

    def _wait_for_others(self, connection: Connection) -> None:
        """Waits until nobody else joins or changes the allocation; nobody does before the transaction ends."""
        connection.execute(text("LOCK TABLE allocation IN SHARE ROW EXCLUSIVE MODE"))

    def _store(self, connection: Connection, row: AllocationRow) -> None:
        values: dict[str, Any] = {"allocator": row.allocator, "objective": row.objective, "budget": row.budget}
        values |= {"shadows": ",".join(row.shadows), "deadline": row.deadline}
        statement = self._sql.insert_for(allocation).values(id=1, **values)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))
