"""What prompt sources say of pages."""

from __future__ import annotations

import numpy as np

from pollerd.allocation.signals.pairs import Array, Window


def prompt(recall: Array, false_rate: Array, number: Array, covered: Array) -> Window:
    """Returns a window, float64[k, 1] each, of a source that is never late and all of whose pages are as noisy."""
    none = np.zeros_like(recall)
    return Window(recall, false_rate, number, covered, late=none, early=none, power=none, cycle=none + 1.0)
