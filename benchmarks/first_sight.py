"""Order of the focused crawler's requests on many unseen webs, in a minute: its learner alone, without a daemon.

Recall of relevance by number of requests for the live crawler's learner (`crawler/controllers.py`), with
its own scores of the texts of pages and links, one request at a time, without waiting for hosts or refreshes; compared
with parent-greedy by true relevance and by the crawler's own scores, frontier-greedy, which knows the relevance, and
breadth-first. Prints the mean over the webs, and the mean lead over parent-greedy with its standard error.

    python benchmarks/first_sight.py [--kind open|gated] [--webs 24] [--pages 1000] [--requests 500] [--seed 0]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.crawler.controllers import FrontierValue, RequestSettings
from pollerd.crawler.link_features import LinkFeatures, RetrievedPage
from pollerd.crawler.pages import recipe_of, topic_of
from pollerd.crawler.quality import recall_by_request
from pollerd.crawler.topics import TopicSettings
from pollerd.lab.environments.topical_web import traversals
from pollerd.lab.environments.topical_web.graph import GATED, TopicalGraph, generate
from pollerd.lab.environments.topical_web.server import TopicalWeb

SEED = 52_711
"""Seed of this benchmark's webs, different from all other experiments."""
EXPLORATION = 0.01
"""As in the live crawler, which explores random hosts; this one explores random pages."""
POINTS = (50, 100, 200, 300, 500, 750)
BASE = "parent-greedy"


@dataclass(frozen=True)
class Scored:
    """A web with the crawler's scores: of pages float64[n], of the links of each page float64[k]."""

    graph: TopicalGraph
    page: NDArray[np.float64]
    anchors: list[NDArray[np.float64]]


def scored(web: TopicalWeb) -> Scored:
    """Scores all texts of a web."""
    examples, keywords, background = map(tuple, (web.examples(), web.keywords(), web.background()))
    topic = topic_of(recipe_of(TopicSettings("first sight", examples, keywords, background)))
    texts = [web.texts(page) for page in range(len(web.graph))]
    pages = [topic.score(" ".join((text, *anchors))) for text, anchors in texts]
    says = [web.graph.anchors(page) > 0 for page in range(len(web.graph))]
    anchors = [topic.scores(of_links) * tells for (_, of_links), tells in zip(texts, says, strict=True)]
    return Scored(web.graph, np.array(pages), anchors)


def first_sight(web: Scored, requests: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns pages in the order of the learner's requests, int64[m]."""
    graph, settings = web.graph, RequestSettings(exploration=EXPLORATION)
    frontier_value, states = FrontierValue(settings), LinkFeatures(len(graph), patience=float(len(graph)))
    states.start(0)
    frontier, since, price = np.zeros(len(graph), np.bool_), np.zeros(len(graph), np.int64), 0.0
    frontier[0] = True
    then: dict[int, NDArray[np.float64]] = {}
    order = list[int]()
    while len(order) < requests and frontier.any():
        waiting = np.flatnonzero(frontier)
        known = states.frontier(waiting)
        values = frontier_value.value(known)
        at = int(rng.integers(len(waiting)) if rng.random() < settings.exploration else values.argmax())
        page, step = int(waiting[at]), len(order)
        if page in then:
            frontier_value.learn_waiting(then.pop(page), known[at], step - int(since[page]))
        found = states.take_in(page, _shown(web, page), step, changed=True)
        successors = states.frontier(found)
        frontier_value.learn(known[at], float(web.page[page]), successors, price)
        then |= dict(zip(found.tolist(), successors, strict=True))
        frontier[page], frontier[found], since[found] = False, True, step + 1
        price = float(values[at])
        order.append(page)
    return np.array(order, np.int64)


def _shown(web: Scored, page: int) -> RetrievedPage:
    graph, links = web.graph, web.graph.links(page)
    same_host = graph.host[links] == graph.host[page]
    return RetrievedPage(
        float(web.page[page]), links, web.anchors[page], graph.hub_hint[links], same_host, graph.depth[links]
    )


def schedules(web: Scored, requests: int, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
    """Returns the learner's order and those to compare with."""
    own = web.page.tolist()
    return {
        BASE: traversals.parent_greedy(web.graph),
        "parent-greedy by own scores": traversals.best_first(web.graph, lambda page, parent: own[parent]),
        "fringe-greedy, told": traversals.frontier_greedy(web.graph),
        "breadth-first": traversals.breadth_first(web.graph),
        "robot": first_sight(web, requests, rng),
    }


def main() -> None:
    """Runs the benchmark and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("open", "gated"), default="open")
    parser.add_argument("--webs", type=int, default=24)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    points = [point for point in POINTS if point <= given.requests]
    found: dict[str, list[list[float]]] = {}
    for number in range(given.webs):
        seed = np.random.SeedSequence((SEED, given.seed, number))
        graph = generate(given.pages, seed, GATED if given.kind == "gated" else None)
        web = scored(TopicalWeb(graph, seed=number))
        for name, order in schedules(web, given.requests, np.random.default_rng(number)).items():
            recall = recall_by_request(graph.relevance, order)
            found.setdefault(name, []).append([float(recall[min(point, len(recall)) - 1]) for point in points])
    base = np.array(found[BASE])
    print(f"{given.webs} {given.kind} webs of {given.pages} pages: recall, and what it is ahead of {BASE} by")
    print(f"{'requests':28}" + "".join(f"{point:>22}" for point in points))
    for name, recalls in found.items():
        each = np.array(recalls)
        ahead, error = each.mean(0) - base.mean(0), np.full(len(points), np.nan)
        if len(base) > 1:
            error = (each - base).std(0, ddof=1) / len(base) ** 0.5
        cells = (f"{a:8.3f} {b:+.3f} ± {c:.3f}" for a, b, c in zip(each.mean(0), ahead, error, strict=True))
        print(f"{name:28}" + "".join(cells))


if __name__ == "__main__":
    main()
