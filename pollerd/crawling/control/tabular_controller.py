"""Request controller of [C]'s experiment: a document's state is the identity of its discoverer."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from pollerd.crawling.control.requests import RequestSettings
from pollerd.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class _TabularUpdate:
    """A request whose target value is known once the next control is: the document, its state, and the result."""

    state: int
    reward: float
    document: int
    discovered: int


class TabularController:
    """Learns over many traversals of one web, which does not change meanwhile (F = 1).

    All documents that one page discovered share a state, an index and a queue, first in first out. A request costs
    O(log n): only the two affected states are placed in the heap again.

    Parameters ---------- documents : their maximum number; they are numbered from 0, and 0 is the start document. rng :
    for exploration, and to break ties.
    """

    def __init__(self, documents: int, settings: RequestSettings, rng: np.random.Generator) -> None:
        if documents < 1:
            raise InvalidValueError("documents", "at least 1", documents)
        self._settings, self._rng = settings, rng
        self._ask, self._leave = [0.0] * documents, [0.0] * documents
        self._asked, self._left = [0] * documents, [0] * documents
        self._traversals = 0
        self.begin()

    def begin(self) -> None:
        """Starts a new traversal: no document is discovered; learned values are kept."""
        self._traversals += 1
        self._waiting: dict[int, deque[int]] = {}
        self._since: dict[int, int] = {}
        self._heap: list[tuple[float, float, int, int]] = []
        self._version: dict[int, int] = {}
        self._step = 0
        self._asked_in: dict[int, int] = {}
        self._updates: list[_TabularUpdate] = []

    def values(self, state: int) -> tuple[float, float]:
        """Returns Q(x, 1) and Q(x, 2) of the documents that `state` discovered."""
        return self._ask[state], self._leave[state]

    def arrive(self, parent_document: int, documents: Sequence[int]) -> None:
        """Adds new projects, unseen in this traversal, in the order in which to request them."""
        if documents:
            self._waiting[parent_document] = deque(documents)
            self._since[parent_document] = self._step
            self._place(parent_document)

    def choose(self) -> int | None:
        """Returns the document to request now, None if none waits. Completes the updates that `retrieved` began."""
        state = self._chosen_state()
        for update in self._updates:
            self._learn(update, state)
        self._updates.clear()
        if state is None:
            return None
        queue = self._waiting[state]
        document = queue.popleft()
        self._learn_waiting(state)
        if queue:
            self._place(state)
        else:
            del self._waiting[state]
        self._step += 1
        self._asked_in[document] = state
        return document

    def retrieved(self, document: int, reward: float, discovered: Sequence[int]) -> None:
        """Records the result of requesting a document returned by `choose`: its reward, and the documents discovered.

        Raises KeyError for other documents.
        """
        self._updates.append(_TabularUpdate(self._asked_in.pop(document), reward, document, len(discovered)))
        self.arrive(document, discovered)

    def _index(self, state: int) -> float:
        ask, leave = self._ask[state], self._leave[state]
        if self._settings.passive == "best":
            leave = self._settings.discount * max(ask, leave)
        return ask - leave

    def _place(self, state: int) -> None:
        version = self._version[state] = self._version.get(state, 0) + 1
        heappush(self._heap, (-self._index(state), self._rng.random(), state, version))

    def _chosen_state(self) -> int | None:
        if self._waiting and self._rng.random() < self._settings.exploration / self._traversals:
            return self._any_state()
        while self._heap:
            _, _, state, version = heappop(self._heap)
            if state in self._waiting and self._version[state] == version:
                return state
        return None

    def _any_state(self) -> int:
        while True:
            state = self._heap[int(self._rng.integers(len(self._heap)))][2]
            if state in self._waiting:
                return state

    def _learn(self, update: _TabularUpdate, next_state: int | None) -> None:
        """Applies equation (10) to a request, now that the next control is known."""
        asked = int(next_state == update.document)
        children = asked * self._ask[update.document] + (update.discovered - asked) * self._leave[update.document]
        target = update.reward + self._settings.discount * children
        _move(self._ask, self._asked, update.state, target, self._settings.step)
        if update.state in self._waiting:
            self._place(update.state)

    def _learn_waiting(self, state: int) -> None:
        """Applies equation (10) over the steps in which the chosen document was passed over."""
        if passed := self._step - self._since[state]:
            target = self._settings.discount**passed * self._ask[state]
            _move(self._leave, self._left, state, target, self._settings.step)


def _move(values: list[float], samples: list[int], state: int, target: float, least: float) -> None:
    samples[state] += 1
    values[state] += max(least, 1.0 / samples[state]) * (target - values[state])
