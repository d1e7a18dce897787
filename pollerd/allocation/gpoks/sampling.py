"""Value functions of GPOKS: drawn from a posterior, or computed from it ([B] 6.1.2 to 6.1.5, 7.1.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.gpoks.belief import GaussianBelief
from pollerd.allocation.gpoks.halfspaces import draw_within

CONSTRAINED = {"ots+mono": (True, True), "ots": (True, False), "mono": (False, True)}
"""Variant -> whether its functions are optimistic, [B] (6.1), and whether they are non-increasing, (6.2)."""
VARIANTS = (*CONSTRAINED, "ts", "gpr", "ucb", "ips", "ips-ots")
_TRIES = 16
"""Rejection candidates per function; beyond this number `in_flight` is faster."""
_UCB_DEVIATIONS = 2.0
_LEAST_SINGULAR = 1e-8
"""Share of the largest singular value below which a direction is not used to compute the start."""


def value_functions(belief: GaussianBelief, variant: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns one function per row of the posterior, float64[k, m], at the points of its index set, amounts ascending.

    variant: one of `VARIANTS`. "ts" is a draw; "mono" a non-increasing draw, "ots" one that is nowhere below the mean,
    "ots+mono" both; "gpr" is the mean, "ucb" the mean plus two deviations, "ips" an independent draw at each point and
    "ips-ots" the same above the mean.

    Each costs O(k m r) for the r columns of `root`; with conditions 16 times that, and if none of 16 draws meets them
    O(m r) for each bounce of a trajectory (`in_flight`).
    """
    if variant in CONSTRAINED:
        return _constrained(belief, *CONSTRAINED[variant], rng)
    if variant == "ts":
        return _candidates(belief, 1, rng)[:, 0]
    if variant == "gpr":
        return belief.mean
    if variant == "ucb":
        return belief.mean + _UCB_DEVIATIONS * belief.deviation
    away = rng.standard_normal(belief.mean.shape)
    return belief.mean + belief.deviation * (np.abs(away) if variant == "ips-ots" else away)


def _constrained(
    belief: GaussianBelief, optimistic: bool, falling: bool, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draws by rejection as in [B]; if all tries fail, by `in_flight`, which has the same distribution."""
    candidates = _candidates(belief, _TRIES, rng)
    good = _accepted(candidates, belief.mean[:, None], optimistic, falling)
    functions = candidates[np.arange(len(good)), good.argmax(1)]
    missing = np.flatnonzero(~good.any(1))
    if len(missing):
        functions[missing] = in_flight(belief.take(missing), optimistic, falling, rng)
    return np.asarray(functions)


def _candidates(belief: GaussianBelief, tries: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns unconditional draws, float64[k, tries, m]."""
    z = rng.standard_normal((len(belief.mean), tries, belief.root.shape[2]))
    return np.asarray(belief.mean[:, None] + z @ np.swapaxes(belief.root, 1, 2))


def _accepted(
    functions: NDArray[np.float64], mean: NDArray[np.float64], optimistic: bool, falling: bool
) -> NDArray[np.bool_]:
    """Returns which functions float64[..., m] meet [B] (6.1) and (6.2), bool[...]."""
    good = np.ones(functions.shape[:-1], np.bool_)
    if optimistic:
        good &= (functions >= mean).all(-1)
    if falling:
        good &= (functions[..., 1:] <= functions[..., :-1]).all(-1)
    return good


def in_flight(belief: GaussianBelief, optimistic: bool, falling: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns functions that meet the conditions, float64[k, m], however small the acceptance rate of rejection.

    Both conditions are half-spaces for the normal vector behind a function: halfspaces.py. The start is a falling
    straight line above the mean.
    """
    slopes, offsets = [], []
    if optimistic:
        slopes.append(belief.root)
        offsets.append(np.zeros_like(belief.mean))
    if falling:
        slopes.append(-np.diff(belief.root, axis=1))
        offsets.append(-np.diff(belief.mean, axis=1))
    line = _line_above(belief.mean)
    start = (np.linalg.pinv(belief.root, rcond=_LEAST_SINGULAR) @ (line - belief.mean)[..., None])[..., 0]
    z = draw_within(np.concatenate(slopes, axis=1), np.concatenate(offsets, axis=1), start, rng)
    return np.asarray(belief.mean + (belief.root @ z[..., None])[..., 0])


def _line_above(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns a line float64[k, m] for each row that falls by 1 and stays above it by a tenth."""
    fall = np.linspace(0.0, 1.0, mean.shape[1])
    return np.asarray((mean + fall).max(1, keepdims=True) + 0.1 - fall)
