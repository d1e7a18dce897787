"""Gaussian process regression, and sampling of value functions from its posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots import positive

# Squared exponential kernel ([B] (4.4)), and the equivalent features on a finite index set.

_NEGLIGIBLE = 1e-10
"""Share of the largest eigenvalue below which one is dropped: a function changes by at most 1e-5 of σ_f."""


@dataclass(frozen=True)
class Kernel:
    """`K(p, q) = σ_f² exp(-(p - q)² / (2 l²))`; length l, signal σ_f² and noise σ_n² > 0, with [B]'s usual values.

    The noise of an observation is separate from the kernel, so that it counts once: [B] writes σ_n² δ into the kernel
    (4.4) and σ_noise² I beside it (4.5), and means the same noise.
    """

    length: float = 1.0
    signal: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        for field in ("length", "signal", "noise"):
            positive(field, getattr(self, field))

    def between(self, p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns covariances of the function between p float64[a] and q float64[b]: float64[a, b], without noise."""
        return np.asarray(self.signal * np.exp(-0.5 * ((p[:, None] - q) / self.length) ** 2))


@dataclass(frozen=True)
class IndexSet:
    """Points float64[m] of a function, ascending, and features float64[m, r].

    A function of the prior is `features @ w` with w standard normal: `features @ features.T` is the kernel matrix
    except for eigenvalues below 1e-10 of the largest. The kernel is so smooth that r is small: 7 on [0, 1] with l = 1.
    """

    points: NDArray[np.float64]
    features: NDArray[np.float64]
    noise: float


def index_set(points: NDArray[np.float64], kernel: Kernel) -> IndexSet:
    """Returns the index set of the points, with its features."""
    values, vectors = np.linalg.eigh(kernel.between(points, points))
    kept = values > _NEGLIGIBLE * values[-1]
    return IndexSet(points, np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept])), kernel.noise)


def regress(
    kernel: Kernel, points: NDArray[np.float64], seen_at: NDArray[np.float64], seen: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns mean float64[m] and covariance float64[m, m] of the function at `points` float64[m].

    seen float64[n] are noisy values of it at seen_at float64[n]; the prior mean is 0. [B]'s REGULAR-GPOKS.
    """
    across = kernel.between(points, seen_at)
    inner = kernel.between(seen_at, seen_at) + kernel.noise * np.eye(len(seen))
    mean = across @ np.linalg.solve(inner, seen)
    return mean, kernel.between(points, points) - across @ np.linalg.solve(inner, across.T)


# Gaussian process regression from counts and sums at each point of a finite index set ([B] 6.3.1, FAST-GPOKS).


@dataclass(frozen=True)
class GaussianBelief:
    """Posterior of k functions on one index set of m points.

    mean float64[k, m]: posterior means. root float64[k, m, r]: a function is `mean + root @ z` with z standard normal,
    so `root @ root.T` is its covariance.
    """

    mean: NDArray[np.float64]
    root: NDArray[np.float64]

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Posterior standard deviation at each point, float64[k, m]."""
        return np.asarray(np.sqrt((self.root**2).sum(-1)))

    def take(self, rows: NDArray[np.int64]) -> GaussianBelief:
        """Selects rows."""
        return GaussianBelief(self.mean[rows], self.root[rows])


def believe(
    index: IndexSet,
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    prior: NDArray[np.float64] | float = 0.0,
) -> GaussianBelief:
    """Returns the posterior after counts float64[k, m] observations with the sums float64[k, m] at each point.

    prior: the prior mean, float64[m] or one number. Exact on the index set: n observations at a point are equivalent to
    their average with noise `σ_n² / n`. The cost does not depend on their number. In terms of the features' weights w
    the prior is N(0, I), and the posterior precision `I + Φ' diag(counts) Φ / σ_n²` has r rows; [B] inverts m rows.
    """
    features, noise = index.features, index.noise
    precision = np.eye(features.shape[1]) + features.T @ (counts[:, :, None] * features) / noise
    inverse = np.linalg.inv(np.linalg.cholesky(precision))
    gradient = ((sums - counts * prior) @ features) / noise
    weights = np.swapaxes(inverse, 1, 2) @ (inverse @ gradient[..., None])
    return GaussianBelief(prior + weights[..., 0] @ features.T, features @ np.swapaxes(inverse, 1, 2))


# Sampling of standard normal vectors restricted to half-spaces: exact Hamiltonian Monte Carlo with reflecting walls.
#
# A point z with a standard normal velocity v moves along `z cos t + v sin t`; at the wall of a half-space its velocity
# is reflected. Such a trajectory leaves the distribution of z invariant, and there is no step size, because each hit is
# computed exactly: a constraint `a·z + b >= 0` is a quadratic in tan(t / 2) along the way. Without walls a quarter turn
# gives an independent point; with walls a few are enough.

FLIGHTS = 3
"""Quarter turns per draw. A single one matches the moments of long chains (docs/papers/gpoks.md)."""
_BOUNCES_AT_MOST = 100_000


def draw_within(
    slopes: NDArray[np.float64],
    offsets: NDArray[np.float64],
    start: NDArray[np.float64],
    rng: np.random.Generator,
    flights: int = FLIGHTS,
) -> NDArray[np.float64]:
    """Returns k vectors float64[k, r], each standard normal under the condition `slopes @ z + offsets >= 0`.

    slopes float64[k, c, r], offsets float64[k, c]; start float64[k, r], any point within. A bounce of all k costs O(k c
    r); the number of bounces depends on the walls.
    Raises ArithmeticError for a start that is not within, and if a trajectory does not end within 100,000 bounces.
    """
    outside = ((slopes @ start[..., None])[..., 0] + offsets < 0).any(1)
    if outside.any():
        raise ArithmeticError(f"{int(outside.sum())} of {len(start)} starts are not within their half-spaces")
    z = start
    for _ in range(flights):
        v = rng.standard_normal(z.shape)
        z = _fly(slopes, offsets, z, v, np.full(len(z), np.pi / 2))
    return z


def _fly(
    slopes: NDArray[np.float64],
    offsets: NDArray[np.float64],
    z: NDArray[np.float64],
    v: NDArray[np.float64],
    left: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns the ends of trajectories from z with velocity v after `left` float64[k] radians."""
    rows = np.arange(len(z))
    for _ in range(_BOUNCES_AT_MOST):
        time, wall = _next_wall(slopes, offsets, z, v)
        flight = np.minimum(time, left)
        cos, sin = np.cos(flight)[:, None], np.sin(flight)[:, None]
        z, v = z * cos + v * sin, v * cos - z * sin
        left = left - flight
        flying = left > 0
        if not flying.any():
            return z
        if 2 * flying.sum() < len(z):  # the others do not pay for many bounces of a few
            bounced = _mirrored(v[flying], slopes[flying, wall[flying]])
            z[flying] = _fly(slopes[flying], offsets[flying], z[flying], bounced, left[flying])
            return z
        v = _mirrored(v, slopes[rows, wall])  # a finished trajectory needs no velocity
    raise ArithmeticError(f"{int(flying.sum())} flights do not end within {_BOUNCES_AT_MOST} bounces")


def _next_wall(
    slopes: NDArray[np.float64], offsets: NDArray[np.float64], z: NDArray[np.float64], v: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns when each trajectory hits its next wall, float64[k] radians, π: not before; and which, int64[k].

    With `u = tan(t / 2)` the wall is where `bend u² + 2 across u + height = 0`: finds the smallest positive root.
    """
    here, across = (slopes @ z[..., None])[..., 0], (slopes @ v[..., None])[..., 0]
    height, bend = np.maximum(offsets + here, 0.0), offsets - here
    inner = across * across - bend * height
    root = np.sqrt(np.maximum(inner, 0.0))
    # The form of the smaller root in which nothing cancels.
    leaving = across > 0
    top, bottom = np.where(leaving, across + root, height), np.where(leaving, -bend, root - across)
    meets = (inner >= 0) & (bottom > 0)
    half = np.where(meets, top / np.where(meets, bottom, 1.0), np.inf)
    wall = half.argmin(1)
    return 2 * np.arctan(half[np.arange(len(z)), wall]), wall


def _mirrored(v: NDArray[np.float64], wall: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns velocities float64[k, r] reflected by walls with normals float64[k, r]."""
    return np.asarray(v - 2 * ((v * wall).sum(1) / (wall**2).sum(1))[:, None] * wall)


# Value functions of GPOKS: drawn from a posterior, or computed from it ([B] 6.1.2 to 6.1.5, 7.1.1).

CONSTRAINED = {"ots+mono": (True, True), "ots": (True, False), "mono": (False, True)}
"""Variant -> whether its functions are optimistic, [B] (6.1), and whether they are non-increasing, (6.2)."""
VARIANTS = (*CONSTRAINED, "ts", "gpr", "ucb", "ips", "ips-ots")
_TRIES = 16
"""Rejection candidates per function; beyond this number `in_flight` is faster."""
_UCB_DEVIATIONS = 2.0
_MIN_SINGULAR = 1e-8
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

    Both conditions are half-spaces for the normal vector behind a function: see `draw_within`. The start is a falling
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
    start = (np.linalg.pinv(belief.root, rcond=_MIN_SINGULAR) @ (line - belief.mean)[..., None])[..., 0]
    z = draw_within(np.concatenate(slopes, axis=1), np.concatenate(offsets, axis=1), start, rng)
    return np.asarray(belief.mean + (belief.root @ z[..., None])[..., 0])


def _line_above(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns a line float64[k, m] for each row that falls by 1 and stays above it by a tenth."""
    fall = np.linspace(0.0, 1.0, mean.shape[1])
    return np.asarray((mean + fall).max(1, keepdims=True) + 0.1 - fall)
