"""What of the budget can be spent: how often sites can be polled within their intervals, and politeness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from pollerd.scheduling import AttainableRates, HostLoad, HostTable, SiteTable, reach, totals
from pollerd.scheduling.eligibility import LONG

_NOTICEABLE_GROWTH = 0.1


class BudgetFit:
    """Compares the budget with what the sites can be polled at, and tells the allocator what of it can be spent."""

    def __init__(
        self, *, sites: SiteTable, hosts: HostTable, budget: float, send_budget: Callable[[float], None]
    ) -> None:
        """`send_budget`: given the cost per second that the allocator is to go by."""
        self._sites, self._hosts, self._send = sites, hosts, send_budget
        self.budget = budget
        """Cost per second that the user allows."""
        self._fitted_sites = 0
        self._crowding: HostLoad | None = None
        self._being_fitted = asyncio.Lock()

    async def fit_to_growth(self) -> None:
        """`fit`, where the number of sites has grown noticeably since the last time."""
        if len(self._sites) > (1 + _NOTICEABLE_GROWTH) * self._fitted_sites:
            await self.fit_by_and_by()

    def spendable(self, budget: float) -> float:
        """What of a budget (cost per second) can be spent, given min_intervals, min_yields and politeness."""
        return min(budget, self.crowding().total)

    def allocator_budget(self, budget: float) -> float:
        """What of a budget (cost per second) an allocator is told: what min_intervals and politeness leave of it.

        Not what its own beliefs leave, by way of min_yields: rates are believed on the scale of the gaps that the
        budget makes, so that beliefs which make gaps longer would by that alone become others, and never settle.
        """
        return min(budget, self.reach(whatever_is_believed=True).total)

    def crowding(self) -> HostLoad:
        """How much can be spent at all, and how hosts hold up their sites.

        Of more than 65,536 sites as it was when the budget was last fitted, each 15 s: it goes through all of them.
        """
        if self._crowding is None or self._sites.size <= LONG:
            found = self.reach()
            self._crowding = HostLoad(found.total, found.by_host)
        return self._crowding

    def reach(self, *, whatever_is_believed: bool = False) -> AttainableRates:
        """How often each live site can be polled, whatever the budget."""
        return reach(self._sites, self._hosts, self._hosts.settings, whatever_is_believed=whatever_is_believed)

    def fit(self, budget: float | None = None) -> None:
        """Takes over a new budget, if one is given, and tells the allocator what of the budget can be spent."""
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
        """`fit`; of a long list so that the loop turns meanwhile. Whoever comes while it is done waits."""
        if self._sites.size <= LONG:
            self.fit()
            return
        async with self._being_fitted:
            self._fitted_sites = len(self._sites)
            for _ in self._fitting():
                await asyncio.sleep(0)

    def _fitting(self) -> Iterator[None]:
        """`fit` of a long list, piece by piece."""
        found = yield from totals(self._sites, self._hosts, self._hosts.settings)
        reached = found.total
        if reached < self.budget:
            wider = yield from totals(self._sites, self._hosts, self._hosts.settings, whatever_is_believed=True)
            reached = wider.total
        self._crowding = found
        self._send(min(self.budget, reached))
