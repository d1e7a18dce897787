"""Pages split over several nodes, each with an allocator of its own, that share one budget of one poll a step."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.budget_split import PriceCurve, divide_budget, price_curve
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import Mixture
from pollerd.lab.environments.changes import Changes
from pollerd.lab.environments.driving import EPOCH_S, STEP_S

Sharing = Literal["price", "sites", "even"]
"""How the budget is divided: at one price; by the number of pages; evenly."""


@dataclass(frozen=True)
class NodesRecord:
    """Polls of all nodes in order. step int32[m] of each; found bool[m]: whether it found a change.

    stale: steps in which the copy of a page was not current, over all pages. grants float64[d, nodes]: each division,
    as shares of the budget.
    """

    step: NDArray[np.int32]
    found: NDArray[np.bool_]
    stale: float
    grants: NDArray[np.float64]

    def detections(self, edges: Sequence[int]) -> NDArray[np.float64]:
        """Returns the polls that found a change per step, in each interval of steps that ends at `edges`."""
        upto = np.searchsorted(self.step[self.found], [0, *edges], "right")
        return np.asarray(np.diff(upto) / np.diff([0, *edges]))


class _Node:
    """The pages of a node, int64[k], and the allocator that polls them; slot i is page i of them."""

    def __init__(self, pages: NDArray[np.int64], allocator: Allocator, objective: str) -> None:
        self.pages, self.allocator, self._objective = pages, allocator, objective
        self._slots, self._ones = np.arange(len(pages)), np.ones(len(pages))
        self._last = np.full(len(pages), EPOCH_S)
        self._eligible = np.ones(len(pages), np.bool_)
        if len(pages):
            allocator.add(self._slots, self._ones, self._ones)

    def poll(self, changes: Changes, step: int) -> float:
        """Polls the page that the allocator selects; returns the step of its first change, inf: none."""
        now = EPOCH_S + step * STEP_S
        elapsed = now - self._last
        chosen = self.allocator.select(elapsed, now, self._eligible, 1)
        first = changes.poll(int(self.pages[chosen[0]]), float(step))
        self.allocator.observe(chosen, elapsed[chosen], EvidenceBatch(np.array([first < math.inf])), now)
        self._last[chosen] = now
        return first

    def curve(self, budget: float) -> PriceCurve:
        """Returns what budgets are worth to the node under its allocator's belief."""
        unset = np.full(len(self.pages), np.nan)
        belief = self.allocator.belief_of(self._slots)
        mixture = Mixture.believed(belief, self._ones, self._ones, unset, np.zeros(len(unset)), self._objective)
        return price_curve(mixture, self._ones, budget)


def nodes_of(hosts: Sequence[str], nodes: int, division: int = 0) -> NDArray[np.int64]:
    """Returns the node of the pages of these hosts, int64: a hash of the host; division: one of many such."""
    if not division:
        return np.array([zlib.crc32(host.encode()) % nodes for host in hosts], np.int64)
    digests = (hashlib.sha256(f"{host}#{division}".encode()).digest() for host in hosts)
    return np.array([int.from_bytes(digest[:4], "big") % nodes for digest in digests], np.int64)


def drive_nodes(
    make: Callable[[float], Allocator],
    changes: Changes,
    node: NDArray[np.int64],
    polls: int,
    *,
    sharing: Sharing,
    divide_every: int,
    objective: str = "changes",
) -> NodesRecord:
    """Polls one page a step of `STEP_S` s in the mean, for `polls` steps.

    make: creates an allocator with a budget in polls per second. node int64[n] >= 0, of each page. divide_every: steps
    between two divisions of the budget. Grants follow a division as the protocol has it (`storage/grants.py`): one is
    raised only by what is free.
    """
    number = int(node.max()) + 1
    budget = 1.0 / STEP_S
    members = [_Node(np.flatnonzero(node == k), make(budget / number), objective) for k in range(number)]
    cost = np.bincount(node, minlength=number).astype(np.float64)
    grants = _shares(sharing, cost) * budget
    credit = (np.arange(number) + 0.5) / number
    target: NDArray[np.float64] | None = None
    steps, firsts, divisions, stale = [], [], [grants / budget], 0.0
    for step in range(1, polls + 1):
        credit += grants * STEP_S
        for k in np.flatnonzero((credit >= 1.0) & (cost > 0)):
            credit[k] -= 1.0
            first = members[k].poll(changes, step)
            steps.append(step)
            firsts.append(first)
            stale += step - first if first < math.inf else 0.0
        if step % divide_every == 0 and sharing == "price":
            target = divide_budget(budget, cost, [each.curve(budget) for each in members], target).grants
            grants = _granted(grants, target, budget)
            divisions.append(grants / budget)
            for each, grant in zip(members, grants, strict=True):
                each.allocator.budget = max(float(grant), budget * 1e-6)
    unseen = changes.unseen(float(polls))
    stale += float((polls - unseen[np.isfinite(unseen)]).sum())
    return NodesRecord(np.array(steps, np.int32), np.isfinite(firsts), stale, np.array(divisions))


def _shares(sharing: Sharing, cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the shares of the budget before the first division, float64[nodes]: by pages, unless they are even."""
    return np.full(len(cost), 1 / len(cost)) if sharing == "even" else cost / cost.sum()


def _granted(grants: NDArray[np.float64], target: NDArray[np.float64], budget: float) -> NDArray[np.float64]:
    """Returns the grants after the nodes have reported, in order, and again those that lacked something, at once."""
    after = grants.copy()
    for k in (*range(len(after)), *range(len(after))):
        free = max(budget - float(after.sum()), 0.0)
        after[k] = min(target[k], after[k] + free)
    return after
