"""The fetcher controller in simulated time."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.crawler.concurrency import FULL_QUEUE, QUEUE_COST, Aimd, FetcherController, Fixed, Learned, pause_s
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.response_queue import LatencyPhase, PhaseTotals, ResponseQueue

PROCESSING_S, INTERVAL_S, SERVERS = 0.02, 0.5, 60


def run(controller: FetcherController, *latencies: float, seconds: float = 60.0, seed: int = 0) -> list[PhaseTotals]:
    """A phase for each latency, in s."""
    phases = [LatencyPhase(seconds, [latency] * SERVERS) for latency in latencies]
    return ResponseQueue(phases, PROCESSING_S, INTERVAL_S, np.random.default_rng(seed)).run(controller)


def cost(tallies: list[PhaseTotals]) -> float:
    """Mean cost per second."""
    return float(np.mean([(t.idle + QUEUE_COST * t.waited) / t.duration for t in tallies]))


def test_a_pause_grows_with_the_latency() -> None:
    assert pause_s(1.0, 0.2) == 1.0
    assert pause_s(1.0, 3.0) == 3.0
    assert pause_s(1.0, 3.0, share=0.5) == 1.5


def test_time_and_responses_add_up() -> None:
    (tally,) = run(Fixed(3), 0.1)
    assert tally.duration == pytest.approx(60.0)
    assert 0 <= sum(tally.starts) - tally.processed <= 3 + 1 + tally.waited
    # One server's cycle is at least its pause, and latencies have a mean of .1: three at once do at most 30 a second.
    assert tally.processed <= 3 / 0.1 * 60 * 1.2
    assert max(tally.most_at_once) == 1


@pytest.mark.parametrize("make", [lambda: Fixed(20), Aimd, lambda: Learned(np.random.default_rng(1))])
def test_no_server_is_asked_twice_at_once_and_a_slower_one_less_often(make: type[Aimd]) -> None:
    slower = [1.0 if server < 10 else 0.1 for server in range(SERVERS)]
    phases = [LatencyPhase(100.0, [0.1] * SERVERS), LatencyPhase(100.0, slower)]
    before, after = ResponseQueue(phases, PROCESSING_S, INTERVAL_S, np.random.default_rng(3)).run(make())
    assert max(before.most_at_once + after.most_at_once) == 1
    # Hundreds of starts in each sum; the pauses make the second at most half of what servers could be asked before.
    assert sum(after.starts[:10]) <= sum(before.starts[:10])


def test_a_fixed_number_is_kept() -> None:
    assert [Fixed(2).admits(in_service, 100) for in_service in range(4)] == [True, True, False, False]


def test_aimd_grows_while_the_queue_is_short_and_halves_once_when_it_is_long() -> None:
    controller = Aimd(longest=5)
    for _ in range(200):
        controller.responded(0.1)
    window = next(k for k in range(100) if not controller.admits(k, 0))
    assert window > 10
    assert not controller.admits(window // 2, 6)
    assert controller.admits(window // 2 - 1, 6)


def test_no_fixed_number_costs_as_little_as_what_is_learned_while_latency_changes() -> None:
    # 4 is too few at .6 s (cost .58), 20 floods the queue at .1 s (cost of hundreds); learned costs .4 +- .02 by seed.
    latencies = (0.1, 0.6, 0.1, 0.6)
    learned = cost(run(Learned(np.random.default_rng(5)), *latencies))
    assert learned < 0.5
    assert learned < min(cost(run(Fixed(number), *latencies)) for number in (4, 20))


def test_the_learner_starts_nothing_when_the_queue_is_full() -> None:
    controller = Learned(np.random.default_rng(0), exploration=1.0)
    assert not any(controller.admits(0, FULL_QUEUE) for _ in range(50))
    assert any(controller.admits(0, 0) for _ in range(50))


def test_the_cost_rate_is_that_of_what_passed() -> None:
    controller = Learned(np.random.default_rng(0), exploration=0.0)
    for _ in range(5_000):
        controller.admits(1, 0)
        controller.passed(0.1, 0.04, 0.2)
    assert controller.cost_rate == pytest.approx(0.4 + QUEUE_COST * 2.0, rel=1e-6)


def test_values_are_checked() -> None:
    for make, field in ((lambda: Fixed(0), "requests"), (lambda: Aimd(0), "longest")):
        with pytest.raises(InvalidValueError, match=field):
            make()
    for field in ("step", "exploration"):
        with pytest.raises(InvalidValueError, match=field):
            Learned(np.random.default_rng(0), **{field: 2.0})
