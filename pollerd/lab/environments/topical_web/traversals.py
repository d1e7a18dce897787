"""Schedules of requests through a static topical web: the order in which its pages are retrieved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pollerd.crawler.controllers import FeaturedController, LearnedQ, RequestOutcome, RequestSettings, TabularController
from pollerd.crawler.link_features import RetrievedPage
from pollerd.crawler.quality import performance, recall_by_request
from pollerd.lab.environments.topical_web.graph import TopicalGraph

Schedule = NDArray[np.int64]
"""All pages of a graph in the order of their requests, int64[n]."""
Priority = Callable[[int, int], float]
"""(page on the frontier, page that discovered it) -> priority, larger first."""


def score(graph: TopicalGraph, schedule: Schedule) -> float:
    """Returns the performance of a schedule, equation (3) of [C] with F = 1, over its duration: mean recall."""
    return performance(recall_by_request(graph.relevance, schedule))


def unconstrained(graph: TopicalGraph) -> Schedule:
    """Returns the upper bound: by falling relevance, as if the start document linked to every page."""
    return np.argsort(-graph.relevance, kind="stable")


def best_first(graph: TopicalGraph, priority: Priority) -> Schedule:
    """Takes the page of highest priority on the frontier, the one discovered first on ties."""
    known = np.zeros(len(graph), np.bool_)
    known[0] = True
    heap, discovered, order = [(0.0, 0, 0)], 1, list[int]()
    while heap:
        page = heappop(heap)[2]
        order.append(page)
        for link in _discovered(graph, page, known):
            heappush(heap, (-priority(link, page), discovered, link))
            discovered += 1
    return np.array(order)


def frontier_greedy(graph: TopicalGraph) -> Schedule:
    """[C]'s frontier-greedy: by the relevance of the pages on the frontier, given before they are retrieved."""
    relevance = graph.relevance.tolist()
    return best_first(graph, lambda page, parent: relevance[page])


def parent_greedy(graph: TopicalGraph) -> Schedule:
    """By the relevance of the page that discovered them: frontier-greedy without knowledge of the relevance."""
    relevance = graph.relevance.tolist()
    return best_first(graph, lambda page, parent: relevance[parent])


def breadth_first(graph: TopicalGraph) -> Schedule:
    """In the order of discovery."""
    return best_first(graph, lambda page, parent: 0.0)


def at_random(graph: TopicalGraph, schedules: int, rng: np.random.Generator) -> Iterator[Schedule]:
    """Yields schedules that take a uniformly random page of the frontier."""
    ends = graph.first.tolist()
    targets = graph.target.tolist()
    links = [targets[start:end] for start, end in pairwise(ends)]
    for _ in range(schedules):
        yield np.array(_at_random(links, rng.random(len(links)).tolist()))


def _at_random(links: Sequence[Sequence[int]], draws: Sequence[float]) -> list[int]:
    known, frontier, order = bytearray(len(links)), [0], list[int]()
    known[0] = True
    for draw in draws:
        place = int(draw * len(frontier))
        page, frontier[place] = frontier[place], frontier[-1]
        frontier.pop()
        order.append(page)
        for link in links[page]:
            if not known[link]:
                known[link] = True
                frontier.append(link)
    return order


def learned(
    graph: TopicalGraph, settings: RequestSettings, traversals: int, rng: np.random.Generator
) -> Iterator[Schedule]:
    """Yields the schedules of [C]'s crawler, which learns from each."""
    controller = TabularController(len(graph), settings, rng)
    relevance = graph.relevance.tolist()
    for number in range(traversals):
        if number:
            controller.begin()
        known = np.zeros(len(graph), np.bool_)
        known[0] = True
        controller.arrive(0, [0])
        order = list[int]()
        while (page := controller.choose()) is not None:
            order.append(page)
            controller.retrieved(page, relevance[page], rng.permutation(_discovered(graph, page, known)).tolist())
        yield np.array(order)


def by_features(
    graph: TopicalGraph, learned_q: LearnedQ, settings: RequestSettings, rng: np.random.Generator
) -> Schedule:
    """Returns one traversal by the feature-based crawler, starting from `learned_q`, which it updates."""
    controller = FeaturedController(len(graph), learned_q, settings, rng)
    controller.start(0)
    order = list[int]()
    while (page := controller.choose()) is not None:
        order.append(page)
        controller.retrieved(page, shown(graph, page, float(graph.relevance[page])), RequestOutcome.FIRST)
    return np.array(order)


def shown(graph: TopicalGraph, page: int, relevance: float) -> RetrievedPage:
    """Returns what a crawler sees of a retrieved page."""
    links = graph.links(page)
    same_host = graph.host[links] == graph.host[page]
    return RetrievedPage(relevance, links, graph.anchors(page), graph.hub_hint[links], same_host, graph.depth[links])


def _discovered(graph: TopicalGraph, page: int, known: NDArray[np.bool_]) -> list[int]:
    """Returns the targets of a page's links that were not known, and marks them as known."""
    links = graph.links(page)
    new = links[~known[links]]
    known[new] = True
    return [int(page) for page in new]
