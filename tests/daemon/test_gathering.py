"""Polls that found nothing new wait for others, those that somebody waits for do not; nobody waits for ever."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from pollerd.daemon.commit import max_commit_delay
from pollerd.daemon.stages import Answer, Found
from pollerd.model import Baseline, Detection, Outcome, OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable
from pollerd.storage.values import SiteContext
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

SETTINGS = SchedulingSettings(min_interval_seconds=30.0, min_saving_seconds=0)


def finding(kind: OutcomeKind, *, last: OutcomeKind | None = OutcomeKind.UNCHANGED, duration: float = 0.5) -> Found:
    context = SiteContext(site_id=1, url="http://a.example/", last_outcome=last)
    outcome = Outcome(OutcomeKind.NOT_MODIFIED, started_at=1000.0, duration=duration)
    return Found(Answer(0, context, outcome), Detection(kind, Baseline()))


def test_who_may_wait_and_how_long() -> None:
    sites = SiteTable()
    sites.add([1])
    assert max_commit_delay(finding(OutcomeKind.NOT_MODIFIED), sites, SETTINGS) == 29.5
    assert max_commit_delay(finding(OutcomeKind.UNCHANGED, duration=40.0), sites, SETTINGS) == 0.0
    for kind in (OutcomeKind.CHANGED, OutcomeKind.FIRST, OutcomeKind.UNDECODABLE):
        assert max_commit_delay(finding(kind), sites, SETTINGS) == 0.0
    for last in (None, OutcomeKind.SERVER_ERROR):
        assert max_commit_delay(finding(OutcomeKind.NOT_MODIFIED, last=last), sites, SETTINGS) == 0.0
    sites.put("min_interval", 0, 0.6)
    assert abs(max_commit_delay(finding(OutcomeKind.NOT_MODIFIED), sites, SETTINGS) - 0.1) < 1e-9
    sites.asap[0] = True
    assert max_commit_delay(finding(OutcomeKind.NOT_MODIFIED), sites, SETTINGS) == 0.0


def commits(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("pollerd_commit_seconds_count") or 0.0


async def polled(running: Running, polls: int) -> None:
    await until(lambda: running.control.health.status().polls >= polls)


async def test_polls_without_news_are_committed_together(origin: Origin, start: Start) -> None:
    origin.pages |= {f"/{n}": Page(etag='"1"') for n in range(6)}
    settings = SchedulingSettings(min_interval_seconds=2.0, min_saving_seconds=0, host_interval_seconds=0.0)
    async with start(scheduling=settings, budget=10.0, gather_seconds=1.0) as running:
        await running.add(*(origin.url(f"/{n}", host=n) for n in range(6)))
        await polled(running, 6)
        before = commits(running.registry)
        await polled(running, 18)
        assert commits(running.registry) - before <= 8, "two rounds of six"


async def test_a_change_waits_for_nobody(origin: Origin, start: Start) -> None:
    """It takes what waits along: all is in order, and committed, when it is told."""
    origin.pages |= {f"/{n}": Page(etag='"1"') for n in range(4)}
    settings = SchedulingSettings(min_interval_seconds=1.0, min_saving_seconds=0, host_interval_seconds=0.0)
    async with start(scheduling=settings, gather_seconds=1.0) as running:
        await running.add(*(origin.url(f"/{n}", host=n) for n in range(4)))
        await polled(running, 8)
        origin.pages["/2"] = Page("other words altogether", etag='"2"')
        await until(lambda: running.metric("pollerd_changes_total") == 1)
        changes = await running.store.changes.page()
        assert [change.url for change in changes.items] == [origin.url("/2", host=2)]


async def test_what_waits_is_committed_at_the_end(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(etag='"1"')
    settings = SchedulingSettings(min_interval_seconds=2.0, min_saving_seconds=0, host_interval_seconds=0.0)
    async with start(scheduling=settings, gather_seconds=1.0) as running:
        (site,) = await running.add(origin.url("/a"))
        await polled(running, 1)
        await until(lambda: len(origin.hits("/a")) == 2)
        await asyncio.sleep(0.1)
        running.daemon.stop()
        await running.task
        assert len((await running.store.history.list_polls(site)).items) == 2
