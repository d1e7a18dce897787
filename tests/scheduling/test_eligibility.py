"""How the sites of a long list stand, kept by what happens to each, is what a look at all of them says."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.model import STATE_CODE, STATES, SiteState
from pollerd.scheduling import eligibility
from pollerd.scheduling.choice import Chooser
from pollerd.scheduling.eligibility import EMPTY, PAUSED
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

START = 1.7e9
HOSTS = 40


@pytest.fixture(autouse=True)
def short_lists_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "LONG", 50)


class Oldest:
    """Wants whoever was polled longest ago; looks at all."""

    def select(self, elapsed: np.ndarray, now: float, eligible: np.ndarray, k: int) -> np.ndarray:
        slots = np.flatnonzero(eligible)
        return slots[np.argsort(-elapsed[slots], kind="stable")][:k]

    def select_seen(self, last_seen: np.ndarray, now: float, eligible: np.ndarray, k: int) -> np.ndarray:
        return self.select(np.maximum(now - last_seen, 0.0), now, eligible, k)

    def urgency_of(self, slots: np.ndarray, elapsed: np.ndarray, now: float) -> np.ndarray:
        return elapsed

    def rates_of(self, slots: np.ndarray) -> np.ndarray:
        return np.zeros(len(slots))

    def readings_due(self) -> np.ndarray:
        return np.empty(0, np.int64)


class World:
    """A table to which things happen."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.now, self.min_interval = START, 30.0
        self.sites = SiteTable()
        self.next_id = 1
        self.add(300)

    def some(self, most: int = 12) -> np.ndarray:
        there = np.flatnonzero(self.sites.occupied())
        return self.rng.choice(there, min(len(there), int(self.rng.integers(1, most))), replace=False)

    def add(self, number: int) -> None:
        slots = self.sites.add(np.arange(self.next_id, self.next_id + number))
        self.next_id += number
        self.sites.host[slots] = self.rng.integers(0, HOSTS, number)
        self.sites.touch(slots)

    def remove(self) -> None:
        for slot in self.some().tolist():
            self.sites.remove(slot)

    def pause(self) -> None:
        slots = self.some()
        self.sites.paused[slots] = self.rng.random() < 0.5
        self.sites.touch(slots)

    def start(self) -> None:
        slots = self.some()
        self.sites.in_flight[slots] = True
        self.sites.touch(slots)

    def end(self) -> None:
        sites, slots = self.sites, self.some(40)
        sites.note_history(slots, self.rng.random(len(slots)) < 0.8)
        sites.last_poll[slots] = self.now
        sites.last_seen[slots] = np.where(self.rng.random(len(slots)) < 0.8, self.now, sites.last_seen[slots])
        wait = self.rng.choice([0.0, 0.4, 100.0, 300.0, 1e4, 1e5], len(slots))
        sites.not_before[slots] = np.where(wait > 0, self.now + wait, 0.0)
        sites.state[slots] = self.rng.choice(len(STATES), len(slots), p=[0.8, 0.1, 0.05, 0.05])
        sites.asap[slots] = sites.in_flight[slots] = False
        sites.touch(slots)

    def ask(self) -> None:
        slots = self.some(3)
        self.sites.asap[slots] = True
        self.sites.touch(slots)

    def believe(self) -> None:
        slots = self.some()
        self.sites.put("unchanged_until", slots, self.now + self.rng.exponential(5_000.0, len(slots)))
        self.sites.touch(slots)

    def set_interval(self) -> None:
        slots = self.some(3)
        self.sites.put("min_interval", slots, self.rng.choice([np.nan, 0.0, 5.0, 3_600.0], len(slots)))
        self.sites.touch(slots)

    def adopt(self) -> None:
        self.min_interval = float(self.rng.choice([10.0, 30.0, 60.0]))

    def change_always(self) -> None:
        for _ in range(4):
            self.sites.note_history(np.array([self.some(2)[0]]), np.array([True]))

    def prove(self) -> None:
        slot = int(self.some(2)[0])
        self.sites.note_proof(slot, self.now, same=bool(self.rng.integers(2)))
        self.sites.proofs.ask(slot, self.now + 30.0)

    def set_clock(self) -> None:
        ahead = float(self.rng.choice([3.0, 4_000.0]))
        for column in (self.sites.last_poll, self.sites.last_seen):
            column += ahead
        self.sites.not_before[self.sites.not_before > 0] += ahead
        self.now += ahead
        self.sites.eligibility.touch_all()

    def set_clock_back(self) -> None:
        self.now -= float(self.rng.choice([0.01, 50.0]))

    def wait(self) -> None:
        self.now += float(self.rng.choice([0.0, 0.1, 1.0, 20.0, 500.0, 9_000.0, 90_000.0], p=[0.1, *[0.15] * 6]))

    def anything(self) -> None:
        usual = (self.wait, self.end, self.start, self.pause, self.believe)
        seldom = (self.remove, self.ask, self.set_interval, self.change_always, self.prove, lambda: self.add(7))
        rare = (self.adopt, self.set_clock, self.set_clock_back, lambda: self.add(90))
        kind = self.rng.choice(3, p=[0.8, 0.18, 0.02])
        choices = (usual, seldom, rare)[kind]
        choices[int(self.rng.integers(len(choices)))]()


def check(world: World) -> None:
    sites, kept = world.sites, world.sites.eligibility
    assert kept.update(world.now, world.min_interval)
    n = sites.size
    np.testing.assert_array_equal(kept.ready[:n], sites.pollable(world.now, world.min_interval))
    np.testing.assert_array_equal(kept.known[:n], np.isfinite(sites.last_poll[:n]))
    np.testing.assert_array_equal(kept.changing[:n], sites.changes_always())
    np.testing.assert_array_equal(kept.live(), sites.in_force())
    code = np.where(sites.paused[:n], PAUSED, sites.state[:n])
    code = np.where(sites.occupied(), code, EMPTY)
    np.testing.assert_array_equal(kept.counts(), np.bincount(code, minlength=EMPTY + 1)[:EMPTY])


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_is_what_a_look_at_all_says(seed: int) -> None:
    world = World(seed)
    for _ in range(250):
        world.anything()
        check(world)


def test_the_same_sites_are_chosen_as_by_a_look_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(3)
    hosts = HostTable(SchedulingSettings())
    for number in range(HOSTS):
        hosts.add(number + 1, f"h{number}:80")
    choosers = [Chooser(world.sites, hosts, SchedulingSettings(min_interval_seconds=30.0)) for _ in range(2)]
    chosen = 0
    for _ in range(300):
        world.anything()
        world.min_interval = 30.0
        hosts.last_start[: hosts.size] = np.where(world.rng.random(HOSTS) < 0.3, world.now, START - 1e6)
        hosts.robots_at[: hosts.size] = world.now
        found = []
        for chooser, long in zip(choosers, (50, 10**9), strict=True):
            monkeypatch.setattr(eligibility, "LONG", long)
            found.append(chooser.choose(Oldest(), world.now, 9, 600.0, 5))
        monkeypatch.setattr(eligibility, "LONG", 50)
        assert found[0] == found[1]
        chosen += len(found[0].polls)
    assert chosen > 300


def test_sites_that_wait_long_are_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    sites, kept = world.sites, world.sites.eligibility
    slots = np.flatnonzero(sites.occupied())
    sites.not_before[slots] = world.now + np.linspace(1e4, 8e4, len(slots))
    kept.touch_all()
    check(world)
    looked = 0

    def counted(part: np.ndarray | slice) -> np.ndarray:
        nonlocal looked
        looked += len(sites.site_id[part])
        return changes_always(part)

    changes_always = sites.changes_always  # every look at rows asks it of them
    monkeypatch.setattr(sites, "changes_always", counted)
    while world.now < START + 9e4:
        world.now += 10.0
        kept.update(world.now, world.min_interval)
    assert kept.ready[: sites.size].sum() == len(slots)
    assert len(slots) <= looked <= 4 * len(slots)


def test_counts_name_every_state() -> None:
    world = World(5)
    world.sites.paused[:3] = True
    world.sites.state[3:5] = STATE_CODE[SiteState.GONE]
    scanned = world.sites.counts()
    check(world)
    assert world.sites.counts() == scanned
    assert scanned[-1] == 3
    assert sum(scanned) == len(world.sites)
