"""What feeds show: known after their first poll, told to the allocator, explained, counted, and kept over a restart."""

from __future__ import annotations

import time
from email.utils import formatdate

import numpy as np
import pytest
from aiohttp import web

from pollerd.allocation.whittle.whittle import Whittle
from pollerd.model import OutcomeKind
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

HOUR = 3_600.0


def feed(first: int, number: int, published_to: float) -> Page:
    """A feed of items by number, an hour apart, the newest at `published_to`, epoch s."""
    items = "".join(
        f"<item><guid>id:{first + i}</guid><title>t{first + i}</title>"
        f"<pubDate>{formatdate(published_to - (number - 1 - i) * HOUR, usegmt=True)}</pubDate></item>"
        for i in reversed(range(number))
    )
    body = f'<?xml version="1.0"?><rss version="2.0"><channel><title>c</title>{items}</channel></rss>'
    return Page(body, headers={"Content-Type": "application/rss+xml"})


def shown_to_the_allocator(running: Running, site_id: int) -> float:
    scheduler = running.daemon.parts.scheduler
    slot = scheduler.sites.slot_of(site_id)
    assert slot is not None
    assert isinstance(scheduler.allocator, Whittle)
    shown = float(scheduler.allocator._slot_table.items_shown[slot])  # noqa: SLF001
    assert shown == float(scheduler.sites.items_shown[slot]) or (np.isnan(shown))
    return shown


@pytest.mark.parametrize("objective", ["interest", "changes"])
async def test_what_a_feed_shows_is_known_counted_and_kept(origin: Origin, start: Start, objective: str) -> None:
    begun = time.time()
    origin.pages |= {"/feed": feed(0, 10, begun - 60.0), "/page": Page("text")}
    async with start(allocator="whittle", objective=objective) as running:
        site, page = await running.add(origin.url("/feed"), origin.url("/page", host=2))
        await running.polled(site, 1)
        await running.polled(page, 1)
        found = (await running.control.sites.explain(site)).feed
        assert found is not None
        assert (found.items, found.limited, found.full_polls) == (10, True, 0)
        assert found.newest_at == pytest.approx(begun - 60.0, abs=1.0)
        assert found.oldest_at == pytest.approx(begun - 60.0 - 9 * HOUR, abs=1.0)
        assert shown_to_the_allocator(running, site) == 10.0
        assert (await running.control.sites.explain(page)).feed is None
        assert np.isnan(shown_to_the_allocator(running, page))

        origin.pages["/feed"] = feed(4, 10, begun - 30.0)
        await until(lambda: running.metric("pollerd_changes_total") == 1)
        assert running.metric("pollerd_full_feeds_total") == 0

        origin.pages["/feed"] = feed(100, 8, begun - 10.0)
        await until(lambda: running.metric("pollerd_full_feeds_total") == 1)
        await running.control.sites.pause(site, True)
    async with start(allocator="whittle", objective=objective) as running:
        assert shown_to_the_allocator(running, site) == 8.0
        found = (await running.control.sites.explain(site)).feed
        assert found is not None
        assert (found.items, found.full_polls) == (8, 1)


@pytest.mark.parametrize(("objective", "learned"), [("interest", 1.0), ("changes", 0.0)])
async def test_dates_of_a_first_poll_tell_who_counts_items_the_rate(
    origin: Origin, start: Start, objective: str, learned: float
) -> None:
    origin.pages["/feed"] = feed(0, 20, time.time() - 60.0)
    async with start(allocator="whittle", objective=objective) as running:
        (site,) = await running.add(origin.url("/feed"), min_interval=HOUR)
        assert (await running.polled(site, 1))[0].outcome is OutcomeKind.FIRST
        scheduler = running.daemon.parts.scheduler
        slot = scheduler.sites.slot_of(site)
        assert isinstance(scheduler.allocator, Whittle)
        assert scheduler.allocator.belief.observed[slot] == learned


@pytest.mark.parametrize(("objective", "suspected"), [("interest", False), ("changes", True)])
async def test_a_feed_that_is_always_full_is_not_suspected_of_noise(
    origin: Origin, start: Start, objective: str, suspected: bool
) -> None:
    """By an allocator that counts items: else it would be held to the uniform share. Elsewhere as before."""
    polls = 0

    async def always_full(_: web.Request) -> web.Response:
        nonlocal polls
        polls += 1
        return web.Response(body=feed(100 * polls, 8, time.time()).body.encode(), content_type="application/rss+xml")

    origin.pages["/feed"] = Page(handler=always_full)
    async with start(allocator="whittle", objective=objective) as running:
        (site,) = await running.add(origin.url("/feed"))
        await running.polled(site, 8)
        sites = running.daemon.parts.scheduler.sites
        assert (sites.history[sites.slot_of(site)] > 0) == suspected
