"""Schedules of requests through a topical web that stands still: in which order its pages are retrieved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pollerd.crawling.control.feature_controller import FeaturedController, LearnedQ
from pollerd.crawling.control.link_features import RetrievedPage
from pollerd.crawling.control.quality import performance, recall_by_request
from pollerd.crawling.control.requests import RequestSettings
from pollerd.crawling.control.rewards import RequestOutcome
from pollerd.crawling.control.tabular_controller import TabularController
from pollerd.simulation.environments.topical_web.graph import TopicalGraph

Schedule = NDArray[np.int64]
"""All pages of a graph in the order of their requests, int64[n]."""
Priority = Callable[[int, int], float]
"""(page on the frontier, page that discovered it) -> larger first."""


def score(graph: TopicalGraph, schedule: Schedule) -> float:
    """Performance of a schedule, equation (3) of [C] with F = 1, over its duration: mean recall."""
    return performance(recall_by_request(graph.relevance, schedule))


def unconstrained(graph: TopicalGraph) -> Schedule:
    """The upper bound: by falling relevance, as if the start document linked to every page."""
    return np.argsort(-graph.relevance, kind="stable")


def best_first(graph: TopicalGraph, priority: Priority) -> Schedule:
    """The page of highest priority on the frontier, the one discovered first among equals."""
    known = np.zeros(len(graph), np.bool_)
    known[0] = True
    heap, found, order = [(0.0, 0, 0)], 1, list[int]()
    while heap:
        page = heappop(heap)[2]
        order.append(page)
        for link in _discovered(graph, page, known):
            heappush(heap, (-priority(link, page), found, link))
            found += 1
    return np.array(order)


def frontier_greedy(graph: TopicalGraph) -> Schedule:
    """[C]'s: by the relevance of the pages on the frontier, which are told to it before they are retrieved."""
    relevance = graph.relevance.tolist()
    return best_first(graph, lambda page, parent: relevance[page])


def parent_greedy(graph: TopicalGraph) -> Schedule:
    """By the relevance of the page that discovered them: frontier-greedy that is told nothing."""
    relevance = graph.relevance.tolist()
    return best_first(graph, lambda page, parent: relevance[parent])


def breadth_first(graph: TopicalGraph) -> Schedule:
    """In the order of discovery."""
    return best_first(graph, lambda page, parent: 0.0)


def at_random(graph: TopicalGraph, schedules: int, rng: np.random.Generator) -> Iterator[Schedule]:
    """Schedules that take any page of the frontier, with equal chances."""
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
    """One schedule after the other by [C]'s robot, which learns from each."""
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
    """One traversal by the crawler that knows pages by features, with what `learned_q` knows; it learns on."""
    controller = FeaturedController(len(graph), learned_q, settings, rng)
    controller.start(0)
    order = list[int]()
    while (page := controller.choose()) is not None:
        order.append(page)
        controller.retrieved(page, shown(graph, page, float(graph.relevance[page])), RequestOutcome.FIRST)
    return np.array(order)


def shown(graph: TopicalGraph, page: int, relevance: float) -> RetrievedPage:
    """What a crawler sees of a page that it retrieves."""
    links = graph.links(page)
    same_host = graph.host[links] == graph.host[page]
    return RetrievedPage(relevance, links, graph.anchors(page), graph.hub_hint[links], same_host, graph.depth[links])


def _discovered(graph: TopicalGraph, page: int, known: NDArray[np.bool_]) -> list[int]:
    """Targets of a page's links that were not known; now they are."""
    links = graph.links(page)
    new = links[~known[links]]
    known[new] = True
    return [int(page) for page in new]
