"""Replaces invalid site settings found in the database by defaults, and reports them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.model import NUMERIC_SETTINGS
from pollerd.scheduling import SiteTable
from pollerd.site_settings import USABLE


def replace_invalid_settings(table: SiteTable, slots: NDArray[np.int64]) -> dict[int, str]:
    """Replaces each unusable setting by its default; returns site id -> what is wrong with it."""
    found: dict[int, str] = {}
    for name, usable in USABLE.items():
        column: NDArray[np.float64] = getattr(table, name)
        values, default = column[slots], NUMERIC_SETTINGS[name]
        good = (values >= usable.least) & (values <= usable.most)
        if default is None:
            good |= np.isnan(values)  # unset
        for slot in slots[~good].tolist():
            found[int(table.site_id[slot])] = f"{name}: must be {usable.allowed}; given: {float(column[slot])!r}"
            table.put(name, slot, math.nan if default is None else default)
    return found
