"""Who may spend what of one budget, as arithmetic over the rows of all nodes; `grants.py` keeps them in the database.

At any moment the sum of `reserved` is at most the budget, or falls towards one that was lowered. A node's `reserved` is
the most that it may be spending: it rises only by what is free, and falls only when the node itself says that it spends
less, or when it is gone for so long that nothing of it can be under way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError

SETTLE_SECONDS = 15.0
"""Time from when a node's session is missed until what it had is free: above the time for which a node whose session
does not answer goes on polling, 10 s."""
_UNIT = 2.0**-20
"""Grants are multiples of this, so that sums of them are exact."""

Divide = Callable[
    [float, NDArray[np.float64], Sequence[bytes | None], NDArray[np.float64]], tuple[float, NDArray[np.float64]]
]
"""Divides a budget among n nodes with costs float64[n], curves, and last targets float64[n], nan: none; returns price
and targets float64[n], whose sum is at most the budget: `pollerd.allocation.core.budget_split.divide_reported`."""


@dataclass(frozen=True)
class GrantReport:
    """What a node says of itself.

    node: its name, which no later process takes over. spending: polls per second that its pacer is set to, and stays
    set to until it is answered; 0: it writes no request. cost: of a poll of each of its sites, in sum. curve: bytes of
    its `PriceCurve`; None: it has no belief. Raises InvalidValueError for numbers that are not finite or below 0.
    """

    node: str
    spending: float
    cost: float
    curve: bytes | None = None

    def __post_init__(self) -> None:
        for name in ("spending", "cost"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InvalidValueError(name, "a finite number of at least 0", getattr(self, name))
        if not self.node:
            raise InvalidValueError("node", "a name", self.node)


@dataclass(frozen=True)
class GrantRow:
    """A node's share of the budget, in polls per second; times in epoch seconds of the database's clock.

    reserved: the most that it may be spending. spending: what it last said it does. target: what it is to have; None
    before the first division. price: value of one more poll per second at the division of its last report. gone_at:
    when its session was first missed; None: it is there.
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


@dataclass(frozen=True)
class GrantAnswer:
    """What a node may spend from now on.

    grant: polls per second. If that is less than it spends, it lowers its pacer at once and reports again: only then is
    the difference free for others. target: what it gets as soon as so much is free. price: value of one more poll per
    second, the same at all nodes. budget: of all nodes.
    """

    grant: float
    target: float
    price: float
    budget: float


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
    )
    price, targets = _targets(after, budget, divide)
    for name, target in targets.items():
        after[name] = replace(after[name], target=target)
    free = max(budget - sum(row.reserved for row in after.values()), 0.0)
    target = targets[report.node]
    grant = _down(min(target, own + free))
    after[report.node] = replace(after[report.node], reserved=max(own, grant), price=price)
    return GrantAnswer(grant, target, price, budget), after


def _seen(row: GrantRow, there: bool, now: float) -> GrantRow:
    if there:
        return replace(row, gone_at=None)
    return row if row.gone_at is not None else replace(row, gone_at=now)


def _targets(rows: Mapping[str, GrantRow], budget: float, divide: Divide) -> tuple[float, dict[str, float]]:
    """Returns the price, and what each node that is there is to have; nodes in the order of their names."""
    there = [rows[name] for name in sorted(rows) if rows[name].gone_at is None]
    held = np.array([math.nan if row.target is None else row.target for row in there])
    price, targets = divide(budget, np.array([row.cost for row in there]), [row.curve for row in there], held)
    return price, dict(zip((row.node for row in there), targets.tolist(), strict=True))


def _down(value: float) -> float:
    return math.floor(value / _UNIT) * _UNIT


def _up(value: float) -> float:
    return math.ceil(value / _UNIT) * _UNIT
