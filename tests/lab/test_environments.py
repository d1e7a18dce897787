"""The worlds of the simulation hold what they say: laws of changes, scores, common random numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.baselines import Uniform
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.changes import Changes, RatePhase, ZipfChanges
from pollerd.lab.environments.driving import STEP_S, Record, detections, drive, freshness, interest
from pollerd.lab.environments.histories import History, HistoryChanges, read_history
from pollerd.lab.environments.knapsack import Knapsack, drive_knapsack, noisy
from pollerd.lab.environments.web import Policy, run_web
from pollerd.lab.environments.worlds import HALF_LIVES_S, HistoryWorld, KnapsackWorld, Web, best_freshness
from pollerd.lab.environments.zipf import Zipf

SECOND = History(("a",), np.array([0.0, 1.0]), np.array([2]), 1.0)


@pytest.fixture
def any_seed() -> np.random.SeedSequence:
    return np.random.SeedSequence()


def test_the_optimum_is_one_less_the_product() -> None:
    zipf = Zipf(512, 0.9, 1.5)
    assert zipf.optimum == pytest.approx(1 - np.prod(1 - zipf.by_rank))
    assert zipf.by_rank[:2] == pytest.approx([0.9, 0.9 / 2**1.5])


def test_orders_and_swaps_keep_every_page(any_seed: np.random.SeedSequence) -> None:
    rng = np.random.default_rng(any_seed)
    for zipf in (Zipf(64), Zipf(64, order="shuffled"), Zipf(64, swaps=1000), Zipf(64, order="shuffled", swaps=3)):
        assert sorted(zipf.page_of_rank(rng).tolist()) == list(range(64))
    assert Zipf(64).page_of_rank(rng).tolist() == list(range(64))
    once = Zipf(64, swaps=1).page_of_rank(rng) - np.arange(64)
    assert np.sort(once).tolist() == [-1, *[0] * 62, 1]
    assert np.ptp(np.flatnonzero(once)) == 1


def test_a_poll_finds_a_change_as_often_as_it_should(any_seed: np.random.SeedSequence) -> None:
    """20,000 polls after 3 steps find one with probability 1 - .8^3 = .488: within .035, ten standard errors."""
    changes = ZipfChanges(Zipf(2, 0.2, 0.0), np.random.default_rng(any_seed))
    found = [changes.poll(0, 3.0 * k) < math.inf for k in range(1, 20_001)]
    assert np.mean(found) == pytest.approx(1 - 0.8**3, abs=0.035)


class Listed(Changes):
    """Changes at given times, in blocks of two steps."""

    def __init__(self, times: list[list[float]]) -> None:
        super().__init__(len(times))
        self._listed = times

    def block(self, begin: float) -> tuple[float, np.ndarray, np.ndarray]:
        within = [[time for time in times if begin < time <= begin + 2] for times in self._listed]
        return begin + 2, np.concatenate([np.empty(0), *within]), np.array([len(times) for times in within])


def test_polls_name_the_first_change_since_the_last() -> None:
    changes = Listed([[0.5, 1.5, 4.5, 7.0], [3.0]])
    assert changes.poll(0, 1.0) == 0.5
    assert changes.poll(0, 1.2) == math.inf
    assert changes.poll(0, 5.0) == 1.5, "the first of two, from an earlier block"
    assert changes.poll(0, 5.0) == math.inf
    assert changes.unseen(6.0).tolist() == [math.inf, 3.0]
    assert changes.unseen(7.5).tolist() == [7.0, 3.0]
    assert changes.poll(1, 9.0) == 3.0
    assert changes.poll(0, 9.0) == 7.0


def test_the_web_is_the_same_whoever_polls(any_seed: np.random.SeedSequence) -> None:
    zipf = Zipf(16, 0.5, 1.0, "shuffled", switch_every=50)
    records = [run_web(zipf, Policy(name), 400, any_seed) for name in ("uniform", "lakg")]
    webs = []
    for record in records:
        known = [set[int]() for _ in range(16)]
        for page, first in zip(record.page, record.first, strict=True):
            known[page].add(first)
        webs.append(known)
    earliest = [[min(times, default=math.inf) for times in known] for known in webs]
    unseen = [record.unseen for record in records]
    for page in range(16):
        firsts = {min(earliest[k][page], unseen[k][page]) for k in range(2)}
        assert len(firsts) == 1, "the first change of a page is the same"
    again = run_web(zipf, Policy("lakg"), 400, any_seed)
    np.testing.assert_array_equal(again.page, records[1].page)
    assert not np.array_equal(records[0].page, records[1].page)


def test_switching_moves_the_rates(any_seed: np.random.SeedSequence) -> None:
    changes = ZipfChanges(Zipf(8, 0.5, 1.0, switch_every=10), np.random.default_rng(any_seed))
    before = changes.rates()
    changes.unseen(10.0)
    np.testing.assert_array_equal(changes.rates(), before)
    moved = 0
    for step in range(11, 2011):
        last = changes.rates()
        changes.unseen(float(step))
        moved += not np.array_equal(changes.rates(), last)
    # Each of 200 switches draws the last rank, which has none after it, with probability .046: 100 of them 1 in 10^70.
    assert 100 < moved <= 200
    assert np.sort(changes.rates()).tolist() == np.sort(before).tolist()


def test_scores_by_hand() -> None:
    record = Record(
        page=np.array([0, 1, 0, 1], np.int32),
        gap=np.array([1.0, 2.0, 2.0, 2.0]),
        first=np.array([0.5, math.inf, 1.5, 2.5]),
        unseen=np.array([3.25, math.inf]),
    )
    np.testing.assert_allclose(detections(record, [2, 4]), [0.5, 1.0])
    # page 0 is stale over (.5, 1), (1.5, 3) and (3.25, 4), page 1 over (2.5, 4)
    np.testing.assert_allclose(freshness(record, [2, 4]), [1 - 1.0 / 4, 1 - (1.0 + 0.75 + 1.5) / 4])
    rate, decay = np.array([0.2, 0.4]), np.array([0.1, 0.5])
    worth = rate[record.page] / decay[record.page] * (1 - np.exp(-decay[record.page] * record.gap))
    np.testing.assert_allclose(interest(record, [4], [RatePhase(0.0, 4.0, rate)], decay), [worth.mean()])


def test_interest_follows_rates_that_change_within_a_gap() -> None:
    """Page 0 is polled at 1 and at 4, page 1 between; from 2.5 on items of page 0 come three times as fast."""
    record = Record(
        np.array([0, 1, 1, 0], np.int32), np.array([1.0, 2.0, 1.0, 3.0]), np.full(4, math.inf), np.full(2, math.inf)
    )
    phases = [RatePhase(0.0, 2.5, np.array([0.2, 0.1])), RatePhase(2.5, 4.0, np.array([0.6, 0.1]))]
    decay = np.array([0.5, 0.5])

    def worth(rate: float, begin: float, end: float, at: float) -> float:
        return rate / 0.5 * (math.exp(-0.5 * (at - end)) - math.exp(-0.5 * (at - begin)))

    by_hand = [
        (worth(0.2, 0, 1, 1) + worth(0.1, 0, 2, 2)) / 2,
        (worth(0.1, 2, 3, 3) + worth(0.2, 1, 2.5, 4) + worth(0.6, 2.5, 4, 4)) / 2,
    ]
    np.testing.assert_allclose(interest(record, [2, 4], phases, decay), by_hand)


def test_phases_are_those_of_the_world_that_is_polled() -> None:
    zipf = Zipf(8, 0.5, 1.0, "shuffled", switch_every=10)
    phases = list(ZipfChanges(zipf, np.random.default_rng(5)).phases(35.0))
    polled = ZipfChanges(zipf, np.random.default_rng(5))
    assert [(phase.begin, phase.end) for phase in phases] == [(0, 10), (10, 20), (20, 30), (30, 35)]
    for phase in phases:
        polled.poll(0, (phase.begin + phase.end) / 2)
        np.testing.assert_array_equal(phase.rate, polled.rates())


def test_round_robin_has_the_same_share_of_interest_whether_ranks_switch() -> None:
    """All news fades alike, so that neither the best split nor what round robin finds depends on who has which rank."""
    one, other = (
        Web(Zipf(8, 0.5, 1.0, "shuffled", switch_every=every), "interest", half_lives=(90.0, 90.0)).shares(
            Policy("uniform"), [800, 4000], np.random.SeedSequence(3)
        )
        for every in (0, 40)
    )
    np.testing.assert_allclose(one, other, rtol=0.02)


def test_uniform_reaches_what_it_must(any_seed: np.random.SeedSequence) -> None:
    """Round robin of 16 pages finds `mean(1 - q^16)`: within .1 over 4,000 polls, six standard errors and more."""
    zipf = Zipf(16, 0.3, 1.0, "shuffled")
    record = run_web(zipf, Policy("uniform"), 4000, any_seed)
    expected = float(np.mean(1 - (1 - zipf.by_rank) ** 16))
    assert detections(record, [4000])[0] == pytest.approx(expected, abs=0.1 * expected)
    share = Web(zipf).shares(Policy("uniform"), [4000], any_seed)[0]
    assert share == pytest.approx(expected / zipf.optimum, abs=0.1)


def test_known_rates_reach_the_best_freshness(any_seed: np.random.SeedSequence) -> None:
    """Over 20 seeds the share was .999 with a standard deviation of .006."""
    world = Web(Zipf(40, 0.3, 1.2, "shuffled"), "freshness")
    share = world.shares(Policy("optimal", "freshness", told_rates=True), [6000], any_seed)
    assert share[0] == pytest.approx(1.0, abs=0.05)
    rates = np.array([0.1, 0.02, 0.0])
    assert best_freshness(rates, 1.0) > best_freshness(rates, 2.0) > 1 / 3


def test_noise_reverses_what_is_told(any_seed: np.random.SeedSequence) -> None:
    told: list[bool] = []

    class Listening(Uniform):
        """Round robin that notes what it is told."""

        def observe(
            self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
        ) -> None:
            told.append(bool(evidence.changed[0]))

    rng = np.random.default_rng(any_seed)
    record = drive(Listening(0.1), ZipfChanges(Zipf(4), rng), 4000, noise=0.25, rng=rng)
    assert np.mean(np.array(told) != record.found) == pytest.approx(0.25, abs=0.07), "ten standard errors"
    with pytest.raises(InvalidValueError, match="noise"):
        drive(create("uniform", budget=0.1, rng=rng), ZipfChanges(Zipf(4), rng), 4, noise=0.7, rng=rng)


def test_the_knapsack_is_that_of_the_papers() -> None:
    knapsack = Knapsack(np.array([0.9, 0.6]))
    assert knapsack.detection(np.array([0.5, 0.25])) == pytest.approx([1 - 0.1**2, 1 - 0.4**4])
    assert knapsack.optimum == pytest.approx(1 - 0.1 * 0.4)
    assert knapsack.value(knapsack.best_mix) == pytest.approx(knapsack.optimum)
    grid = np.linspace(0.001, 0.999, 999)
    values = knapsack.value(np.column_stack([grid, 1 - grid]))
    assert values.max() <= knapsack.optimum
    assert grid[values.argmax()] == pytest.approx(knapsack.best_mix[0], abs=2e-3)
    assert knapsack.value(np.array([[1.0, 0.0]])) == pytest.approx([0.9])
    with pytest.raises(InvalidValueError, match="p"):
        Knapsack(np.array([0.5, 1.0]))


def test_learners_climb_in_the_knapsack(any_seed: np.random.SeedSequence) -> None:
    """Over 20 seeds LAKG ended at .985 ± .003 of the optimum from .80 under uniform amounts."""
    rng = np.random.default_rng(any_seed)
    knapsack = Knapsack(Zipf(8, 0.6, 1.0).by_rank)
    allocator = create("lakg", budget=1 / STEP_S, rng=rng)
    values = drive_knapsack(allocator, knapsack, 3000, rng)
    assert values[0] == pytest.approx(float(knapsack.value(np.full(8, 1 / 8))), rel=0.02)
    assert values[-500:].mean() > 0.93 * knapsack.optimum
    with pytest.raises(InvalidValueError, match="holds a mix"):
        drive_knapsack(create("uniform", budget=0.1, rng=rng), knapsack, 1, rng)
    disturbed = noisy(np.full(99, 0.9), 0.5, rng)
    assert disturbed.min() >= 0
    assert disturbed.max() == 1


def test_a_history_is_read_and_lived_through(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("page,time\nb,1005\na,1000\n\na,1030\nb,1090\na,1100\n")
    history = read_history(path)
    assert history.names == ("b", "a")
    assert (history.times.tolist(), history.counts.tolist(), history.span) == ([5, 90, 0, 30, 100], [2, 3], 100.0)
    changes = HistoryChanges(history, 10.0)
    assert [changes.poll(0, 1.0), changes.poll(0, 8.0), changes.poll(0, 9.0)] == [0.5, math.inf, 9.0]
    assert changes.poll(1, 2.0) == math.inf, "the change at the begin is the baseline"
    assert changes.unseen(10.0).tolist() == [math.inf, 3.0]
    share = HistoryWorld(history, 20).shares(Policy("uniform"), [20], np.random.SeedSequence(1))
    assert 0 < share[0] <= 2


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", ""),
        (b"a,1\n", ""),
        (b"a,1\nb,\xff\n", ""),
        (b"a,1\na,x\n", ", line 2"),
        (b"a\n", ", line 1"),
        (b"a,nan\na,2\n", ", line 1"),
        (b"page,time\na,1\nb,-1e308\n", ", line 3"),
        (b"a,1760000000000\n", ", line 1"),
        (b"a,1\n" + 140_000 * b"x" + b",2\n", ", line 2"),
    ],
)
def test_strange_histories_are_refused_by_file_and_line(data: bytes, place: str, tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_bytes(data)
    with pytest.raises(InvalidValueError) as refused:
        read_history(path)
    assert refused.value.field == f"{path}{place}"
    assert len(str(refused.value)) < 400


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.csv"):
        with pytest.raises(InvalidValueError, match=path.name):
            read_history(path)


def test_a_history_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_bytes(b"\xef\xbb\xbfpage,time\na,1\na,2\n")
    assert read_history(path).names == ("a",)


def test_a_share_of_nothing_is_none() -> None:
    """Of two pages that change at the ends of the history, which the best split does not find."""
    history = History(("a", "b"), np.array([0.0, 1e6, 0.0]), np.array([2, 1]), 1e6)
    share = HistoryWorld(history, 300).shares(Policy("uniform"), [100, 300], np.random.SeedSequence(1))
    assert np.isnan(share[0])


def test_worlds_say_what_they_do_not_score() -> None:
    with pytest.raises(InvalidValueError, match="objective"):
        KnapsackWorld(Zipf(4)).shares(Policy("optimal", "freshness"), [5], np.random.SeedSequence(1))
    with pytest.raises(InvalidValueError, match="objective"):
        HistoryWorld(SECOND, 5, "interest")


def test_worlds_name_what_cannot_be() -> None:
    for strange in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidValueError, match="noise"):
            KnapsackWorld(Zipf(4), strange)
        with pytest.raises(InvalidValueError, match="noise"):
            noisy(np.array([0.5]), strange, np.random.default_rng(1))
    with pytest.raises(InvalidValueError, match="switch_every"):
        KnapsackWorld(Zipf(4, switch_every=10))
    for half_lives in ((60.0, math.inf), (math.nan, 60.0), (0.0, 60.0), (60.0, 1e12)):
        with pytest.raises(InvalidValueError, match="half_lives"):
            Web(Zipf(4), "interest", half_lives=half_lives)
    for polls in (0, 1001):
        with pytest.raises(InvalidValueError, match="steps"):
            HistoryWorld(SECOND, polls)


def test_half_lives_may_lie_at_both_ends() -> None:
    world = Web(Zipf(4), "interest", half_lives=HALF_LIVES_S)
    share = world.shares(Policy("optimal", "interest", told_rates=True), [2000], np.random.SeedSequence(1))
    assert 0.5 < share[0] < 1.1, "news of 3,000 years are not lost, but the score is what was had so far"


def test_uniform_amounts_are_a_mix() -> None:
    zipf = Zipf(4, 0.3, 1.0, "shuffled")
    share = KnapsackWorld(zipf).shares(Policy("uniform"), [5], np.random.SeedSequence(1))
    assert share[0] == pytest.approx(Knapsack(zipf.by_rank).value(np.full(4, 0.25)) / zipf.optimum)


@pytest.mark.parametrize(
    ("field", "value"),
    [("pages", 1), ("alpha", 1.0), ("beta", -1.0), ("order", "sideways"), ("swaps", -1), ("switch_every", -1)],
)
def test_strange_rankings_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=field):
        Zipf(**{field: value})
