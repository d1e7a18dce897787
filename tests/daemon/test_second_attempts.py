"""What a second attempt at a commit, or an edit during a poll, must not double or lose."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from pollerd.daemon.announcer import Announcer
from pollerd.daemon.rules_in_force import RulesInForce
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, CommitResult, PollRecord
from tests.daemon.conftest import Start
from tests.daemon.test_notifications import SLOWLY
from tests.daemon.test_selections import found, page, polled_again, put, selections, state_of
from tests.support.origin import Origin, Page, until

HEADING = selections(default={"steps": [{"keep": {"css": "h1"}}]})


async def test_evidence_counts_once_if_the_database_is_gone_while_it_is_announced(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/a"] = Page(status=301, headers={"Location": origin.url("/b")})
    origin.pages["/b"] = Page("<p>one</p>")
    learned, failures = list[list[bool]](), 0
    observe, announce = SchedulerState.observe, Announcer.announce

    def observing(self: SchedulerState, slots: Any, elapsed: Any, evidence: Any, now: float) -> None:
        learned.append(evidence.changed.tolist())
        observe(self, slots, elapsed, evidence, now)

    async def failing(self: Announcer, results: Any, records: tuple[PollRecord, ...], lines: Any) -> Any:
        nonlocal failures
        if failures < 2 and any(record.change for record in records):
            failures += 1
            raise DatabaseUnavailableError("gone for a moment")
        return await announce(self, results, records, lines)

    monkeypatch.setattr(SchedulerState, "observe", observing)
    monkeypatch.setattr(Announcer, "announce", failing)
    async with start() as running:
        (site,) = await running.add(origin.url("/a"))
        await polled_again(running, site)
        origin.pages["/b"] = Page("<p>two</p>")
        await until(lambda: failures == 2)
        await polled_again(running, site)
        assert len(await running.changes()) == 1
    assert [changed for changed in learned if changed == [True]] == [[True]]


async def test_selections_follow_their_contents_after_a_batch_was_refused(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(origin, "/shop", page("1", heading="A"))
    commit, refused = Store.commit, 0

    async def refusing(self: Store, batch: Batch) -> CommitResult:
        nonlocal refused
        if not refused and any(one.change for record in batch.records for one in record.selections):
            refused += 1
            raise RuntimeError("refused once")
        return await commit(self, batch)

    monkeypatch.setattr(Store, "commit", refusing)
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=HEADING)
        await polled_again(running, site)
        put(origin, "/shop", page("1", heading="B"))
        await found(running, site, 1)
        await polled_again(running, site)
        put(origin, "/shop", page("1", heading="C"))
        one, two = await found(running, site, 2)
        assert (refused, two.before_content_id) == (1, one.after_content_id)
        assert (await state_of(running, site)).content_id == two.after_content_id


async def test_an_edit_while_the_site_is_polled_has_it_polled_again_at_once(origin: Origin, start: Start) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        entered.set()
        await go_on.wait()
        return web.Response(text=page("1", heading="A"), content_type="text/html")

    origin.pages["/slow"] = Page(handler=slow)
    async with start() as running:
        (site,) = await running.add(origin.url("/slow"), min_interval=3_600.0)
        await entered.wait()
        await running.control.sites.update(site, {"selections": HEADING})
        go_on.set()
        await until(lambda: len(origin.hits("/slow")) == 2)
        await running.polled(site, 1)
        assert (await state_of(running, site)).version != b""


async def test_polls_that_storage_leaves_out_open_no_incident_and_are_not_counted(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/p"] = Page(status=500)
    noted, left_out, commit, opened = list[Any](), 0, Store.commit, RulesInForce.opened

    async def losing(self: Store, batch: Batch) -> CommitResult:
        nonlocal left_out
        for record in batch.records:
            if record.incidents_opened and not left_out:
                await self.sites.delete(record.poll.site_id, record.poll.at)
        result = await commit(self, batch)
        left_out += len(result.skipped)
        return result

    def opening(self: RulesInForce, incidents: Any) -> None:
        noted.extend(incidents)
        opened(self, incidents)

    monkeypatch.setattr(Store, "commit", losing)
    monkeypatch.setattr(RulesInForce, "opened", opening)
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        await running.control.notifications.add_channel("hook", "webhook", {"url": origin.url("/hook")})
        rule = {"events": ["site.failing"], "failing": {"after_polls": 2}}
        await running.control.notifications.add_rule({"name": "all", "channels": ["hook"], **rule})
        await running.add(origin.url("/p"))
        await until(lambda: left_out >= 2)
        assert noted == []
        assert running.metric("pollerd_polls_total", outcome="server_error") == 1
        assert await running.store.notifications.rules.incidents() == []
