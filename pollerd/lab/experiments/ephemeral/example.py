"""The four sources of [E] table 1, which [D] uses too, and the policies compared on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.sources import Sources
from pollerd.lab.environments.interest import Ranking, greedy, round_robin, single, whittle

PAPER = "[E] Avrachenkov & Borkar, Whittle index policy for crawling ephemeral content"

POLICIES: dict[str, Callable[[Sources], Ranking]] = {
    "whittle": whittle,
    "whittle, x/C from u* on": lambda sources: whittle(sources, "value"),
    "whittle, 0 from u* on": lambda sources: whittle(sources, "printed"),
    "greedy": greedy,
    "round robin": lambda sources: round_robin(),
    "source 1 alone": lambda sources: single(sources, 0),
    "source 2 alone": lambda sources: single(sources, 1),
}


def four_sources(cost: NDArray[np.float64] | None = None) -> Sources:
    """Returns [E] table 1 with T = 1; costs are our addition, None: all 1."""
    unit = np.ones(4)
    value, decay = np.array([1.0, 0.7, 0.2, 0.08]), np.array([0.7, 0.35, 0.7, 0.21])
    return Sources(250.0 * unit, value, decay, unit if cost is None else cost)
