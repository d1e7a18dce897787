"""The focused crawler in the live loop: puts frontier pages on trial, and their first answers decide.

A page on trial is a site like any other, so politeness, budget, guard and crash safety apply to it without a second
code path. Few are on trial at a time, the best of the frontier, one or a few per host: the chooser weighs them against
refreshing the collection.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

import numpy as np
import structlog
from msgspec.structs import replace
from numpy.typing import NDArray

from pollerd.allocation.core.index import amplitude_and_rate
from pollerd.crawling.control.frontier_value import FrontierRows, FrontierValue, discovered
from pollerd.crawling.control.requests import RequestSettings
from pollerd.crawling.pages.reading import OutLink, PageReading, words_of
from pollerd.crawling.pages.sitemaps import robots_sitemaps
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.crawling.pages.traps import ShapeLimits, trap
from pollerd.daemon.crawler.frontier_rows import frontier_rows, when_discovered
from pollerd.daemon.crawler.page_transition import PageStatus, PageTransition, page_record, page_transition
from pollerd.daemon.state.poll_effect import PollEffect
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.errors import ConfigError, DatabaseUnavailableError, InvalidValueError
from pollerd.model import PageState, SiteSpec
from pollerd.scheduling import Chooser
from pollerd.storage import FIRST_VALUE, CrawlStore, CrawlUpdate, OutLinkDraft, PageRecord, PageRow, PollRecord, Trial
from pollerd.urls import host_of, origin_of, robots_url

ON_A_SCALE = frozenset({"whittle"})
"""Allocators whose urgency is the value of a poll, so that a page on trial is comparable."""
_EVERY_SECONDS = 0.25
_SMOOTHING = 0.2
_TRIALS_MOST = 2_000
_SPACING_SECONDS, _PER_HOST_MOST = 0.5, 8
"""One page per host is on trial at a time; up to eight if the host's interval is shorter."""
_EXPLORATION = 0.01
_RATES_OF = 2_048
_RATE_UNKNOWN_UNIT = 86_400.0
_HORIZON_LEAST_SECONDS = 60.0
_VALUED_AT_ONCE = 500
"""Pages valued before yielding to the event loop."""


@dataclass
class _Page:
    """A page that is polled as a site."""

    status: PageStatus
    host: str
    relevance: float
    value: float = 0.0
    step: int = 0
    state: FrontierRows | None = None
    first: FrontierRows | None = None


class FocusedCrawler:
    """Puts pages on trial, judges them, learns the value of requests, and enforces the collection's limits."""

    def __init__(
        self,
        *,
        store: CrawlStore,
        scheduler: SchedulerState,
        chooser: Chooser,
        topic: TopicSettings,
        rng: np.random.Generator,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._scheduler, self._chooser, self.topic = store, scheduler, chooser, topic
        self._rng, self._clock = rng, clock
        self.sites: dict[int, bool] = {}
        """Id of each site that is read for the topic -> whether it belongs to the crawler."""
        self.unread: set[int] = set()
        """Ids of sites polled before, but not read for the present topic."""
        self._settings = RequestSettings()
        self._frontier_value = FrontierValue(self._settings)
        self._pages: dict[int, _Page] = {}
        self._collected: set[int] = set()
        """Ids of the crawler's own sites that are no longer on trial."""
        self._stale: set[int] = set()
        """Ids of frontier pages whose stored values are outdated."""
        self._shapes = ShapeLimits()
        self._mapped: set[str] = set()
        self._requests, self._price, self._started_at = 0, 0.0, clock()
        self._updated, self._swept = False, 0
        self._cycle = _EVERY_SECONDS
        """Mean seconds between two fillings."""
        self._wake = asyncio.Event()
        self._log = structlog.get_logger("pollerd.crawler")

    async def begin(self, seeds: Sequence[str]) -> None:
        """Loads the collection from the store, and adds new seeds.

        Raises ConfigError if the database holds a collection on another topic, and if there are no pages to start with.
        """
        row = await self._store.begin(self.topic.name, self._clock(), words_of(self.topic))
        self._requests = row.requests
        if row.learned is not None:
            try:
                self._frontier_value.restore(row.learned)
            except InvalidValueError as error:
                self._log.warning("learned_state_unusable", reason=str(error), instead="learning anew")
        async for trial in self._store.held():
            self._hold(trial)
            slot = self._scheduler.sites.slot_of(trial.site_id)
            if slot is not None and trial.state is PageState.ASKED:
                self._scheduler.sites.put("value", slot, self._value_of(trial))
        new = await self._store.add_seeds([url for url in seeds if self.topic.permits(url)], self._clock())
        status = await self._store.status()
        if status is None or not any(status.pages.values()):
            raise ConfigError("seeds: a new collection needs some, within the topic's domains; there is none")
        self._started_at = status.started_at
        held = len(self._pages)
        self._log.info(
            "crawl_started", topic=self.topic.name, held=held, to_be_read_again=len(self.unread), new_seeds=new
        )

    # --- choosing pages -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Puts pages on trial until cancelled."""
        reported = False
        while True:
            began = time.monotonic()
            self._chooser.trials.value_unit = self.value_unit(self._scheduler.objective)
            try:
                came = await _to_its_end(self._fill_up(self._scheduler.budget))
                reported = False
            except DatabaseUnavailableError as error:
                if not reported:
                    self._log.warning("frontier_unavailable", reason=str(error))
                reported, came = True, 0
            if came:
                self._scheduler.due.set()
            await self._pause()
            self._cycle += _SMOOTHING * (time.monotonic() - began - self._cycle)

    async def _fill_up(self, budget: float) -> int:
        """Revalues pages if something was learned, then puts pages on trial; returns the number of new sites."""
        if self._updated:
            self._updated = False
            try:
                await self._value_all()
            except DatabaseUnavailableError:
                self._updated = True
                raise
        return await self._promote(budget)

    async def _value_all(self) -> None:
        """Revalues the pages affected by commits, the pages on trial, and part of the frontier."""
        await self._value_stale()
        await self._revalue()
        rows, swept = await self._store.sweep(self._swept)
        await self._write_values(rows)
        self._swept = swept

    async def _value_stale(self) -> None:
        """Revalues the pages affected by commits since the last call."""
        while self._stale:
            some = sorted(self._stale)[:_VALUED_AT_ONCE]
            await self._write_values(await self._store.around(some))
            self._stale.difference_update(some)

    async def _write_values(self, rows: Sequence[PageRow]) -> None:
        """Stores the changed values of frontier pages."""
        for start in range(0, len(rows), _VALUED_AT_ONCE):
            some = [
                row
                for row in rows[start : start + _VALUED_AT_ONCE]
                if row.value is not None and row.value < FIRST_VALUE  # FIRST_VALUE: requested first in any case
            ]
            if not some:
                continue
            values = zip(some, self._appraise(frontier_rows(some)).tolist(), strict=True)
            await self._store.write_values([(row, value) for row, value in values if value != row.value])

    async def _revalue(self) -> None:
        """Revalues pages on trial: findings about their siblings have changed their features."""
        site_ids = self._scheduler.sites.site_id[self._on_trial()].tolist()
        tried = [(site_id, page) for site_id in site_ids if (page := self._pages.get(site_id)) is not None]
        waiting = {page.status.page_id: site_id for site_id, page in tried if page.value < FIRST_VALUE}
        for row in await self._store.around(list(waiting)):
            around, site_id = frontier_rows([row]), waiting[row.id]
            page, slot = self._pages.get(site_id), self._scheduler.sites.slot_of(site_id)
            if page is not None and slot is not None and page.status.on_trial:
                page.state, page.value = around, float(self._appraise(around)[0])
                self._scheduler.sites.put("value", slot, page.value)

    async def _promote(self, budget: float) -> int:
        """Puts frontier pages on trial up to the limit; returns the number of new sites."""
        room = self._room(budget)
        if room <= 0:
            return 0
        async with self._scheduler.changing_sites:
            trials = await self._chosen(room)
            new = [trial for trial in trials if trial.state is PageState.ASKED]
            self._scheduler.add(
                [trial.site_id for trial in new],
                [(trial.host_id, trial.host) for trial in new],
                [SiteSpec(trial.url, weight=self.topic.relevance_min) for trial in new],
            )
            for trial in trials:
                self._hold(trial)
            value = [self._value_of(trial) for trial in new]
            self._scheduler.sites.put("value", self._slots([trial.site_id for trial in new]), value)
        return len(new)

    async def _chosen(self, room: int) -> list[Trial]:
        spacing = self._scheduler.settings.host_interval_seconds
        per_host = min(1 + math.ceil(_SPACING_SECONDS / spacing), _PER_HOST_MOST) if spacing else _PER_HOST_MOST
        limits = (per_host, self.topic.pages_per_host, self.topic.relevance_min, self._clock())
        chosen: list[Trial] = []
        if self._rng.random() < _EXPLORATION * room:
            chosen += await self._store.promote(1, *limits, at=float(self._rng.random()))
        while len(chosen) < room and (more := await self._store.promote(room - len(chosen), *limits)):
            chosen += more
        return chosen

    def _room(self, budget: float) -> int:
        """Returns how many more sites to put on trial: the requests the budget allows until the next filling, and one
        more.

        Not more, since better pages may be found meanwhile. Sites in flight or not ready yet do not count; each host
        counts for at most the requests its interval allows.
        """
        hosts, sites, slots = self._scheduler.hosts, self._scheduler.sites, self._on_trial()
        ready = np.maximum(hosts.ready_at()[sites.host[slots]], sites.not_before[slots])
        waiting = slots[~sites.in_flight[slots] & (ready <= self._clock() + self._cycle)]
        host, waiting_there = np.unique(sites.host[waiting], return_counts=True)
        with np.errstate(divide="ignore"):
            can_be_asked = np.minimum(waiting_there, 1.0 + self._cycle // hosts.interval()[host]).sum()
        return min(math.ceil(budget * self._cycle) + 1 - int(can_be_asked), _TRIALS_MOST - len(slots))

    def _on_trial(self) -> NDArray[np.int64]:
        """Returns the slots of the sites on trial."""
        on_trial = self._scheduler.sites.on_trial()
        return np.empty(0, np.int64) if on_trial is None else np.flatnonzero(on_trial)

    def _slots(self, site_ids: Sequence[int]) -> NDArray[np.int64]:
        return self._scheduler.sites.slots_of(np.array(site_ids, np.int64))

    def _hold(self, trial: Trial) -> None:
        on_trial = trial.state is PageState.ASKED
        page = _Page(PageStatus(trial.page_id, trial.depth, on_trial, trial.own), trial.host, trial.relevance or 0.0)
        if on_trial:
            page.value, page.step = self._value_of(trial), trial.step
            page.state, page.first = frontier_rows([trial.around]), when_discovered(trial.around)
        elif trial.own:
            self._mapped.add(trial.host)
            self._collected.add(trial.site_id)
        if trial.unread and not on_trial:
            self.unread.add(trial.site_id)
        self._pages[trial.site_id] = page
        self.sites[trial.site_id] = trial.own

    def _value_of(self, trial: Trial) -> float:
        return math.inf if trial.value >= FIRST_VALUE else float(self._appraise(frontier_rows([trial.around]))[0])

    def _appraise(self, rows: FrontierRows) -> NDArray[np.float64]:
        return self._frontier_value.value(rows.states())

    def value_unit(self, objective: str) -> float:
        """Returns the urgency, on the allocator's scale, of a page on trial with value 1; nan if there is no such
        scale.

        The index of the objective for weight 1 and a copy that is certainly new, averaged over the collection:
        integrated over the beliefs, as the index of a refresh is, so that both are on one scale. The horizon of the
        gain is the age of the collection, as an unlimited gain cannot be compared.
        """
        if self._scheduler.allocator_name not in ON_A_SCALE:
            return math.nan
        held = np.flatnonzero(self._scheduler.live())
        held = self._rng.choice(held, _RATES_OF) if len(held) > _RATES_OF else held
        if not len(held):
            return _RATE_UNKNOWN_UNIT
        rates, probabilities = self._scheduler.allocator.belief_of(held)
        amplitude, rate = amplitude_and_rate(objective, rates, np.ones(1), np.full(1, np.nan))
        horizon = max(self._clock() - self._started_at, _HORIZON_LEAST_SECONDS)
        return float((probabilities * amplitude * -np.expm1(-rate * horizon)).sum(axis=1).mean())

    # --- judging answers ----------------------------------------------------------------------------------------

    async def known_urls(self, results: Sequence[PollResult]) -> set[str]:
        """Returns the known URLs among those that the results link to. Raises DatabaseUnavailableError."""
        urls = {out_link.url for result in results if result.reading for out_link in result.reading.out_links}
        urls |= {result.reading.canonical for result in results if result.reading and result.reading.canonical}
        return await self._store.known(sorted(urls)) if urls else set()

    def judge(
        self, results: Sequence[PollResult], effects: Sequence[PollEffect], known: set[str]
    ) -> tuple[dict[int, PageRecord], CrawlUpdate | None]:
        """Returns the page records by row, and the update of the crawl, if any.

        Learns from each page that was on trial. The pages themselves change in `apply_committed`: a commit may be
        refused.
        """
        pages, dropped = dict[int, PageRecord](), list[tuple[int, int]]()
        learned_from = enrolled = 0
        for i, (result, effect) in enumerate(zip(results, effects, strict=True)):
            page = self._pages.get(result.site_id)
            found = None if page is None else page_transition(page.status, effect, result.reading, self.topic)
            if page is None or found is None:
                continue
            on_trial = page.status.on_trial
            found = self._within_size(page, found, result.reading, enrolled, dropped)
            enrolled += on_trial and found.state is PageState.COLLECTED
            pages[i] = self._page_record(result, page, found, known)
            learned_from += on_trial
        if not pages:
            return pages, None
        learned = self._frontier_value.pack() if learned_from else None
        self._requests += learned_from
        return pages, CrawlUpdate(self._requests, tuple(dropped), learned)

    def _within_size(
        self,
        page: _Page,
        found: PageTransition,
        reading: PageReading | None,
        enrolled: int,
        dropped: list[tuple[int, int]],
    ) -> PageTransition:
        """Admits a page to a full collection only in place of a less relevant one.

        enrolled: pages admitted in the same commit; none of them is displaced.
        """
        enrols = found.state is PageState.COLLECTED and page.status.on_trial
        if not enrols or reading is None:
            return found
        if len(self._collected) + enrolled < self.topic.collection_size:
            return found
        least = min(self._collected, key=lambda site_id: self._pages[site_id].relevance, default=None)
        if least is None or self._pages[least].relevance >= reading.relevance:
            return PageTransition(PageState.REJECTED, "the collection is full")
        dropped.append((self._pages[least].status.page_id, least))
        self.forget(least)
        return found

    def _page_record(self, result: PollResult, page: _Page, found: PageTransition, known: set[str]) -> PageRecord:
        reading = result.reading
        out_links = self._out_links(result, page, found, known)
        if page.status.on_trial:
            self._learn(page, reading, [out_link for out_link in out_links or () if out_link.url not in known])
        known.update(out_link.url for out_link in out_links or ())
        return page_record(page.status, found, reading, out_links)

    def _out_links(
        self, result: PollResult, page: _Page, found: PageTransition, known: set[str]
    ) -> tuple[OutLinkDraft, ...] | None:
        """Returns the page's links within the limits; None if they are unchanged."""
        reading = result.reading
        if found.instead is not None:
            return self._drafts([OutLink(found.instead, reading.relevance if reading else 0.0)], page, known)
        if reading is None:
            return None
        drafts = self._drafts(reading.out_links, page, known, counted=not reading.listing)
        first_of_host = found.state is PageState.COLLECTED and page.host not in self._mapped
        if first_of_host and page.status.own:
            self._mapped.add(page.host)
            linked = {draft.url for draft in drafts}
            maps = [OutLink(url) for url in self._sitemaps(result) if url not in linked]
            drafts += self._drafts(maps, page, known, counted=False)
        return drafts

    def _sitemaps(self, result: PollResult) -> tuple[str, ...]:
        """Returns the sitemaps that the host's robots.txt names, else the conventional URL."""
        url = result.context.url
        text = self._scheduler.hosts.robots_text(int(self._scheduler.sites.host[result.slot]))
        named = () if text is None else robots_sitemaps(text.plain(), robots_url(url))
        return named or (f"{origin_of(url)}/sitemap.xml",)

    def _drafts(
        self, out_links: Sequence[OutLink], page: _Page, known: set[str], *, counted: bool = True
    ) -> tuple[OutLinkDraft, ...]:
        return tuple(
            OutLinkDraft(out_link.url, out_link.anchor, out_link.modified, counted)
            for out_link in out_links
            if out_link.url in known or self._may_come(out_link.url, page.status.depth + 1)
        )

    def _may_come(self, url: str, depth: int) -> bool:
        """Returns whether an unknown URL may be added to the frontier."""
        allowed = depth <= self.topic.max_depth and self.topic.permits(url) and trap(url) is None
        return allowed and self._shapes.admit(url)

    def _learn(self, page: _Page, reading: PageReading | None, new: Sequence[OutLinkDraft]) -> None:
        if page.state is None or page.first is None:
            return
        relevance = 0.0 if reading is None else reading.relevance
        urls = [draft.url for draft in new]
        anchors = np.array([draft.anchor for draft in new])
        same_host = np.array([host_of(url) == page.host for url in urls], np.bool_)
        successors = discovered(urls, relevance, anchors, same_host).states()
        state = page.state.states()[0]
        self._frontier_value.learn_waiting(page.first.states()[0], state, self._requests - page.step)
        self._frontier_value.learn(state, relevance, successors, self._price)
        self._price = page.value if page.value < FIRST_VALUE else 0.0

    def apply_committed(
        self, records: Sequence[PollRecord], update: CrawlUpdate | None, stale_pages: Sequence[int]
    ) -> list[int]:
        """Applies a commit; returns ids of the sites that were removed with their pages.

        stale_pages: ids of frontier pages to be revalued.
        """
        self._stale.update(stale_pages)
        for record in records:
            if record.page is not None and not record.page.ended:
                self._take_over(record.poll.site_id, record.page)
        ended = [record.poll.site_id for record in records if record.page is not None and record.page.ended]
        ended += [site_id for _, site_id in (update.dropped if update is not None else ())]
        for site_id in ended:
            self.forget(site_id)
        if any(record.page is not None for record in records):
            self._updated = True
            self._wake.set()
        return ended

    def _take_over(self, site_id: int, kept: PageRecord) -> None:
        page, slot = self._pages.get(site_id), self._scheduler.sites.slot_of(site_id)
        if page is None or slot is None:
            return
        if kept.on_trial and kept.state is PageState.COLLECTED:
            self._scheduler.sites.put("value", slot, math.nan)
            page.status = replace(page.status, on_trial=False)
            self._collected.add(site_id)
        if kept.weight is not None:
            page.relevance = kept.weight
            self._scheduler.weigh(slot, kept.weight)

    def forget(self, site_id: int) -> None:
        """Forgets a site that was removed or got another URL."""
        self._pages.pop(site_id, None)
        self.sites.pop(site_id, None)
        self._collected.discard(site_id)
        self.unread.discard(site_id)

    async def _pause(self) -> None:
        """Waits until a trial was committed, or a short time passed."""
        try:
            async with asyncio.timeout(_EVERY_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()


async def _to_its_end(work: Coroutine[None, None, int]) -> int:
    """Returns the result of the work; on cancellation lets it finish first, to leave no transaction half done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
