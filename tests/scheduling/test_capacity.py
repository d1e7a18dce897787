"""What can be spent at all, whatever the budget."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np
import pytest

from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling import capacity
from pollerd.scheduling.capacity import reach
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable


def last_word(going: Generator[None, None, capacity.HostLoad]) -> capacity.HostLoad:
    """What a look at all pieces comes to."""
    while True:
        try:
            next(going)
        except StopIteration as ended:
            load: capacity.HostLoad = ended.value
            return load


def tables(settings: SchedulingSettings, hosts: list[int]) -> tuple[SiteTable, HostTable]:
    sites, table = SiteTable(), HostTable(settings)
    for h in range(max(hosts) + 1):
        table.add(h + 1, f"h{h}:80")
    slots = sites.add(range(1, len(hosts) + 1))
    sites.host[slots] = hosts
    return sites, table


def test_min_intervals_bound_a_short_list() -> None:
    settings = SchedulingSettings(min_interval_seconds=30, host_interval_seconds=1)
    sites, hosts = tables(settings, [0, 1, 2])
    assert reach(sites, hosts, settings).total == pytest.approx(3 / 30)
    sites.put("min_interval", 0, 10)
    sites.paused[1] = True
    sites.state[2] = STATE_CODE[SiteState.GONE]
    assert reach(sites, hosts, settings).total == pytest.approx(1 / 10)


def test_one_host_bounds_a_long_list() -> None:
    settings = SchedulingSettings(min_interval_seconds=1, host_interval_seconds=2)
    sites, hosts = tables(settings, [0] * 100)
    sites.put("cost", slice(100), 3.0)
    assert reach(sites, hosts, settings).total == pytest.approx(3 / 2)


def test_without_intervals_or_sites_there_is_no_bound() -> None:
    settings = SchedulingSettings(min_interval_seconds=0, host_interval_seconds=0)
    sites, hosts = tables(settings, [0, 1])
    assert reach(sites, hosts, settings).total == math.inf
    assert reach(SiteTable(), HostTable(settings), settings).total == math.inf


@pytest.mark.parametrize("seed", range(6))
def test_totals_of_a_long_list_are_those_of_all_sites(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "PIECE", 64)
    rng = np.random.default_rng(seed)
    settings = SchedulingSettings(min_interval_seconds=30.0, host_interval_seconds=2.0)
    sites, hosts = SiteTable(), HostTable(settings)
    for number in range(50):
        hosts.add(number + 1, f"h{number}:80")
    slots = sites.add(np.arange(1, 401))
    sites.host[slots] = rng.integers(0, 50, 400)
    sites.paused[:30] = True
    sites.remove(77)
    if seed % 3:
        sites.put("min_interval", slots[:100], rng.choice([np.nan, 5.0, 600.0], 100))
        sites.put("cost", slots[50:80], 3.0)
    if seed % 2:
        sites.last_seen[slots] = 1e9
        sites.put("unchanged_until", slots, 1e9 + rng.exponential(200.0, 400))
        sites.put("announced_ttl", slots[:200], 150.0)
    for believed in (True, False):
        whole = capacity.reach(sites, hosts, settings, whatever_is_believed=not believed)
        found = last_word(capacity.totals(sites, hosts, settings, whatever_is_believed=not believed))
        assert found.total == pytest.approx(whole.total)
        np.testing.assert_allclose(found.by_host, whole.by_host)
