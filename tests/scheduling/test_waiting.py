"""What holds sites back, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling.capacity import PollLimit, Waiting, waiting
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

NOW = 1_000.0
SETTINGS = SchedulingSettings(min_interval_seconds=30, host_interval_seconds=1)
Hold = Callable[[SiteTable, HostTable], None]


def tables(hosts: list[int], settings: SchedulingSettings = SETTINGS) -> tuple[SiteTable, HostTable]:
    """Sites that were polled a while ago, on hosts whose robots.txt is known."""
    sites, table = SiteTable(), HostTable(settings)
    for h in range(max(hosts) + 1):
        table.add(h + 1, f"h{h}:80")
        table.robots_at[h] = 0.0
    slots = sites.add(range(1, len(hosts) + 1))
    sites.host[slots] = hosts
    sites.last_poll[slots] = NOW - 10
    return sites, table


def held(column: str, value: object) -> Hold:
    return lambda sites, hosts: getattr(sites, column).__setitem__(0, value)


def _wait(sites: SiteTable, state: SiteState) -> None:
    sites.state[0], sites.not_before[0] = STATE_CODE[state], NOW + 1


@pytest.mark.parametrize(
    ("name", "hold"),
    [
        ("paused", held("paused", True)),
        ("gone", held("state", STATE_CODE[SiteState.GONE])),
        ("private", lambda sites, hosts: sites.put("private", 0, True)),
        ("blocked", held("state", STATE_CODE[SiteState.BLOCKED])),
        ("backing_off", lambda sites, hosts: _wait(sites, SiteState.BACKING_OFF)),
        ("unanswered", held("last_poll", -np.inf)),
    ],
)
def test_each_site_is_counted_once(name: str, hold: Hold) -> None:
    sites, hosts = tables([0, 1])
    hold(sites, hosts)
    counts: dict[str, Any] = {name: 1, "interval": 1}
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(**counts)


def test_a_page_that_rests_as_it_is_slow_to_read_waits_for_its_interval() -> None:
    sites, hosts = tables([0, 1])
    _wait(sites, SiteState.ACTIVE)
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(interval=2)


def test_a_host_whose_robots_txt_cannot_be_had() -> None:
    sites, hosts = tables([0, 0, 1])
    hosts.robots_at[0], hosts.robots_retry_at[0] = -np.inf, NOW + 5
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(unreachable=2, interval=1)


def test_untried_sites_of_a_private_host_are_private_too() -> None:
    sites, hosts = tables([0, 0, 1])
    sites.put("private", 0, True)
    sites.last_poll[:3] = -np.inf
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(private=2, unanswered=1)


def test_a_crowded_host_binds_and_a_lonely_site_waits_for_itself() -> None:
    sites, hosts = tables([0] * 40 + [1])
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(host=40, hosts=1, interval=1)
    hosts.crawl_delay[0] = 10.0
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(host=40, hosts=1, interval=1, crawl_delay=True)
    sites.put("min_interval", 40, 3_600.0)
    assert waiting(sites, hosts, SETTINGS, NOW).own_interval


def test_a_site_that_is_believed_unchanged_waits_for_that() -> None:
    sites, hosts = tables([0, 1])
    sites.last_seen[:2] = NOW - 10
    sites.put("unchanged_until", 0, NOW + 3_600)
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(belief=1, saving=20.0, interval=1)


def test_a_site_that_asks_to_be_left_alone_waits_for_that() -> None:
    sites, hosts = tables([0, 1])
    sites.last_seen[:2] = NOW - 10
    sites.put("unchanged_until", 0, NOW + 3_600)
    sites.put("announced_ttl", 0, 7_200.0)
    assert waiting(sites, hosts, SETTINGS, NOW) == Waiting(ttl=1, interval=1)


def test_what_can_be_spent_is_that_of_the_sites_that_are_polled() -> None:
    sites, hosts = tables([0, 1, 2])
    sites.last_poll[1], sites.state[2] = -np.inf, STATE_CODE[SiteState.BLOCKED]
    found = waiting(sites, hosts, SETTINGS, NOW)
    assert found.spendable == pytest.approx(2 / 30)
    assert found.binding(0.0, 0.05) is PollLimit.FIRST_ANSWERS
    sites.last_poll[1] = NOW
    assert waiting(sites, hosts, SETTINGS, NOW).binding(0.0, 0.05) is PollLimit.BUDGET
    assert waiting(sites, hosts, SETTINGS, NOW).binding(0.0, 0.1) is PollLimit.MIN_INTERVAL


def test_no_sites_wait_for_nothing_and_no_interval_is_no_bound() -> None:
    assert waiting(SiteTable(), HostTable(SETTINGS), SETTINGS, NOW) == Waiting()
    free = SchedulingSettings(min_interval_seconds=0, host_interval_seconds=0)
    sites, hosts = tables([0, 0], free)
    assert waiting(sites, hosts, free, NOW).sites == 2
    sites.remove(0)
    assert waiting(sites, hosts, free, NOW).sites == 1
