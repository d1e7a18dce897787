"""Stored form of the belief about a site: a row of numbers, checked when restored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.state_bytes import all_sound
from pollerd.allocation.whittle.rate_model import grid
from pollerd.allocation.whittle.rate_model.drift import N_HAZARDS
from pollerd.allocation.whittle.rate_model.refinement import FARTHEST, MOST_INFORMATION
from pollerd.errors import InvalidValueError

VERSION = 11
ROW = np.dtype(
    [
        ("version", "u1"),
        ("start", "<f4"),
        ("step", "<f2"),
        ("wide", "<f2"),
        ("observed", "<f4"),
        ("likelihood", "<f2", (N_HAZARDS, grid.CELLS)),
        ("occupancy", "<u2", (grid.CELLS,)),
        ("position", "<f4"),
        ("information", "<f4"),
        ("offset", "<f2"),
    ]
)
"""A site's row as stored."""
WHOLE = 65_535.0
"""An occupancy of 1 as stored: fixed point takes half the space of float32 and is read as quickly."""
_MOST_OBSERVED = 2.0**24
"""Float32 counts no further."""
_FARTHEST_CELLS = 1e3
"""Windows are never this many cells apart."""
_ROUNDING = 1e-5
"""Relative precision of information in float32."""


def sound_rows(stored: NDArray[np.uint8], number: int) -> NDArray[np.void]:
    """Returns the stored bytes uint8[k, ROW.itemsize] of `number` sites as rows of `ROW`, [k].

    Raises InvalidValueError if they are foreign or damaged.
    """
    if stored.dtype != np.uint8 or stored.shape != (number, ROW.itemsize):
        raise InvalidValueError("site_state", f"uint8 of shape ({number}, {ROW.itemsize})", stored.shape)
    rows: NDArray[np.void] = np.ascontiguousarray(stored).view(ROW).reshape(number)
    _check(rows)
    return rows


def moved_likelihood(
    rows: NDArray[np.float16], prior: NDArray[np.float64], old: grid.Lattice, new: grid.Lattice
) -> NDArray[np.float16]:
    """Converts rows float16[k, H, K] from one window to another."""
    if old == new:
        return rows
    each = grid.move_likelihood(rows.reshape(-1, grid.CELLS).astype(np.float32), prior, old, new)
    return each.reshape(rows.shape).astype(np.float16)


def moved_occupancy(rows: NDArray[np.uint16], old: grid.Lattice, new: grid.Lattice) -> NDArray[np.uint16]:
    """Converts rows uint16[k, K] from one window to another."""
    if old == new:
        return rows
    return grid.move_mass(rows.astype(np.float64), old, new).clip(0, WHOLE).astype(np.uint16)


def _check(rows: NDArray[np.void]) -> None:
    """Raises InvalidValueError for stored rows of `ROW`, [k], that `Belief.rows` cannot have returned."""
    likelihood = rows["likelihood"]
    with np.errstate(invalid="ignore"):
        probable = np.asarray(((likelihood >= 0) & (likelihood <= 1)).all((1, 2)) & (likelihood > 0).any((1, 2)))
        near, seen = np.abs(rows["start"]) <= grid.FARTHEST_START, _from_0_to(_MOST_OBSERVED, rows["observed"])
        step = (rows["step"] > 0) & (rows["step"] <= grid.LONGEST_STEP)
        wide = (rows["wide"] >= 1) & (rows["wide"] <= grid.WIDEST)
        most = MOST_INFORMATION * rows["step"].astype(np.float64) ** 2 * (1 + _ROUNDING)
        known = (rows["information"] >= 0) & (rows["information"] <= most)
        within, beside = np.abs(rows["position"]) <= _FARTHEST_CELLS, np.abs(rows["offset"]) <= FARTHEST
    for field, what, good in (
        ("version", f"version {VERSION}", rows["version"] == VERSION),
        ("start", f"a window's start within {grid.FARTHEST_START:g}", near),
        ("step", f"a window's step above 0 and within {grid.LONGEST_STEP:g}", step),
        ("wide", f"a window that is wide by 1 to {grid.WIDEST:g}", wide),
        ("observed", f"from 0 to {_MOST_OBSERVED:g} polls", seen),
        ("likelihood", "likelihoods from 0 to 1, one above 0", probable),
        ("position", f"a position within {_FARTHEST_CELLS:.0f} places", within),
        ("information", f"information from 0 to {MOST_INFORMATION:g} per e-fold²", known),
        ("offset", f"an offset within {FARTHEST:g} places", beside),
    ):
        all_sound("the belief", what, good, rows[field])


def _from_0_to(most: float, values: NDArray[np.floating]) -> NDArray[np.bool_]:
    return np.asarray((values >= 0) & (values <= most))
