"""A site is left alone while a change is believed too unlikely, and no longer."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace

import pytest

from pollerd.model import OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import TagSettings
from tests.daemon.conftest import FAST, Running, Start
from tests.support.origin import Origin, Page, until

CHOOSY = replace(FAST, min_yield=0.9)
"""After a second of polls of a page that holds still its next poll is seconds away."""
SECONDS = 2.0


async def unchanged_until(running: Running, site_id: int) -> float:
    """Waits until the site is probably unchanged for seconds to come, and nothing is under way; epoch s."""
    for _ in range(600):
        found = (await running.control.sites.explain(site_id)).believed_unchanged_until
        if found is not None and found > time.time() + SECONDS and not running.control.health.status().in_flight:
            return found
        await asyncio.sleep(0.03)
    raise AssertionError("never probably unchanged for long")


async def test_a_page_that_holds_still_is_left_alone(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(etag='"1"')
    async with start(allocator="whittle", scheduling=CHOOSY) as running:
        (site_id,) = await running.add(origin.url("/a"))
        moment = await unchanged_until(running, site_id)
        asked = len(origin.hits("/a"))
        await asyncio.sleep(0.5)
        assert len(origin.hits("/a")) == asked
        explanation = await running.control.sites.explain(site_id)
        assert explanation.believed_unchanged_until == moment
        assert explanation.next_poll_at == pytest.approx(moment)
        assert re.fullmatch(
            r"probably unchanged until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: min-yield 90 %", explanation.why_not_now or ""
        )


async def test_what_was_asked_for_is_polled_all_the_same(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="whittle", scheduling=CHOOSY) as running:
        (site_id,) = await running.add(origin.url("/a"))
        moment = await unchanged_until(running, site_id)
        polls = len(await running.polls(site_id))
        await running.control.sites.poll_now(site_id)
        await running.polled(site_id, polls + 1)
        assert time.time() < moment


async def test_a_site_has_its_own_min_yield(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="whittle", scheduling=CHOOSY) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await unchanged_until(running, site_id)
        site = await running.control.sites.update(site_id, {"min_yield": 0.0})
        assert site.spec.min_yield == 0.0
        assert (await running.control.sites.explain(site_id)).believed_unchanged_until is None
        await running.polled(site_id, len(await running.polls(site_id)) + 5)


async def test_a_site_or_tag_without_min_yield_is_polled_whatever_a_poll_saves(origin: Origin, start: Start) -> None:
    """As it was before there was a min_saving: over a restart, too."""
    origin.pages |= {f"/{n}": Page() for n in range(4)}
    patient = replace(FAST, min_saving_seconds=1_000.0)
    async with start(allocator="whittle", scheduling=patient) as running:
        await running.control.tags.put(TagSettings("often", {"min_yield": 0.0}), by="test")
        await running.control.tags.put(TagSettings("saving", {"min_yield": 0.0, "min_saving": 900.0}), by="test")
        (own,) = await running.add(origin.url("/0"), min_yield=0.0)
        (tagged,) = await running.add(origin.url("/1"), tags=("often",))
        rarely = await running.add(origin.url("/2"), origin.url("/3"), tags=("saving",))
        for site_id in (own, tagged):
            await running.polled(site_id, 5)
        for site_id in rarely:
            found = await running.control.sites.explain(site_id)
            assert found.why_not_now is not None
            assert found.why_not_now.endswith(": min-saving 15m")
            assert len(await running.polls(site_id)) == 1
    async with start(allocator="whittle", scheduling=patient) as running:
        for site_id in (own, tagged):
            await running.polled(site_id, len(await running.polls(site_id)) + 3)
        assert len(await running.polls(rarely[0])) == 1


async def test_no_wait_goes_beyond_a_max_interval(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="whittle", scheduling=replace(FAST, min_yield=0.99)) as running:
        (site_id,) = await running.add(origin.url("/a"), max_interval=0.3)
        polls = await running.polled(site_id, 6)
        assert len(polls) >= 6


async def test_what_is_believed_of_a_page_holds_over_a_restart(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="whittle", scheduling=CHOOSY) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await unchanged_until(running, site_id)
    async with start(allocator="whittle", scheduling=CHOOSY) as running:
        assert (await running.control.sites.explain(site_id)).believed_unchanged_until is not None


async def test_a_page_that_failed_is_asked_when_its_backoff_is_over(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="whittle", scheduling=CHOOSY) as running:
        (site_id,) = await running.add(origin.url("/a"))
        moment = await unchanged_until(running, site_id)
        origin.pages["/a"] = Page(status=500)
        await running.control.sites.poll_now(site_id)
        await until(lambda: running.metric("pollerd_polls_total", outcome=OutcomeKind.SERVER_ERROR.value) >= 1)
        failed = len(await running.polls(site_id))
        origin.pages["/a"] = Page()
        await running.polled(site_id, failed + 1)
        assert time.time() < moment


async def test_who_believes_nothing_leaves_nothing_out(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="uniform", scheduling=replace(FAST, min_yield=0.99)) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 10)
        assert (await running.control.sites.explain(site_id)).believed_unchanged_until is None
        await running.control.allocation.set(allocator="whittle")
        await unchanged_until(running, site_id)
        await running.control.allocation.set(allocator="uniform")
        await running.polled(site_id, len(await running.polls(site_id)) + 5)


async def test_other_settings_hold_at_once(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="whittle", scheduling=CHOOSY) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await unchanged_until(running, site_id)
        running.daemon.adopt(replace(FAST, min_yield=0.0), full_get_every=20)
        await running.polled(site_id, len(await running.polls(site_id)) + 5)


async def test_it_is_said_that_the_budget_does_not_bind(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start(allocator="whittle", scheduling=replace(CHOOSY, host_interval_seconds=0.01)) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await unchanged_until(running, site_id)
        running.daemon.adopt(replace(CHOOSY, host_interval_seconds=0.02), full_get_every=20)
        view = running.control.allocation.view()
        assert view.binding == "min_yield"
        assert 0 < view.spendable < 1
        words = r"the budget is not used up \([\d.e+]+ of 50 polls/s\): a lower min-yield finds changes sooner"
        assert re.fullmatch(words, view.binding_in_words)
        assert (
            running.control.explainer.binding.now().in_short()
            == "budget not used up: a lower min-yield finds changes sooner"
        )


async def test_a_new_page_that_changes_is_found_at_once(origin: Origin, start: Start) -> None:
    """The first polls of a page come quickly, whatever quiet neighbours have taught."""
    origin.pages |= {f"/{i}": Page() for i in range(20)}
    settings = SchedulingSettings(
        min_interval_seconds=0.05, min_saving_seconds=0, host_interval_seconds=0, backoff_base_seconds=0.4
    )
    async with start(allocator="whittle", scheduling=settings) as running:
        quiet = await running.add(*(origin.url(f"/{i}", host=i + 1) for i in range(20)))
        await running.polled(quiet[0], 5)
        origin.pages["/new"] = Page("<p>one</p>")
        (site_id,) = await running.add(origin.url("/new", host=99))
        await running.polled(site_id, 3)
        origin.pages["/new"] = Page("<p>two</p>")
        await until(lambda: running.metric("pollerd_changes_total") >= 1)
