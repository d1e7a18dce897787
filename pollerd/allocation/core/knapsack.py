"""DET-KS: the deterministic fractional knapsack, filled greedily in small steps ([B] 6.1.1, appendix A).

`gains[i, j]` is the gain of step j of material i. Each material takes its steps in order. This follows [B]'s formula:
the step with the largest gain comes next (the text beside it says the smallest).
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray


def det_ks(gains: NDArray[np.float64], steps: int) -> NDArray[np.int64]:
    """Returns the number of steps of each material, int64[n], for `steps` in all; gains float64[n, m].

    As [B] writes it, with a heap: O(steps log n). Ties go to the lower row.
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
    """Solves R knapsacks at once like `det_ks`: gains float64[R, n, m] -> int64[R, n]; step j fills widths float64[m].

    The gain of a step is replaced by the running minimum, because a step behind a small gain waits until that is the
    largest, and is then taken at once. So all steps are taken in the order of that minimum, stable in (material, step),
    until the next would not fit: the same choices as `det_ks`, including ties. Falling gains are their own running
    minimum, and the last level reached is the price of Lagrange's condition, [B] (2.1).
    """
    runs, n, m = gains.shape
    level = np.minimum.accumulate(gains, axis=2).reshape(runs, n * m)
    order = np.argsort(-level, axis=1, kind="stable")
    taken = np.cumsum(widths[order % m], axis=1) <= capacity
    owners = order // m + n * np.arange(runs)[:, None]
    return np.bincount(owners[taken], minlength=runs * n).reshape(runs, n)
