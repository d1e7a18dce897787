"""What keeps the budget from being used, in words."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from pollerd.allocation.registry import create
from pollerd.daemon.budget import BudgetMeter
from pollerd.daemon.explain import Binding, BindingWatch, binding
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.scheduling.capacity import PollLimit, Waiting
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec

BUDGET = 5.0
SETTINGS = SchedulingSettings(min_interval_seconds=5_400, min_saving_seconds=0, host_interval_seconds=2)


@pytest.mark.parametrize(
    ("waiting", "used", "words"),
    [
        (Waiting(), 0.0, "no sites: add one with `pollerd sites add URL`"),
        (Waiting(interval=11), 0.01, "each site is polled at most every 1.5h (--min-interval)"),
        (Waiting(interval=11, own_interval=True), 0.01, "sites wait for their own minimum interval"),
        (Waiting(interval=11, spendable=5), 0.01, None),
        (Waiting(belief=11), 0.01, "budget not used up: a lower min-yield finds changes sooner"),
        (
            Waiting(belief=11, saving=20.0, polls=412 / 86_400),
            0.01,
            "budget not used up: a check must be expected to save 20s (--min-saving), which makes 412 checks a day",
        ),
        (
            Waiting(belief=1, saving=300.0, polls=2.5 / 86_400),
            0.01,
            "budget not used up: a check must be expected to save 5m (--min-saving), which makes 2.5 checks a day",
        ),
        (
            Waiting(ttl=11),
            0.01,
            "budget not used up: most sites ask not to be polled sooner (respect-ttl is on)",
        ),
        (Waiting(interval=11), 0.95, None),
        (Waiting(host=1_200, hosts=1), 0.2, "1 host is polled at most every 2s (--host-interval)"),
        (Waiting(host=1_200, hosts=1_000), 0.2, "1,000 hosts are polled at most every 2s each (--host-interval)"),
        (Waiting(host=12, hosts=2, crawl_delay=True), 0.2, "2 hosts limit polls by a Crawl-delay in robots.txt"),
        (Waiting(unanswered=3), 0.0, "waiting for the first answers"),
        (Waiting(backing_off=3, interval=2), 0.0, "3 sites wait after failures"),
        (Waiting(unreachable=3, interval=2), 0.0, "3 sites wait because their robots.txt cannot be fetched"),
        (Waiting(blocked=3, interval=2), 0.0, "3 sites are blocked by robots.txt or their address"),
        (Waiting(paused=3), 0.0, "3 sites are paused"),
        (Waiting(gone=3), 0.0, "3 sites are gone"),
        (Waiting(private=11), 0.0, "11 sites are at private addresses (--allow-private)"),
        (
            Waiting(private=1, interval=9),
            0.0,
            "each site is polled at most every 1.5h (--min-interval), 1 site is at a private address (--allow-private)",
        ),
        (Waiting(private=1, interval=9), 1.0, "1 site is at a private address (--allow-private)"),
    ],
)
def test_what_binds_most_is_said(waiting: Waiting, used: float, words: str | None) -> None:
    assert binding(waiting, SETTINGS, used * BUDGET, BUDGET).in_short() == words


@pytest.mark.parametrize(
    ("waiting", "rate", "limit", "words"),
    [
        (Waiting(), 0.0, "no_sites", "no sites to poll"),
        (
            Waiting(belief=1),
            4.93,
            "budget",
            "the budget is the limit (4.9 of 5 polls/s): a larger one finds changes sooner",
        ),
        (
            Waiting(belief=1),
            0.0213,
            "min_yield",
            "the budget is not used up (0.021 of 5 polls/s): a lower min-yield finds changes sooner",
        ),
        (
            Waiting(interval=1),
            0.0,
            "min_interval",
            "the budget is not used up (0 of 5 polls/s): each site is polled at most every 1.5h (--min-interval)",
        ),
        (
            Waiting(private=2, interval=1),
            0.0,
            "private",
            "the budget is not used up (0 of 5 polls/s): 2 sites are at private addresses (--allow-private)",
        ),
    ],
)
def test_the_same_is_said_at_length(waiting: Waiting, rate: float, limit: str, words: str) -> None:
    found = binding(waiting, SETTINGS, rate, BUDGET)
    assert (found.limit.value, found.in_full(rate, BUDGET)) == (limit, words)


def test_large_rates_are_whole_and_every_limit_has_its_words() -> None:
    assert "123 of 500 polls/s" in Binding(PollLimit.MIN_YIELD, "why").in_full(123.4, 500.0)
    every = [Waiting(), Waiting(interval=1, spendable=BUDGET)]
    counts = ("private", "unanswered", "host", "belief", "ttl", "interval", "backing_off", "unreachable")
    one: list[dict[str, Any]] = [{name: 1} for name in (*counts, "blocked", "closed", "paused", "gone")]
    every += [Waiting(**each) for each in (*one, {"belief": 1, "saving": 20.0})]
    found = [binding(waiting, SETTINGS, 0.0, BUDGET) for waiting in every]
    assert {each.limit for each in found} == set(PollLimit)
    assert len({each.in_full(0.0, BUDGET) for each in found}) == len(PollLimit)


@pytest.mark.parametrize(("allocator", "known"), [("whittle", True), ("uniform", False), ("htraa", False)])
async def test_an_allocator_without_chances_leaves_no_site_alone_and_that_is_said(allocator: str, known: bool) -> None:
    scheduler = SchedulerState(
        settings=SchedulingSettings(),
        allocator_name=allocator,
        allocator=create(allocator, budget=BUDGET, rng=np.random.default_rng(0)),
    )
    scheduler.add([1], [(1, "h:80")], [SiteSpec("http://h/")])
    scheduler.sites.last_poll[0] = 1e9
    watch = BindingWatch(scheduler=scheduler, meter=BudgetMeter(), clock=lambda: 1e9)
    said = watch.now().in_short() or ""
    assert said.startswith("each site is polled at most every 30s (--min-interval)")
    assert (f"; {allocator} does not estimate chances of changes: --min-saving has no effect" in said) is not known
    scheduler.adopt(SchedulingSettings(min_saving_seconds=0))
    assert "min-saving" not in (
        BindingWatch(scheduler=scheduler, meter=BudgetMeter(), clock=lambda: 1e9).now().in_short() or ""
    )


def test_very_many_sites_are_not_counted_at_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    now = [0.0]

    def slowly(*_: object) -> Waiting:
        counted.append(now[0])
        now[0] += 0.1
        return Waiting(paused=1)

    monkeypatch.setattr("pollerd.daemon.explain.time.monotonic", lambda: now[0])
    monkeypatch.setattr("pollerd.daemon.explain.waiting", slowly)
    scheduler = SchedulerState(
        settings=SETTINGS,
        allocator_name="uniform",
        allocator=create("uniform", budget=BUDGET, rng=np.random.default_rng(1)),
    )
    watch = BindingWatch(scheduler=scheduler, meter=BudgetMeter(), clock=lambda: 0.0)
    for _ in range(12):
        assert watch.now().limit is PollLimit.PAUSED
        now[0] += 1.0
    assert counted == pytest.approx([0.0, 5.1, 10.2], abs=0.2)


async def test_a_long_list_is_counted_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def count(*_: object) -> Waiting:
        threads.append(threading.get_ident())
        return Waiting(paused=len(threads))

    monkeypatch.setattr("pollerd.daemon.explain.LONG", -1)
    monkeypatch.setattr("pollerd.daemon.explain.SHARE", 1.0)
    monkeypatch.setattr("pollerd.daemon.explain.waiting", count)
    scheduler = SchedulerState(
        settings=SETTINGS,
        allocator_name="uniform",
        allocator=create("uniform", budget=BUDGET, rng=np.random.default_rng(1)),
    )
    watch = BindingWatch(scheduler=scheduler, meter=BudgetMeter(), clock=lambda: 0.0)
    await watch.ready()
    await watch.ready()
    assert watch.now().reason == "1 site is paused", "the first count, too"
    assert watch.now().reason == "1 site is paused", "what was found out last, until the count is done"
    async with asyncio.timeout(10):
        while watch.now().reason == "1 site is paused":
            await asyncio.sleep(0.01)
    assert threading.get_ident() not in threads[:2]
