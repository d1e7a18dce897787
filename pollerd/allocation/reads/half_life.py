"""The half-life of interest that reads tell: a Bayesian estimate, with the sites of one host pooled in part.

x = log μ of a site is normal around the mean of its host, which is normal around log μ of the default half-life:

    x_i ~ N(m_h, WITHIN_HOST²),    m_h ~ N(log(ln 2 / default), BETWEEN_HOSTS²)

The posterior of a site is computed on a grid of x, with the exact likelihood of `read_statistics` and, as its prior,
what the *other* sites of the host say of the host's mean. For that each site's likelihood is summed up as a normal one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import DEFAULT_HALF_LIFE_S
from pollerd.allocation.reads.read_statistics import EXPOSURES, ReadStatistics

WITHIN_HOST = 0.5
"""Spread of log μ among the sites of a host: as much as four reads say of it."""
BETWEEN_HOSTS = 1.5
"""Spread of hosts' mean log μ: as much as half a read says of it."""
_LN2 = math.log(2.0)
_GRID: NDArray[np.float64] = np.arange(math.log(_LN2 / 1e9), math.log(_LN2), 0.1)
"""Values of log μ, float64[208]: half-lives from 1 s to 1e9 s."""
_MU = np.exp(_GRID)
_LOG_SEEN = np.log(-np.expm1(-_MU[:, None] * EXPOSURES[None, :]))
"""log(1 - e^(-μ T)), float64[208, 60]: the logarithm of the share of a change's reads that its exposure shows."""
_REFERENCE_SPREAD = 3.0
"""Of the wide prior under which likelihoods are summed up: its share is taken out again."""
_LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class HalfLife:
    """Half-life of interest in s: the estimate, and its central 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """What sites say of the mean log μ of their host: precision, and precision times mean. Those of sites add up."""

    precision: float = 0.0
    weighted: float = 0.0

    def without(self, other: HostEvidence) -> HostEvidence:
        """Returns the evidence of all but one of the sites."""
        return HostEvidence(max(self.precision - other.precision, 0.0), self.weighted - other.weighted)


NO_EVIDENCE = HostEvidence()


def evidence_of(statistics: ReadStatistics) -> HostEvidence:
    """Returns what a site's reads say of its host's mean; nothing without reads."""
    centre = _log_rate(DEFAULT_HALF_LIFE_S)
    shares = _posterior(statistics, centre, _REFERENCE_SPREAD**2)
    mean = float(shares @ _GRID)
    variance = float(shares @ (_GRID - mean) ** 2)
    precision = 1.0 / variance - 1.0 / _REFERENCE_SPREAD**2
    if precision <= 1e-6 or not statistics.reads.any():
        return NO_EVIDENCE
    weighted = mean / variance - centre / _REFERENCE_SPREAD**2
    spread = 1.0 + WITHIN_HOST**2 * precision
    return HostEvidence(precision / spread, weighted / spread)


def estimate(statistics: ReadStatistics, given: float | None = None, others: HostEvidence = NO_EVIDENCE) -> HalfLife:
    """Returns the half-life of a site.

    given: the half-life that the user gave, s > 0; the prior is around it, then, and the host is not asked. None: the
    default. others: evidence of the other sites of its host.
    """
    if given is not None:
        centre, variance = _log_rate(given), WITHIN_HOST**2 + BETWEEN_HOSTS**2
    else:
        precision = 1.0 / BETWEEN_HOSTS**2 + others.precision
        centre = (_log_rate(DEFAULT_HALF_LIFE_S) / BETWEEN_HOSTS**2 + others.weighted) / precision
        variance = WITHIN_HOST**2 + 1.0 / precision
    shares = _posterior(statistics, centre, variance)
    below = np.cumsum(shares)
    tail = (1.0 - _LEVEL) / 2
    slow, fast = np.interp([tail, 1.0 - tail], below - shares / 2, _GRID)
    return HalfLife(_half_life(float(shares @ _GRID)), _half_life(float(fast)), _half_life(float(slow)))


def _posterior(statistics: ReadStatistics, centre: float, variance: float) -> NDArray[np.float64]:
    """Returns the posterior shares of the grid, float64[208], under a normal prior of log μ."""
    likelihood = statistics.reads.sum() * _GRID - _MU * statistics.ages - _LOG_SEEN @ statistics.reads
    logarithm = likelihood - (_GRID - centre) ** 2 / (2.0 * variance)
    shares = np.exp(logarithm - logarithm.max())
    return np.asarray(shares / shares.sum())


def _log_rate(half_life: float) -> float:
    return math.log(_LN2 / half_life)


def _half_life(log_rate: float) -> float:
    return _LN2 / math.exp(log_rate)
