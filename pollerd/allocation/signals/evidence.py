"""What signals say of polls besides what these found: evidence on the rate, and the chance of a change."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.signals.reading import SignalReading, Window, read

Array = NDArray[np.float64]
_LEAST = 1e-300
_STEP = 0.02
"""Step of log λ by which slopes are taken."""


@dataclass(frozen=True)
class SignalEvidence:
    """Signals before m of the k polls of a batch, whose pages have sources.

    rows int64[m], their places in the batch, ascending · size: k · windows: of the m pages · say float64[m] · gap
    float64[m] s.

    For known quality the evidence is exact (docs/signals.md): of a poll that finds a change it is e^(n b - r λ τ)
    (1 - e^-L) in place of 1 - e^-λτ, whatever made the poll come when it did; of one that finds none, the same. It
    counts to the power of the say: what a source says before it has proven itself hardly moves the belief.
    """

    rows: NDArray[np.int64]
    size: int
    windows: tuple[Window, ...]
    say: Array
    gap: Array

    def take(self, rows: NDArray[np.int64] | slice) -> SignalEvidence:
        """Selects polls of the batch, in ascending order."""
        place = np.full(self.size, -1)
        place[self.rows] = np.arange(len(self.rows))
        chosen = place[rows]
        here = np.flatnonzero(chosen >= 0)
        some = chosen[here]
        windows = tuple(window.take(some) for window in self.windows)
        return replace(self, rows=here, size=len(chosen), windows=windows, say=self.say[some], gap=self.gap[some])

    def reading(self, rates: Array) -> SignalReading:
        """Returns the reading at rates float64[m, J] or [1, J], per s."""
        return read(self.windows, self.say, self.gap[:, None] * rates, rates, self.gap)

    def log_likelihood(self, rates: Array, evidence: EvidenceBatch) -> Array:
        """Returns what signals add to the log-likelihood of the batch's polls, float64[m, J], at rates [m or 1, J].

        Where the number of changes is known signals add nothing. Where the age of the last change is known the newest
        signal is taken to announce it, and the others to have come before.
        """
        reading, say = self.reading(rates), self.say[:, None]
        age, counted = evidence.age[self.rows], evidence.count[self.rows] >= 0
        changed = evidence.changed[self.rows] & ~counted
        with np.errstate(divide="ignore", invalid="ignore"):
            found = say * reading.evidence + _log(self._unchanged(reading)) - _log(np.exp(-reading.quiet))
            before = 1.0 - np.clip(age / self.gap, 0.0, 1.0)[:, None]
        number = np.maximum(sum((window.number for window in self.windows), np.zeros((len(say), 1))), 1.0)
        dated = say * (reading.weight * (1.0 - 1.0 / number) - reading.silence * before)
        out = np.where(np.isnan(age)[:, None], found, dated)
        return np.where(changed[:, None], out, 0.0)

    def score(self, rates: Array, evidence: EvidenceBatch) -> tuple[Array, Array]:
        """Returns slope by log λ, and information >= 0, of `log_likelihood` at one rate for each, float64[m]."""
        low, here, high = self.log_likelihood(rates[:, None] * np.exp([-_STEP, 0.0, _STEP]), evidence).T
        return (high - low) / (2 * _STEP), np.maximum(2 * here - low - high, 0.0) / _STEP**2

    def expectation(self, rates: Array) -> tuple[Array, Array]:
        """Returns weights of rates [m or 1, J], of which the largest is 1, and probabilities of no change, [m, J]."""
        reading = self.reading(rates)
        evidence = self.say[:, None] * reading.evidence
        return np.exp(evidence - evidence.max(1, keepdims=True)), self._unchanged(reading)

    def gain(self, rows: Array, rates: Array, evidence: EvidenceBatch) -> Array:
        """Returns the logarithm, float64[m], of the factor by which signals raise the probability of what was found.

        Under beliefs rows float64[m, J], at rates [m or 1, J], apart from what is the same at all rates.
        """
        changed = evidence.found[self.rows, None]
        quiet = np.exp(-self.gap[:, None] * rates)
        plain = rows * np.where(changed, 1.0 - quiet, quiet)
        more = self.log_likelihood(rates, evidence)
        return np.asarray(np.log((plain * np.exp(more) + _LEAST).sum(1) / (plain + _LEAST).sum(1)))

    def _unchanged(self, reading: SignalReading) -> Array:
        say = self.say[:, None]
        return np.asarray(say * np.exp(-reading.level) + (1.0 - say) * np.exp(-reading.quiet))


def _log(unchanged: Array) -> Array:
    """Returns the logarithm of the probability of a change."""
    return np.log(np.maximum(1.0 - unchanged, _LEAST))
