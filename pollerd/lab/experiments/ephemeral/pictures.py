"""Figures 1 to 4 of [E]: decay of the value of content, and the states of the four sources under the index policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.lab.environments.interest import PollConstraint, Trace, drawn_gains, drive_sources, whittle
from pollerd.lab.experiments.ephemeral.example import PAPER, four_sources
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.results import Estimate, Results

SHOWN = 40
"""Number of epochs in the figure."""
EPOCHS = 4200
PATHS = 30
"""Number of paths of the stochastic setting, simulated together; the first is shown."""
_DRAWN = (
    f"Means of {PATHS} paths, the first of which is shown. As in [E], the policy is told what truly waits at every "
    "source, polled or not, which is more than polls show."
)
_TIMES = np.linspace(0.0, 10.0, 201)
_SOURCES = tuple(f"source {i}" for i in range(1, 5))


class ContentValue(Experiment):
    """Value of an item over time; deterministic."""

    name = "ephemeral-fig-1"
    title = "the value of an item as it waits"
    source = f"{PAPER}, figure 1"
    runs: Mapping[Size, int] = {"quick": 1, "full": 1}

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(name, number=i) for i, name in enumerate(_SOURCES)]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        sources, i = four_sources(), cell["number"]
        value = sources.value[i] * np.exp(-sources.decay[i] * _TIMES)
        half_life = float(np.log(2) / sources.decay[i])
        return RunOutcome({"at first": float(sources.value[i]), "half-life": half_life}, {"value": value.tolist()})

    def claims(self, results: Results) -> Sequence[Claim]:
        first = [results.value(name, "at first") for name in _SOURCES]
        half = [results.value(name, "half-life") for name in _SOURCES]
        return (
            Claim(
                "interest in sources 1 and 2 is high at first, in 3 and 4 small",
                min(first[:2]) > max(first[2:]),
                ", ".join(f"{value:g}" for value in first),
            ),
            Claim(
                "it falls faster for sources 1 and 3 than for 2 and 4",
                max(half[0], half[2]) < min(half[1], half[3]),
                "half-lives " + ", ".join(f"{value:.2f}" for value in half),
            ),
        )

    def figures(self) -> Sequence[str]:
        return (self.name,)

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        for name in _SOURCES:
            axes.plot(_TIMES, results.curves[name, "", "value"].mean, label=name)
        axes.set(xlabel="time since it appeared, in epochs", ylabel="value of an item")
        axes.legend()


class States(Experiment):
    """The index policy: the states of one path in the figure, the order of polls in the table.

    Deterministic except with `drawn`, which has `PATHS` runs.
    """

    def __init__(self, name: str, title: str, *, polls: int, drawn: bool) -> None:
        self.name, self.title, self.source = name, title, f"{PAPER}, figure {name[-1]}"
        self._polls, self._drawn = polls, drawn
        self.batch = PATHS if drawn else 1
        self.runs: Mapping[Size, int] = {"quick": self.batch, "full": self.batch}
        self.remarks = (
            f"{EPOCHS} epochs from X(0) = u; the picture has the first {SHOWN}. Gaps are between two polls. "
            + (_DRAWN if drawn else "One path of the mean dynamics, whose states follow from the polls.")
        )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell("whittle", polls=self._polls, drawn=self._drawn)]

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        """Runs all paths; the first has the path shown."""
        sources, gains = four_sources(), None
        if cell["drawn"]:
            gains = np.stack([drawn_gains(sources, EPOCHS + 1, np.random.default_rng(seed)) for seed in seeds], axis=1)
        diary = drive_sources(sources, whittle(sources), PollConstraint(cell["polls"]), EPOCHS, gains)
        shown = {name: diary.waiting[:SHOWN, 0, i].tolist() for i, name in enumerate(_SOURCES)}
        return [RunOutcome(_order_of_polls(diary, run), {} if run else shown) for run in range(len(seeds))]

    def claims(self, results: Results) -> Sequence[Claim]:
        scores = {column: estimate.value for (_, column), estimate in results.estimates.items()}
        estimates = [results.estimates["whittle", f"{name}, share of epochs"] for name in _SOURCES]
        shares = [each.value for each in estimates]
        shown_by = "polled in " + ", ".join(map(_percent, estimates)) + " of the epochs"
        if self._drawn:
            text = "in the stochastic setting source 1 is crawled from time to time"
            shown_by += f", means of {estimates[0].runs} paths"
            reason = (
                "what an epoch brings at source 1 is worth one of the two polls in nearly every epoch, however a state "
                "from u* on is read; it is source 4 that is polled from time to time"
            )
            return (Claim(text, 0.0 < shares[0] < 0.5, shown_by, reason),)
        if self._polls == 1:
            both = all(scores[f"{name}, {gap} gap"] == 2.0 for name in _SOURCES[:2] for gap in ("shortest", "longest"))
            return (
                Claim("sources 1 and 2 are crawled with period two", both, shown_by),
                Claim("sources 3 and 4 are never crawled", shares[2] == shares[3] == 0.0, shown_by),
            )
        gaps = {name: (scores[f"{name}, shortest gap"], scores[f"{name}, longest gap"]) for name in _SOURCES}
        words = "; ".join(f"{name} every {low:g} to {high:g} epochs" for name, (low, high) in gaps.items())
        return (
            Claim("source 1 is always crawled", shares[0] == 1.0, shown_by),
            Claim(
                "sources 2 and 3 in a non-trivial periodic way", all(x < y for x, y in list(gaps.values())[1:3]), words
            ),
            Claim(
                "source 4 with a rather long period",
                gaps[_SOURCES[3]][0] > max(y for _, y in list(gaps.values())[:3]),
                words,
            ),
        )

    def figures(self) -> Sequence[str]:
        return (self.name,)

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        for name in _SOURCES:
            axes.plot(results.curves["whittle", "", name].mean, marker=".", label=name)
        axes.set(xlabel="epoch", ylabel="interest waiting at each source")
        axes.legend()


def _percent(share: Estimate) -> str:
    return f"{share.value:.2%}" + (f" ± {share.error:.4%}" if share.error > 0 else "")


def _order_of_polls(diary: Trace, run: int) -> dict[str, float]:
    scores = {}
    for i, name in enumerate(_SOURCES):
        polled = diary.polled[:, run, i]
        gaps: NDArray[np.int64] = np.diff(np.flatnonzero(polled))
        scores[f"{name}, share of epochs"] = float(polled.mean())
        scores[f"{name}, shortest gap"] = float(gaps.min()) if len(gaps) else np.nan
        scores[f"{name}, longest gap"] = float(gaps.max()) if len(gaps) else np.nan
    return scores
