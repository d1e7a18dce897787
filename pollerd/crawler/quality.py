"""Quality of a collection: recall, freshness and the lesser of the two, equations (1) to (3) of [C].

A modified document counts as one deleted and one added: its old copy is no longer on the web. So the documents both in
the collection and on the web are those whose copy is current.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.texts import _


def recall(held: NDArray[np.float64], current: NDArray[np.bool_], on_web: float) -> float:
    """Returns the relevance held and current as a share of all on the web, from 0 to 1; 1 if the web has none.

    Equation (1): held float64[k] >= 0, relevance of each copy; current bool[k]; on_web: Σ r(i) over the web now.
    """
    return float(held[current].sum()) / on_web if on_web > 0 else 1.0


def freshness(held: NDArray[np.float64], current: NDArray[np.bool_]) -> float:
    """Returns the relevance held and current as a share of all held, from 0 to 1; 1 for an empty collection.

    Equation (1): held float64[k] >= 0, relevance of each copy; current bool[k].
    """
    total = float(held.sum())
    return float(held[current].sum()) / total if total > 0 else 1.0


def quality(held: NDArray[np.float64], current: NDArray[np.bool_], on_web: float) -> float:
    """Returns the lesser of recall and freshness, equation (2)."""
    return min(recall(held, current, on_web), freshness(held, current))


def performance(quality_over_time: NDArray[np.float64]) -> float:
    """Returns the mean quality over a schedule, equation (3) divided by its duration T.

    quality_over_time float64[T]: after each request. Raises InvalidValueError if it is empty.
    """
    if not len(quality_over_time):
        raise InvalidValueError("quality_over_time", _("at least one value"), quality_over_time)
    return float(quality_over_time.mean())


def recall_by_request(relevance: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the recall after each request of a static web, which is also its quality: F = 1.

    relevance float64[n] of all its documents, order int64[T] of the requested ones, each once. Returns float64[T].
    """
    total = float(relevance.sum())
    return np.cumsum(relevance[order]) / total if total > 0 else np.ones(len(order))
