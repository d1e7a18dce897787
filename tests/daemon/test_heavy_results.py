"""Results that are heavy to judge: nothing waits for them, and they take only their share of the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from pollerd.daemon.stages import Answer, Found
from pollerd.daemon.transition import WORKER_SHARE, SiteStatus, poll_effect
from pollerd.daemon.workers import Effort
from pollerd.detection.detect import detect
from pollerd.errors import TooHeavyError
from pollerd.model import Baseline, Detection, Outcome, OutcomeKind, SiteState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.values import SiteContext
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

LARGE = "<p>a line of some words\n" * 5_000


class Workers:
    """Stands for the worker processes: detects at once; other work waits until it may go on."""

    def __init__(self) -> None:
        self.may_go_on, self.waiting = asyncio.Event(), 0
        self.error: Exception | None = None

    async def do(self, work: Callable[..., Any], *arguments: Any, effort: Effort | None = None) -> Any:
        if work is not detect:
            self.waiting += 1
            await self.may_go_on.wait()
            self.waiting -= 1
        if self.error is not None:
            raise self.error
        return work(*arguments)


def held_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> Workers:
    workers = Workers()
    monkeypatch.setattr(running.daemon.parts.runtime.workers, "do", workers.do)
    return workers


def changing(size: int) -> Page:
    """A page of so many characters that differs at each request."""
    numbers = iter(range(1_000_000))

    async def handler(_: web.Request) -> web.Response:
        return web.Response(text=f"<p>{next(numbers)}</p>{LARGE[:size]}", content_type="text/html")

    return Page(handler=handler)


async def test_nothing_waits_for_a_heavy_result(origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    origin.pages["/heavy"], origin.pages["/small"] = changing(100_000), changing(100)
    async with start(budget=40.0) as running:
        workers = held_up(running, monkeypatch)
        (heavy,) = await running.add(origin.url("/heavy", host=2))
        await until(lambda: workers.waiting == 1)
        (small,) = await running.add(origin.url("/small", host=3))
        polls = len(await running.polls(heavy))
        await running.polled(small, 10)
        assert workers.waiting == 1
        assert len(await running.polls(heavy)) == polls
        workers.may_go_on.set()
        await running.polled(heavy, polls + 2)


async def test_one_that_turns_out_to_be_heavy_leaves_its_batch(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/shrunk"], origin.pages["/small"] = changing(20_000), changing(100)
    async with start(budget=40.0) as running:
        workers = held_up(running, monkeypatch)
        await running.add(origin.url("/shrunk", host=2))
        await until(lambda: workers.waiting == 1)  # its proof: two contents of 20 KB
        (small,) = await running.add(origin.url("/small", host=3))
        await running.polled(small, 6)
        assert workers.waiting == 1
        workers.may_go_on.set()
        await until(lambda: workers.waiting == 0)


async def test_the_lines_that_rules_look_at_hold_up_nobody(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/heavy"], origin.pages["/small"] = changing(50_000), changing(100)
    async with start(budget=40.0, private_channels=True) as running:
        await running.control.notifications.add_channel("hook", "webhook", {"url": origin.url("/hook", host=4)})
        await running.control.notifications.add_rule(
            {"name": "words", "channels": ["hook"], "words": {"added": [{"text": "line"}]}}
        )
        workers = held_up(running, monkeypatch)
        await running.add(origin.url("/heavy", host=2))
        (small,) = await running.add(origin.url("/small", host=3))
        await until(lambda: workers.waiting == 1)
        polls = len(await running.polls(small))
        await running.polled(small, polls + 6)
        workers.may_go_on.set()
        await until(lambda: workers.waiting == 0)


async def test_a_stop_does_not_wait_for_one_that_takes_too_long(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/heavy"] = changing(100_000)
    async with start(budget=40.0, drain_seconds=1.0) as running:
        workers = held_up(running, monkeypatch)
        (heavy,) = await running.add(origin.url("/heavy", host=2))
        await until(lambda: workers.waiting == 1)
        stored = len(await running.polls(heavy))
    async with start(budget=40.0) as running:
        await running.polled(heavy, stored + 2)


async def test_a_page_that_is_too_heavy_is_its_own_failure_however_many_there_are(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/heavy"] = Page(LARGE)
    async with start(budget=100.0) as running:
        workers = held_up(running, monkeypatch)
        workers.error = TooHeavyError("it takes more than 5 s of CPU time")
        sites = await running.add(*[origin.url("/heavy", host=n) for n in range(2, 32)])
        for site in sites:
            (first, *_) = await running.polled(site, 1)
            assert (first.outcome, first.detail) == (
                OutcomeKind.UNDECODABLE,
                "detection failed: it takes more than 5 s of CPU time",
            )
        assert running.metric("pollerd_site_faults_total") == 0


@pytest.mark.parametrize(
    ("kind", "seconds", "rest"),
    [
        (OutcomeKind.UNCHANGED, 3.0, 3.0 / WORKER_SHARE),
        (OutcomeKind.CHANGED, 3.0, 3.0 / WORKER_SHARE),
        (OutcomeKind.UNCHANGED, 0.01, None),
        (OutcomeKind.PROVING, 3.0, None),
    ],
)
def test_what_reading_a_page_costs_counts_against_its_own_interval(
    kind: OutcomeKind, seconds: float, rest: float | None
) -> None:
    outcome = Outcome(OutcomeKind.BODY, started_at=1_000.0, duration=0.5, body=b"x")
    baseline = Baseline(fingerprint=b"f" * 16)
    effort = Effort("x", seconds=seconds)
    result = Found(Answer(0, SiteContext(1, "http://x/"), outcome, effort=effort), Detection(kind, baseline))
    before = SiteStatus(failures=0, last_seen_at=900.0)
    effect = poll_effect(result, before, "", SchedulingSettings(), np.random.default_rng(1))
    assert effect.state is SiteState.ACTIVE
    assert effect.not_before == (None if rest is None else pytest.approx(1_000.5 + rest))


async def test_why_a_heavy_page_waits_is_explained(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page("small")
    async with start(budget=40.0) as running:
        (site,) = await running.add(origin.url("/a"), min_interval=3_600.0)
        await running.polled(site, 1)
        sites = running.daemon.parts.scheduler.sites
        slot = sites.slot_of(site)
        assert slot is not None
        sites.not_before[slot] = 4_000_000_000.0
        assert str(running.explain(site).why_not_now).startswith("reading its page takes long: not before 2096-")
