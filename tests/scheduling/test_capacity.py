"""What can be spent at all, whatever the budget."""

from __future__ import annotations

import math

import pytest

from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling import HostTable, SchedulingSettings, SiteTable, reach


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
