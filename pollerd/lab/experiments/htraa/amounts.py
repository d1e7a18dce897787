"""Nonlinear amounts of H-TRAA, which [A] 4.3.2 names and leaves aside: the shares of a node spaced by a power λ."""

from __future__ import annotations

from collections.abc import Sequence

from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Claim
from pollerd.lab.experiments.htraa.schemes import HTRAA, PAPER, SETTINGS
from pollerd.lab.experiments.learning_curves import Learning, LearningCurves, scheme
from pollerd.lab.experiments.results import Results

EXPONENTS = (0.5, 1.5, 2.0, 3.0)
"""λ of the rows beside `H-TRAA`, which has 1."""


class Amounts(LearningCurves):
    """H-TRAA by the spacing of its amounts."""

    name = "htraa-amounts"
    title = "H-TRAA with linear and nonlinear amounts, α = 0.9, β = 1.5, 512 pages"
    source = f"{PAPER}, section 4.3.2, which names them and uses linear ones"
    remarks = SETTINGS + " The left half of a node gets (s / (N + 1))^λ of its amount at state s; λ = 1 is linear."

    def claims(self, results: Results) -> Sequence[Claim]:
        return (
            self.quicker(
                "Amounts spaced by λ = 3 learn sooner than linear ones (ours)", results, _power(3.0), HTRAA.name, 0.6
            ),
            self.compared("Amounts spaced by λ = 0.5 end above linear ones (ours)", results, _power(0.5), HTRAA.name),
        )


def _power(exponent: float) -> str:
    return f"H-TRAA, λ = {exponent:g}"


AMOUNTS = Amounts(
    Learning(
        Zipf(512, 0.9, 1.5),
        (HTRAA, *(scheme(_power(exponent), "htraa", reorder=False, exponent=exponent) for exponent in EXPONENTS)),
        {"quick": 20_000, "full": 100_000},
    )
)
