"""A changing topical web: pages are modified and deleted while a crawler works. One request is one step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pollerd.crawler.quality import performance
from pollerd.lab.environments.topical_web.graph import TopicalGraph


class LivingWeb:
    """A graph over `steps` steps, and the quality of a collection of its pages.

    Modifications of page i are a Poisson process of `change_rate[i] / n` per step, deletions of `deletion_rate / n`. A
    modification multiplies the odds of the page's relevance by exp(N(0, drift)) and does not change its links; page 0
    never changes. The history is determined by rng.
    """

    def __init__(self, graph: TopicalGraph, steps: int, rng: np.random.Generator) -> None:
        n = len(graph)
        self.graph, self.steps = graph, steps
        self.relevance, self.alive = graph.relevance.copy(), np.ones(n, np.bool_)
        self.version = np.zeros(n, np.int64)
        """Number of modifications of each page so far."""
        self._events = self._history(rng)
        self._next = next(self._events, None)
        self._on_web = float(self.relevance.sum())
        self._held, self._current = np.zeros(n), np.zeros(n, np.bool_)
        self._held_sum = self._current_sum = 0.0
        self._quality: list[float] = []

    def advance(self, step: int) -> None:
        """Applies all events before the end of `step`."""
        while self._next is not None and self._next[0] <= step:
            _, page, drift = self._next
            self._happen(page, drift)
            self._next = next(self._events, None)

    def held(self, page: int) -> bool:
        """Returns whether the collection has a copy of the page."""
        return bool(self._held[page] > 0)

    def changed(self, page: int) -> bool:
        """Returns whether the collection's copy differs from the page, or the page is gone."""
        return not self._current[page]

    def retrieve(self, page: int) -> None:
        """Stores the current page in the collection, or drops it if it is gone; records the step's quality."""
        self._drop(page)
        if self.alive[page]:
            self._held[page], self._current[page] = self.relevance[page], True
            self._held_sum += self.relevance[page]
            self._current_sum += self.relevance[page]
        self.rest()

    def rest(self) -> None:
        """Records the quality of equation (2) at the end of a step: min(R, F)."""
        recall = self._current_sum / self._on_web if self._on_web > 0 else 1.0
        freshness = self._current_sum / self._held_sum if self._held_sum > 0 else 1.0
        self._quality.append(min(recall, freshness))

    @property
    def performance(self) -> float:
        """Mean quality over the steps so far, equation (3) over its duration."""
        return performance(np.array(self._quality))

    @property
    def quality(self) -> NDArray[np.float64]:
        """Quality at the end of each step so far."""
        return np.array(self._quality)

    def _happen(self, page: int, drift: float) -> None:
        if not self.alive[page]:
            return
        before = self.relevance[page]
        if self._current[page]:
            self._current[page] = False
            self._current_sum -= self._held[page]
        if np.isnan(drift):
            self.alive[page], self.relevance[page] = False, 0.0
        else:
            self.version[page] += 1
            odds = before / (1.0 - before) * np.exp(drift)
            self.relevance[page] = odds / (1.0 + odds)
        self._on_web += self.relevance[page] - before

    def _drop(self, page: int) -> None:
        self._held_sum -= self._held[page]
        self._current_sum -= self._held[page] if self._current[page] else 0.0
        self._held[page], self._current[page] = 0.0, False

    def _history(self, rng: np.random.Generator) -> Iterator[tuple[float, int, float]]:
        """Returns (time, page, drift) in the order of time; drift nan: deletion."""
        n = len(self.graph)
        modified = np.repeat(np.arange(n), rng.poisson(self.graph.change_rate * self.steps / n))
        gone = 1 + np.flatnonzero(rng.random(n - 1) < -np.expm1(-self.graph.deletion_rate * self.steps / n))
        pages = np.concatenate([modified, gone])
        times = rng.random(len(pages)) * self.steps
        drifts = np.concatenate([rng.normal(0.0, self.graph.drift, len(modified)), np.full(len(gone), np.nan)])
        order = np.argsort(times)
        return zip(times[order].tolist(), pages[order].tolist(), drifts[order].tolist(), strict=True)
