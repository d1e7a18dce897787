"""Selection of the k most urgent of n slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def top(urgency: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Returns the slots of the k largest values above -inf, largest first, the lower slot first on ties; int64[<= k].

    O(n + k log k): at 10^6 sites a full sort would cost more than the choice itself.
    """
    if k <= 0 or urgency.size == 0:
        return np.empty(0, np.int64)
    if k == 1:
        best = int(urgency.argmax())
        return np.array([best] if urgency[best] > -np.inf else [], np.int64)
    first = np.flatnonzero(urgency == urgency.max())
    if first.size >= k and urgency[first[0]] > -np.inf:
        return first[:k].astype(np.int64, copy=False)  # partitioning equal values, as after an import, is slow
    candidates = np.flatnonzero(urgency > -np.inf)
    if candidates.size < urgency.size // 2:
        return candidates[_top_of(urgency[candidates], k)].astype(np.int64, copy=False)
    return _top_of(urgency, k)


def _top_of(urgency: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    if k >= urgency.size:
        chosen = np.flatnonzero(urgency > -np.inf)
    else:
        bar = np.partition(urgency, urgency.size - k)[urgency.size - k]
        above = np.flatnonzero(urgency > bar)
        level = np.flatnonzero(urgency == bar)[: k - above.size] if bar > -np.inf else above[:0]
        chosen = np.union1d(above, level)
    return chosen[np.argsort(-urgency[chosen], kind="stable")].astype(np.int64, copy=False)
