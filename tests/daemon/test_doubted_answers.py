"""Answers that are hardly the page: they fail their polls, and are changes only if they persist."""

from __future__ import annotations

import pytest
from aiohttp import web

from pollerd.api.inputs import check_selections
from pollerd.model import OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until_found

SOON = SchedulingSettings(min_interval_seconds=0.1, host_interval_seconds=0, backoff_base_seconds=0.1)
UNDECODABLE = OutcomeKind.UNDECODABLE
ITEMS = "".join(f"<item><guid>e{n}</guid><title>Entry {n}</title></item>" for n in range(30))
FEED = f"<rss version='2.0'><channel><title>T</title>{ITEMS}</channel></rss>"
PAGE = "<title>Page</title><h1>Heading</h1><p>First stays</p><p>Value 0</p><p>Last stays</p>"
CHALLENGE = "<title>Just a moment...</title><h1>Checking if the site connection is secure</h1>"
MAINTENANCE = "<title>Maintenance</title><h1>We are back soon</h1>"
JSON = '{"a": 1, "b": [1, 2]}'


class Answers:
    """A page that answers with what comes next, the last one for ever."""

    def __init__(self, origin: Origin, *bodies: str) -> None:
        self.bodies, self.asked = list(bodies), 0
        origin.pages["/p"] = Page(handler=self._answer)

    async def _answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        media = {"{": "application/json", "<r": "application/rss+xml"}
        return web.Response(text=body, content_type=media.get(body[:1], media.get(body[:2], "text/html")))


async def outcomes(running: Running, site: int) -> list[OutcomeKind]:
    return [poll.outcome for poll in await running.polls(site)]


@pytest.mark.parametrize("page", [FEED, PAGE, JSON], ids=["feed", "page", "json"])
@pytest.mark.parametrize("odd", [CHALLENGE, MAINTENANCE, ""], ids=["challenge", "maintenance", "nothing"])
async def test_one_that_is_gone_soon_is_no_change(start: Start, origin: Origin, page: str, odd: str) -> None:
    Answers(origin, page, odd, odd, page)
    async with start(scheduling=SOON) as running:
        (site,) = await running.add(origin.url("/p"))
        polls = await running.polled(site, 6)
        assert [poll.outcome for poll in polls][:4] == [
            OutcomeKind.FIRST,
            UNDECODABLE,
            UNDECODABLE,
            OutcomeKind.UNCHANGED,
        ]
        assert polls[1].detail.endswith("if it stays so, it is a change")
        assert await running.changes() == []


async def test_one_that_persists_is_a_change_also_over_a_restart(start: Start, origin: Origin) -> None:
    answers = Answers(origin, FEED, MAINTENANCE)
    async with start(scheduling=SOON) as running:
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 2)
    async with start(scheduling=SOON) as running:
        await until_found(running.changes)
        (change,) = await running.changes()
        found = await outcomes(running, site)
        assert found.count(UNDECODABLE) == 2
        answers.bodies = [
            FEED.replace("Entry 0", "Entry zero").replace("<item>", "<item><guid>new</guid></item><item>", 1)
        ]

        async def two() -> bool:
            return len(await running.changes()) == 2

        await until_found(two)
        back = (await running.changes())[1]
        assert "+ " in back.summary
        assert "back: Entry zero; Entry 1; Entry 10 (27 more)" in back.summary
        assert change.summary


async def test_a_true_change_before_one_stays_one(start: Start, origin: Origin) -> None:
    changed = PAGE.replace("Value 0", "Value 1")
    for answers in ((PAGE, changed, CHALLENGE, changed), (PAGE, changed, changed, changed, CHALLENGE, changed)):
        Answers(origin, *answers)
        async with start(scheduling=SOON) as running:
            (site,) = await running.add(origin.url("/p"))
            await running.polled(site, len(answers) + 2)
            (change,) = await running.changes()
            assert "Value 0 → 1" in change.summary
            await running.control.sites.delete(site)


@pytest.mark.parametrize("odd", [CHALLENGE, ""], ids=["challenge", "nothing"])
async def test_a_price_of_a_page_is_not_gone_for_a_moment(start: Start, origin: Origin, odd: str) -> None:
    priced = PAGE.replace("Value 0", "<b id=price>10 €</b>")
    Answers(origin, priced, odd, odd, priced)
    value = {"kind": "price", "from": {"css": "#price"}}
    settings = check_selections({"default": {"values": {"price": value}}})
    async with start(scheduling=SOON) as running:
        (site,) = await running.add(origin.url("/p"), selections=settings)
        polls = await running.polled(site, 6)
        assert [poll.outcome for poll in polls][1:4] == [UNDECODABLE, UNDECODABLE, OutcomeKind.UNCHANGED]
        assert await running.changes() == []


async def test_other_statuses_than_those_of_pages_are_none(start: Start, origin: Origin) -> None:
    async with start(scheduling=SOON) as running:
        origin.pages["/p"] = Page(body=PAGE)
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 1)
        for status in (201, 202, 204, 206):
            origin.pages["/p"] = Page(body="" if status == 204 else PAGE[:20], status=status)
            polls = await running.polled(site, len(await running.polls(site)) + 2)
            assert (polls[-1].outcome, polls[-1].status) == (OutcomeKind.PROTOCOL_ERROR, status)
            assert polls[-1].detail == f"HTTP status {status}, which comes without a page"
        origin.pages["/p"] = Page(body=PAGE, status=203)
        polls = await running.polled(site, len(await running.polls(site)) + 3)
        assert polls[-1].outcome is OutcomeKind.UNCHANGED
        assert await running.changes() == []
