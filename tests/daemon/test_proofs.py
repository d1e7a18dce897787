"""Proof before a change counts: what a second poll shows, what a failing one, and what a crash between the two."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import replace

import pytest
from aiohttp import web

from pollerd.model import OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import Access, SiteSpec
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until_found

FIRST, PROVING, CHANGED, UNCHANGED = (
    OutcomeKind.FIRST,
    OutcomeKind.PROVING,
    OutcomeKind.CHANGED,
    OutcomeKind.UNCHANGED,
)
RARELY = SchedulingSettings(
    min_interval_seconds=1.5, min_saving_seconds=0, host_interval_seconds=0, backoff_base_seconds=0.2
)
SELDOM = replace(RARELY, min_interval_seconds=1_000.0)
"""Only proofs come by themselves."""


def html(*news: str) -> str:
    items = "".join(f"<p>{item}</p>" for item in news)
    return f"<html><body><h1>News</h1>{items}<p>The end</p></body></html>"


class Script:
    """A page that answers with what comes next: a text, or a status; the last one for ever."""

    def __init__(self, origin: Origin, path: str, *answers: str | int) -> None:
        self.answers = list(answers)
        self.requests: list[web.Request] = []
        origin.pages[path] = Page(handler=self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            return web.Response(status=answer, text="no")
        return web.Response(text=answer, content_type="text/html", headers={"ETag": f'"{len(self.requests)}"'})


async def outcomes(running: Running, site: int, number: int) -> list[OutcomeKind]:
    return [poll.outcome for poll in (await running.polled(site, number))[:number]]


async def test_a_change_is_recorded_once_its_proof_shows_the_same(start: Start, origin: Origin) -> None:
    page = Script(origin, "/p", html("one"), html("one", "two"))
    async with start(scheduling=SELDOM) as running:
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 1)
        await running.control.sites.poll_now(site)
        assert await outcomes(running, site, 3) == [FIRST, PROVING, CHANGED], "it does not wait for the min_interval"
        await running.control.sites.poll_now(site)
        assert (await outcomes(running, site, 4))[3:] == [UNCHANGED]
        first, proving, found, _ = await running.polls(site)
        (change,) = await running.changes()
        assert (change.previous_poll_at, change.detected_at) == (first.at, found.at + found.duration)
        assert (change.matters, change.why) == (True, "")
        assert "two" in change.summary
        assert found.elapsed == pytest.approx(found.at - first.at), "the evidence spans the whole gap"
        assert not proving.changed
        assert "If-None-Match" not in page.requests[2].headers
        assert running.metric("pollerd_proofs_total", result="change") == 1
        page.answers = [html("one", "two", "three")]
        for number in (5, 6):
            await running.control.sites.poll_now(site)
            await running.polled(site, number)
        assert (await outcomes(running, site, 6))[4:].count(PROVING) == 0, "what is proven costs one poll"
        assert len(await running.changes()) == 2


async def test_a_first_poll_needs_no_proof(start: Start, origin: Origin) -> None:
    Script(origin, "/p", html("one"))
    async with start(scheduling=RARELY) as running:
        (site,) = await running.add(origin.url("/p"))
        assert await outcomes(running, site, 2) == [FIRST, UNCHANGED]


async def test_what_is_proven_is_known_after_a_restart(start: Start, origin: Origin, any_database: str) -> None:
    page = Script(origin, "/p", html("one"), html("one", "two"))
    async with start(scheduling=RARELY, url=any_database) as running:
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 3)
    page.answers = [html("three")]
    async with start(scheduling=RARELY, url=any_database) as running:
        assert PROVING not in (await outcomes(running, site, 5))[3:]
        assert len(await running.changes()) == 2


async def test_a_killed_daemon_finds_the_change_again(start: Start, origin: Origin, any_database: str) -> None:
    page = Script(origin, "/p", html("one"), html("two"))
    slow = SchedulingSettings(min_interval_seconds=0, min_saving_seconds=0, host_interval_seconds=3.0)
    async with start(scheduling=slow, url=any_database, kill=True) as running:
        (site,) = await running.add(origin.url("/p"))
        assert await outcomes(running, site, 2) == [FIRST, PROVING]
    assert len(page.requests) == 2
    async with start(scheduling=RARELY, url=any_database) as running:
        assert await outcomes(running, site, 4) == [FIRST, PROVING, PROVING, CHANGED]
        polls = await running.polls(site)
        (change,) = await running.changes()
    assert (change.previous_poll_at, change.detected_at, change.why) == (
        polls[0].at,
        polls[3].at + polls[3].duration,
        "",
    )
    assert "If-None-Match" in page.requests[2].headers


async def test_a_change_whose_proof_fails_twice_is_recorded_as_unproven(start: Start, origin: Origin) -> None:
    Script(origin, "/p", html("one"), html("two"), 500, 500, html("two"))
    async with start(scheduling=RARELY) as running:
        (site,) = await running.add(origin.url("/p"))
        kinds = await outcomes(running, site, 5)
        assert kinds == [FIRST, PROVING, OutcomeKind.SERVER_ERROR, OutcomeKind.SERVER_ERROR, UNCHANGED]
        polls = await running.polls(site)
        (change,) = await running.changes()
        assert (change.previous_poll_at, change.detected_at) == (polls[0].at, polls[3].at + polls[3].duration)
        assert change.why.startswith("unproven")
        assert "two" in change.summary
        content = await running.store.contents.get(change.after_content_id or 0)
        assert b"two" in content.body
        assert not any(poll.changed for poll in polls), "nothing is learned of it"
        assert polls[4].elapsed == pytest.approx(polls[4].at - polls[1].at)
        assert (await running.site(site)).changes == 1
        assert running.metric("pollerd_proofs_total", result="unproven") == 1


async def test_one_failure_is_waited_out(start: Start, origin: Origin) -> None:
    Script(origin, "/p", html("one"), html("two"), 500, html("two"))
    async with start(scheduling=RARELY) as running:
        (site,) = await running.add(origin.url("/p"))
        assert await outcomes(running, site, 4) == [FIRST, PROVING, OutcomeKind.SERVER_ERROR, CHANGED]
        (change,) = await running.changes()
    assert change.why == ""


async def test_a_change_before_the_end_of_a_page_is_not_lost(start: Start, origin: Origin) -> None:
    Script(origin, "/p", html("one"), html("two"), 410)
    async with start(scheduling=RARELY) as running:
        (site,) = await running.add(origin.url("/p"))
        assert await outcomes(running, site, 3) == [FIRST, PROVING, OutcomeKind.GONE]
        (change,) = await running.changes()
    assert change.why.startswith("unproven")


async def test_a_change_that_one_server_does_not_have_yet_is_found_when_all_have_it(
    start: Start, origin: Origin
) -> None:
    old, new = html("The council meets on Monday"), html("The council meets on Friday")
    Script(origin, "/p", old, new, old, new)
    async with start(scheduling=RARELY) as running:
        (site,) = await running.add(origin.url("/p"))
        assert await outcomes(running, site, 5) == [FIRST, PROVING, UNCHANGED, PROVING, CHANGED]
        (change,) = await running.changes()
        assert running.metric("pollerd_masks_learned_total") == 0
        assert running.metric("pollerd_proofs_total", result="reverted") == 1
    assert "Friday" in change.summary


async def test_a_page_that_no_mask_explains_is_proven_three_times_and_then_rarely(start: Start, origin: Origin) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=f"<p>{secrets.token_hex(8)}</p>", content_type="text/html")

    origin.pages["/p"] = Page(handler=answer)
    for i in range(50):
        origin.pages[f"/{i}"] = Page(etag='"1"')
    async with start(scheduling=RARELY, budget=25.0) as running:
        await running.add(*(origin.url(f"/{i}", host=i + 2) for i in range(50)))
        (site,) = await running.add(origin.url("/p"))
        kinds = await outcomes(running, site, 9)
        changes = await running.changes()
    assert kinds == [FIRST, *[PROVING, CHANGED] * 3, CHANGED, CHANGED]
    assert [change.why.startswith("unproven") for change in changes[:5]] == [True] * 5


async def test_each_selection_is_proven_by_itself_and_by_one_poll(start: Start, origin: Origin) -> None:
    selections = {
        "default": {"steps": [{"keep": {"css": "#news"}}]},
        "served": {"steps": [{"keep": {"css": "#served"}}]},
    }
    news, other = ["one"], ["steady"]

    async def answer(_: web.Request) -> web.Response:
        served = f"<p>Page for {secrets.token_hex(8)} was served</p><p>{other[0]}</p><p>by us</p>"
        text = f"<html><body><div id=news><p>{news[0]}</p></div><div id=served>{served}</div></body></html>"
        return web.Response(text=text, content_type="text/html")

    origin.pages["/p"] = Page(handler=answer)
    async with start(scheduling=RARELY) as running:
        (site,) = await running.add(origin.url("/p"), selections=json.dumps(selections, sort_keys=True))
        assert await outcomes(running, site, 4) == [FIRST, PROVING, UNCHANGED, UNCHANGED]
        assert await running.changes() == []
        proven = {one.name: one.baseline for one in await running.store.history.selection_states(site)}
        assert [proven["served"].proven, proven["default"].proven] == [True, False]
        assert proven["served"].mask
        assert not proven["default"].mask
        other[0] = "moved"
        found = await until_found(running.changes)
        assert [(change.selection, change.why) for change in found] == [("served", "")]
        assert (await running.polls(site))[-1].outcome is not PROVING, "served is proven"
        news[0] = "two"
        polls = len(await running.polls(site))
        await running.polled(site, polls + 4)
        found = await running.changes()
        assert [change.selection for change in found] == ["served", "default"]
        kinds = [poll.outcome for poll in (await running.polls(site))[polls - 1 :]]
    assert kinds.count(PROVING) == 1


async def test_changes_of_all_pages_at_once_are_proven_at_the_pace_of_the_budget(start: Start, origin: Origin) -> None:
    """Each is proven by one poll more, and none waits for another to be due: two polls of each page find them all."""
    pages, budget, interval = 60, 30.0, 30.0
    for i in range(pages):
        origin.pages[f"/{i}"] = Page(html("one"))
    patient = SchedulingSettings(min_interval_seconds=interval, min_saving_seconds=0, host_interval_seconds=0)
    async with start(scheduling=patient, budget=budget) as running:
        sites = await running.add(*(origin.url(f"/{i}", host=i + 2) for i in range(pages)))
        for site in sites:
            await running.polled(site, 1)
        for i in range(pages):
            origin.pages[f"/{i}"] = Page(html("one", "two"))
        for site in sites:
            await running.control.sites.poll_now(site)

        async def all_found() -> bool:
            return {change.site_id for change in await running.changes()} == set(sites)

        await until_found(all_found, 120.0)
        assert len(await running.changes()) == pages
        assert [[poll.outcome for poll in await running.polls(site)] for site in sites] == [
            [FIRST, PROVING, CHANGED]
        ] * pages
    starts = sorted(hit.at for hit in origin.log if hit.path != "/robots.txt")
    for i, begin in enumerate(starts):
        for n, end in enumerate(starts[i:]):
            assert n <= budget * (end - begin) + 2 + 0.1 * budget, "the budget holds for proofs, too"


async def test_a_post_is_not_sent_once_more_for_a_proof(start: Start, origin: Origin) -> None:
    """Its change waits for its next regular poll, as long after the poll that found it as that was after the first."""
    page = Script(origin, "/p", html("one"), html("one", "two"))
    seldom = SchedulingSettings(min_interval_seconds=0.3, min_saving_seconds=0, host_interval_seconds=0)
    async with start(scheduling=seldom, allocator="uniform", budget=20.0) as running:
        spec = SiteSpec(origin.url("/p"), access=Access(body=""), min_interval=1.5)
        site = (await running.control.sites.add([spec])).added[0][0]
        await running.polled(site, 1)
        await asyncio.sleep(1.0)
        assert await outcomes(running, site, 3) == [FIRST, PROVING, CHANGED]
        first, proving, found = (await running.polls(site))[:3]
        assert found.at - proving.at >= 0.9 * (proving.at - first.at)
        assert (await running.changes())[0].why == ""
        assert {request.method for request in page.requests} == {"POST"}
        assert len(running.daemon.parts.scheduler.sites.proofs) == 0
        assert running.daemon.parts.scheduler.sites.proofs.left == {}
