"""Plans of a scheduler's sites: what counts, by tag, what holds sites back, samples of very many, other allocators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import AsyncMock, Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.daemon.planner import Planner
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.unchanged import note_unchanged
from pollerd.errors import InvalidValueError
from pollerd.model import STATE_CODE, SiteState
from pollerd.planning import BudgetPlan, MeasuredDelays, PlanLimit, sentences
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.storage.history import HistoryStore
from pollerd.storage.tags import TagStore
from tests.daemon.conftest import Start

NOW = 1_750_000_000.0
NO_DELAYS = np.empty(0, np.int64), np.empty(0)
Delays = tuple[NDArray[np.int64], NDArray[np.float64]]


def scheduler_of(
    specs: list[SiteSpec],
    rates: NDArray[np.float64],
    hosts: list[int] | None = None,
    *,
    allocator: str = "whittle",
    budget: float = 0.5,
    **settings: Any,
) -> SchedulerState:
    """Sites with ids from 1, each polled 30 times at a gap that suits it, on hosts by number, else each on its own."""
    rng, number = np.random.default_rng(5), len(specs)
    politeness = SchedulingSettings(**{"min_interval_seconds": 10.0, "min_saving_seconds": 0.0, **settings})
    scheduler = SchedulerState(
        settings=politeness, allocator_name=allocator, allocator=create(allocator, budget=budget, rng=rng)
    )
    of = hosts or list(range(number))
    scheduler.add(range(1, number + 1), [(host + 1, f"h{host}:80") for host in of], specs)
    slots, table = np.arange(number), scheduler.sites
    for turn in range(30):
        gap = rng.exponential(1.0, number) / rates
        found = EvidenceBatch(rng.random(number) < -np.expm1(-gap * rates))
        scheduler.allocator.observe(slots, gap, found, NOW - 30 + turn)
    table.last_poll[:number] = table.last_seen[:number] = NOW
    table.polls[:number] = 30
    return scheduler


def planner_of(
    scheduler: SchedulerState, tags: Mapping[str, Iterable[int]] | None = None, delays: Delays = NO_DELAYS
) -> Planner:
    of = {tag: sorted(ids) for tag, ids in (tags or {}).items()}
    store, history = Mock(spec=TagStore), Mock(spec=HistoryStore)
    store.ids_tagged = AsyncMock(side_effect=lambda tag: np.array(of.get(tag, []), np.int64))

    def tags_among(ids: list[int]) -> list[tuple[int, str]]:
        wanted = set(ids)
        return [(one, tag) for tag, some in of.items() for one in some if one in wanted]

    store.among = AsyncMock(side_effect=tags_among)
    history.dated_delays = AsyncMock(return_value=delays)
    return Planner(scheduler=scheduler, tags=store, history=history)


def specs_of(number: int, **fields: Any) -> list[SiteSpec]:
    return [SiteSpec(f"http://h{i}/", **fields) for i in range(number)]


def limits(found: BudgetPlan) -> list[tuple[PlanLimit, int, int, float | None]]:
    return [(one.limit, one.sites, one.hosts, one.seconds) for one in found.limits]


async def test_a_plan_is_of_all_sites_or_of_a_tag() -> None:
    rates = np.r_[np.full(20, 1 / 600), np.full(20, 1 / 6_000)]
    delays = np.array([1, 2, 21, 99]), np.array([60.0, 120.0, 600.0, 5.0])
    scheduler = scheduler_of(specs_of(40), rates)
    planner = planner_of(
        scheduler, {"shop": range(1, 21), "slow": range(21, 41), "all": range(1, 41), "gone": [99]}, delays
    )
    found = await planner.plan(0.8, 300.0)
    assert (found.objective, found.allocator, found.tag, found.current_budget) == ("changes", "whittle", None, 0.5)
    assert (found.sites, found.seldom_polled, found.sampled) == (40, 0, False)
    assert found.changes_per_day == pytest.approx(86_400 * rates.sum(), rel=0.15)
    assert found.budget is not None
    assert found.budget > 0.05
    assert found.limits == ()
    assert found.most == pytest.approx(1.0)
    assert [of.tag for of in found.by_tag] == ["all", "shop", "slow"]
    whole, shop, slow = found.by_tag
    assert (whole.share, whole.delay_median) == (found.current_share, found.delay_median)
    assert found.delay_median is not None
    assert found.delay_p90 is not None
    assert shop.share is not None
    assert slow.share is not None
    assert shop.share > slow.share, "slow pages are polled less often"
    assert found.measured == MeasuredDelays(4, 90.0, float(np.quantile(delays[1], 0.9)))
    assert shop.measured == MeasuredDelays(2, 90.0, 114.0)
    of_slow = await planner.plan(0.8, 300.0, "slow")
    assert (of_slow.tag, of_slow.sites) == ("slow", 20)
    assert of_slow.current_share == pytest.approx(slow.share)
    assert of_slow.budget is not None
    assert of_slow.budget > found.budget, "the other pages go first in what it takes"
    assert (of_slow.measured, of_slow.by_tag) == (MeasuredDelays(1, 600.0, 600.0), found.by_tag)


async def test_at_the_budget_of_the_plan_the_plan_says_so() -> None:
    scheduler = scheduler_of(specs_of(40), np.random.default_rng(1).lognormal(-7, 1, 40))
    planner = planner_of(scheduler)
    needed = (await planner.plan(0.9, 600.0)).budget
    assert needed is not None
    scheduler.budget_fit.budget = needed
    found = await planner.plan(0.9, 600.0)
    assert found.budget == pytest.approx(needed, rel=5e-3)
    assert found.current_share == pytest.approx(0.9, abs=2e-3)


async def test_sites_that_are_not_polled_do_not_count() -> None:
    scheduler = scheduler_of([*specs_of(3), SiteSpec("http://p/", paused=True)], np.full(4, 1e-3))
    scheduler.sites.state[1] = STATE_CODE[SiteState.GONE]
    scheduler.sites.state[2] = STATE_CODE[SiteState.BLOCKED]
    found = await planner_of(scheduler, {"mine": range(1, 5)}).plan(0.5, 600.0)
    assert (found.sites, found.by_tag[0].sites) == (1, 1)


async def test_without_sites_there_is_nothing_to_plan() -> None:
    found = await planner_of(scheduler_of([], np.empty(0))).plan(0.9, 1_800.0)
    assert (found.sites, found.budget, found.current_share, found.most, found.limits) == (0, None, None, None, ())


@pytest.mark.parametrize(
    ("share", "within", "tag", "field"),
    [
        (0.0, 60.0, None, "share"),
        (1.0, 60.0, None, "share"),
        (float("nan"), 60.0, None, "share"),
        (0.5, 0.5, None, "within"),
        (0.5, 2e9, None, "within"),
        (0.5, 60.0, "shpo", "tag"),
        (0.5, 60.0, "away", "tag"),
    ],
)
async def test_what_cannot_be_planned_is_named(share: float, within: float, tag: str | None, field: str) -> None:
    planner = planner_of(scheduler_of(specs_of(2), np.full(2, 1e-3)), {"away": [77]})
    with pytest.raises(InvalidValueError) as caught:
        await planner.plan(share, within, tag)
    assert caught.value.field == field


async def test_hosts_that_allow_too_few_requests_are_the_reason() -> None:
    scheduler = scheduler_of(specs_of(6), np.full(6, 1e-3), [0, 1, 2, 2, 2, 3], host_interval_seconds=1.0)
    scheduler.hosts.crawl_delay[[0, 1]] = 600.0
    found = await planner_of(scheduler).plan(0.9, 60.0)
    assert found.budget is None
    assert limits(found) == [(PlanLimit.HOST_INTERVAL, 2, 2, 600.0)]
    assert found.most == pytest.approx(1 - found.limits[0].share)
    scheduler.hosts.crawl_delay[2] = 100.0
    assert limits(await planner_of(scheduler).plan(0.9, 60.0)) == [(PlanLimit.HOST_INTERVAL, 5, 3, 600.0)]
    assert (await planner_of(scheduler, {"last": [6]}).plan(0.9, 60.0, "last")).budget is not None


@pytest.mark.parametrize("allocator", ["whittle", "optimal"])
async def test_limits_of_sites_are_the_reason(allocator: str) -> None:
    specs = [*specs_of(2, min_interval=7_200.0), *specs_of(1, weight=0.0), *specs_of(3)]
    scheduler = scheduler_of(specs, np.full(6, 1e-4), allocator=allocator)
    quiet, announced = np.array([3, 4]), np.array([5])
    scheduler.sites.put("unchanged_until", quiet, NOW + 5_000.0)
    scheduler.sites.put("unchanged_until", announced, NOW + 3_600.0)
    scheduler.sites.put("announced_ttl", announced, 3_600.0)
    found = await planner_of(scheduler).plan(0.9, 600.0)
    assert found.budget is None
    expected = [
        (PlanLimit.MIN_INTERVAL, 2, 2, 7_200.0),
        (PlanLimit.MIN_YIELD, 2, 2, 5_000.0),
        (PlanLimit.NEVER_POLLED, 1, 1, None),  # whittle polls also what has no weight, seldom
        (PlanLimit.TTL, 1, 1, 3_600.0),
    ]
    assert sorted(limits(found)) == (expected if allocator == "optimal" else expected[:2] + expected[3:])
    assert [one.share for one in found.limits] == sorted((one.share for one in found.limits), reverse=True)
    assert sum(one.share for one in found.limits) == pytest.approx(1 - (found.most or 0.0))


async def test_a_goal_that_min_saving_holds_back_is_told_in_checks_a_day() -> None:
    """And what is told is true: with that min_saving the gate makes these checks, and they reach the goal."""
    rates = np.geomspace(1e-5, 1e-3, 12)
    scheduler = scheduler_of(specs_of(12), rates, min_saving_seconds=120.0)
    slots = np.arange(12)
    note_unchanged(scheduler, slots, NOW)
    goal = 0.5, 60.0
    found = await planner_of(scheduler).plan(*goal)
    assert found.budget is None
    assert limits(found)[0][0] is PlanLimit.MIN_SAVING
    assert found.current_min_saving == 120.0
    assert found.min_saving is not None
    assert found.min_saving < 120.0
    assert found.checks_per_day is not None
    assert found.checks_per_day > (found.current_checks_per_day or 0.0) > 0.0
    assert "checks per day: --min-saving " in sentences(found)[0]
    scheduler.adopt(SchedulingSettings(min_interval_seconds=10.0, min_saving_seconds=found.min_saving * 0.99))
    note_unchanged(scheduler, slots, NOW)
    again = await planner_of(scheduler).plan(*goal)
    assert again.budget is not None
    assert again.most == pytest.approx(0.5, abs=0.02)
    assert again.current_checks_per_day == pytest.approx(found.checks_per_day, rel=0.05)
    assert again.budget <= again.current_budget
    assert "you need about" in sentences(again)[0]


async def test_sites_with_a_min_saving_of_their_own_keep_it() -> None:
    scheduler = scheduler_of(specs_of(4, min_saving=3_600.0), np.full(4, 1e-4), min_saving_seconds=20.0)
    note_unchanged(scheduler, np.arange(4), NOW)
    found = await planner_of(scheduler).plan(0.9, 60.0)
    assert (found.budget, found.min_saving, found.checks_per_day) == (None, None, None)
    assert limits(found)[0][0] is PlanLimit.MIN_SAVING


async def test_a_budget_beyond_all_that_may_be_set_is_the_reason() -> None:
    scheduler = scheduler_of(
        specs_of(3, cost=10_000.0), np.full(3, 1e-2), min_interval_seconds=0.0, host_interval_seconds=0
    )
    found = await planner_of(scheduler).plan(0.9, 1.0)
    assert found.budget is None
    assert found.most == pytest.approx(1.0)
    assert [one.limit for one in found.limits] == [PlanLimit.LARGEST_BUDGET]


async def test_some_of_very_many_sites_tell_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = np.random.default_rng(7).lognormal(-7, 1.5, 3_000)
    scheduler = scheduler_of(specs_of(3_000), rates, [i // 3 for i in range(3_000)], budget=5.0)
    tags = {"rare": range(1, 101), "often": range(1, 2_001)}
    exact, exact_rare = [await planner_of(scheduler, tags).plan(0.8, 900.0, tag) for tag in (None, "rare")]
    monkeypatch.setattr("pollerd.daemon.forecast.SAMPLE_SITES", 1_000)
    monkeypatch.setattr("pollerd.daemon.planner.SAMPLE_SITES", 1_000)
    some, rare = [await planner_of(scheduler, tags).plan(0.8, 900.0, tag) for tag in (None, "rare")]
    for found, whole in ((some, exact), (rare, exact_rare)):
        assert found.sampled
        assert not whole.sampled
        assert found.budget == pytest.approx(whole.budget, rel=0.2)
        assert found.current_share == pytest.approx(whole.current_share, abs=0.05)
        assert found.delay_median == pytest.approx(whole.delay_median, rel=0.25)
        assert found.by_tag[0].sites == pytest.approx(2_000, rel=0.1)
    assert (some.sites, rare.sites) == (3_000, 100), "all sites of a rare tag are looked at"


async def test_an_allocator_without_rates_has_a_plan_of_equal_pages() -> None:
    scheduler = scheduler_of(specs_of(10), np.full(10, 1e-3), allocator="uniform", budget=0.1)
    found = await planner_of(scheduler).plan(0.5, 25.0)
    assert (found.allocator, found.changes_per_day) == ("uniform", None)
    assert found.current_share == pytest.approx(0.25, rel=1e-3)
    assert found.delay_median == pytest.approx(50.0, rel=1e-3)
    assert found.budget == pytest.approx(0.2, rel=2e-3)


async def test_an_allocator_of_shares_has_a_plan_of_its_shares() -> None:
    scheduler = scheduler_of(specs_of(8), np.r_[np.full(4, 1e-2), np.full(4, 1e-4)], allocator="htraa", budget=0.1)
    shares = scheduler.allocator.shares(np.arange(8))
    assert shares is not None
    found = await planner_of(scheduler).plan(0.5, 60.0)
    assert found.budget is not None
    assert found.changes_per_day is not None
    assert found.changes_per_day > 0


async def test_the_loop_runs_on_and_plans_take_turns() -> None:
    planner = planner_of(scheduler_of(specs_of(30), np.full(30, 1e-3)))
    first, second = await asyncio.gather(planner.plan(0.9, 600.0), planner.plan(0.9, 600.0))
    assert first == second


async def test_an_empty_database_has_a_plan(start: Start, any_database: str) -> None:
    async with start(url=any_database, allocator="whittle") as running:
        found = await running.control.planner.plan(0.9, 1_800.0)
    assert (found.sites, found.budget, found.measured, found.by_tag) == (0, None, None, ())
