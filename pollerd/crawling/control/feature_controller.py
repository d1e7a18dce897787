"""Request controller with function approximation: features describe documents, so that it generalises to other webs.

[C] proposes it without building it. Frontier and collection compete by one index for one budget of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pollerd.crawling.control.linear_q import Approximation
from pollerd.crawling.control.link_features import FRONTIER, RETRIEVED, LinkFeatures, RetrievedPage
from pollerd.crawling.control.requests import RequestSettings
from pollerd.crawling.control.rewards import RequestOutcome, reward
from pollerd.errors import InvalidValueError

_ASK, _LEAVE = 0, 1
_HELD_RANKED_EVERY = 32
Functions = tuple[Approximation, Approximation]
"""Q(x, 1) and Q(x, 2)."""


class LearnedQ:
    """Approximations of Q(x, u) for documents on the frontier and in the collection; shared between webs.

    memory > 0: number of samples after which an old one counts 1/e.
    """

    def __init__(self, memory: float = 20_000.0) -> None:
        if not memory > 0:
            raise InvalidValueError("memory", "above 0", memory)
        self.frontier: Functions = (Approximation(len(FRONTIER), memory), Approximation(len(FRONTIER), memory))
        self.held: Functions = (Approximation(len(RETRIEVED), memory), Approximation(len(RETRIEVED), memory))


@dataclass
class _FeatureUpdate:
    """A request whose target value is known once the next control is."""

    on_frontier: bool
    state: NDArray[np.float64]
    reward: float
    document: int
    discovered: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class FeaturedController:
    """Explores one web with what was learned in others, and continues to learn.

    documents: their maximum number; they are numbered from 0. refresh: retrieved documents are requested again; a step
    is a request. The reward of a request is a relevance of at most 1, so that no value exceeds 1 / (1 - γ): samples are
    clipped to it.
    """

    def __init__(
        self,
        documents: int,
        learned_q: LearnedQ,
        settings: RequestSettings,
        rng: np.random.Generator,
        *,
        refresh: bool = False,
    ) -> None:
        if documents < 1:
            raise InvalidValueError("documents", "at least 1", documents)
        self._learned_q, self._settings, self._rng, self._refresh = learned_q, settings, rng, refresh
        self._states = LinkFeatures(documents, patience=float(documents))
        self._index = np.full(documents, -np.inf)
        self._waiting = np.zeros(documents, np.bool_)
        self._since = np.zeros(documents, np.int64)
        self._then: dict[int, NDArray[np.float64]] = {}
        self._asked: dict[int, _FeatureUpdate] = {}
        self._updates: list[_FeatureUpdate] = []
        self._step = 0

    def start(self, document: int) -> None:
        """Adds a start document."""
        self._states.start(document)
        self._admit(np.array([document]))

    @property
    def highest(self) -> float:
        """The highest index of the waiting documents, -inf without any."""
        return float(self._index.max())

    def choose(self) -> int | None:
        """Returns the document to request now, None if none waits."""
        if self._refresh and self._step % _HELD_RANKED_EVERY == 0:
            # Their states change with time alone.
            self._rank(np.flatnonzero(self._waiting & self._states.retrieved))
        document = self._chosen()
        for update in self._updates:
            self._learn(update, document)
        self._updates.clear()
        if document is None:
            return None
        on_frontier = not self._states.retrieved[document]
        state = self._state_of(np.array([document]))[0]
        self._learn_waiting(document, state, on_frontier)
        self._waiting[document], self._index[document] = False, -np.inf
        self._asked[document] = _FeatureUpdate(on_frontier, state, 0.0, document)
        self._step += 1
        return document

    def retrieved(self, document: int, page: RetrievedPage, finding: RequestOutcome) -> None:
        """Records the result of requesting a document returned by `choose`. Raises KeyError for others."""
        update = self._asked.pop(document)
        update.reward = reward(finding, float(self._states.relevance[document]), page.relevance)
        update.discovered = self._states.take_in(document, page, self._step, changed=finding is not RequestOutcome.SAME)
        self._updates.append(update)
        touched = self._states.affected(document)
        self._admit(update.discovered)
        self._rank(touched[self._waiting[touched]])
        if self._refresh:
            self._admit(np.array([document]))

    def gone(self, document: int) -> None:
        """Records that a document returned by `choose` no longer exists."""
        update = self._asked.pop(document)
        update.reward = reward(RequestOutcome.DELETED, float(self._states.relevance[document]), 0.0)
        self._states.forget(document, self._step)
        self._updates.append(update)

    def _admit(self, documents: NDArray[np.int64]) -> None:
        self._waiting[documents] = True
        self._since[documents] = self._step
        for document, state in zip(documents.tolist(), self._state_of(documents), strict=True):
            self._then[document] = state
        self._rank(documents)

    def _state_of(self, documents: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns states of documents that are all on the frontier, or all not, float64[k, F]."""
        if len(documents) and self._states.retrieved[documents[0]]:
            return self._states.held(documents, self._step)
        return self._states.frontier(documents)

    def _kinds(self, documents: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Functions]]:
        """Yields the documents on the frontier and the retrieved ones, each with their functions."""
        held = self._states.retrieved[documents]
        yield documents[~held], self._learned_q.frontier
        yield documents[held], self._learned_q.held

    def _rank(self, documents: NDArray[np.int64]) -> None:
        """Sets the index of equation (9)."""
        for group, (ask, leave) in self._kinds(documents):
            if not len(group):
                continue
            states = self._state_of(group)
            value = ask(states)
            by_leaving = self._settings.discount * value if self._settings.passive == "best" else leave(states)
            self._index[group] = value - by_leaving

    def _total_value(self, control: int, documents: NDArray[np.int64]) -> float:
        """Returns Σ Q(x, control) over documents, each at least 0, as rewards are; control 0 requests, 1 leaves."""
        return sum(
            float(np.maximum(functions[control](self._state_of(group)), 0.0).sum())
            for group, functions in self._kinds(documents)
            if len(group)
        )

    def _chosen(self) -> int | None:
        if self._rng.random() < self._settings.exploration and len(waiting := np.flatnonzero(self._waiting)):
            return int(self._rng.choice(waiting))
        if (highest := self.highest) == -np.inf:
            return None
        # Before the first fit all are equal.
        return int(self._rng.choice(np.flatnonzero(self._index == highest)))

    def _learn(self, update: _FeatureUpdate, following: int | None) -> None:
        """Applies equation (10), now that the next control is known: `following` is requested, all else is left."""
        successors = update.discovered
        if self._refresh and self._waiting[update.document]:
            successors = np.append(successors, update.document)
        next_one = successors == (-1 if following is None else following)
        value = self._total_value(_LEAVE, successors[~next_one]) + self._total_value(_ASK, successors[next_one])
        discount = self._settings.discount
        value = min(update.reward + discount * value, 1.0 / (1.0 - discount))
        functions = self._learned_q.frontier if update.on_frontier else self._learned_q.held
        if functions[_ASK].learn(update.state, value):
            self._rank(np.flatnonzero(self._waiting))

    def _learn_waiting(self, document: int, state: NDArray[np.float64], on_frontier: bool) -> None:
        """Applies equation (10) over the steps in which the chosen document was passed over."""
        then, passed = self._then.pop(document), int(self._step - self._since[document])
        if passed:
            ask, leave = self._learned_q.frontier if on_frontier else self._learned_q.held
            leave.learn(then, self._settings.discount**passed * max(float(ask(state[None, :])[0]), 0.0))
