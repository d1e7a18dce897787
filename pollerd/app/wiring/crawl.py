"""Puts the focused crawler together; loaded only for a daemon that has a topic."""

from __future__ import annotations

from collections.abc import Sequence

from pollerd.crawling.control.concurrency import Learned
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.daemon.crawler.concurrency import ConcurrencyLimiter
from pollerd.daemon.crawler.crawl_hook import CrawlHook
from pollerd.daemon.crawler.crawl_loading import load_crawl, load_shapes
from pollerd.daemon.crawler.page_judge import PageJudge
from pollerd.daemon.crawler.page_reader import PageReader
from pollerd.daemon.crawler.trial_starter import TrialStarter
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.scheduling import Chooser
from pollerd.storage import CrawlStore


async def crawl_hook(
    store: CrawlStore,
    scheduler: SchedulerState,
    chooser: Chooser,
    topic: TopicSettings,
    seeds: Sequence[str],
    runtime: Runtime,
) -> CrawlHook:
    """Loads the collection, adds new seeds, and builds the parts of the crawler. Raises as `load_crawl` does."""
    state = await load_crawl(store, scheduler, topic, seeds, runtime.clock)
    starter = TrialStarter(
        state=state,
        store=store,
        scheduler=scheduler,
        chooser=chooser,
        topic=topic,
        rng=runtime.rng,
        clock=runtime.clock,
    )
    shapes = await load_shapes(store)
    judge = PageJudge(state=state, store=store, scheduler=scheduler, topic=topic, shapes=shapes)
    reader = PageReader(topic=topic, sites=state.sites, unread=state.unread, runtime=runtime)
    limiter = ConcurrencyLimiter(Learned(runtime.rng))
    return CrawlHook(starter=starter, judge=judge, reader=reader, limiter=limiter)
