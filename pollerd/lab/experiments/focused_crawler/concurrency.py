"""The fetcher controller: learned concurrency compared with fixed and AIMD, with changing latency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pollerd.crawler.concurrency import QUEUE_COST, Aimd, FetcherController, Fixed, Learned
from pollerd.lab.environments.response_queue import LatencyPhase, PhaseTotals, ResponseQueue
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.focused_crawler.webs import PAPER
from pollerd.lab.experiments.results import Results

SERVERS, INTERVAL_S, PROCESSING_S = 400, 1.0, 0.02
LATENCIES_S = (0.2, 2.0, 0.2, 2.0, 0.5)
PHASE_S: Mapping[Size, float] = {"quick": 200.0, "full": 2_000.0}
SLOWER = 10.0
LEARNED, STARTING, AIMD = "learned", "learner's starting policy", "AIMD"
CONTROLLERS: Mapping[str, Callable[[np.random.Generator], FetcherController]] = {
    LEARNED: Learned,
    STARTING: lambda rng: Learned(rng, step=0.0, exploration=0.0),
    AIMD: lambda rng: Aimd(),
    "fixed, 4": lambda rng: Fixed(4),
    "fixed, 8": lambda rng: Fixed(8),
    "fixed, 16": lambda rng: Fixed(16),
    "fixed, 64": lambda rng: Fixed(64),
}


class Concurrency(Experiment):
    """Rows are controllers; columns the cost over phases of changing latency, and the load on slow servers."""

    name = "robot-fetchers"
    title = "how many requests at once: idle processor against long queue"
    source = f"{PAPER}, section 'Model Components', which leaves it to future work"
    runs: Mapping[Size, int] = {"quick": 3, "full": 30}
    remarks = (
        f"{SERVERS} servers, each asked one thing at a time with at least {INTERVAL_S:g} s and at least its last "
        f"latency between; mean latencies of {', '.join(f'{x:g}' for x in LATENCIES_S)} s in turn, for "
        f"{PHASE_S['full']:,.0f} s each ({PHASE_S['quick']:,.0f} when quick). A response takes the processor "
        f"{PROCESSING_S:g} s on average, exponentially distributed. Cost per second: share of time idle + "
        f"{QUEUE_COST:g} x mean queue; learning starts "
        "with the first second and is counted. In the last two columns every tenth server becomes ten times slower "
        "half way: requests per second to each of those, before and after."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(row, stream="servers") for row in CONTROLLERS]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        phases = [LatencyPhase(PHASE_S[size], [latency] * SERVERS) for latency in LATENCIES_S]
        tallies = _run(cell.row, phases, seed)
        shares = {
            "cost": float(np.mean([_cost(counts) for counts in tallies])),
            "idle": float(np.mean([counts.idle / counts.duration for counts in tallies])),
            "queue": float(np.mean([counts.waited / counts.duration for counts in tallies])),
            "responses per s": sum(counts.processed for counts in tallies) / sum(counts.duration for counts in tallies),
        }
        slow = [LATENCIES_S[0] * (SLOWER if server % 10 == 0 else 1.0) for server in range(SERVERS)]
        before, after = _run(cell.row, [phases[0], LatencyPhase(PHASE_S[size], slow)], seed)
        return RunOutcome(
            {
                **shares,
                "slow servers, before": _load_of_slow(before),
                "slow servers, after": _load_of_slow(after),
            }
        )

    def claims(self, results: Results) -> Sequence[Claim]:
        cost = {row: results.value(row, "cost") for row in CONTROLLERS}
        others = min(value for row, value in cost.items() if row not in (LEARNED, STARTING))
        before, after = (results.value(LEARNED, f"slow servers, {when}") for when in ("before", "after"))
        return (
            Claim(
                "learned concurrency costs less than AIMD and than any fixed number (our own target)",
                cost[LEARNED] < others,
                ", ".join(f"{row} {value:.3f}" for row, value in cost.items()),
                "see the table",
            ),
            Claim(
                "it costs less than the policy that it starts from (our own target)",
                cost[LEARNED] < cost[STARTING],
                f"{cost[LEARNED]:.3f} against {cost[STARTING]:.3f}",
                "one request more moves the load by a hundredth where a hundred are needed, so that the two choices of "
                "a state differ by less than the noise of single decisions; see docs/papers/robot.md",
            ),
            Claim(
                "a slower server is not asked more often",
                after <= before,
                f"{before:.3f} requests per second before, {after:.3f} after",
            ),
        )


def _run(row: str, phases: Sequence[LatencyPhase], seed: np.random.SeedSequence) -> list[PhaseTotals]:
    world, own = (np.random.default_rng([*_words(seed), child]) for child in range(2))
    return ResponseQueue(phases, PROCESSING_S, INTERVAL_S, world).run(CONTROLLERS[row](own))


def _words(seed: np.random.SeedSequence) -> list[int]:
    return [int(word) for word in seed.generate_state(4)]


def _cost(counts: PhaseTotals) -> float:
    return (counts.idle + QUEUE_COST * counts.waited) / counts.duration


def _load_of_slow(counts: PhaseTotals) -> float:
    """Returns requests per second to each tenth server."""
    return float(np.mean(counts.starts[::10])) / counts.duration
