"""Features of documents: their local states, from what is known around them ([C], section "Request Controller").

A document on the frontier is described by its known parents, its siblings (discovered by the same page), the texts of
the links to it and its URL; a retrieved one by itself and its known children.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

FRONTIER = (
    "parents' mean relevance",
    "best parent's relevance",
    "share of siblings retrieved",
    "siblings' mean relevance when first retrieved",
    "anchor score",
    "anchor says something",
    "URL like a hub's",
    "same host as its discoverer",
    "depth of path",
    "known parents",
)
RETRIEVED = (
    "relevance",
    "children's mean relevance",
    "share of children changed",
    "time since last request",
    "share of requests that found a change",
)
DEEP, MANY = 10.0, 3.0
"""Depth of a path, and logarithm of a number of parents, that scale to 1."""


class RetrievedPage(Struct, frozen=True, gc=False):
    """Content of a retrieved page. links: int64[k], distinct documents; the rest describes them, each [k].

    anchor: score of the link's text in [0, 1], 0 without one. like_hub: its URL looks like a list of links. same_host:
    it has the host of this page. depth: number of segments of its path.
    """

    relevance: float
    links: NDArray[np.int64]
    anchor: NDArray[np.float64]
    like_hub: NDArray[np.bool_]
    same_host: NDArray[np.bool_]
    depth: NDArray[np.int64]


class LinkFeatures:
    """The known part of a link graph, and the features of its documents.

    documents: their maximum number; they are numbered from 0. patience > 0: time constant, in requests, of the feature
    for the time since a document's last request.
    """

    def __init__(self, documents: int, patience: float) -> None:
        self._patience = patience
        self.known = np.zeros(documents, np.bool_)
        self.retrieved = np.zeros(documents, np.bool_)
        self.relevance = np.zeros(documents)
        self._first_parent = np.full(documents, -1)
        self._parents, self._parents_sum, self._parents_best = (np.zeros(documents) for _ in range(3))
        self._anchors, self._anchor_sum = np.zeros(documents), np.zeros(documents)
        self._like_hub, self._same_host = np.zeros(documents, np.bool_), np.zeros(documents, np.bool_)
        self._depth = np.zeros(documents)
        self._child_count, self._children_retrieved, self._children_relevance = (np.zeros(documents) for _ in range(3))
        self._children, self._children_sum, self._children_changed = (np.zeros(documents) for _ in range(3))
        self._asked, self._found, self._last = (np.zeros(documents) for _ in range(3))
        self._links: dict[int, NDArray[np.int64]] = {}
        self._linked_by: dict[int, list[int]] = {}

    def start(self, document: int) -> None:
        """Adds a start document, without known links to it."""
        self.known[document] = True

    def take_in(self, document: int, page: RetrievedPage, step: int, *, changed: bool) -> NDArray[np.int64]:
        """Adds the result of requesting a known document; returns the documents that it discovered, int64[k].

        step: number of the request; changed: whether the content is new, True for a first request.
        """
        first = not self.retrieved[document]
        self._judge(document, page.relevance, step, first=first, changed=changed)
        if not first and not changed:
            return np.empty(0, np.int64)
        self._unlink(document)
        discovered = page.links[~self.known[page.links]]
        self._link(document, page)
        self.known[discovered] = True
        self._first_parent[discovered] = document
        self._child_count[document] += len(discovered)
        return discovered

    def forget(self, document: int, step: int) -> None:
        """Removes a document that is gone: drops its links and marks it as not retrieved."""
        if self.retrieved[document]:
            self._judge(document, 0.0, step, first=False, changed=True)
            self._children[self._linked_by.get(document, [])] -= 1
        self._unlink(document)
        self.retrieved[document] = False

    def affected(self, document: int) -> NDArray[np.int64]:
        """Returns the documents whose state changed when `document` was added: those it links to, and its siblings."""
        links = self._links.get(document, np.empty(0, np.int64))
        parent_document = int(self._first_parent[document])
        return np.concatenate([links, self._links[parent_document]]) if parent_document in self._links else links

    def frontier(self, documents: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns states of frontier documents, float64[k, 10], named by `FRONTIER`; all between 0 and about 1."""
        parents = np.maximum(self._parents[documents], 1.0)
        mean = self._parents_sum[documents] / parents
        by = self._first_parent[documents]
        siblings, anchors = self._children_retrieved[by], self._anchors[documents]
        return np.column_stack(
            [
                mean,
                self._parents_best[documents],
                siblings / np.maximum(self._child_count[by], 1.0),
                # The mean of the parents counts as one sibling, which matters while few are known.
                (self._children_relevance[by] + mean) / (siblings + 1.0),
                self._anchor_sum[documents] / np.maximum(anchors, 1.0),
                anchors > 0,
                self._like_hub[documents],
                self._same_host[documents],
                self._depth[documents] / DEEP,
                np.log1p(parents) / MANY,
            ]
        )

    def held(self, documents: NDArray[np.int64], step: int) -> NDArray[np.float64]:
        """Returns states of retrieved documents, float64[k, 5], named by `RETRIEVED`; all between 0 and about 1."""
        children = np.maximum(self._children[documents], 1.0)
        waited = step - self._last[documents]
        return np.column_stack(
            [
                self.relevance[documents],
                self._children_sum[documents] / children,
                self._children_changed[documents] / children,
                1.0 - np.exp(-waited / self._patience),
                (self._found[documents] + 0.5) / (self._asked[documents] + 1.0),
            ]
        )

    def _judge(self, document: int, relevance: float, step: int, *, first: bool, changed: bool) -> None:
        """Updates the document, its parents' children and its siblings by the result of a request."""
        parents = self._linked_by.get(document, [])
        if first:
            self._children[parents] += 1
            by = self._first_parent[document]
            self._children_retrieved[by] += 1
            self._children_relevance[by] += relevance
        else:
            self._asked[document] += 1
            self._found[document] += changed
            self._children_changed[parents] += changed
        self._children_sum[parents] += relevance - self.relevance[document]
        for child in self._links.get(document, ()):
            self._parents_sum[child] += relevance - self.relevance[document]
        self.relevance[document] = relevance
        self.retrieved[document] = True
        self._last[document] = step
        self._children_changed[document] = 0.0

    def _link(self, document: int, page: RetrievedPage) -> None:
        new, has_text = page.links, page.anchor > 0
        self._links[document] = new
        for child in new.tolist():
            self._linked_by.setdefault(child, []).append(document)
        self._parents[new] += 1
        self._parents_sum[new] += page.relevance
        self._parents_best[new] = np.maximum(self._parents_best[new], page.relevance)
        self._anchors[new] += has_text
        self._anchor_sum[new] += page.anchor
        unknown = ~self.known[new]
        self._like_hub[new] |= page.like_hub
        self._same_host[new[unknown]] = page.same_host[unknown]
        self._depth[new] = page.depth
        held = new[self.retrieved[new]]
        self._children[document] = len(held)
        self._children_sum[document] = self.relevance[held].sum()

    def _unlink(self, document: int) -> None:
        """Removes the links of an earlier version, but keeps the scores of their anchors."""
        old = self._links.pop(document, None)
        if old is None:
            return
        for child in old.tolist():
            self._linked_by[child].remove(document)
        self._parents[old] -= 1
        self._parents_sum[old] -= self.relevance[document]
