"""A histogram that accepts batches of values: an `observe` call per poll would cost more than its commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class BatchHistogram(Collector):
    """Like `prometheus_client.Histogram` without labels; `bounds`: ascending upper bounds of its buckets, inclusive."""

    def __init__(self, name: str, text: str, bounds: Sequence[float], registry: CollectorRegistry) -> None:
        self._name, self._text = name, text
        self._bounds = np.array([*bounds, np.inf])
        self._labels = [*(str(float(bound)) for bound in bounds), "+Inf"]
        self._counts = np.zeros(len(self._bounds), np.int64)
        self._sum = 0.0
        registry.register(self)

    def observe_all(self, values: Sequence[float]) -> None:
        """Adds all values."""
        given = np.asarray(values, np.float64)
        self._counts += np.bincount(np.searchsorted(self._bounds, given), minlength=len(self._bounds))
        self._sum += float(given.sum())

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Returns the metric family for registration."""
        return self.collect()

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Returns the metric family for a scrape."""
        reached = np.cumsum(self._counts).tolist()
        buckets = list(zip(self._labels, reached, strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=self._sum)
