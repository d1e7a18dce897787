"""How fast what was learned is forgotten: chosen between a few candidates by their marginal likelihood."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KEPT: dict[str, tuple[float, ...]] = {"none": (1.0,), "learned": (1.0, 0.95, 0.85)}
"""Setting -> the candidates: share of a site's earlier polls kept when it is polled; 1 forgets nothing."""
_LEAST_PROBABILITY = 0.01
"""Least probability of what a poll found. A Gaussian mean may lie outside 0 to 1."""
_LARGEST_LEAD = 10.0
"""Largest lead of a candidate, in nats: what the newest polls say may so outweigh what all before them said."""


class Forgetting:
    """Log marginal likelihood of each candidate, from all sites together.

    A poll finds a change with the probability f, a value of the site's function. Under the posterior of a candidate
    before the poll, that probability is the mean of f; the product over polls is the candidate's marginal likelihood,
    one poll predicted after the other (Dawid's prequential form). The candidate with the largest one is in use; at
    first, and on ties, the first, which forgets nothing.
    """

    def __init__(self, setting: str) -> None:
        self.kept = KEPT[setting]
        self.log_evidence = np.zeros(len(self.kept))
        """Log marginal likelihood of each candidate up to a constant: the largest is 0, none is below `-10`."""

    @property
    def is_learned(self) -> bool:
        """Whether there is more than one candidate."""
        return len(self.kept) > 1

    @property
    def chosen(self) -> int:
        """Number of the candidate in use."""
        return int(self.log_evidence.argmax())

    def score(self, mean: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Counts k polls: the means float64[k, C] of f before them, by candidate, and whether each found a change."""
        probability = np.clip(mean, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        found = np.where(changed[:, None], probability, 1 - probability)
        self.take(self.log_evidence + np.log(found).sum(0))

    def take(self, log_evidence: NDArray[np.float64]) -> None:
        """Sets the log marginal likelihoods float64[C]."""
        self.log_evidence = np.maximum(log_evidence - log_evidence.max(), -_LARGEST_LEAD)
