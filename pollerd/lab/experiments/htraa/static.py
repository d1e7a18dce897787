"""[A] figures 6, 7 and 8: static environments, and perturbed rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Claim
from pollerd.lab.experiments.htraa import schemes as of
from pollerd.lab.experiments.learning_curves import Learning, LearningCurves, Scheme
from pollerd.lab.experiments.results import Results

SWAPS = (1000, 10_000, 100_000, 1_000_000)
ESTIMATORS = tuple(of.estimator(phase) for phase in of.PHASES)
PERTURBED = tuple(of.swapped(of.HTRAA, swaps) for swaps in SWAPS)
DOUBLING, PERTURBED_LAKG = of.swapped(of.DOUBLING, SWAPS[-1]), of.swapped(of.LAKG, SWAPS[-1])
AT_MIX = tuple(of.at_mix(each) for each in (of.PROPORTIONAL, of.HTRAA, of.LAKG))
STEEP_BETA = 1.5
SHORT, LONG = ESTIMATORS[0].name, ESTIMATORS[-1].name
LEAST, MOST = PERTURBED[0].name, PERTURBED[-1].name


class Static(LearningCurves):
    """Schemes in one of the three environments."""

    def __init__(self, number: int, alpha: float, beta: float, more: Sequence[Scheme] = ()) -> None:
        schemes = (of.OPTIMAL, of.PROPORTIONAL, of.UNIFORM, *ESTIMATORS, of.LAKG, of.HTRAA, *more)
        super().__init__(Learning(Zipf(512, alpha, beta), schemes, {"quick": 20_000, "full": 100_000}))
        self.name = f"htraa-fig-{number}"
        self.title = f"schemes in a static environment, α = {alpha}, β = {beta}, 512 pages"
        self.source, self.remarks = f"{of.PAPER}, figure {number}", of.SETTINGS

    def claims(self, results: Results) -> Sequence[Claim]:
        return (
            self.compared("Optimal is superior to Uniform", results, "Optimal", "Uniform"),
            self.compared("The Estimator improves with the length of its phase", results, LONG, SHORT),
            self.quicker("H-TRAA improves more quickly than LAKG", results, "H-TRAA", "LAKG"),
            self.quicker("H-TRAA improves more quickly than the Estimator", results, "H-TRAA", LONG),
            self.compared("H-TRAA ends above the Estimator", results, "H-TRAA", LONG),
        )


class Perturbed(Static):
    """Figure 6, which also shows perturbed rankings."""

    def claims(self, results: Results) -> Sequence[Claim]:
        many = "With 10^6 perturbations"
        return (
            *super().claims(results),
            self.alike("Proportional and Optimal are more or less the same", results, "Optimal", "Proportional"),
            self.compared("Perturbations cost H-TRAA performance", results, LEAST, MOST),
            self.compared(f"{many} LAKG is more accurate than H-TRAA", results, PERTURBED_LAKG.name, MOST),
            self.quicker(f"{many} LAKG converges more quickly than H-TRAA", results, PERTURBED_LAKG.name, MOST, 0.6),
            self.alike(
                f"{many} H-TRAA equals LAKG where N doubles from level to level",
                *(results, DOUBLING.name, PERTURBED_LAKG.name, of.SLOW_DOUBLING),
            ),
        )


class Flat(Static):
    """Figure 7, with more pages worth their polls."""

    def claims(self, results: Results) -> Sequence[Claim]:
        steep = replace(self.learning.zipf, beta=STEEP_BETA)
        steep_share = float((1 - (1 - steep.by_rank) ** steep.pages).mean()) / steep.optimum
        flat_share = results.value("Uniform", self.last(results.size))
        shown = f"{flat_share:.3f} of the optimum; {steep_share:.3f} at β = {STEEP_BETA} (closed form)"
        return (
            *super().claims(results),
            Claim("Uniform does better than on the steeper ranking of figure 6", flat_share > steep_share, shown),
        )


class Steep(Static):
    """Figure 8, in which the proportional split is not optimal."""

    def claims(self, results: Results) -> Sequence[Claim]:
        return (
            *super().claims(results),
            self.compared("Optimal is significantly better than Proportional", results, "Optimal", "Proportional"),
            *(self._breach(results, name, "Proportional", of.REAL_GAPS) for name in ("H-TRAA", "LAKG")),
            *(self._breach(results, each.name, AT_MIX[0].name, of.SLOW_LAKG) for each in AT_MIX[1:]),
        )

    def _breach(self, results: Results, scheme: str, boundary: str, reason: str = "") -> Claim:
        return self.compared(f"{scheme} breaches the boundary set by Proportional", results, scheme, boundary, reason)


STATIC = (
    Perturbed(6, 0.3, STEEP_BETA, (*PERTURBED, DOUBLING, PERTURBED_LAKG)),
    Flat(7, 0.3, 1.0),
    Steep(8, 0.9, 1.5, AT_MIX),
)
