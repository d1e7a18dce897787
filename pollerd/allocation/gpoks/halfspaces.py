"""Standard normal vectors kept within half-spaces: exact Hamiltonian Monte Carlo, with walls.

A point z that starts with a standard normal velocity v and is drawn to 0 goes along `z cos t + v sin t`; where it meets
the wall of a half-space it is thrown back as by a mirror. Such a flight keeps the law of z, and its end does not depend
on steps of a chosen size, because each meeting is worked out: a constraint `a·z + b >= 0` is a quadratic in
tan(t / 2) on the way. Without walls a quarter of a turn forgets the start altogether; with walls a few are enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FLIGHTS = 3
"""Quarter turns to a draw. One already gives means and deviations that long chains give (docs/papers/gpoks.md)."""
_BOUNCES_AT_MOST = 100_000


def draw_within(
    slopes: NDArray[np.float64],
    offsets: NDArray[np.float64],
    start: NDArray[np.float64],
    rng: np.random.Generator,
    flights: int = FLIGHTS,
) -> NDArray[np.float64]:
    """k vectors float64[k, r], each standard normal under the condition `slopes @ z + offsets >= 0`.

    slopes float64[k, c, r], offsets float64[k, c]; start float64[k, r] within, wherever. A bounce of all k costs
    O(k c r); how many there are hangs on the walls.

    Raises ArithmeticError for a start that is not within, and where a flight does not end within 100,000 bounces.
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
    """Where flights from z with velocity v end after `left` float64[k] radians."""
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
        if 2 * flying.sum() < len(z):  # the many bounces of a few are not paid for by all
            bounced = _mirrored(v[flying], slopes[flying, wall[flying]])
            z[flying] = _fly(slopes[flying], offsets[flying], z[flying], bounced, left[flying])
            return z
        v = _mirrored(v, slopes[rows, wall])  # a flight that has ended needs no velocity
    raise ArithmeticError(f"{int(flying.sum())} flights do not end within {_BOUNCES_AT_MOST} bounces")


def _next_wall(
    slopes: NDArray[np.float64], offsets: NDArray[np.float64], z: NDArray[np.float64], v: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """When each flight meets its next wall, float64[k] radians, π: not before; and which, int64[k].

    With `u = tan(t / 2)` the wall is where `bend u² + 2 across u + height = 0`: the smallest positive root is sought.
    """
    here, across = (slopes @ z[..., None])[..., 0], (slopes @ v[..., None])[..., 0]
    height, bend = np.maximum(offsets + here, 0.0), offsets - here
    inner = across * across - bend * height
    root = np.sqrt(np.maximum(inner, 0.0))
    # Of the two forms of the smaller root that one in which nothing cancels.
    leaving = across > 0
    top, bottom = np.where(leaving, across + root, height), np.where(leaving, -bend, root - across)
    meets = (inner >= 0) & (bottom > 0)
    half = np.where(meets, top / np.where(meets, bottom, 1.0), np.inf)
    wall = half.argmin(1)
    return 2 * np.arctan(half[np.arange(len(z)), wall]), wall


def _mirrored(v: NDArray[np.float64], wall: NDArray[np.float64]) -> NDArray[np.float64]:
    """Velocities float64[k, r] thrown back by walls with normals float64[k, r]."""
    return np.asarray(v - 2 * ((v * wall).sum(1) / (wall**2).sum(1))[:, None] * wall)
