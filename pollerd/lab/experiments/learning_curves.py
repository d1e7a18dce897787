"""Base class of most of [A]'s figures: schemes in one web, detections as they learn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.lab.environments.web import Policy, run_web
from pollerd.lab.environments.web_together import can_go_together, found_together, values_together
from pollerd.lab.environments.worlds import KnapsackWorld
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.results import Results
from pollerd.lab.experiments.simulation import edges_up_to, stretch_names

WINDOWS = 100
"""Points of a curve: detections per poll in equal intervals."""
SMOOTHED = 5
"""Windows averaged to decide when a curve has reached a level."""
EQUAL_RATES = 0.02
TOGETHER = 30
"""Number of runs simulated together, if the scheme supports it."""
DETECTIONS = "detections per poll"


@dataclass(frozen=True)
class Scheme:
    """A curve of the figure: a policy, and `Zipf` fields of its web that differ from the experiment's.

    at_mix: it runs in the knapsack, where feedback and score are `d_i(x_i)` at its amounts, not in the web, where pages
    change and gaps are real.
    """

    name: str
    policy: Policy
    web: tuple[tuple[str, Any], ...] = ()
    at_mix: bool = False


def scheme(
    name: str, allocator: str, *, told_rates: bool = False, web: Mapping[str, Any] | None = None, **parameters: Any
) -> Scheme:
    """Returns a scheme with the parameters of its allocator by name."""
    policy = Policy(allocator, told_rates=told_rates, parameters=tuple(sorted(parameters.items())))
    return Scheme(name, policy, tuple(sorted((web or {}).items())))


@dataclass(frozen=True)
class Learning:
    """Parameters of a figure of learning curves; polls and runs by size."""

    zipf: Zipf
    schemes: tuple[Scheme, ...]
    polls: Mapping[Size, int]
    runs: Mapping[Size, int] = field(default_factory=lambda: {"quick": 2, "full": 30})


class LearningCurves(Experiment):
    """Schemes in one web, as given by `learning`.

    Scores: share of the clairvoyant optimum in each interval of polls. Curve: detections per poll in `WINDOWS` equal
    intervals. All schemes that do not change the web have the same web in a run.
    """

    version = 2
    batch = TOGETHER
    independent = True

    def __init__(self, learning: Learning) -> None:
        self.learning = learning
        self.runs: Mapping[Size, int] = learning.runs

    @property
    def _schemes(self) -> dict[str, Scheme]:
        return {each.name: each for each in self.learning.schemes}

    def cells(self, size: Size) -> Sequence[Cell]:
        return [
            cell(name, stream="web", scheme=repr(each), web=repr(self._web(each)), polls=self._polls(size))
            for name, each in self._schemes.items()
        ]

    def _web(self, of: Scheme) -> Zipf:
        return replace(self.learning.zipf, draw=self.entropy, **dict(of.web))

    def _polls(self, size: Size) -> int:
        return self.learning.polls[size]

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        of, polls = self._schemes[cell.row], self._polls(size)
        web = self._web(of)
        if not can_go_together(of.policy, web.pages):
            return [self._outcome(web, self._alone(of, web, polls, seed)) for seed in seeds]
        together = values_together if of.at_mix else found_together
        return [self._outcome(web, rewards) for rewards in together(web, of.policy, polls, seeds)]

    def _alone(
        self, of: Scheme, web: Zipf, polls: int, seed: np.random.SeedSequence
    ) -> NDArray[np.float64] | NDArray[np.bool_]:
        """Returns what each poll found, or the value of the mix in each step, [polls]."""
        return (
            KnapsackWorld(web).values(of.policy, polls, seed)
            if of.at_mix
            else run_web(web, of.policy, polls, seed).found
        )

    def _outcome(self, web: Zipf, rewards: NDArray[np.float64] | NDArray[np.bool_]) -> RunOutcome:
        polls = len(rewards)
        edges = edges_up_to(polls)
        shares = means(rewards, edges) / web.optimum
        curve = means(rewards, np.linspace(0, polls, WINDOWS + 1).astype(np.int64)[1:].tolist())
        return RunOutcome(dict(zip(stretch_names(edges), shares.tolist(), strict=True)), {DETECTIONS: curve.tolist()})

    def last(self, size: Size) -> str:
        """Returns the name of the last interval."""
        return stretch_names(edges_up_to(self._polls(size)))[-1]

    @abstractmethod
    def claims(self, results: Results) -> Sequence[Claim]:
        """Returns the paper's statements, checked against the results."""

    # --- for claims ----------------------------------------------------------------------------------------------

    def compared(self, text: str, results: Results, scheme: str, other: str, reason: str = "") -> Claim:
        """Claims that `scheme` is above `other` in the last interval; `reason`: why not, if it does not hold."""
        column = self.last(results.size)
        a, b = results.estimates[scheme, column], results.estimates[other, column]
        shown = f"polls {column}: {scheme} {a.value:.4f} ± {a.error:.4f}, {other} {b.value:.4f} ± {b.error:.4f}"
        return Claim(text, a.value > b.value, shown, reason)

    def alike(self, text: str, results: Results, scheme: str, other: str, reason: str = "") -> Claim:
        """Claims that the schemes are within `EQUAL_RATES` of the optimum of each other in the last interval."""
        a, b = (results.value(name, self.last(results.size)) for name in (scheme, other))
        return replace(self.compared(text, results, scheme, other, reason), holds=abs(a - b) <= EQUAL_RATES)

    def overall(self, text: str, results: Results, scheme: str, other: str, reason: str = "") -> Claim:
        """Claims that `scheme` found more than `other` over all polls."""
        a, b = (float(results.curves[name, "", DETECTIONS].mean.mean()) for name in (scheme, other))
        return Claim(text, a > b, f"changes found per poll, over all polls: {scheme} {a:.3f}, {other} {b:.3f}", reason)

    def quicker(self, text: str, results: Results, scheme: str, other: str, level: float = 0.8) -> Claim:
        """Claims that `scheme` reaches a share `level` of the optimum after fewer polls than `other`."""
        a, b = self.polls_to(results, scheme, level), self.polls_to(results, other, level)
        shown = [
            f"{name} {'never' if polls == np.inf else f'{polls:,.0f}'}" for name, polls in ((scheme, a), (other, b))
        ]
        return Claim(text, a < b, f"polls until {level:.0%} of the optimum: " + ", ".join(shown))

    def polls_to(self, results: Results, name: str, level: float) -> float:
        """Returns the polls after which a scheme's mean curve stays above a share `level` of the optimum; inf: never.

        The curve is smoothed over `SMOOTHED` windows; a few consecutive polls of pages not polled for long find many
        changes, which says nothing about learning.
        """
        best = self._web(self._schemes[name]).optimum
        curve = smoothed(results.curves[name, "", DETECTIONS].mean)
        below = np.flatnonzero(curve < level * best)
        last = int(below[-1]) + 1 if len(below) else 0
        return float(last + SMOOTHED) * self._polls(results.size) / WINDOWS if last < len(curve) else np.inf

    def between(self, results: Results, name: str, begin: float, end: float) -> float:
        """Returns the share of the optimum that a scheme found, by its mean curve, from poll `begin` to poll `end`."""
        ends = np.arange(1, WINDOWS + 1) * self._polls(results.size) / WINDOWS
        within = (ends > begin) & (ends <= end)
        best = self._web(self._schemes[name]).optimum
        return float(results.curves[name, "", DETECTIONS].mean[within].mean()) / best

    # --- figures -------------------------------------------------------------------------------------------------

    def figures(self) -> Sequence[str]:
        return (self.name,)

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        """Draws means over `SMOOTHED` windows at their ends, and a band of one standard error."""
        polls = np.arange(SMOOTHED, WINDOWS + 1) * self._polls(results.size) / WINDOWS
        for name in results.rows:
            curve = results.curves[name, "", DETECTIONS]
            mean, error = smoothed(curve.mean), np.sqrt(smoothed(curve.error**2) / SMOOTHED)
            (line,) = axes.plot(polls, mean, label=name, linewidth=1)
            if not np.isnan(error).any():
                axes.fill_between(polls, mean - error, mean + error, color=line.get_color(), alpha=0.2)
        axes.axhline(self.learning.zipf.optimum, color="0.5", linewidth=0.8, linestyle=":", label="1 - Π(1 - p)")
        axes.set_xlabel("polls")
        axes.set_ylabel("changes found per poll")
        axes.set_title(self.title, fontsize="medium")
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def smoothed(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns moving averages over `SMOOTHED` windows, float64[m - SMOOTHED + 1]."""
    return np.convolve(curve, np.full(SMOOTHED, 1 / SMOOTHED), "valid")


def means(values: NDArray[np.float64] | NDArray[np.bool_], ends: Sequence[int]) -> NDArray[np.float64]:
    """Returns the mean of values float64[m] in each interval that ends at `ends`."""
    edges = np.concatenate([[0], np.asarray(ends)])
    return np.asarray(np.diff(np.concatenate([[0.0], np.cumsum(values)])[edges]) / np.diff(edges))
