"""Generated topical web: hosts, hubs and authorities, relevance correlated along links, pages that change and go.

It replaces the graph of [C], which is not published. Its constants were fixed, with the generator, before a crawler
first ran on it: a crawler may be improved on graphs of other seeds, these numbers may not be tuned.

- A host has its own topic; its sections and pages deviate from it. So relevance is similar along links.
- A host is a tree of pages below its root, with links across and back to the root.
- A hub has little content and many links to other hosts; an authority has content, and hubs link to it. Links to other
  hosts mostly stay near the topic of their page.
- A link has an anchor score, a noisy estimate of the relevance of its target, or none. A URL may look like a hub's.
- Page 0 is the start document. It links to 15 pages, as in [C]: those that reach most pages within two links, the depth
  to which [C] collected its pages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError

MIN_PAGES, MAX_PAGES = 200, 1_000_000
STARTS = 15
SEED = 736_944
"""Graph number k of the experiment uses `SeedSequence((SEED, k))`; crawlers are developed on graphs of other seeds."""
_CANDIDATES = 60
HUB, AUTHORITY, ORDINARY = 0, 1, 2


@dataclass(frozen=True)
class Constants:
    """Parameters of the generator; none was ever fitted to a crawler.

    Topics are log odds: `topic_*` of hosts, sections and pages. `content` is the share of a page's closeness to the
    topic that becomes relevance, by kind. `near` is the spread of outward links, as a share of all popular pages in the
    order of their topics. `gated` is the share of authorities, without roots, to which only hubs link.
    """

    pages_per_host: float = 40.0
    host_size_tail: float = 1.3
    children: int = 8
    topic_mean: float = -2.5
    topic_hosts: float = 1.5
    topic_sections: float = 0.6
    topic_pages: float = 0.6
    kinds: tuple[float, float, float] = (0.03, 0.15, 0.82)
    content: tuple[float, float, float] = (0.2, 1.0, 0.35)
    links_out: tuple[float, float, float] = (40.0, 0.5, 1.0)
    links_across: float = 2.0
    near: float = 0.03
    on_topic: float = 0.7
    says_so_in_anchor: float = 0.7
    anchor_noise: float = 0.15
    looks_like_hub: tuple[float, float, float] = (0.6, 0.05, 0.05)
    changes: float = 0.3
    changes_spread: float = 1.2
    deletions: float = 0.05
    drift: float = 0.3
    gated: float = 0.0


GATED = Constants(gated=0.9, content=(0.02, 1.0, 0.1))
"""A harder web, in which most relevant pages are behind hubs that look worthless.

Added, with its constants, after frontier-greedy had reached .987 of the upper bound on a web of the first kind, and
before any crawler ran on one of this kind.
"""


@dataclass(frozen=True)
class TopicalGraph:
    """A web of n pages, all reachable from page 0.

    relevance float64[n] in [0, 1), page 0's is 0; host, depth int64[n] (depth below the host's root); kind int8[n];
    hub_hint bool[n]. The links of page i are `target[first[i] : first[i + 1]]`, int64, with `anchor` float64 in [0, 1]
    (0: no information). change_rate float64[n]: modifications per n requests; deletion_rate: deletions per n requests.
    """

    relevance: NDArray[np.float64]
    host: NDArray[np.int64]
    depth: NDArray[np.int64]
    kind: NDArray[np.int8]
    hub_hint: NDArray[np.bool_]
    first: NDArray[np.int64]
    target: NDArray[np.int64]
    anchor: NDArray[np.float64]
    change_rate: NDArray[np.float64]
    deletion_rate: float
    drift: float

    def __len__(self) -> int:
        return len(self.relevance)

    def links(self, page: int) -> NDArray[np.int64]:
        """Returns the targets of a page's links, int64[k], each once."""
        return self.target[self.first[page] : self.first[page + 1]]

    def anchors(self, page: int) -> NDArray[np.float64]:
        """Returns the anchor scores of the same links, float64[k]."""
        return self.anchor[self.first[page] : self.first[page + 1]]


def generate(pages: int, seed: np.random.SeedSequence, constants: Constants | None = None) -> TopicalGraph:
    """Generates a web of `pages` pages (200 to 10^6), minus those not reachable from page 0; deterministic by seed."""
    if not MIN_PAGES <= pages <= MAX_PAGES:
        raise InvalidValueError("pages", f"from {MIN_PAGES} to {MAX_PAGES}", pages)
    made, rng = constants or Constants(), np.random.default_rng(seed)
    host, place = _hosts(pages, made, rng)
    topic = _topics(host, place, made, rng)
    kind = rng.choice(3, pages, p=made.kinds).astype(np.int8)
    relevance = np.array(made.content)[kind] / (1.0 + np.exp(-topic))
    source, target = _links(host, place, topic, kind, made, rng)
    keep, source, target = _reached(pages, source, target)
    anchor = np.where(
        rng.random(len(target)) < made.says_so_in_anchor,
        np.clip(np.append(0.0, relevance[keep])[target] + rng.normal(0.0, made.anchor_noise, len(target)), 0.0, 1.0),
        0.0,
    )
    hint = rng.random(pages) < np.array(made.looks_like_hub)[kind]
    rate = made.changes * np.exp(rng.normal(0.0, made.changes_spread, pages))
    return TopicalGraph(
        relevance=np.append(0.0, relevance[keep]),
        host=np.append(-1, host[keep]),
        depth=np.append(0, _depth(place, made.children)[keep]),
        kind=np.append(np.int8(ORDINARY), kind[keep]),
        hub_hint=np.append(False, hint[keep]),
        first=np.searchsorted(source, np.arange(len(keep) + 2)),
        target=target,
        anchor=anchor,
        change_rate=np.append(0.0, rate[keep]),
        deletion_rate=made.deletions,
        drift=made.drift,
    )


def _hosts(pages: int, made: Constants, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the host of each page, and its place within the host: 0 is the root; host sizes are heavy-tailed."""
    number = max(int(pages / made.pages_per_host), 2)
    size = rng.pareto(made.host_size_tail, number) + 0.1
    bounds = np.unique(np.floor(np.cumsum(size) / size.sum() * pages).astype(np.int64))
    starts = np.append(0, bounds[(bounds > 0) & (bounds < pages)])
    host = np.searchsorted(starts, np.arange(pages), side="right") - 1
    return host, np.arange(pages) - starts[host]


def _depth(place: NDArray[np.int64], children: int) -> NDArray[np.int64]:
    """Returns the levels below the root of a tree with `children` children per page."""
    filled = np.cumsum(children ** np.arange(20, dtype=np.float64))
    return np.searchsorted(filled, place.astype(np.float64), side="right")


def _section(place: NDArray[np.int64], children: int) -> NDArray[np.int64]:
    """Returns the child of the root that each page is or is below; -1 for the root."""
    section = place.copy()
    while (section > children).any():
        section = np.where(section > children, (section - 1) // children, section)
    return section - 1


def _topics(
    host: NDArray[np.int64], place: NDArray[np.int64], made: Constants, rng: np.random.Generator
) -> NDArray[np.float64]:
    hosts = int(host[-1]) + 1
    of_host = rng.normal(made.topic_mean, made.topic_hosts, hosts)
    of_section = rng.normal(0.0, made.topic_sections, (hosts, made.children + 1))
    section = _section(place, made.children) + 1
    return of_host[host] + of_section[host, section] + rng.normal(0.0, made.topic_pages, len(host))


def _links(
    host: NDArray[np.int64],
    place: NDArray[np.int64],
    topic: NDArray[np.float64],
    kind: NDArray[np.int8],
    made: Constants,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns sources and targets of all links, int64[m] each."""
    pages = np.arange(len(host))
    root = pages - place
    size = np.bincount(host)[host]
    below = pages[place > 0]
    parent = root[below] + (place[below] - 1) // made.children
    across = np.repeat(pages, rng.poisson(made.links_across, len(pages)))
    other = root[across] + (rng.random(len(across)) * size[across]).astype(np.int64)
    number = np.where(
        kind == HUB,
        rng.geometric(1.0 / made.links_out[HUB], len(pages)),
        rng.poisson(np.array(made.links_out)[kind]),
    )
    out = np.repeat(pages, number)
    sources = np.concatenate([parent, below, across, out])
    targets = np.concatenate([below, root[below], other, _outward(out, topic, kind, place, made, rng)])
    # A separate generator, so that gates do not affect the rest of the web.
    gate = (kind == AUTHORITY) & (place > 0) & (rng.spawn(1)[0].random(len(host)) < made.gated)
    open_ = ~gate[targets] | (kind[sources] == HUB)
    return sources[open_], targets[open_]


def _outward(
    out: NDArray[np.int64],
    topic: NDArray[np.float64],
    kind: NDArray[np.int8],
    place: NDArray[np.int64],
    made: Constants,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Returns the targets of links to other hosts: authorities and roots of similar topics, sometimes any root."""
    popular = np.flatnonzero((kind == AUTHORITY) | (place == 0))
    popular = popular[np.argsort(topic[popular], kind="stable")]
    rank = np.searchsorted(topic[popular], topic[out]) + rng.laplace(0.0, made.near * len(popular), len(out))
    alike = popular[np.clip(rank, 0, len(popular) - 1).astype(np.int64)]
    roots = np.flatnonzero(place == 0)
    return np.where(rng.random(len(out)) < made.on_topic, alike, roots[rng.integers(0, len(roots), len(out))])


def _reached(
    pages: int, source: NDArray[np.int64], target: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pages to keep, and links between them and from the start document, page 0 (page p becomes p + 1)."""
    link = np.unique(source[source != target] * pages + target[source != target])
    source, target = link // pages, link % pages
    first = np.searchsorted(source, np.arange(pages + 1))
    starts = _starts(first, target)
    seen = _reach(first, target, starts, levels=pages)
    keep = np.flatnonzero(seen)
    place = np.zeros(pages, np.int64)
    place[keep] = np.arange(len(keep)) + 1
    inner = seen[source]
    return (
        keep,
        np.concatenate([np.zeros(len(starts), np.int64), place[source[inner]]]),
        np.concatenate([place[starts], place[target[inner]]]),
    )


def _starts(first: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Chooses 15 pages greedily, each from those with most links, by the number of further pages within two links."""
    degree = np.diff(first)
    seen = np.zeros(len(degree), np.bool_)
    starts: list[int] = []
    for _ in range(STARTS):
        degree[starts] = -1
        candidates = np.argsort(-np.where(seen & (degree > 0), 0, degree), kind="stable")[:_CANDIDATES]
        reached = [_reach(first, target, candidates[i : i + 1], levels=2) & ~seen for i in range(len(candidates))]
        best = int(np.argmax([each.sum() for each in reached]))
        starts.append(int(candidates[best]))
        seen |= reached[best]
    return np.sort(np.array(starts))


def _reach(
    first: NDArray[np.int64], target: NDArray[np.int64], pages: NDArray[np.int64], levels: int
) -> NDArray[np.bool_]:
    """Returns which pages are reachable from `pages` within `levels` links, bool[n], including `pages`."""
    reachable, frontier = np.zeros(len(first) - 1, np.bool_), pages
    reachable[pages] = True
    for _ in range(levels):
        lengths = first[frontier + 1] - first[frontier]
        begins = np.repeat(first[frontier] - np.append(0, np.cumsum(lengths)[:-1]), lengths)
        reached = np.unique(target[begins + np.arange(lengths.sum())])
        frontier = reached[~reachable[reached]]
        reachable[frontier] = True
        if not len(frontier):
            break
    return reachable
