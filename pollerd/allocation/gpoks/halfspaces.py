"""Sampling of standard normal vectors restricted to half-spaces: exact Hamiltonian Monte Carlo with reflecting walls.

A point z with a standard normal velocity v moves along `z cos t + v sin t`; at the wall of a half-space its velocity is
reflected. Such a trajectory leaves the distribution of z invariant, and there is no step size, because each hit is
computed exactly: a constraint `a·z + b >= 0` is a quadratic in tan(t / 2) along the way. Without walls a quarter turn
gives an independent point; with walls a few are enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
