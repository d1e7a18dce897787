"""The value of asking for a page of the frontier: Q(x, 1) of its features, learned while the crawler runs.

As `featured`, for a web that does not fit into memory: what is known around a page comes as columns, from wherever they
are kept, and what was learned can be kept as bytes.
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
"""A page is never taken for less relevant than this share of what it was believed to be: there is always an order."""
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
    """What is known around k pages of the frontier; all columns are [k].

    parents, parents_sum, parents_best: number of known pages that link to it, sum and largest of their relevance.
    anchors, anchor_sum: those of these links whose text says something, and the sum of their scores. same_host: as its
    discoverer. brood, brood_asked, brood_sum: pages that its discoverer discovered, how many of them were retrieved,
    and the sum of their relevance then.
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
        """Their features, float64[k, 10], named by `local_states.FRONTIER`; all between 0 and about 1."""
        parents = np.maximum(self.parents, 1.0)
        mean = self.parents_sum / parents
        return np.column_stack(
            [
                mean,
                self.parents_best,
                self.children_retrieved / np.maximum(self.child_count, 1.0),
                # The parents stand for a sibling, as long as few are known.
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
    """k pages in the moment of their discovery on a page of this relevance, by links of these scores, [k] each.

    known: False for seeds, which were discovered on none.
    """
    nothing = np.zeros(len(urls))
    parents, by = nothing + known, nothing + known * relevance
    has_text = np.asarray(anchors > 0, np.float64)
    return FrontierRows(urls, parents, by, by, has_text, anchors, same_host, parents, nothing, nothing)


def like_hub(url: str) -> bool:
    """True where a normalised URL looks like that of a list of links: a directory, an index, a category."""
    return _HUB.search(url.partition("?")[0].partition("://")[2]) is not None


def path_depth(url: str) -> int:
    """Segments of a normalised URL's path."""
    return sum(1 for segment in url.partition("?")[0].split("/")[3:] if segment)


class FrontierValue:
    """Values pages of the frontier and learns from what requests of them brought, by equation (10) of [C].

    Q(x, 1) is the sum of two: the relevance of the page itself, believed to be that of its siblings and of the texts of
    links to it until samples tell how far that is off, and what it leads to, believed to be nothing. Learned apart, the
    first is no worse for the second, which is known much less surely: of it only what is linear is learned.
    """

    def __init__(self, settings: RequestSettings) -> None:
        self._discount = settings.discount
        self._off = Approximation(len(FRONTIER), _MEMORY, ridge=2.0, every=_FITTED_EVERY)
        self._ahead, self._leave = (
            Approximation(len(FRONTIER), _MEMORY, ridge=40.0, every=_FITTED_EVERY, linear=True) for _ in range(2)
        )
        self._learned = (self._off, self._ahead, self._leave)

    def value(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Q(x, 1) of states float64[k, 10], float64[k], from 0 to 1 / (1 - γ)."""
        believed = _believed(states)
        relevance = np.clip(believed + self._off(states), _LEAST_SHARE * believed, 1.0)
        return np.clip(relevance + np.maximum(self._ahead(states), 0.0), 0.0, self._most)

    def learn(self, state: NDArray[np.float64], reward: float, successors: NDArray[np.float64], price: float) -> None:
        """A request of a page in `state` float64[10] brought `reward` >= 0 and discovered pages float64[k, 10].

        price: worth of what was asked for last. The best of the heirs is taken to be asked for next where it is worth
        more, all others to be left.
        """
        ahead = 0.0
        if len(successors):
            asked, left = self.value(successors), np.clip(self._leave(successors), 0.0, self._most)
            best = int(asked.argmax())
            ahead = self._discount * float(left.sum() + max(asked[best] - left[best], 0.0) * (asked[best] > price))
        self._off.learn(state, reward - float(_believed(state[None, :])[0]))
        self._ahead.learn(state, min(ahead, self._most))

    def learn_waiting(self, then: NDArray[np.float64], now: NDArray[np.float64], passed: int) -> None:
        """A page was discovered in the state `then`, passed over `passed` times, and asked for in the state `now`."""
        if passed > 0:
            self._leave.learn(then, self._discount**passed * float(self.value(now[None, :])[0]))

    def pack(self) -> bytes:
        """All that was learned, versioned."""
        return _VERSION + b"".join(each.pack() for each in self._learned)

    def restore(self, packed: bytes) -> None:
        """Puts back what `pack` gave.

        Raises InvalidValueError, and changes nothing, where the bytes are another version's, or damaged.
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
    """Relevance before any sample, float64[k]: half its siblings', half the links' texts' where these tell."""
    siblings, anchor, has_text = (states[:, column] for column in _TELLING)
    return np.asarray((siblings + has_text * anchor) / (1.0 + has_text))
