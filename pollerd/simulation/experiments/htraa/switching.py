"""[A] figures 9 and 10: neighbours in rank change places every r polls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pollerd.simulation.environments.zipf import Zipf
from pollerd.simulation.experiments.experiment import Claim, Size
from pollerd.simulation.experiments.htraa import schemes as of
from pollerd.simulation.experiments.learning_curves import Learning, LearningCurves
from pollerd.simulation.experiments.results import Results

LONGEST = of.estimator(of.PHASES[-1])


class Switching(LearningCurves):
    """Schemes where a page drawn in proportion to its p swaps with the next in rank every `every` polls."""

    def __init__(self, number: int, every: int, polls: Mapping[Size, int]) -> None:
        schemes = (of.UNIFORM, of.estimator(of.PHASES[1]), LONGEST, of.LAKG, of.HTRAA)
        super().__init__(Learning(Zipf(512, 0.9, 1.5, switch_every=every), schemes, polls))
        self.name = f"htraa-fig-{number}"
        self.title = f"schemes where ranks switch every {every:,} polls, α = 0.9, β = 1.5, 512 pages"
        self.source, self.remarks = f"{of.PAPER}, figure {number}", of.SETTINGS

    def claims(self, results: Results) -> Sequence[Claim]:
        return (
            self.quicker("H-TRAA improves more quickly than LAKG", results, "H-TRAA", "LAKG"),
            self.overall("H-TRAA performs better than LAKG", results, "H-TRAA", "LAKG", of.STRONG_LAKG),
            self.compared("H-TRAA performs better than LAKG to the end", results, "H-TRAA", "LAKG", of.STRONG_LAKG),
            self.compared("H-TRAA stabilises above the Estimator", results, "H-TRAA", LONGEST.name),
        )


SWITCHING = (
    Switching(9, 80_000, {"quick": 90_000, "full": 200_000}),
    Switching(10, 1000, {"quick": 40_000, "full": 200_000}),
)
