"""[D] section V: the learner on [E]'s four sources, with the printed and with the collected reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.learner import Learner, Observation, Transition
from pollerd.allocation.lspe.sources import LspeSettings, Sources
from pollerd.lab.environments.interest import PollConstraint, drive_sources
from pollerd.lab.experiments.ephemeral.example import POLICIES, four_sources
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, PublishedValue, RunOutcome, Size, cell
from pollerd.lab.experiments.results import Results

EPOCHS: Mapping[Size, int] = {"quick": 600, "full": 10_000}
STRETCH = 200
"""Epochs per point of a curve."""
AS_PRINTED = "lspe, printed reward, drawn polls"
COLLECTED = "lspe, collected reward, drawn polls"
ONE_POLL = "lspe, collected reward, one poll"
LEARNERS: dict[str, dict[str, Any]] = {
    f"lspe, {reward} reward, {'drawn polls' if polls == 'drawn' else 'one poll'}": {"reward": reward, "polls": polls}
    for reward in ("printed", "collected")
    for polls in ("drawn", "one")
}
STARTS = {"": 0.0, " from half of u*": 0.5, " from u*": 1.0}
"""Initial thresholds, which the paper does not give."""
SHARED = "lspe, collected reward, one poll drawn"
SLOW = AS_PRINTED + ", b(n)"
SHERMAN_MORRISON = ONE_POLL + ", Sherman-Morrison"
KNOWN = ("whittle", "greedy", "source 1 alone", "source 2 alone")


class FourSources(Experiment):
    """Rows are learners, and policies with known sources; columns the collected interest and the number of polls."""

    name = "lspe-four-sources"
    title = "learning thresholds on four sources"
    source = "[D] Avrachenkov & Borkar, A learning algorithm for the Whittle index policy, section V"
    runs: Mapping[Size, int] = {"quick": 2, "full": 30}
    remarks = (
        f"{EPOCHS['full']} epochs ({EPOCHS['quick']} when quick) from X(0) = u with [E]'s mean dynamics, "
        "under which the states, which all rows go by, follow from the polls; κ = 2, "
        "γ = 0.05 and Tikhonov's inverse as printed. "
        "Table I omits ξ: [E]'s is taken. Where the paper gives nothing (c, δ, ε, r₀, the units of the features) "
        "the defaults of `lspe` hold, chosen once before the first run; of the start q₀ three are shown, because the "
        "result hangs on it. With drawn polls each source is polled with its own chance f_i, as in section III, so "
        "that their number is not limited; with one poll the largest margin X - T is, or one drawn by our shared "
        "law. With b(n) the averages forget, on [D]'s second time scale. The printed reward adds X over all sources, "
        "polled or not, and is best where nobody is polled. What is shown is what was collected, Σ X ν, whatever was "
        "learned from; late: in the last half."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        learners = [
            cell(row + words, start=start, **parameters)
            for row, parameters in LEARNERS.items()
            for words, start in STARTS.items()
        ]
        other = cell(SHERMAN_MORRISON, inverse="sherman-morrison", start=0.5, **LEARNERS[ONE_POLL])
        slow = [
            cell(SLOW + words, start=start, averages="slow", **LEARNERS[AS_PRINTED]) for words, start in STARTS.items()
        ]
        shared = [
            cell(SHARED + words, start=start, reward="collected", polls="shared") for words, start in STARTS.items()
        ]
        return [*learners, other, *slow, *shared, *(cell(row) for row in KNOWN)]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        sources, epochs = four_sources(), EPOCHS[size]
        if cell.row in KNOWN:
            diary = drive_sources(sources, POLICIES[cell.row](sources), PollConstraint(1), epochs)
            return _outcome(diary.collected[:, 0], diary.polled[:, 0])
        parameters = {"inverse": "tikhonov", "law": "independent", **dict(cell.parameters)}
        polls = parameters.pop("polls")
        if polls == "shared":
            parameters["law"] = "shared"
        return _outcome(*_learned(sources, LspeSettings(**parameters), polls, epochs, np.random.default_rng(seed)))

    def printed(self) -> Sequence[PublishedValue]:
        return (
            PublishedValue(AS_PRINTED, "collected", "160", note='"around 160"'),
            PublishedValue(AS_PRINTED, "polls", "1", note='"on average one arm"'),
            PublishedValue("whittle", "collected", "283", note="with one arm, quoted from [E], which prints 254.66"),
        )

    def reasons(self) -> Mapping[tuple[str, str], str]:
        start = (
            "not printed: where thresholds start, c of the steps, δ, ε. κ = 2 per unit of interest makes the chances 0 "
            "or 1 but for states within one or two units of a threshold, while states are hundreds: polls settle into "
            "a cycle that hangs on the start, and a cycle teaches little (rows `from half of u*`, `from u*`)"
        )
        return {
            (AS_PRINTED, "collected"): start,
            (AS_PRINTED, "polls"): start,
            ("whittle", "collected"): (
                "more than any policy with one poll per epoch collects in the long run (the optimum in "
                "ephemeral-table-1), and [E] itself prints 254.66"
            ),
        }

    def claims(self, results: Results) -> Sequence[Claim]:
        learned, best, alone = (results.value(row, "late") for row in (ONE_POLL, "whittle", "source 1 alone"))
        return (
            Claim(
                "what is learned lies significantly below the index policy with one arm",
                learned < best - 2 * results.estimates[ONE_POLL, "late"].error,
                f"with the collected reward and one poll per epoch {learned:.2f} in the last half, index {best:.2f}, "
                f"source 1 alone {alone:.2f}; from u* {results.value(ONE_POLL + ' from u*', 'late'):.2f}",
                "with thresholds low at the start margins rank as greedily as can be, which is optimal for these four "
                "sources with one poll; with a start at u* what is learned stays below",
            ),
        )

    def figures(self) -> Sequence[str]:
        return (f"{self.name}-collected", f"{self.name}-polls")

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        what = figure.rpartition("-")[2]
        for begin, style in (("", "-"), (" from u*", "--")):
            axes.set_prop_cycle(None)
            for row in (*LEARNERS, SHARED):
                curve = results.curves[row + begin, "", what].mean
                axes.plot((np.arange(len(curve)) + 1) * STRETCH, curve, style, label=row + begin)
        for row in ("whittle", "source 1 alone", "source 2 alone"):
            axes.axhline(results.curves[row, "", what].mean[-1], color="grey", linewidth=0.8)
        label = "collected per epoch; grey: index, 1 and 2 alone" if what == "collected" else "polls per epoch"
        axes.set(xlabel="epoch", ylabel=label)
        axes.legend(fontsize="xx-small", ncols=2)


def _learned(
    sources: Sources,
    settings: LspeSettings,
    polls: Literal["drawn", "one", "shared"],
    epochs: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Runs the learner: returns interest collected, float64[epochs], and polls, bool[epochs, n]."""
    n, learner, low = len(sources), Learner(len(sources), settings), 1.0 - sources.retained
    collected, polled, draws = np.empty(epochs), np.zeros((epochs, n), np.bool_), rng.random((epochs, n))
    state = sources.gain
    observation = Observation(state / sources.ceiling, sources.ceiling, low)
    for epoch in range(epochs):
        if polls == "drawn":
            polled[epoch] = draws[epoch] < learner.poll_probabilities(observation)
        elif polls == "shared":
            chance = np.cumsum(learner.poll_probabilities(observation))
            polled[epoch, min(int(np.searchsorted(chance, draws[epoch, 0])), n - 1)] = True
        else:
            polled[epoch, (state - learner.thresholds(observation)).argmax()] = True
        collected[epoch] = state[polled[epoch]].sum()
        state = sources.next_states(state, polled[epoch], sources.gain)
        after = Observation(state / sources.ceiling, sources.ceiling, low)
        learner.learn(Transition(observation, polled[epoch], float(collected[epoch])), after)
        observation = after
    return collected, polled


def _outcome(collected: NDArray[np.float64], polled: NDArray[np.bool_]) -> RunOutcome:
    number, late = polled.sum(axis=1), slice(len(collected) // 2, None)
    scores = {"collected": collected.mean(), "late": collected[late].mean(), "polls": number.mean()}
    shares = {f"source {i + 1}": share for i, share in enumerate(polled[late].mean(axis=0))}
    curves = {"collected": collected, "polls": number}
    return RunOutcome(
        {name: float(score) for name, score in {**scores, "polls, late": number[late].mean(), **shares}.items()},
        {name: curve.reshape(-1, STRETCH).mean(axis=1).tolist() for name, curve in curves.items()},
    )
