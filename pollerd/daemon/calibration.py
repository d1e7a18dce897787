"""Calibration of the allocator: predicted against found changes, by decile of the predicted probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.daemon.views import CalibrationView, DecileView
from pollerd.telemetry import DECILES, Instruments


class CalibrationSums:
    """Sums over the polls since the allocator became active; the metrics continue across a change of allocator.

    `polls`, `predicted` and `found` float64[10], by decile: number of polls, sum of their predicted probabilities, and
    number that found a change.
    """

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self.begin_anew()

    def begin_anew(self) -> None:
        """Resets the sums for another allocator."""
        self.polls, self.predicted, self.found = np.zeros((3, DECILES))

    def note(self, predicted: NDArray[np.float64], elapsed: NDArray[np.float64], evidence: EvidenceBatch) -> None:
        """Counts k polls: predicted probabilities float64[k] of a change, gaps float64[k] s, and evidence.

        Polls without a known gap (inf) and those without a prediction (nan) are skipped.
        """
        known = np.isfinite(elapsed) & ~np.isnan(predicted)
        probability = predicted[known]
        decile = np.clip((probability * DECILES).astype(np.int64), 0, DECILES - 1)
        changed = evidence.found[known]
        polls, foretold = np.bincount(decile, minlength=DECILES), np.bincount(decile, probability, DECILES)
        changes = np.bincount(decile, changed.astype(np.float64), DECILES)
        self.polls += polls
        self.predicted += foretold
        self.found += changes
        for place in np.flatnonzero(polls).tolist():
            self._instruments.calibration_polls[place].inc(polls[place])
            self._instruments.calibration_predicted[place].inc(foretold[place])
            self._instruments.calibration_found[place].inc(changes[place])

    def view(self) -> CalibrationView:
        """Returns the sums as shares, with the expected calibration error `Σ_d n_d / n |found_d - predicted_d|`.

        Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning" (2015), eq. 1.
        """
        number = float(self.polls.sum())
        count = np.maximum(self.polls, 1.0)
        return CalibrationView(
            polls=int(number),
            expected_error=float(np.abs(self.found - self.predicted).sum()) / number if number else None,
            deciles=tuple(
                DecileView(int(n), predicted if n else None, observed if n else None)
                for n, predicted, observed in zip(
                    self.polls.tolist(),
                    (self.predicted / count).tolist(),
                    (self.found / count).tolist(),
                    strict=True,
                )
            ),
        )
