"""Figures of a long list are kept from the last look at all of its sites; those of a short one are of now."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd import columns
from pollerd.allocation.registry import create
from pollerd.daemon import budget, forecast
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec


def fleet_of(sites: int, hosts: int) -> SchedulerState:
    rng = np.random.default_rng(5)
    scheduler = SchedulerState(
        settings=SchedulingSettings(), allocator_name="whittle", allocator=create("whittle", budget=3.0, rng=rng)
    )
    names = [(1 + i % hosts, f"h{i % hosts}:80") for i in range(sites)]
    scheduler.add(range(1, sites + 1), names, [SiteSpec(f"http://h{i % hosts}/{i}") for i in range(sites)])
    scheduler.budget_fit.fit()
    return scheduler


def test_a_short_list_tells_of_now_and_a_long_one_of_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = fleet_of(6, 3)
    scheduler.sites.paused[:3] = True
    assert scheduler.budget_fit.crowding().total == pytest.approx(3 / 30)
    monkeypatch.setattr(budget, "LONG", 5)
    scheduler.sites.paused[:3] = False
    assert scheduler.budget_fit.crowding().total == pytest.approx(3 / 30)
    scheduler.budget_fit.fit()
    assert scheduler.budget_fit.crowding().total == pytest.approx(6 / 30)


def test_crowded_hosts_hold_up_their_sites_and_new_ones_none() -> None:
    scheduler = fleet_of(90, 2)
    crowding = scheduler.budget_fit.crowding()
    np.testing.assert_allclose(crowding.of(np.array([0, 1, 2, 9], np.int32)), [1.5, 1.5, 1.0, 1.0])


@pytest.mark.parametrize("hosts", [1, 2, 50, 300])
def test_hosts_to_poll_are_counted_up_to_a_hundred(hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROWS_AT_A_TIME", 7)
    scheduler = fleet_of(600, hosts)
    assert min(scheduler.hosts_polled(0.0), 100) == min(hosts, 100)
    scheduler.sites.not_before[:599] = 10.0
    assert scheduler.hosts_polled(9.0) == 1
    scheduler.sites.in_flight[:2] = True
    assert scheduler.hosts_polled(9.0) == len({0, 1 % hosts, 599 % hosts})
    scheduler.sites.paused[:] = True
    assert scheduler.hosts_polled(1e9) == 0


def test_a_sample_is_of_those_chosen_and_the_same_whatever_the_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = np.random.default_rng(1).random(40_000) < 0.7
    some = forecast.sample(chosen)
    monkeypatch.setattr(columns, "ROWS_AT_A_TIME", 999)
    np.testing.assert_array_equal(forecast.sample(chosen), some)
    assert chosen[some].all()
    assert len(some) == pytest.approx(forecast.SAMPLE_SITES, rel=0.02)
    few = np.flatnonzero(chosen)[: forecast.SAMPLE_SITES]
    np.testing.assert_array_equal(forecast.sample(np.isin(np.arange(40_000), few)), few)
