"""Long lists are gone through a stretch at a time: what comes of it is what whole columns would give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd import columns
from pollerd.allocation import registry
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.model import STATES
from pollerd.scheduling.choice import Chooser, next_due
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.robots import FRESH_SECONDS
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

NOW = 1_000_000.0
SETTINGS = SchedulingSettings(min_interval_seconds=30, host_interval_seconds=1)
WHOLE, SHORT = 1 << 40, 7
ANY = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def random_tables(seed: int, n: int = 120, h: int = 40) -> tuple[SiteTable, HostTable]:
    rng = np.random.default_rng(seed)
    sites, hosts = SiteTable(), HostTable(SETTINGS)
    for host in range(h):
        hosts.add(host + 1, f"h{host}:80")
    hosts.robots_at[:h] = np.where(rng.random(h) < 0.7, NOW - rng.uniform(0, 2 * FRESH_SECONDS, h), -np.inf)
    hosts.robots_retry_at[:h] = np.where(rng.random(h) < 0.2, NOW + 9, 0.0)
    hosts.last_start[:h] = NOW - rng.exponential(3.0, h)
    hosts.paused_until[:h] = np.where(rng.random(h) < 0.1, NOW + 5, 0.0)
    hosts.busy[:h] = rng.random(h) < 0.1
    slots = sites.add(range(1, n + 1))
    sites.host[slots] = rng.integers(0, h, n)
    polled = rng.random(n) < rng.choice([0.05, 0.5, 0.95])
    sites.last_poll[slots] = np.where(polled, NOW - rng.exponential(100.0, n), -np.inf)
    sites.last_seen[slots] = np.where(rng.random(n) < 0.9, sites.last_poll[slots], -np.inf)
    sites.not_before[slots] = np.where(rng.random(n) < 0.1, NOW + rng.uniform(-9, 9, n), 0.0)
    sites.state[slots] = np.where(rng.random(n) < 0.1, rng.integers(0, len(STATES), n), 0)
    sites.history[slots], sites.history_length[slots] = 0xFFFF, np.where(polled, rng.integers(0, 8, n), 0)
    for flag in ("paused", "in_flight", "asap"):
        getattr(sites, flag)[slots] = rng.random(n) < 0.05
    for name, values in (
        ("min_interval", rng.choice([math.nan, 0.5, 500.0], n)),
        ("max_interval", rng.choice([math.nan, math.nan, 50.0], n)),
        ("unchanged_until", NOW + rng.uniform(-99, 30, n)),
    ):
        if rng.random() < 0.5:
            sites.put(name, slots, values)
    for site_id in rng.choice(n, 5, replace=False):
        sites.remove(int(site_id))
    return sites, hosts


@ANY
@given(seed=st.integers(0, 2**32 - 1))
def test_who_may_be_polled_is_what_the_rules_say_row_by_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROWS_AT_A_TIME", SHORT)
    sites, hosts = random_tables(seed)
    pollable, elapsed = sites.pollable(NOW, 30.0), sites.elapsed(NOW)
    for slot in range(sites.size):
        own = float(sites.min_interval[slot])
        free = sites.site_id[slot] >= 0 and not sites.paused[slot] and not sites.in_flight[slot]
        free &= sites.not_before[slot] <= NOW
        spaced = (
            sites.last_poll[slot] + (30.0 if math.isnan(own) else own) <= NOW and sites.unchanged_until[slot] <= NOW
        )
        assert pollable[slot] == bool(free and (sites.asap[slot] or spaced))
        assert elapsed[slot] == max(NOW - sites.last_seen[slot], 0.0)
    assert hosts.ready(NOW).tolist() == [hosts.may_start(host, NOW) for host in range(hosts.size)]
    old = [NOW - at >= FRESH_SECONDS for at in hosts.robots_at[: hosts.size].tolist()]
    free_to_ask = (hosts.robots_retry_at[: hosts.size] <= NOW).tolist()
    assert hosts.robots_wanted(NOW).tolist() == [a and b for a, b in zip(old, free_to_ask, strict=True)]


@ANY
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 30), room=st.integers(0, 10))
def test_choices_and_waits_are_those_of_whole_columns(
    seed: int, k: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for rows in (WHOLE, SHORT):
        monkeypatch.setattr(columns, "ROWS_AT_A_TIME", rows)
        sites, hosts = random_tables(seed)
        allocator = registry.create("whittle", budget=5.0, rng=np.random.default_rng(seed))
        taken = np.flatnonzero(sites.occupied())
        allocator.add(taken, np.ones(len(taken)), np.ones(len(taken)))
        chooser = Chooser(sites, hosts, SETTINGS)
        chosen = [chooser.choose(allocator, NOW + turn, k, 24.0, room) for turn in range(3)]
        due = next_due(sites, hosts, NOW, 30.0)
        found.append(([(one.polls, one.robots, one.sites_due) for one in chosen], due))
    assert found[0] == found[1]


@pytest.mark.parametrize("share", [0.02, 0.6])
def test_an_allocator_of_many_sites_names_the_same_whatever_the_stretches(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = []
    for rows in (WHOLE, 97):
        monkeypatch.setattr(columns, "ROWS_AT_A_TIME", rows)
        named.append(_named_over_time(registry.create("whittle", budget=5.0, rng=np.random.default_rng(1)), share))
    assert len(named[0]) > 100
    assert named[0] == named[1]


def _named_over_time(allocator: Allocator, share: float, n: int = 5_000) -> list[int]:
    """The slots that are named in turn where only a share of all is eligible, each polled at once."""
    rng, last = np.random.default_rng(2), np.full(n, -np.inf)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    last[: n // 2] = -rng.uniform(0, 2_000, n // 2)
    named: list[int] = []
    for turn in range(40):
        now = 10.0 * turn
        slots = allocator.select(now - last, now, _some(rng, n, share) & np.isfinite(last), 5)
        allocator.observe(slots, now - last[slots], EvidenceBatch(rng.random(len(slots)) < 0.3), now)
        last[slots] = now
        named += slots.tolist()
    return named


def _some(rng: np.random.Generator, n: int, share: float) -> NDArray[np.bool_]:
    return rng.random(n) < share


@ANY
@given(chosen=st.lists(st.booleans(), max_size=100))
def test_rows_of_a_mask_hold_all_that_is_in_it_once_and_in_order(
    chosen: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "ROWS_AT_A_TIME", 16)
    mask = np.array(chosen, np.bool_)
    rows = [np.arange(len(mask))[part] for part in columns.rows_of(mask)]
    named = np.concatenate(rows) if rows else np.empty(0, np.int64)
    assert named[mask[named]].tolist() == np.flatnonzero(mask).tolist()
    assert (np.diff(named) > 0).all()
