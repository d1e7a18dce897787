"""Computes how much of the budget can be spent within the sites' intervals and politeness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from pollerd.scheduling import AttainableRates, HostLoad, HostTable, SiteTable, reach, totals
from pollerd.scheduling.eligibility import LONG

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
