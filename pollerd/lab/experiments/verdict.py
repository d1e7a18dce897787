"""Whether a number agrees with the printed one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pollerd.lab.experiments.experiment import Experiment, PublishedValue
from pollerd.lab.experiments.results import Estimate, Results

AGREES, DIFFERS, UNEXPLAINED, NOT_RUN = "agrees", "differs", "**differs, unexplained**", "not run"


@dataclass(frozen=True)
class PublishedComparison:
    """A printed number and ours. `verdict` is one of the four above; `reason` explains a difference."""

    printed: PublishedValue
    ours: Estimate
    verdict: str
    reason: str


def compare(experiment: Experiment, results: Results) -> list[PublishedComparison]:
    """Compares all printed numbers, in their order."""
    reasons = experiment.reasons()
    return [_compared(printed, results, reasons) for printed in experiment.printed()]


def _compared(printed: PublishedValue, results: Results, reasons: Mapping[tuple[str, str], str]) -> PublishedComparison:
    place = (printed.row, printed.column)
    ours = results.estimates.get(place, Estimate(math.nan, math.nan, 0))
    if math.isnan(ours.value):
        return PublishedComparison(printed, ours, NOT_RUN, reasons.get(place, ""))
    if agree(printed, ours):
        return PublishedComparison(printed, ours, AGREES, "")
    reason = reasons.get(place, "")
    return PublishedComparison(printed, ours, DIFFERS if reason else UNEXPLAINED, reason)


def agree(printed: PublishedValue, ours: Estimate) -> bool:
    """Returns whether they are within two combined standard errors, or within the printed precision.

    With few runs, two is replaced by the quantile of Student's t distribution with the same tail: a standard error of
    four runs is so uncertain that it takes three of them.
    """
    error = 0.0 if math.isnan(ours.error) else ours.error * _widening(ours.runs)
    allowed = max(2 * math.hypot(error, printed.error), printed.precision * (1 + 1e-9))
    return abs(ours.value - printed.number) <= allowed


def _widening(runs: int) -> float:
    """Returns the quantile of Student's t distribution for this number of runs over the normal one, at two deviations.

    Two terms of its series in 1 / degrees of freedom: a few percent too small at three degrees, exact at many.
    """
    degrees = max(runs - 1, 1)
    return 1 + 1.25 / degrees + 1.53 / degrees**2
