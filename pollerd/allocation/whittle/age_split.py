"""Splits slots by how long ago they were polled, for a choice among millions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.since import Since
from pollerd.allocation.whittle.lazy_top_k import LazyTopK
from pollerd.columns import rows_of

Part = slice | NDArray[np.int64]
"""Slots 0..n-1, or the given ones."""


def split_by_age(
    free: NDArray[np.bool_],
    elapsed: NDArray[np.float64] | Since,
    latest: float,
    k: int,
    lazy_top_k: LazyTopK | None,
    progress: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Splits the free slots by age, in one pass, because reading millions of times from memory dominates the cost.

    Returns the first free slots never polled, int64[<= k]; if fewer than k, also all that were polled longer ago than
    `latest` s, int64[m]; and which slots may have a high index by `lazy_top_k`, if given, bool[n].
    """
    never: list[NDArray[np.int64]] = []
    late: list[NDArray[np.int64]] = []
    mask = np.zeros(len(free), np.bool_)
    reached = np.float32(0.0) if lazy_top_k is None else lazy_top_k.reached(progress)
    for part in rows_of(free):
        gap, there = elapsed[part], free[part]
        if lazy_top_k is not None:
            mask[part] = there & lazy_top_k.may_reach_level(part, gap, reached, latest)
        chosen = there & (gap > latest)
        if not chosen.any():
            continue
        never.append(_slots_at(part, chosen & (gap == np.inf)))
        late.append(_slots_at(part, chosen & (gap < np.inf)))
        k -= len(never[-1])
        if k <= 0:
            never[-1] = never[-1][: len(never[-1]) + k]
            break
    none = np.empty(0, np.int64)
    return np.concatenate([none, *never]), np.concatenate([none, *late]), mask


def _slots_at(part: Part, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the chosen ones, bool[m], of the m slots in `part`."""
    rows = np.flatnonzero(chosen)
    return part.start + rows if isinstance(part, slice) else part[rows]
