"""What the focused crawler knows of its sites: pages on trial, pages collected, and the value of the frontier."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pollerd.crawling.control.frontier_value import FrontierRows, FrontierValue
from pollerd.crawling.control.requests import RequestSettings
from pollerd.daemon.crawler.frontier_rows import frontier_rows, when_discovered
from pollerd.daemon.crawler.page_transition import PageStatus
from pollerd.model import PageState
from pollerd.storage import FIRST_VALUE, Trial


@dataclass
class CrawledPage:
    """A page that is polled as a site. `state` and `first`: what is known around it now, and was when discovered."""

    status: PageStatus
    host: str
    relevance: float
    value: float = 0.0
    step: int = 0
    state: FrontierRows | None = None
    first: FrontierRows | None = None


@dataclass
class CrawlState:
    """Shared by the parts of the crawler; all of them run in the event loop."""

    started_at: float
    """When the collection was started, epoch s."""
    frontier_value: FrontierValue = field(default_factory=lambda: FrontierValue(RequestSettings()))
    pages: dict[int, CrawledPage] = field(default_factory=dict)
    """By site id."""
    sites: dict[int, bool] = field(default_factory=dict)
    """Id of each site that is read for the topic -> whether it belongs to the crawler."""
    unread: set[int] = field(default_factory=set)
    """Ids of sites polled before, but not read for the present topic."""
    collected: set[int] = field(default_factory=set)
    """Ids of the crawler's own sites that are no longer on trial."""
    hosts_mapped: set[str] = field(default_factory=set)
    """Hosts whose sitemaps are on the frontier."""
    stale: set[int] = field(default_factory=set)
    """Ids of frontier pages whose stored values are outdated."""
    requests: int = 0
    """Pages of the frontier requested so far."""
    updated: bool = False
    """Something was learned since pages were valued last."""
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    """A page was committed."""

    def hold(self, trial: Trial) -> None:
        """Adds a page that is a site now."""
        on_trial = trial.state is PageState.ASKED
        status = PageStatus(trial.page_id, trial.depth, on_trial, trial.own)
        page = CrawledPage(status, trial.host, trial.relevance or 0.0)
        if on_trial:
            page.value, page.step = self.value_of(trial), trial.step
            page.state, page.first = frontier_rows([trial.around]), when_discovered(trial.around)
        elif trial.own:
            self.hosts_mapped.add(trial.host)
            self.collected.add(trial.site_id)
        if trial.unread and not on_trial:
            self.unread.add(trial.site_id)
        self.pages[trial.site_id] = page
        self.sites[trial.site_id] = trial.own

    def forget(self, site_id: int) -> None:
        """Forgets a site that was removed or got another URL."""
        self.pages.pop(site_id, None)
        self.sites.pop(site_id, None)
        self.collected.discard(site_id)
        self.unread.discard(site_id)

    def values(self, rows: FrontierRows) -> NDArray[np.float64]:
        """Returns Q(x, 1) of pages of the frontier, float64[k]."""
        return self.frontier_value.value(rows.states())

    def value_of(self, trial: Trial) -> float:
        """Returns the value of a page on trial; inf for those that are requested first whatever is known."""
        return math.inf if trial.value >= FIRST_VALUE else float(self.values(frontier_rows([trial.around]))[0])
