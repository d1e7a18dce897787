"""Request controllers of [C], which choose the page to request next, with their values and rewards.

The problem is one of restless bandits with arrivals, [C] equations (9) to (11).

Each document is a project with a local state x and two controls: 1, request it now; 2, leave it. Q(x, u) is the value
of a control from then on. The document of the largest index is requested; documents that its links lead to arrive as
new projects, and their values are credited to it:

    Q(x, 1) <- (1 - α) Q(x, 1) + α (g + γ (Q(x', u') + Σ Q(x_j, u_j)))      over the documents j that it discovered

with the controls u' and u_j that are actually taken next. [C] does not say how to update Q(x, 2) of the many documents
that are left. Here the whole time that a document waits is one transition: when it is requested after being passed over
w times,

    Q(x, 2) <- (1 - α) Q(x, 2) + α γ^w Q(x', 1)

which is the same equation over w steps without reward, and costs nothing while it waits.

The term subtracted in the index of equation (9) is an option, `passive`:

- "followed": Q(x, 2) as learned above, of the policy that is followed. A document that is always requested at once
  loses little by its short wait, so that its index sinks.
- "best": γ max Q(x, ·), equation (7) for the document on its own, as in Whittle's index: it would be requested at the
  very next step. The index is then (1 - γ) Q(x, 1), and Q(x, 2) is used in equation (10) only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pollerd.crawler.link_features import DEEP, FRONTIER, MANY, RETRIEVED, LinkFeatures, RetrievedPage
from pollerd.errors import InvalidValueError
from pollerd.texts import _

Passive = Literal["followed", "best"]


@dataclass(frozen=True)
class RequestSettings:
    """Parameters that [C] leaves open.

    discount γ, above 0, below 1, per request. step: minimum step size α, above 0, at most 1; that of a state's k-th
    sample is 1 / k while this is larger. exploration ε, 0 to 1: share of random requests in the first traversal; ε / k
    in the k-th. passive: see the module.
    """

    discount: float = 0.9
    step: float = 0.1
    exploration: float = 0.05
    passive: Passive = "best"

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1:
            raise InvalidValueError("discount", _("above 0, below 1"), self.discount)
        if not 0 < self.step <= 1:
            raise InvalidValueError("step", _("above 0, at most 1"), self.step)
        if not 0 <= self.exploration <= 1:
            raise InvalidValueError("exploration", _("from 0 to 1"), self.exploration)
        if self.passive not in ("followed", "best"):
            raise InvalidValueError("passive", _("followed or best"), self.passive)


# Reward of a request: equation (11) of [C].


class RequestOutcome(Enum):
    """Result of requesting a document."""

    FIRST = "first"
    """Retrieved for the first time."""
    MODIFIED = "modified"
    DELETED = "deleted"
    SAME = "same"


def reward(finding: RequestOutcome, before: float, after: float) -> float:
    """Returns the reward g of a request, equation (11): >= 0.

    before: the document's last relevance score r_k, after: that of this request, r_{k+1}; both >= 0. A document that is
    left has reward 0.
    """
    if finding is RequestOutcome.FIRST:
        return after
    if finding is RequestOutcome.MODIFIED:
        return max(before, after)
    return before if finding is RequestOutcome.DELETED else 0.0


# Q(x, u) as a function of features: least squares over them or their products, with exponential forgetting.

_REFITTED_SHARE = 0.02


class Approximation:
    """A quadratic or linear function of F features, fitted to the samples so far; 0 before the first fit.

    With ten features it has 66 weights, 11 if linear. It is refitted after `every` samples, later after each 2 % more.
    memory > 0: number of samples after which an old one counts 1/e. ridge > 0: weight of the prior that weights are 0,
    in samples. every: samples between the first fits. linear: without products of features.
    """

    def __init__(
        self, features: int, memory: float, ridge: float = 1.0, every: int = 64, *, linear: bool = False
    ) -> None:
        # Column 0 is 1: the first products are the features themselves.
        self._left, self._right = (at[: features + 1] if linear else at for at in np.triu_indices(features + 1))
        size = len(self._left)
        self._fade = np.exp(-1.0 / memory)
        self._moments, self._products = np.zeros((size, size)), np.zeros(size)
        self._weights = np.zeros(size)
        self._ridge, self._every = ridge, every
        self._samples, self._next_fit = 0, every

    @property
    def samples(self) -> int:
        """Number of samples so far."""
        return self._samples

    def __call__(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns values of states float64[k, F], float64[k]."""
        return self._expanded(states) @ self._weights

    def learn(self, state: NDArray[np.float64], value: float) -> bool:
        """Adds a sample: state float64[F] has the value `value`; returns True if the function was refitted."""
        row = self._expanded(state[None, :])[0]
        self._moments *= self._fade
        self._moments += row[:, None] * row
        self._products *= self._fade
        self._products += value * row
        self._samples += 1
        if self._samples < self._next_fit:
            return False
        self._weights[:] = np.linalg.solve(self._moments + self._ridge * np.eye(len(row)), self._products)
        self._next_fit = self._samples + max(self._every, int(_REFITTED_SHARE * self._samples))
        return True

    def pack(self) -> bytes:
        """Serialises the learned state."""
        upper = np.triu_indices(len(self._weights))
        counts = np.array([self._samples, self._next_fit], np.float64)
        return np.concatenate([counts, self._weights, self._products, self._moments[upper]]).astype("<f8").tobytes()

    @property
    def packed_bytes(self) -> int:
        """Length of the result of `pack`."""
        size = len(self._weights)
        return 8 * (2 + 2 * size + size * (size + 1) // 2)

    def check(self, packed: bytes) -> NDArray[np.float64]:
        """Returns the numbers in the result of `pack`; raises InvalidValueError if it does not fit."""
        if len(packed) != self.packed_bytes:
            raise InvalidValueError(
                "learned",
                _("{packed_bytes} bytes of an approximation", packed_bytes=self.packed_bytes),
                f"{len(packed)} bytes",
            )
        values = np.frombuffer(packed, "<f8")
        if not np.isfinite(values).all():
            raise InvalidValueError("learned", _("finite numbers"), values[~np.isfinite(values)][0])
        return values

    def restore(self, packed: bytes) -> None:
        """Restores the result of `pack`; raises InvalidValueError, and changes nothing, if it does not fit."""
        values, size = self.check(packed), len(self._weights)
        upper = np.triu_indices(size)
        self._samples, self._next_fit = int(values[0]), int(values[1])
        self._weights[:], self._products[:] = values[2 : 2 + size], values[2 + size : 2 + 2 * size]
        self._moments[upper] = self._moments.T[upper] = values[2 + 2 * size :]

    def _expanded(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        with_one = np.column_stack([np.ones(len(states)), states])
        return with_one[:, self._left] * with_one[:, self._right]


# Value of requesting a page of the frontier: Q(x, 1) of its features, learned while the crawler runs.
#
# Like `FeaturedController`, for a web that does not fit into memory: the surroundings of a page come as columns, from
# any store, and the learned state can be serialised.

_VERSION = b"appraiser 3\n"
_MEMORY = 20_000.0
_FITTED_EVERY = 8
_MIN_SHARE = 0.1
"""Lower limit of a page's estimated relevance, as a share of the initial estimate: keeps pages comparable."""
_TELLING = tuple(
    FRONTIER.index(name)
    for name in ("siblings' mean relevance when first retrieved", "anchor score", "anchor says something")
)
_HUB = re.compile(
    r"/$|/(?:index|default|home|links?|director(?:y|ies)|categor(?:y|ies)|tags?|topics?|lists?|archives?|browse|hub|portal"
    r"|resources|sitemap)\b[^/]*/?[^/]*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FrontierRows:
    """Known surroundings of k pages of the frontier; all columns are [k].

    parents, parents_sum, parents_best: number of known pages that link to it, sum and maximum of their relevance.
    anchors, anchor_sum: number of these links with a text that scores, and the sum of their scores. same_host: whether
    it has the host of its discoverer. child_count, children_retrieved, children_relevance: number of pages that its
    discoverer discovered, number of these that were retrieved, and the sum of their relevance then.
    """

    urls: Sequence[str]
    parents: NDArray[np.float64]
    parents_sum: NDArray[np.float64]
    parents_best: NDArray[np.float64]
    anchors: NDArray[np.float64]
    anchor_sum: NDArray[np.float64]
    same_host: NDArray[np.bool_]
    child_count: NDArray[np.float64]
    children_retrieved: NDArray[np.float64]
    children_relevance: NDArray[np.float64]

    def states(self) -> NDArray[np.float64]:
        """Returns their features, float64[k, 10], named by `link_features.FRONTIER`; all between 0 and about 1."""
        parents = np.maximum(self.parents, 1.0)
        mean = self.parents_sum / parents
        return np.column_stack(
            [
                mean,
                self.parents_best,
                self.children_retrieved / np.maximum(self.child_count, 1.0),
                # The mean of the parents counts as one sibling, which matters while few are known.
                (self.children_relevance + mean) / (self.children_retrieved + 1.0),
                self.anchor_sum / np.maximum(self.anchors, 1.0),
                self.anchors > 0,
                [like_hub(url) for url in self.urls],
                self.same_host,
                [path_depth(url) / DEEP for url in self.urls],
                np.log1p(parents) / MANY,
            ]
        ).reshape(-1, len(FRONTIER))


def discovered(
    urls: Sequence[str],
    relevance: float,
    anchors: NDArray[np.float64],
    same_host: NDArray[np.bool_],
    *,
    known: bool = True,
) -> FrontierRows:
    """Returns k pages just discovered on a page of this relevance, by links of these scores, [k] each.

    known: False for seeds, which have no discoverer.
    """
    nothing = np.zeros(len(urls))
    parents, by = nothing + known, nothing + known * relevance
    has_text = np.asarray(anchors > 0, np.float64)
    return FrontierRows(urls, parents, by, by, has_text, anchors, same_host, parents, nothing, nothing)


def like_hub(url: str) -> bool:
    """Returns True if a normalised URL looks like a list of links: a directory, an index, a category."""
    return _HUB.search(url.partition("?")[0].partition("://")[2]) is not None


def path_depth(url: str) -> int:
    """Returns the number of segments of a normalised URL's path."""
    return sum(1 for segment in url.partition("?")[0].split("/")[3:] if segment)


class FrontierValue:
    """Values pages of the frontier and learns from the results of requests, by equation (10) of [C].

    Q(x, 1) is a sum of two parts: the relevance of the page itself, initially estimated from its siblings and the texts
    of links to it and corrected by samples; and the value of what it leads to, initially 0. They are learned
    separately, so that the second, which is far less certain, does not impair the first; it is only a linear function.
    """

    def __init__(self, settings: RequestSettings) -> None:
        self._discount = settings.discount
        self._off = Approximation(len(FRONTIER), _MEMORY, ridge=2.0, every=_FITTED_EVERY)
        self._ahead, self._leave = (
            Approximation(len(FRONTIER), _MEMORY, ridge=40.0, every=_FITTED_EVERY, linear=True) for _phase in range(2)
        )
        self._learned = (self._off, self._ahead, self._leave)

    def value(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns Q(x, 1) of states float64[k, 10], float64[k], from 0 to 1 / (1 - γ)."""
        believed = _believed(states)
        relevance = np.clip(believed + self._off(states), _MIN_SHARE * believed, 1.0)
        return np.clip(relevance + np.maximum(self._ahead(states), 0.0), 0.0, self._most)

    def learn(self, state: NDArray[np.float64], reward: float, successors: NDArray[np.float64], price: float) -> None:
        """Learns that a request in `state` float64[10] had `reward` >= 0 and discovered pages float64[k, 10].

        price: value of the page requested last. The best successor is assumed to be requested next if its value is
        higher, all others to be left.
        """
        ahead = 0.0
        if len(successors):
            asked, left = self.value(successors), np.clip(self._leave(successors), 0.0, self._most)
            best = int(asked.argmax())
            ahead = self._discount * float(left.sum() + max(asked[best] - left[best], 0.0) * (asked[best] > price))
        self._off.learn(state, reward - float(_believed(state[None, :])[0]))
        self._ahead.learn(state, min(ahead, self._most))

    def learn_waiting(self, then: NDArray[np.float64], now: NDArray[np.float64], passed: int) -> None:
        """Learns from a page discovered in state `then`, passed over `passed` times, and requested in state `now`."""
        if passed > 0:
            self._leave.learn(then, self._discount**passed * float(self.value(now[None, :])[0]))

    def pack(self) -> bytes:
        """Serialises the learned state, versioned."""
        return _VERSION + b"".join(each.pack() for each in self._learned)

    def restore(self, packed: bytes) -> None:
        """Restores the result of `pack`.

        Raises InvalidValueError, and changes nothing, if the bytes are of another version or damaged.
        """
        rest = packed.removeprefix(_VERSION)
        if rest == packed:
            raise InvalidValueError(
                "learned", _("bytes that begin with {version!r}", version=_VERSION), packed[: len(_VERSION)]
            )
        parts = list[bytes]()
        for each in self._learned:
            parts.append(rest[: each.packed_bytes])
            rest = rest[each.packed_bytes :]
            each.check(parts[-1])
        if rest:
            raise InvalidValueError(
                "learned", _("bytes of three approximations"), _("{count} bytes more", count=len(rest))
            )
        for each, part in zip(self._learned, parts, strict=True):
            each.restore(part)

    @property
    def _most(self) -> float:
        return 1.0 / (1.0 - self._discount)


def _believed(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the initial estimate of relevance, float64[k]: mean of siblings and of link texts with a score."""
    siblings, anchor, has_text = (states[:, column] for column in _TELLING)
    return np.asarray((siblings + has_text * anchor) / (1.0 + has_text))


# Request controller of [C]'s experiment: a document's state is the identity of its discoverer.


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
            raise InvalidValueError("documents", _("at least 1"), documents)
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
            _index, _tie, state, version = heappop(self._heap)
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


# Request controller with function approximation: features describe documents, so that it generalises to other webs.
#
# [C] proposes it without building it. Frontier and collection compete by one index for one budget of requests.

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
            raise InvalidValueError("memory", _("above 0"), memory)
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
            raise InvalidValueError("documents", _("at least 1"), documents)
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
