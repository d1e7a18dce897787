"""User settings of the live loop, and the fit of the budget to intervals and politeness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pollerd.allocation.registered import DEFAULT_DEADLINE_S, NAMES, OBJECTIVES
from pollerd.errors import InvalidValueError
from pollerd.ranges import BUDGET, LIVE_LOOP
from pollerd.scheduling.capacity import AttainableRates, HostLoad, reach, totals
from pollerd.scheduling.eligibility import LONG
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.sites import SiteTable
from pollerd.site_settings import SITE

ALLOCATION_SETTINGS = ("allocator", "objective", "deadline", "budget")
"""Settings that are kept in the database once they were set over REST, and that all nodes share."""
_CRAWL_FLUSH_SECONDS = 0.05
BUDGET_MIN, BUDGET_MAX = BUDGET.lowest, BUDGET.highest


def shadows_beside(allocator: str, stored: Sequence[str]) -> tuple[str, ...]:
    """Returns the stored shadows that can run beside an allocator, without names that this version does not know."""
    return tuple(name for name in stored if name in NAMES and name != allocator)


def check_budget(value: float) -> float:
    """Returns the budget; raises InvalidValueError if it is out of range."""
    BUDGET.check(value)
    return float(value)


@dataclass(frozen=True)
class DaemonSettings:
    """The live loop, in the ranges of `LIVE_LOOP`.

    budget: polls (of cost 1) per second, in the range `BUDGET`. full_get_every: every n-th poll of a site is a full GET
    instead of a conditional one. max_inflight: maximum of concurrent polls. flush_seconds: longest wait of a finished
    poll for its commit. gather_seconds: the same for a poll that found nothing new and whose site may not be polled
    earlier anyway, if above flush_seconds. flush_polls: number of waiting polls that triggers a commit at once.
    tick_seconds: how far ahead sites are chosen. memory_sites: sites whose validators and fingerprints are kept in
    memory; others are read when they are polled. deadline: s within which a change should be found, of sites without
    their own, for the objective `deadline`. shadows: allocators that run as shadows.
    """

    budget: float = 5.0
    allocator: str = "whittle"
    objective: str = "changes"
    deadline: float = DEFAULT_DEADLINE_S
    shadows: tuple[str, ...] = ()
    full_get_every: int = 20
    max_inflight: int = 1024
    flush_seconds: float = 0.25
    gather_seconds: float = 1.0
    flush_polls: int = 500
    tick_seconds: float = 0.1
    memory_sites: int = 50_000
    drain_seconds: float = 10.0
    maintenance_seconds: float = 600.0

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if self.allocator not in NAMES:
            raise InvalidValueError("allocator", "one of " + ", ".join(NAMES), self.allocator)
        if self.objective not in OBJECTIVES:
            raise InvalidValueError("objective", "one of " + ", ".join(OBJECTIVES), self.objective)
        SITE["deadline"].check(self.deadline)
        if not set(self.shadows) <= set(NAMES):
            raise InvalidValueError("shadow", "some of " + ", ".join(NAMES), ", ".join(self.shadows))
        for name, allowed in LIVE_LOOP.items():
            allowed.check(getattr(self, name))

    def for_crawling(self) -> DaemonSettings:
        """Returns the settings of a crawling daemon: it commits results early, as they decide what to request next."""
        soon = min(self.flush_seconds, _CRAWL_FLUSH_SECONDS)
        return replace(self, flush_seconds=soon, gather_seconds=soon)


# The share of the budget that can be spent within the sites' intervals and politeness.

_NOTICEABLE_GROWTH = 0.1


class BudgetFit:
    """Compares the budget with the attainable rates, and passes the spendable part to the allocator."""

    def __init__(
        self, *, sites: SiteTable, hosts: HostTable, budget: float, send_budget: Callable[[float], None]
    ) -> None:
        """`send_budget`: called with the cost per second that the allocator is to use."""
        self._sites, self._hosts, self._send = sites, hosts, send_budget
        self.budget = budget
        """The user's budget, cost per second."""
        self._fitted_sites = 0
        self._crowding: HostLoad | None = None
        self._being_fitted = asyncio.Lock()

    async def fit_to_growth(self) -> None:
        """Runs `fit` if the number of sites has grown noticeably since the last time."""
        if len(self._sites) > (1 + _NOTICEABLE_GROWTH) * self._fitted_sites:
            await self.fit_by_and_by()

    def spendable(self, budget: float) -> float:
        """Returns how much of a budget (cost per second) min_intervals, min_yields and politeness allow to be spent."""
        return min(budget, self.crowding().total)

    def allocator_budget(self, budget: float) -> float:
        """Returns the part of a budget (cost per second) for an allocator: what min_intervals and politeness allow.

        Ignores the limits of its own beliefs (min_yields): rates are believed on the scale of the gaps that the budget
        produces, so longer gaps would change the beliefs by themselves, which would never converge.
        """
        return min(budget, self.reach(whatever_is_believed=True).total)

    def crowding(self) -> HostLoad:
        """Returns the total that can be spent, and how hosts delay their sites.

        For more than 65,536 sites the value is from the last fit, every 15 s, since computing it scans all sites.
        """
        if self._crowding is None or self._sites.size <= LONG:
            found = self.reach()
            self._crowding = HostLoad(found.total, found.by_host)
        return self._crowding

    def reach(self, *, whatever_is_believed: bool = False) -> AttainableRates:
        """Returns how often each live site can be polled, whatever the budget."""
        return reach(self._sites, self._hosts, self._hosts.settings, whatever_is_believed=whatever_is_believed)

    def fit(self, budget: float | None = None) -> None:
        """Sets a new budget, if one is given, and passes the spendable part to the allocator."""
        self.budget = self.budget if budget is None else budget
        self._fitted_sites = len(self._sites)
        if self._sites.size > LONG:
            for _ in self._fitting():
                pass
            return
        reach = self.reach()
        self._crowding = HostLoad(reach.total, reach.by_host)
        self._send(self.budget if reach.total >= self.budget else self.allocator_budget(self.budget))

    async def fit_by_and_by(self) -> None:
        """Runs `fit`; for a long list the loop runs meanwhile, and concurrent callers wait."""
        if self._sites.size <= LONG:
            self.fit()
            return
        async with self._being_fitted:
            self._fitted_sites = len(self._sites)
            for _ in self._fitting():
                await asyncio.sleep(0)

    def _fitting(self) -> Iterator[None]:
        """Runs `fit` of a long list, piece by piece."""
        found = yield from totals(self._sites, self._hosts, self._hosts.settings)
        reached = found.total
        if reached < self.budget:
            wider = yield from totals(self._sites, self._hosts, self._hosts.settings, whatever_is_believed=True)
            reached = wider.total
        self._crowding = found
        self._send(min(self.budget, reached))
