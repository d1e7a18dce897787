"""Value of requesting a page of the frontier: Q(x, 1) of its features, learned while the crawler runs.

Like `feature_controller`, for a web that does not fit into memory: the surroundings of a page come as columns, from any
store, and the learned state can be serialised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.crawling.control.linear_q import Approximation
from pollerd.crawling.control.link_features import DEEP, FRONTIER, MANY
from pollerd.crawling.control.requests import RequestSettings
from pollerd.errors import InvalidValueError

_VERSION = b"appraiser 3\n"
_MEMORY = 20_000.0
_FITTED_EVERY = 8
_LEAST_SHARE = 0.1
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
            Approximation(len(FRONTIER), _MEMORY, ridge=40.0, every=_FITTED_EVERY, linear=True) for _ in range(2)
        )
        self._learned = (self._off, self._ahead, self._leave)

    def value(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns Q(x, 1) of states float64[k, 10], float64[k], from 0 to 1 / (1 - γ)."""
        believed = _believed(states)
        relevance = np.clip(believed + self._off(states), _LEAST_SHARE * believed, 1.0)
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
            raise InvalidValueError("learned", f"bytes that begin with {_VERSION!r}", packed[: len(_VERSION)])
        parts = list[bytes]()
        for each in self._learned:
            parts.append(rest[: each.packed_bytes])
            rest = rest[each.packed_bytes :]
            each.check(parts[-1])
        if rest:
            raise InvalidValueError("learned", "bytes of three approximations", f"{len(rest)} bytes more")
        for each, part in zip(self._learned, parts, strict=True):
            each.restore(part)

    @property
    def _most(self) -> float:
        return 1.0 / (1.0 - self._discount)


def _believed(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the initial estimate of relevance, float64[k]: mean of siblings and of link texts with a score."""
    siblings, anchor, has_text = (states[:, column] for column in _TELLING)
    return np.asarray((siblings + has_text * anchor) / (1.0 + has_text))
