"""How many changes of a page are to come within a time, by a belief about its rate: an interval that holds nine in ten.

An interval of the rate is of its mean up to now, if it stays. Rates do not stay: pages have active and quiet spells,
and drift. So the rate to come is the estimated one times a gamma factor of mean 1, and the number of changes follows a
mixture of negative binomial laws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHAPE = 5
"""Shape of the factor by which a page's rate differs in the coming 30 days, whose variance is 1 / SHAPE.

Fitted on half of the pages of recorded histories: with 4 to 6 every class of sources has .87 to .95 of its pages
inside, without a factor one has .61 (benchmarks/interval_calibration.py, docs/model.md).
"""
LEVEL = 0.9
_ONE_BY_ONE = 300
"""Numbers of changes up to here are considered one by one, above in steps of at most a hundredth."""
_STEP = 1.01
_FARTHEST = 4.0
"""Largest number considered, over that expected at the highest rate: 1e-5 of a gamma law of shape 5 is beyond 4."""


def coming_changes(
    rates: NDArray[np.float64], weights: NDArray[np.float64], span: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the numbers of changes of k pages within `span` s from now: (low, median, high), int64[k] each.

    low to high is the narrowest interval that holds at least `LEVEL` of the probability; of rare changes it starts at
    0, where one between two quantiles would hold more than it says. rates float64[1, J] or [k, J] above 0 (1/s) and
    weights float64[k, J], rows that sum to 1, as `Allocator.belief_of` returns them; neither has nan.
    """
    numbers = _numbers(float(rates.max()) * span)
    if len(rates) == 1:
        below = weights @ chances_up_to(numbers, span * rates[0])
    else:
        below = np.stack([row @ chances_up_to(numbers, span * own) for row, own in zip(weights, rates, strict=True)])
    ends = np.array([_narrowest(numbers, chances) for chances in below], np.int64)
    median = np.minimum((below < 0.5).sum(1), len(numbers) - 1)
    return ends[:, 0], numbers[median], ends[:, 1]


def chances_up_to(numbers: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the chance of at most `numbers` int64[m] of changes where expected float64[J] > 0 come: float64[J, m].

    The negative binomial law of a whole shape: n changes or fewer come before the shape's last of the events that end
    them, so that more come if fewer than `SHAPE` of the first n + `SHAPE` are such (a binomial sum).
    """
    mean = expected[:, None]
    trials = numbers + SHAPE
    term = np.exp(-trials * np.log1p(SHAPE / mean))
    more = term.copy()
    for ends in range(SHAPE - 1):
        term = term * ((trials - ends) / (ends + 1) * (SHAPE / mean))
        more += term
    return np.clip(1.0 - more, 0.0, 1.0)


def _numbers(expected: float) -> NDArray[np.int64]:
    """Returns the numbers of changes that are considered if at most `expected` come on average, ascending, int64[m]."""
    most = max(_FARTHEST * expected, 2.0 * _ONE_BY_ONE)
    steps = int(np.log(most / _ONE_BY_ONE) / np.log(_STEP)) + 2
    above = np.rint(_ONE_BY_ONE * _STEP ** np.arange(steps)).astype(np.int64)
    return np.unique(np.concatenate([np.arange(_ONE_BY_ONE), above]))


def _narrowest(numbers: NDArray[np.int64], below: NDArray[np.float64]) -> tuple[int, int]:
    """Returns the ends of the narrowest interval of numbers int64[m] that holds `LEVEL`, of equally narrow the lowest.

    below: the chances of at most each number, float64[m].
    """
    before = np.concatenate([[0.0], below[:-1]])
    ends = np.searchsorted(below, before + LEVEL)
    starts = np.flatnonzero(ends < len(below))
    start = starts[int((numbers[ends[starts]] - numbers[starts]).argmin())]
    return int(numbers[start]), int(numbers[ends[start]])
