"""A site is left alone for as long as it says, where the user wants that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pollerd.daemon.unchanged import announced_waits
from pollerd.model import OutcomeKind
from pollerd.site_settings import RespectTtl
from tests.daemon.conftest import FAST, Start
from tests.support.origin import Origin, Page, until

RESPECTFUL = replace(FAST, respect_ttl=RespectTtl.STRICT)
WEEK = {"Cache-Control": "max-age=604800"}
HOUR = {"Cache-Control": "max-age=3600"}
FEED = (
    '<?xml version="1.0"?><rss version="2.0"><channel><title>c</title><ttl>60</ttl>'
    "<item><title>t</title><link>http://e/</link></item></channel></rss>"
)


async def test_max_age_is_a_floor_where_it_is_respected(origin: Origin, start: Start) -> None:
    origin.pages |= {"/a": Page(headers=HOUR), "/b": Page(headers=HOUR), "/c": Page()}
    async with start(scheduling=RESPECTFUL) as running:
        (a,) = await running.add(origin.url("/a"))
        b, c = (
            await running.add(origin.url("/b", host=2), max_interval=0.2),
            await running.add(origin.url("/c", host=3)),
        )
        await running.polled(b[0], 4)
        await running.polled(c[0], 4)
        assert len(await running.polls(a)) == 1
        found = await running.control.sites.explain(a)
        assert found.announced_ttl == 3600.0
        assert (found.why_not_now or "").startswith("its max-age or ttl holds until ")
        assert found.believed_unchanged_until == pytest.approx((await running.polls(a))[0].at + 3600.0)
        await running.control.sites.poll_now(a)
        await running.polled(a, 2)
        await running.control.sites.update(a, {"respect_ttl": RespectTtl.OFF})
        await running.polled(a, 5)


async def test_a_year_counts_as_a_day(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(headers={"Cache-Control": "max-age=31536000, immutable"})
    async with start(scheduling=RESPECTFUL) as running:
        (a,) = await running.add(origin.url("/a"))
        await running.polled(a, 1)
        assert (await running.control.sites.explain(a)).announced_ttl == 86_400.0


async def test_by_default_a_ttl_is_a_hint_and_sites_may_say_otherwise(origin: Origin, start: Start) -> None:
    origin.pages |= {f"/{name}": Page(headers=WEEK) for name in ("default", "off", "strict")}
    async with start() as running:
        (default,) = await running.add(origin.url("/default"))
        (off,) = await running.add(origin.url("/off", host=2), respect_ttl=RespectTtl.OFF)
        (strict,) = await running.add(origin.url("/strict", host=3), respect_ttl=RespectTtl.STRICT)
        await running.polled(off, 5)
        assert (len(await running.polls(default)), len(await running.polls(strict))) == (1, 1)
        announced = [(await running.control.sites.explain(one)).announced_ttl for one in (default, off, strict)]
        assert announced == [3600.0, None, 86_400.0]


@pytest.mark.parametrize("trust", [RespectTtl.HINT, RespectTtl.STRICT])
async def test_a_change_inside_a_promise_ends_the_belief_in_hints(
    origin: Origin, start: Start, any_database: str, trust: RespectTtl
) -> None:
    origin.pages["/a"] = Page("<p>one</p>", headers=WEEK)
    async with start(url=any_database) as running:
        (a,) = await running.add(origin.url("/a"), respect_ttl=trust)
        await running.polled(a, 1)
        origin.pages["/a"] = Page("<p>another text</p>", headers=WEEK)
        await running.control.sites.poll_now(a)
        await running.polled(a, 2)
        await until(lambda: running.metric("pollerd_changes_total") == 1)
        if trust is RespectTtl.HINT:
            await running.polled(a, 6)
            assert (await running.control.sites.explain(a)).announced_ttl is None
    polls = len(origin.hits("/a"))
    async with start(url=any_database) as running:
        if trust is RespectTtl.HINT:
            await running.polled(a, polls + 3)
        found = await running.control.sites.explain(a)
        assert found.announced_ttl == (None if trust is RespectTtl.HINT else 86_400.0)
    assert (len(origin.hits("/a")) == polls) == (trust is RespectTtl.STRICT)


async def test_a_signal_outweighs_a_hint(origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    origin.pages |= {"/hint": Page(headers=HOUR), "/strict": Page(headers=HOUR)}
    async with start() as running:
        (hint,) = await running.add(origin.url("/hint"))
        (strict,) = await running.add(origin.url("/strict", host=2), respect_ttl=RespectTtl.STRICT)
        await running.polled(hint, 1)
        await running.polled(strict, 1)
        scheduler = running.daemon.parts.scheduler
        slots = scheduler.sites.slots_of(np.array([hint, strict]))
        assert announced_waits(scheduler, slots).tolist() == [3600.0, 3600.0]
        monkeypatch.setattr(scheduler.allocator, "signals_waiting", lambda some: np.ones(len(some)))
        assert announced_waits(scheduler, slots).tolist() == [0.0, 3600.0]


async def test_a_feeds_ttl_is_a_floor_and_known_after_a_restart(origin: Origin, start: Start) -> None:
    origin.pages["/feed"] = Page(FEED, etag='"1"', headers={"Content-Type": "application/rss+xml"})
    async with start(scheduling=RESPECTFUL) as running:
        (feed,) = await running.add(origin.url("/feed"))
        await running.polled(feed, 1)
        assert (await running.control.sites.explain(feed)).announced_ttl == 3600.0
    async with start(scheduling=RESPECTFUL) as running:
        found = await running.control.sites.explain(feed)
        assert (found.announced_ttl, len(await running.polls(feed))) == (3600.0, 1)
        await running.control.sites.poll_now(feed)
        polls = await running.polled(feed, 2)
        assert polls[1].outcome is OutcomeKind.NOT_MODIFIED, "its ttl was not read again"
        assert (await running.control.sites.explain(feed)).announced_ttl == 3600.0


@pytest.mark.parametrize("own", [None, RespectTtl.STRICT])
async def test_what_headers_announced_holds_over_a_restart(
    origin: Origin, start: Start, any_database: str, own: RespectTtl | None
) -> None:
    origin.pages |= {"/a": Page(headers=HOUR), "/b": Page(headers={"Cache-Control": "no-store"}), "/c": Page()}
    scheduling = FAST if own else RESPECTFUL
    async with start(url=any_database, scheduling=scheduling) as running:
        (a,) = await running.add(origin.url("/a"), respect_ttl=own)
        (b,) = await running.add(origin.url("/b", host=2), respect_ttl=own)
        (c,) = await running.add(origin.url("/c", host=3), respect_ttl=own)
        for site_id in (a, b, c):
            await running.polled(site_id, 1)
    async with start(url=any_database, scheduling=scheduling) as running:
        for site_id in (b, c):
            await running.polled(site_id, len(await running.polls(site_id)) + 3)
        (poll,) = await running.polls(a)
        found = await running.control.sites.explain(a)
        assert found.announced_ttl == 3600.0
        assert found.believed_unchanged_until == pytest.approx(poll.at + 3600.0)
        origin.pages["/a"] = Page()
        await running.control.sites.poll_now(a)
        await running.polled(a, 4)
    async with start(url=any_database, scheduling=scheduling) as running:
        await running.polled(a, len(await running.polls(a)) + 3)
        assert (await running.control.sites.explain(a)).announced_ttl is None, "what its last answer does not say"


async def test_a_page_that_failed_is_asked_all_the_same(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(headers=HOUR)
    async with start(scheduling=RESPECTFUL) as running:
        (a,) = await running.add(origin.url("/a"))
        await running.polled(a, 1)
        origin.pages["/a"] = Page(status=500, headers=HOUR)
        await running.control.sites.poll_now(a)
        await until(lambda: running.metric("pollerd_polls_total", outcome="server_error") >= 2)
