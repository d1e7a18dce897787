"""[A] figures 9 and 10: neighbours in rank switch every r polls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Claim, Size
from pollerd.lab.experiments.htraa import schemes as of
from pollerd.lab.experiments.learning_curves import EQUAL_RATES, Learning, LearningCurves, Scheme
from pollerd.lab.experiments.results import Results

LONGEST = of.estimator(of.PHASES[-1])


class Irregular(LearningCurves):
    """Figure 10 with random intervals between switches, which [A] believes to make no difference (4.3.4)."""

    name = "htraa-random-switching"
    title = "ranks that switch at random times, every 1,000 polls on average, α = 0.9, β = 1.5, 512 pages"
    source = f"{of.PAPER}, section 4.3.4"
    remarks = (
        f"{of.SETTINGS} 'At random' are the same schemes with intervals between switches drawn from an exponential law "
        "of the same mean."
    )

    def claims(self, results: Results) -> Sequence[Claim]:
        text = "does as well if the period of switches is not fixed"
        return tuple(
            self.alike(f"{each.name} {text}", results, at_random(each).name, each.name) for each in (of.LAKG, of.HTRAA)
        )


def at_random(scheme: Scheme) -> Scheme:
    """Returns the scheme where switches come at random times."""
    return replace(scheme, name=f"{scheme.name}, at random", web=(("irregular", True),))


class Switching(LearningCurves):
    """Schemes with a page drawn in proportion to its p swapping with the next in rank every `every` polls."""

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
            self.said_of_this_pace(results),
        )

    @abstractmethod
    def said_of_this_pace(self, results: Results) -> Claim:
        """Returns the paper's claim about this frequency of switches."""


class Slow(Switching):
    """Figure 9: time to recover."""

    def said_of_this_pace(self, results: Results) -> Claim:
        """Compares the last twentieth before the first switch, the first after it, the last before the next one."""
        switch = self.learning.zipf.switch_every
        end, part = min(2 * switch, self._polls(results.size)), switch / 20
        begins = {"before the first switch": switch - part, "after it": switch, "before the next": end - part}
        shares = {when: self.between(results, "H-TRAA", begin, begin + part) for when, begin in begins.items()}
        shown = "share of the optimum " + ", ".join(f"{when} {share:.3f}" for when, share in shares.items())
        before, _, later = shares.values()
        return Claim("H-TRAA recovers after the environment has changed", later >= before - EQUAL_RATES, shown)


class Fast(Switching):
    """Figure 10: no time to recover."""

    def said_of_this_pace(self, results: Results) -> Claim:
        share = results.estimates["H-TRAA", self.last(results.size)]
        shown = f"polls {self.last(results.size)}: {share.value:.4f} ± {share.error:.4f} of the optimum"
        return Claim("H-TRAA is never allowed to reach an optimal solution", share.value < 1 - EQUAL_RATES, shown)


SWITCHING = (
    Slow(9, 80_000, {"quick": 90_000, "full": 200_000}),
    Fast(10, 1000, {"quick": 40_000, "full": 200_000}),
    Irregular(
        Learning(
            Zipf(512, 0.9, 1.5, switch_every=1000),
            (of.LAKG, at_random(of.LAKG), of.HTRAA, at_random(of.HTRAA)),
            {"quick": 40_000, "full": 100_000},
            {"quick": 8, "full": 30},
        )
    ),
)
