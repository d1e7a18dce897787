"""Judgement of the crawler's pages by their answers: kept, rejected or gone; their links join the frontier."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from pollerd.crawler.controllers import discovered
from pollerd.crawler.pages import OutLink, PageReading, read, recipe_of
from pollerd.crawler.state import CrawledPage, CrawlState, PageTransition, page_record, page_transition
from pollerd.crawler.topics import TopicSettings
from pollerd.crawler.traps import ShapeLimits, trap
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import Found
from pollerd.daemon.workers import Effort
from pollerd.lists.sitemaps import robots_sitemaps
from pollerd.model import Detection, Outcome, PageState
from pollerd.storage.crawler.frontier import FIRST_VALUE, Frontier
from pollerd.storage.page_values import CrawlUpdate, OutLinkDraft, PageRecord
from pollerd.storage.values import PollRecord, SiteContext
from pollerd.texts import _
from pollerd.urls import host_of, origin_of, robots_url


class PageJudge:
    """Decides what becomes of pages, learns the value of requests, and enforces the collection's limits."""

    def __init__(
        self,
        *,
        state: CrawlState,
        frontier: Frontier,
        scheduler: SchedulerState,
        topic: TopicSettings,
        shapes: ShapeLimits,
    ) -> None:
        self._state, self._frontier, self._scheduler, self._topic = state, frontier, scheduler, topic
        self._shapes = shapes
        self._price = 0.0
        """Value of the page requested last."""

    async def known_urls(self, results: Sequence[Found]) -> set[str]:
        """Returns the known URLs among those that the results link to. Raises DatabaseUnavailableError."""
        urls = {out_link.url for result in results if result.reading for out_link in result.reading.out_links}
        urls |= {result.reading.canonical for result in results if result.reading and result.reading.canonical}
        return await self._frontier.known(sorted(urls)) if urls else set()

    def judge(
        self, results: Sequence[Found], records: Sequence[PollRecord], known: set[str]
    ) -> tuple[dict[int, PageRecord], CrawlUpdate | None]:
        """Returns the page records by row, and the update of the crawl, if any.

        Learns from each page that was on trial. The pages themselves change in `apply_committed`: a commit may be
        refused.
        """
        pages, dropped = dict[int, PageRecord](), list[tuple[int, int]]()
        learned_from = enrolled = 0
        for i, (result, record) in enumerate(zip(results, records, strict=True)):
            page = self._state.pages.get(result.site_id)
            transition = None if page is None else page_transition(page.status, record, result.reading, self._topic)
            if page is None or transition is None:
                continue
            on_trial = page.status.on_trial
            transition = self._within_size(page, transition, result.reading, enrolled, dropped)
            enrolled += on_trial and transition.state is PageState.COLLECTED
            pages[i] = self._page_record(result, page, transition, known)
            learned_from += on_trial
        if not pages:
            return pages, None
        learned = self._state.frontier_value.pack() if learned_from else None
        self._state.requests += learned_from
        return pages, CrawlUpdate(self._state.requests, tuple(dropped), learned)

    def _within_size(
        self,
        page: CrawledPage,
        transition: PageTransition,
        reading: PageReading | None,
        enrolled: int,
        dropped: list[tuple[int, int]],
    ) -> PageTransition:
        """Admits a page to a full collection only in place of a less relevant one.

        enrolled: pages admitted in the same commit; none of them is displaced.
        """
        enrols = transition.state is PageState.COLLECTED and page.status.on_trial
        if not enrols or reading is None:
            return transition
        if len(self._state.collected) + enrolled < self._topic.collection_size:
            return transition
        least = min(self._state.collected, key=lambda site_id: self._state.pages[site_id].relevance, default=None)
        if least is None or self._state.pages[least].relevance >= reading.relevance:
            return PageTransition(PageState.REJECTED, _("the collection is full"))
        dropped.append((self._state.pages[least].status.page_id, least))
        self._state.forget(least)
        return transition

    def _page_record(self, result: Found, page: CrawledPage, transition: PageTransition, known: set[str]) -> PageRecord:
        reading = result.reading
        out_links = self._out_links(result, page, transition, known)
        if page.status.on_trial:
            self._learn(page, reading, [out_link for out_link in out_links or () if out_link.url not in known])
        known.update(out_link.url for out_link in out_links or ())
        return page_record(page.status, transition, reading, out_links)

    def _out_links(
        self, result: Found, page: CrawledPage, transition: PageTransition, known: set[str]
    ) -> tuple[OutLinkDraft, ...] | None:
        """Returns the page's links within the limits; None if they are unchanged."""
        reading = result.reading
        if transition.instead is not None:
            return self._drafts([OutLink(transition.instead, reading.relevance if reading else 0.0)], page, known)
        if reading is None:
            return None
        drafts = self._drafts(reading.out_links, page, known, counted=not reading.listing)
        first_of_host = transition.state is PageState.COLLECTED and page.host not in self._state.hosts_mapped
        if first_of_host and page.status.own:
            self._state.hosts_mapped.add(page.host)
            linked = {draft.url for draft in drafts}
            maps = [OutLink(url) for url in self._sitemaps(result) if url not in linked]
            drafts += self._drafts(maps, page, known, counted=False)
        return drafts

    def _sitemaps(self, result: Found) -> tuple[str, ...]:
        """Returns the sitemaps that the host's robots.txt names, else the conventional URL."""
        url = result.context.url
        text = self._scheduler.hosts.robots_text(int(self._scheduler.sites.host[result.slot]))
        named = () if text is None else robots_sitemaps(text.plain(), robots_url(url))
        return named or (f"{origin_of(url)}/sitemap.xml",)

    def _drafts(
        self, out_links: Sequence[OutLink], page: CrawledPage, known: set[str], *, counted: bool = True
    ) -> tuple[OutLinkDraft, ...]:
        return tuple(
            OutLinkDraft(out_link.url, out_link.anchor, out_link.modified, counted)
            for out_link in out_links
            if out_link.url in known or self._may_come(out_link.url, page.status.depth + 1)
        )

    def _may_come(self, url: str, depth: int) -> bool:
        """Returns whether an unknown URL may be added to the frontier."""
        allowed = depth <= self._topic.max_depth and self._topic.permits(url) and trap(url) is None
        return allowed and self._shapes.admit(url)

    def _learn(self, page: CrawledPage, reading: PageReading | None, new: Sequence[OutLinkDraft]) -> None:
        if page.state is None or page.first is None:
            return
        relevance = 0.0 if reading is None else reading.relevance
        urls = [draft.url for draft in new]
        anchors = np.array([draft.anchor for draft in new])
        same_host = np.array([host_of(url) == page.host for url in urls], np.bool_)
        successors = discovered(urls, relevance, anchors, same_host).states()
        state = page.state.states()[0]
        self._state.frontier_value.learn_waiting(page.first.states()[0], state, self._state.requests - page.step)
        self._state.frontier_value.learn(state, relevance, successors, self._price)
        self._price = page.value if page.value < FIRST_VALUE else 0.0

    def apply_committed(
        self, records: Sequence[PollRecord], update: CrawlUpdate | None, stale_pages: Sequence[int]
    ) -> list[int]:
        """Applies a commit; returns ids of the sites that were removed with their pages.

        stale_pages: ids of frontier pages to be revalued.
        """
        self._state.stale.update(stale_pages)
        for record in records:
            if record.page is not None and not record.page.ended:
                self._take_over(record.poll.site_id, record.page)
        ended = [record.poll.site_id for record in records if record.page is not None and record.page.ended]
        ended += [site_id for _page_id, site_id in (update.dropped if update is not None else ())]
        for site_id in ended:
            self._state.forget(site_id)
        if any(record.page is not None for record in records):
            self._state.updated = True
            self._state.committed.set()
        return ended

    def _take_over(self, site_id: int, kept: PageRecord) -> None:
        page, slot = self._state.pages.get(site_id), self._scheduler.sites.slot_of(site_id)
        if page is None or slot is None:
            return
        if kept.on_trial and kept.state is PageState.COLLECTED:
            self._scheduler.sites.put("value", slot, math.nan)
            page.status = replace(page.status, on_trial=False)
            self._state.collected.add(site_id)
        if kept.weight is not None:
            page.relevance = kept.weight
            self._scheduler.weigh(slot, kept.weight)

    def forget(self, site_id: int) -> None:
        """Forgets a site that was removed or got another URL."""
        self._state.forget(site_id)


# Answers of the crawler's sites, read for the topic: long ones in a worker, others in the event loop.

_HERE_BYTES = 32 * 1024
"""A page of this size is read in about 3 ms."""


class PageReader:
    """Reads pages of the crawler's sites, and keeps their redirects within the topic's domains."""

    def __init__(self, *, topic: TopicSettings, sites: Mapping[int, bool], unread: set[int], runtime: Runtime) -> None:
        """`sites`: id of each site that is read -> whether it belongs to the crawler, and so stays within the domains.

        `unread`: ids of sites to be read once even if unchanged; they are removed when read.
        """
        self._topic, self._recipe, self._sites = topic, recipe_of(topic), sites
        self._unread, self._workers, self._faults = unread, runtime.workers, runtime.faults

    def wants_whole(self, site_id: int) -> bool:
        """Returns whether the site was polled before the crawler was started, and needs one unconditional request."""
        return site_id in self._unread

    def following(self, site_id: int, may_follow: Callable[[str], Awaitable[bool]]) -> Callable[[str], Awaitable[bool]]:
        """Returns the check for redirects; for the crawler's own sites it also requires the topic's domains."""
        if not self._sites.get(site_id, False):
            return may_follow

        async def within(url: str) -> bool:
            return self._topic.permits(url) and await may_follow(url)

        return within

    async def read(self, context: SiteContext, outcome: Outcome, detection: Detection | None) -> PageReading | None:
        """Reads a new body; None if the site is not the crawler's, nothing is new, or reading raised."""
        if context.site_id not in self._sites or outcome.body is None or detection is None:
            return None
        if detection.content is None and context.site_id not in self._unread:
            return None
        self._unread.discard(context.site_id)
        url = outcome.redirects[-1].url if outcome.redirects else context.url
        media = detection.baseline.media
        try:
            if len(outcome.body) > _HERE_BYTES:
                arguments = (self._recipe, url, outcome, media, detection.content)
                return await self._workers.do(read, *arguments, effort=Effort(host_of(url)))
            return read(self._recipe, url, outcome, media, detection.content)
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one that breaks a parser is reported, and not read for the topic.
            self._faults.report(context, error)
            return None
