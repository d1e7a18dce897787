"""DET-KS: the deterministic fractional knapsack, filled step by step where it gains most ([B] 6.1.1, appendix A).

`gains[i, j]` is what material i gains by its step j. Each material takes its steps in order. [B]'s formula is the one
that is meant: the step with the largest gain comes next (the words beside it say the least).
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray


def det_ks(gains: NDArray[np.float64], steps: int) -> NDArray[np.int64]:
    """Steps that each material takes, int64[n], when `steps` are taken in all; gains float64[n, m].

    As [B] writes it, with a heap: O(steps log n). Of equal gains that of the lower row comes first.
    """
    rows = gains.tolist()
    taken = [0] * len(rows)
    heads = [(-row[0], i) for i, row in enumerate(rows) if row]
    heapq.heapify(heads)
    for _ in range(min(steps, gains.size)):
        _, i = heads[0]
        taken[i] += 1
        if taken[i] < len(rows[i]):
            heapq.heapreplace(heads, (-rows[i][taken[i]], i))
        else:
            heapq.heappop(heads)
    return np.array(taken, np.int64)


def water_filling(gains: NDArray[np.float64], widths: NDArray[np.float64], capacity: float) -> NDArray[np.int64]:
    """`det_ks` of R knapsacks at once: gains float64[R, n, m] -> int64[R, n]; step j fills widths float64[m] of it.

    A step counts as the smallest gain up to it, because whoever waits behind a small gain waits until that is the
    largest, and is then taken at once. So all steps of all materials are taken in the order of that running minimum,
    stable in (material, step), until the next would not fit: the choices of `det_ks`, ties and all. Gains that fall are
    their own minimum, and the last level reached is the price of Lagrange's condition, [B] (2.1).
    """
    runs, n, m = gains.shape
    level = np.minimum.accumulate(gains, axis=2).reshape(runs, n * m)
    order = np.argsort(-level, axis=1, kind="stable")
    taken = np.cumsum(widths[order % m], axis=1) <= capacity
    owners = order // m + n * np.arange(runs)[:, None]
    return np.bincount(owners[taken], minlength=runs * n).reshape(runs, n)
