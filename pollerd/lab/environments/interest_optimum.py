"""Optimum for ephemeral content under the mean dynamics: exact for few sites, else an upper bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.sources import Sources
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.interest import PollConstraint

_NEVER = 1e-12
"""A site counts as never polled when its interest is within this share of its ceiling."""
_MAX_STATES = 10**6


def bound(sources: Sources, most: float) -> float:
    """Returns an upper bound of the long-run interest per epoch for `most` units of cost per epoch.

    Whittle's relaxation of [E] 3: at the shadow price θ of a unit each site by itself takes the best period η, and
    `min_θ θ most + Σ_i max(0, max_η (x_i(η) - C_i θ) / η)` is the least of the bounds for all θ.
    """
    ages = np.arange(1, 1 + math.ceil(-math.log(_NEVER) / float((sources.decay * sources.epoch).min())))[:, None]
    waiting = sources.after(ages.astype(np.float64))
    low, high = 0.0, float((sources.ceiling / sources.cost).max())
    for _ in range(200):
        price = (low + high) / 2
        net = (waiting - sources.cost * price) / ages
        best = net.argmax(axis=0)
        spent = float((sources.cost / (1 + best))[net.max(axis=0) > 0].sum())
        low, high = (price, high) if spent > most else (low, price)
    net = (waiting - sources.cost * high) / ages
    return float(high * most + np.maximum(net.max(axis=0), 0.0).sum())


def exact(sources: Sources, limit: PollConstraint, ages: int, error: float = 1e-3) -> float:
    """Returns the best long-run average, to within `error`, by relative value iteration over the ages of all sites.

    Ages are capped at `ages` epochs, so the result is slightly too low if an optimal policy lets a site get older. A
    limit above the number of sites is that number. Raises InvalidValueError for limits of cost and for more than 10⁶
    states.
    """
    n = len(sources)
    if limit.of != "number" or ages**n > _MAX_STATES:
        raise InvalidValueError("limit, ages", f"a number of sites, and at most {_MAX_STATES} states", (limit, ages))
    waiting = sources.after(np.arange(1.0, ages + 1)[:, None])
    choices = list(itertools.combinations(range(n), min(int(limit.most), n)))
    value = np.zeros((ages,) * n)
    while True:
        best = np.maximum.reduce([_chosen(value, waiting, choice) for choice in choices])
        gained = best - value
        low, high = float(gained.min()), float(gained.max())
        if high - low < error:
            return (low + high) / 2
        value = (value + best) / 2 - (low + high) / 4  # halfway, because optimal schedules are periodic


def _chosen(value: NDArray[np.float64], waiting: NDArray[np.float64], choice: tuple[int, ...]) -> NDArray[np.float64]:
    """Returns the reward of polling `choice` plus the value of the next state, for every state."""
    ages, n = waiting.shape
    older = np.minimum(np.arange(ages) + 1, ages - 1)
    later, now = value, np.zeros((1,) * n)
    for site in range(n):
        polled = site in choice
        later = later.take(np.zeros(ages, np.int64) if polled else older, axis=site)
        if polled:
            now = now + waiting[:, site].reshape([ages if axis == site else 1 for axis in range(n)])
    return np.asarray(later + now)
