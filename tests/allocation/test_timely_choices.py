"""What `whittle` and `optimal` choose under `delay` and `deadline`, through the contract."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.lab.environments.changes import Changes, ZipfChanges
from pollerd.lab.environments.driving import drive
from pollerd.lab.environments.waiting import expected_pending, least_pending, most_in_time, waits
from pollerd.lab.environments.web import Policy, run_web, streams
from pollerd.lab.environments.worlds import Web
from pollerd.lab.environments.zipf import Zipf

START = 1.75e9
RATES = np.array([0.02, 0.005, 0.001, 0.0005])


def taught(objective: str, deadline: float = 30.0, own: NDArray[np.float64] | None = None) -> Allocator:
    """`whittle` after many polls of four pages, every 10 s in turn."""
    allocator = create("whittle", budget=0.1, objective=objective, rng=np.random.default_rng(0), deadline=deadline)
    allocator.add(np.arange(4), np.ones(4), np.ones(4), deadline=own)
    rng, gap = np.random.default_rng(2), np.full(1, 40.0)
    for turn in range(2_000):
        slot = np.array([turn % 4])
        changed = rng.random(1) < -np.expm1(-RATES[slot] * gap)
        allocator.observe(slot, gap, EvidenceBatch(changed), START + 20.0 * turn)
    return allocator


def test_delay_goes_by_rate_times_squared_gap() -> None:
    allocator = taught("delay")
    now = START + 5e4
    gaps = np.array([10.0, 20.0, 40.0, 80.0])
    urgency = allocator.urgency(gaps, now)
    assert isinstance(allocator, Whittle)
    belief = allocator.belief
    assert belief.common_rate.weight == 1.0
    common = belief.clock.gap(gaps, now)  # the belief drifts over the gap, so the rate is that at its end
    rates = (belief.predicted_rows(slice(0, 4), common) * belief.rates).sum(1) * belief.factor(slice(0, 4))
    np.testing.assert_allclose(urgency / urgency[0], rates * common**2 / (rates[0] * common[0] ** 2), rtol=1e-5)


def test_a_poll_before_the_deadline_waits_for_all_that_are_due() -> None:
    allocator = taught("deadline")
    now = START + 5e4
    before = allocator.urgency(np.array([29.9, 29.9, 29.9, 30.0]), now)
    assert before.argmax() == 3  # the least of all pages, but the only one that is due
    due = allocator.urgency(np.full(4, 31.0), now)
    assert np.argsort(-due)[0] == 0
    assert (due > before).sum() >= 3


def test_each_site_has_its_own_deadline() -> None:
    allocator = taught("deadline", own=np.array([100.0, 20.0, np.nan, np.nan]))
    now = START + 5e4
    ranked = allocator.urgency(np.full(4, 25.0), now)
    assert ranked.argmax() == 1
    np.testing.assert_allclose(allocator.urgency_jumps, np.repeat([20.0, 30.0, 100.0], 2), atol=1e-4)
    assert len(taught("delay").urgency_jumps) == 0


def test_spare_polls_are_spent_and_spread() -> None:
    """A budget that keeps every deadline many times over: nobody is left alone, and all is found in time."""
    allocator = create("whittle", budget=0.1, objective="deadline", rng=np.random.default_rng(0), deadline=4_000.0)
    zipf = Zipf(40, 0.3, 1.0, "shuffled")
    world, own, _ = streams(np.random.SeedSequence(5))
    record = drive(allocator, ZipfChanges(zipf, world), 1_500)
    assert np.unique(record.page).size == 40
    every = waits(record, ZipfChanges(zipf, streams(np.random.SeedSequence(5))[0]))
    assert every.in_time([1_500], 400.0)[0] > 0.99
    del own


@pytest.mark.parametrize(("objective", "least"), [("delay", 0.95), ("deadline", 0.97)])
def test_who_knows_the_rates_reaches_the_bound(objective: str, least: float) -> None:
    policy = Policy("optimal", objective, told_rates=True, deadline=1_000.0)
    world = Web(Zipf(100, 0.3, 1.0, "shuffled"), objective, deadline=1_000.0)  # type: ignore[arg-type]
    reached = np.mean([world.shares(policy, [500, 4_000], np.random.SeedSequence(s))[1] for s in range(2)])
    assert least < reached < 1.04


@pytest.mark.parametrize(("objective", "least"), [("delay", 1.3), ("deadline", 1.5)])
def test_learning_beats_round_robin(objective: str, least: float) -> None:
    world = Web(Zipf(100, 0.3, 1.0, "shuffled"), objective, deadline=200.0)  # type: ignore[arg-type]
    edges = [1_000, 3_000]
    learned, uniform = (
        world.shares(Policy(name, objective, deadline=200.0), edges, np.random.SeedSequence(3))[1]
        for name in ("whittle", "uniform")
    )
    assert learned > least * uniform


def test_bounds_for_known_rates() -> None:
    rates = np.array([0.04, 0.01])
    assert least_pending(rates) == pytest.approx((np.sqrt(rates).sum()) ** 2 / 2)
    assert most_in_time(rates, 2.0) == pytest.approx(1.0)
    assert most_in_time(rates, 1.0) == pytest.approx(0.8)
    assert most_in_time(rates, 1e9) == pytest.approx(1.0)


def test_waits_are_those_of_each_change() -> None:
    """Compared with a search, change by change."""
    zipf, seed = Zipf(20, 0.5, 1.0, "shuffled"), np.random.SeedSequence(9)
    record = run_web(zipf, Policy("uniform"), 200, seed)
    every = waits(record, ZipfChanges(zipf, streams(seed)[0]))
    page, at = ZipfChanges(zipf, streams(seed)[0]).every(200.0)
    polled = [np.flatnonzero(record.page == one) + 1.0 for one in range(20)]
    wanted = [next((float(t) for t in polled[p] if t >= when), np.inf) for p, when in zip(page, at, strict=True)]
    np.testing.assert_array_equal(every.found, wanted)
    seen = np.isfinite(every.found)
    assert seen.sum() > 100
    in_first = (every.at <= 100) & (every.found - every.at <= 15)
    assert every.in_time([100, 200], 15.0)[0] == pytest.approx(in_first.sum() / (every.at <= 100).sum())
    pending = [((every.at <= t) & (every.found > t)).sum() for t in np.arange(0.005, 200, 0.01)]
    assert every.pending([200])[0] == pytest.approx(np.mean(pending), rel=0.01)


@pytest.mark.parametrize("objective", ["delay", "deadline"])
def test_a_restored_allocator_goes_on_alike(objective: str) -> None:
    before = taught(objective)
    after = create("whittle", budget=0.1, objective=objective, rng=np.random.default_rng(0), deadline=30.0)
    after.add(np.arange(4), np.ones(4), np.ones(4))
    after.restore(np.arange(4), before.site_state(np.arange(4)), before.shared_state())
    gaps = np.array([12.0, 31.0, 55.0, 200.0])
    np.testing.assert_array_equal(after.urgency(gaps, START + 5e4), before.urgency(gaps, START + 5e4))


class FewChanges(Changes):
    """Changes of 100 steps only."""

    def __init__(self, rates: NDArray[np.float64], rng: np.random.Generator) -> None:
        super().__init__(len(rates))
        self._rates, self._rng = rates, rng

    def block(self, begin: float) -> tuple[float, NDArray[np.float64], NDArray[np.int64]]:
        counts = self._rng.poisson(self._rates * 100.0)
        times = [np.sort(self._rng.uniform(begin, begin + 100.0, number)) for number in counts]
        return begin + 100.0, np.concatenate(times), counts


def test_expected_waits_are_the_mean_of_simulated_ones() -> None:
    zipf, rng = Zipf(20, 0.5, 1.0, "sorted"), np.random.default_rng(4)
    rates = -np.log1p(-zipf.by_rank)
    record = run_web(zipf, Policy("uniform"), 100, np.random.SeedSequence(1))
    found = [waits(record, FewChanges(rates, rng)).pending([40, 100]) for _ in range(1_000)]
    np.testing.assert_allclose(expected_pending(record, rates, [40, 100]), np.mean(found, 0), rtol=0.05)
