"""A site is polled once that is expected to bring news sooner by min_saving; signals and silence count."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.unchanged import note_unchanged, still_unchanged
from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling.choice import Chooser
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec

NOW, SITES, HOUR = 1_750_000_000.0, 12, 3_600.0
SLOTS = np.arange(SITES)
DAY = 24 * HOUR


def fleet(
    *specs: dict[str, Any],
    settings: SchedulingSettings | None = None,
    objective: str = "changes",
    budget: float = 0.2,
    sources: int = 0,
    polls: int = 60,
) -> SchedulerState:
    """Sites polled every 20 min, that changed each third time: rates of about 1 an hour; polled last at NOW.

    sources: how many of the pages a pushed source speaks for, which announced each change, and no others.
    """
    allocator = create("whittle", budget=budget, objective=objective, rng=np.random.default_rng(7))
    scheduler = SchedulerState(
        settings=settings or SchedulingSettings(), allocator_name="whittle", allocator=allocator, objective=objective
    )
    given = [SiteSpec(f"http://h{i}/", **(specs[i] if i < len(specs) else {})) for i in range(SITES)]
    scheduler.add(range(1, SITES + 1), [(i + 1, f"h{i}:80") for i in range(SITES)], given)
    scheduler.budget_fit.fit()
    if sources:
        allocator.add_source(0, SLOTS[:sources])
    for i in range(polls):
        at = NOW - (polls - 1 - i) * HOUR / 3
        changed = (SLOTS + i) % 3 == 0
        if sources:
            told = SLOTS[:sources][changed[:sources]]
            allocator.signal(told, 0, np.full(len(told), np.nan), at - 60.0)
            allocator.fetched(0, at - 1.0)
        allocator.observe(SLOTS, np.full(SITES, HOUR / 3), EvidenceBatch(changed), at)
    scheduler.sites.last_poll[:SITES] = scheduler.sites.last_seen[:SITES] = NOW
    scheduler.sites.polls[:SITES] = polls
    note_unchanged(scheduler, SLOTS, NOW)
    return scheduler


def wait(scheduler: SchedulerState) -> NDArray[np.float64]:
    """Seconds from NOW for which each site is left alone; -inf: not at all."""
    return scheduler.sites.unchanged_until[:SITES] - NOW


def saved(scheduler: SchedulerState, slot: int, gap: float) -> float:
    """The integral of the chance over a gap, numerically."""
    gaps = np.linspace(0.0, gap, 400)
    chance = scheduler.allocator.change_probabilities(np.array([slot]), gaps[None])[0]
    return float(((chance[1:] + chance[:-1]) / 2 * np.diff(gaps)).sum())


def test_the_wait_is_as_long_as_the_integral_of_the_chance_takes_for_the_saving() -> None:
    usual, lazy = fleet(), fleet(settings=SchedulingSettings(min_saving_seconds=120.0))
    assert saved(usual, 3, float(wait(usual)[3])) == pytest.approx(20.0, rel=0.05)
    assert saved(lazy, 3, float(wait(lazy)[3])) == pytest.approx(120.0, rel=0.05)


def test_weight_and_cost_count_as_the_saving_is_for_1_and_1() -> None:
    scheduler = fleet({}, {"weight": 4.0}, {"cost": 4.0}, {"min_saving": 80.0}, {"weight": 0.0})
    found = wait(scheduler)
    assert saved(scheduler, 1, float(found[1])) == pytest.approx(5.0, rel=0.06)
    assert saved(scheduler, 2, float(found[2])) == pytest.approx(80.0, rel=0.05)
    assert found[3] == pytest.approx(found[2], rel=0.2)
    assert found[4] == pytest.approx(DAY), "what is worth nothing is never forced, and waits as long as any"


def test_a_site_with_a_min_yield_of_nothing_may_always_be_polled() -> None:
    scheduler = fleet({"min_yield": 0.0}, {"min_yield": 0.0, "min_saving": 20.0}, {"min_saving": 0.0}, {})
    found = wait(scheduler)
    assert np.isneginf(found[[0, 2]]).all()
    assert found[1] == pytest.approx(found[4], rel=0.2)


def test_a_new_site_waits_5_minutes_then_twice_as_long_each_time() -> None:
    scheduler = fleet({"cost": 2.0}, settings=SchedulingSettings(min_saving_seconds=250.0))
    for polls, longest in ((1, 300.0), (2, 600.0)):
        scheduler.sites.polls[:SITES] = polls
        note_unchanged(scheduler, SLOTS, NOW)
        assert wait(scheduler)[0] == max(longest, 500.0), "nothing sooner than its saving"
        assert (wait(scheduler)[1:] == longest).all()
    scheduler.sites.polls[:SITES] = 60
    note_unchanged(scheduler, SLOTS, NOW)
    assert (wait(scheduler) > 600.0).all()


def test_no_wait_beyond_a_max_interval_or_after_a_failure() -> None:
    scheduler = fleet({"max_interval": 100.0})
    assert wait(scheduler)[0] == pytest.approx(100.0)
    scheduler.sites.failures[1], scheduler.sites.state[1] = 1, STATE_CODE[SiteState.BACKING_OFF]
    note_unchanged(scheduler, SLOTS, NOW)
    assert np.isneginf(wait(scheduler)[1])


def test_a_deadline_bounds_the_wait_where_the_deadlines_fit_into_the_budget() -> None:
    deadlines = [{"deadline": 90.0}] * SITES
    fits = fleet(*deadlines, objective="deadline", budget=SITES / 89.0)
    assert (wait(fits) == 90.0).all()
    fits.budget_fit.fit(SITES / 91.0)
    note_unchanged(fits, SLOTS, NOW)
    assert (wait(fits) > 90.0).all()
    assert fits.believes_anew.is_set(), "the waits of all others are old then"
    assert (wait(fleet(*deadlines, budget=SITES / 89.0)) > 90.0).all(), "other objectives have none"


# --- signals ---------------------------------------------------------------------------------------------------------


def test_a_signal_of_a_source_that_never_lied_is_followed_at_once() -> None:
    scheduler = fleet(sources=SITES)
    told, other = np.array([2]), np.array([3])
    before = wait(scheduler)[other]
    scheduler.signal(told, 0, np.full(1, math.nan), NOW + 30.0)
    note_unchanged(scheduler, np.array([2, 3]), NOW + 30.0)
    assert wait(scheduler)[told] == pytest.approx(30.0)
    assert wait(scheduler)[other] == before


def test_a_signal_waits_for_nothing_over_a_recomputation() -> None:
    """Other settings, or a restart, recompute all waits: what was said since the last poll counts then, too."""
    scheduler = fleet(sources=SITES)
    scheduler.signal(np.array([2]), 0, np.full(1, math.nan), NOW + 30.0)
    note_unchanged(scheduler, SLOTS, NOW + 40.0)
    assert wait(scheduler)[2] <= 40.0
    assert (np.delete(wait(scheduler), 2) > 40.0).all()


def test_a_source_that_told_of_every_change_lets_its_pages_wait_while_it_is_silent() -> None:
    scheduler = fleet(sources=6)
    at = NOW + 2.0 * float(wait(scheduler).max())
    scheduler.source_fetched(0, at)
    held = still_unchanged(scheduler, SLOTS, at)
    assert held.tolist() == [True] * 6 + [False] * 6
    assert (wait(scheduler)[:6] > at - NOW + 1.0).all()
    assert not still_unchanged(scheduler, SLOTS, NOW + DAY).any(), "no silence lasts beyond max_silence"


def test_what_is_silent_is_not_chosen_and_others_are() -> None:
    scheduler = fleet(sources=6)
    at = NOW + 2.0 * float(wait(scheduler).max())
    scheduler.source_fetched(0, at)
    settings = scheduler.settings
    chooser = Chooser(
        scheduler.sites, scheduler.hosts, settings, lambda slots, now: still_unchanged(scheduler, slots, now)
    )
    chosen = chooser.choose(scheduler.allocator, at, SITES, 1.0, 8)
    assert not set(chosen.polls + chosen.robots) & set(range(6))
    assert chosen.polls + chosen.robots


def test_other_settings_are_taken_over() -> None:
    scheduler = fleet()
    scheduler.adopt(replace(scheduler.settings, min_saving_seconds=0.0))
    assert scheduler.believes_anew.is_set()
    note_unchanged(scheduler, SLOTS, NOW)
    assert np.isneginf(wait(scheduler)).all()
