"""Settings of sites that no user can have made: rows of the database that were damaged, or edited by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling import SiteTable


@dataclass(frozen=True, slots=True)
class _Rule:
    allowed: str
    instead: float
    zero: bool = False
    """0 is allowed, too."""
    below: float = math.inf

    """What it must be less than."""

    def broken_by(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """bool[k]; what is unset (nan) is fine where it may be."""
        good = (values < self.below) & ((values >= 0) if self.zero else (values > 0))
        return ~(good | np.isnan(values)) if math.isnan(self.instead) else ~good


_RULES = {
    "weight": _Rule("finite, 0 or more", 1.0, zero=True),
    "cost": _Rule("finite, above 0", 1.0),
    "min_interval": _Rule("seconds, 0 or more", math.nan, zero=True),
    "max_interval": _Rule("seconds above 0", math.nan),
    "min_yield": _Rule("a chance from 0 to below 1", math.nan, zero=True, below=1.0),
    "respect_ttl": _Rule("true or false", math.nan, zero=True, below=1.5),
    "half_life": _Rule("seconds above 0", math.nan),
}


def replace_invalid_settings(table: SiteTable, slots: NDArray[np.int64]) -> dict[int, str]:
    """Puts the default in place of each setting that cannot be used; returns site id -> what is wrong with it."""
    found: dict[int, str] = {}
    for name, rule in _RULES.items():
        column: NDArray[np.float64] = getattr(table, name)
        for slot in slots[rule.broken_by(column[slots])].tolist():
            found[int(table.site_id[slot])] = f"{name}: must be {rule.allowed}; given: {float(column[slot])!r}"
            table.put(name, slot, rule.instead)
    return found
