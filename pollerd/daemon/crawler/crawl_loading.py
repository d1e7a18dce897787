"""Loads what the focused crawler knows of its pages, at the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from pollerd.crawling.pages.reading import words_of
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.crawling.pages.traps import ShapeLimits
from pollerd.daemon.crawler.crawl_state import CrawlState
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.model import PageState
from pollerd.storage import CrawlStore

COUNTED_PAGES = 200_000
"""Newest pages whose shapes are counted at a start: a second's work."""


async def load_shapes(store: CrawlStore) -> ShapeLimits:
    """Returns the limits of shapes, with the newest pages that are known counted. Raises DatabaseUnavailableError."""
    shapes = ShapeLimits()
    async for urls in store.newest_urls(COUNTED_PAGES):
        shapes.count(urls)
    return shapes


async def load_crawl(
    store: CrawlStore,
    scheduler: SchedulerState,
    topic: TopicSettings,
    seeds: Sequence[str],
    clock: Callable[[], float],
) -> CrawlState:
    """Loads the collection from the store, and adds new seeds.

    Raises ConfigError if the database holds a collection on another topic, and if there are no pages to start with.
    """
    log, state = structlog.get_logger("pollerd.crawler"), CrawlState(started_at=clock())
    row = await store.begin(topic.name, clock(), words_of(topic))
    state.requests = row.requests
    if row.learned is not None:
        try:
            state.frontier_value.restore(row.learned)
        except InvalidValueError as error:
            log.warning("learned_state_unusable", reason=str(error), instead="learning anew")
    async for trial in store.held():
        state.hold(trial)
        slot = scheduler.sites.slot_of(trial.site_id)
        if slot is not None and trial.state is PageState.ASKED:
            scheduler.sites.put("value", slot, state.value_of(trial))
    new = await store.add_seeds([url for url in seeds if topic.permits(url)], clock())
    status = await store.status()
    if status is None or not any(status.pages.values()):
        raise ConfigError("seeds: a new collection needs some, within the topic's domains; there is none")
    state.started_at = status.started_at
    held = len(state.pages)
    log.info("crawl_started", topic=topic.name, held=held, to_be_read_again=len(state.unread), new_seeds=new)
    return state
