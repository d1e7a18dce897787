"""Building a collection and keeping it fresh with one budget: the full model of [C], whose experiment is static."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from pollerd.crawler.controllers import FeaturedController, LearnedQ, Passive, RequestOutcome, RequestSettings
from pollerd.lab.environments.topical_web.graph import generate
from pollerd.lab.environments.topical_web.life import LivingWeb
from pollerd.lab.environments.topical_web.traversals import by_features, shown
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.focused_crawler.webs import (
    KINDS,
    OPEN_WEB,
    PAPER,
    numbered_graph,
    run_number,
    seed_of_words,
)
from pollerd.lab.experiments.results import Results

PAGES: Mapping[Size, int] = {"quick": 600, "full": 3_000}
TRAINED_ON, TRAINING_SEED = 3, 90_210
REQUESTS_A_PAGE = 4
POINTS = 100
ROBOT, ROBOT_FOLLOWED = "robot, features", "robot, features, learned passive value"
PASSIVE: Mapping[str, Passive] = {ROBOT: "best", ROBOT_FOLLOWED: "followed"}
BY_VALUE = "fringe by features, refresh by freshness index"
FRONTIER_SHARES = {
    "fringe first, then in turn": 1.0,
    "half fringe, half in turn": 0.5,
    "tenth fringe, else in turn": 0.1,
}


class Upkeep(Experiment):
    """Rows are crawlers, columns the mean of min(R, F) over all requests, and over their last quarter."""

    name = "robot-upkeep"
    title = "building a collection and keeping it fresh"
    source = f"{PAPER}, equations (1) to (3) with F < 1"
    runs: Mapping[Size, int] = {"quick": 20, "full": 20}
    version = 2
    remarks = (
        f"Open webs of {PAGES['full']:,} pages ({PAGES['quick']:,} when quick) that are modified 0.3 times per page "
        f"(median) in as many requests as there are pages, while 5 % go; {REQUESTS_A_PAGE} requests per page. "
        f"The robots were trained on {TRAINED_ON} such webs of other seeds, in each run on others: what they learn "
        "hangs on rounding, so that one training says little, and the errors include its spread. The others take the "
        "fringe by the relevance of the page that a link was found on, in a share of all requests that is set, and "
        "what they hold in turn; the robots weigh both by one index. The robot by worth takes Q(x, 1) from what was "
        "learned of building alone, and refreshes by the freshness index of the allocators, with rates from what it "
        "has seen."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(row, stream="webs") for row in (*PASSIVE, BY_VALUE, *FRONTIER_SHARES)]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        graph = numbered_graph(OPEN_WEB, PAGES[size], run_number(seed), self.entropy)
        life, own = (np.random.default_rng([*map(int, seed.generate_state(4)), child]) for child in range(2))
        web = LivingWeb(graph, REQUESTS_A_PAGE * len(graph), life)
        training = [
            seed_of_words(TRAINING_SEED, run_number(seed), number, entropy=self.entropy) for number in range(TRAINED_ON)
        ]
        if cell.row == BY_VALUE:
            settings = RequestSettings(exploration=0.0)
            keep_by_value(web, trained_to_build(PAGES[size], training), settings, own)
        elif cell.row in PASSIVE:
            settings = RequestSettings(passive=PASSIVE[cell.row], exploration=0.0)
            keep_by_features(web, trained(settings, PAGES[size], training), settings, own)
        else:
            keep_in_turn(web, FRONTIER_SHARES[cell.row])
        quality = web.quality
        curve = [float(part.mean()) for part in np.array_split(quality, POINTS)]
        return RunOutcome(
            {"all": web.performance, "last quarter": float(quality[-len(quality) // 4 :].mean())}, {"M": curve}
        )

    def claims(self, results: Results) -> Sequence[Claim]:
        share = {row: results.value(row, "all") for row in results.rows}
        best = max(FRONTIER_SHARES, key=lambda row: share[row])
        return (
            Claim(
                "fringe and refresh on one scale of worth do better than any split that was set (our own target)",
                share[BY_VALUE] > share[best],
                f"{share[BY_VALUE]:.3f}; {best} {share[best]:.3f}",
            ),
            Claim(
                "so does one Q-learner for both, with reward (11) (our own target)",
                share[ROBOT] > share[best],
                f"{ROBOT} {share[ROBOT]:.3f}, {ROBOT_FOLLOWED} {share[ROBOT_FOLLOWED]:.3f}; {best} {share[best]:.3f}",
                "reward (11) pays for modifications that are found, equation (2) for copies that are current: a page "
                "that is modified again at once pays at every request; see docs/papers/robot.md",
            ),
        )

    def figures(self) -> Sequence[str]:
        return (self.name,)

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        for row in results.rows:
            curve = results.curves[row, "", "M"].mean
            axes.plot((np.arange(POINTS) + 0.5) / POINTS * REQUESTS_A_PAGE, curve, label=row)
        axes.set(xlabel="requests per page", ylabel="min(recall, freshness)")
        axes.legend(fontsize="x-small")


def keep_by_features(web: LivingWeb, learned_q: LearnedQ, settings: RequestSettings, rng: np.random.Generator) -> None:
    """Runs the crawler that ranks frontier and collection by one index."""
    controller = FeaturedController(len(web.graph), learned_q, settings, rng, refresh=True)
    controller.start(0)
    for step in range(web.steps):
        web.advance(step)
        page = controller.choose()
        if page is None:
            web.rest()
            continue
        if not web.alive[page]:
            controller.gone(page)
        else:
            finding = RequestOutcome.SAME if web.held(page) else RequestOutcome.FIRST
            if web.held(page) and web.changed(page):
                finding = RequestOutcome.MODIFIED
            controller.retrieved(page, shown(web.graph, page, float(web.relevance[page])), finding)
        web.retrieve(page)


def keep_by_value(web: LivingWeb, learned_q: LearnedQ, settings: RequestSettings, rng: np.random.Generator) -> None:
    """Values the frontier by features and held pages by the freshness index, both as relevance times time current.

    A page of the frontier has the value Q(x, 1) over the mean rate of changes; a refresh `(r / λ) g(λ τ)` with
    relevance r, gap τ and `g(z) = 1 - (1 + z) exp(-z)`, λ estimated from the requests of the page and of all pages.
    """
    n = len(web.graph)
    controller = FeaturedController(n, learned_q, settings, rng)
    controller.start(0)
    relevance, last = np.zeros(n), np.zeros(n)
    changes, watched = np.zeros(n), np.zeros(n)
    for step in range(web.steps):
        web.advance(step)
        common = (changes.sum() + 1.0) / (watched.sum() + n)
        rate = (changes + 1.0) / (watched + 1.0 / common)
        waited = rate * (step - last)
        refresh = relevance / rate * (1.0 - (1.0 + waited) * np.exp(-waited))
        page = int(refresh.argmax())
        if controller.highest / (1.0 - settings.discount) / common >= refresh[page]:
            chosen = controller.choose()
            assert chosen is not None
            page = chosen
            if web.alive[page]:
                controller.retrieved(page, shown(web.graph, page, float(web.relevance[page])), RequestOutcome.FIRST)
            else:
                controller.gone(page)
        else:
            changes[page] += web.changed(page)
            watched[page] += step - last[page]
        web.retrieve(page)
        relevance[page], last[page] = web.relevance[page], step


def keep_in_turn(web: LivingWeb, fringe_share: float) -> None:
    """Spends a fixed share of requests on the frontier, by parents' relevance, the rest in turn on held pages."""
    known, frontier, held = np.zeros(len(web.graph), np.bool_), [(0.0, 0)], deque[int]()
    known[0] = True
    due = 0.0
    for step in range(web.steps):
        web.advance(step)
        due += fringe_share
        if frontier and (due >= 1.0 or not held):
            due -= 1.0
            page = heappop(frontier)[1]
        elif held:
            page = held.popleft()
        else:
            web.rest()
            continue
        if web.alive[page]:
            held.append(page)
            links = web.graph.links(page)
            for link in links[~known[links]].tolist():
                heappush(frontier, (-float(web.relevance[page]), link))
            known[links] = True
        web.retrieve(page)


def trained_to_build(pages: int, seeds: Sequence[np.random.SeedSequence]) -> LearnedQ:
    """Returns what a crawler that only builds learns from webs of the given seeds."""
    learned_q = LearnedQ()
    for seed in seeds:
        graph = generate(pages, seed, KINDS[OPEN_WEB])
        by_features(graph, learned_q, RequestSettings(), np.random.default_rng(seed))
    return learned_q


def trained(settings: RequestSettings, pages: int, seeds: Sequence[np.random.SeedSequence]) -> LearnedQ:
    """Returns what a crawler that builds and refreshes learns from webs of the given seeds."""
    learned_q = LearnedQ()
    exploring = RequestSettings(passive=settings.passive)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        graph = generate(pages, seed, KINDS[OPEN_WEB])
        keep_by_features(LivingWeb(graph, REQUESTS_A_PAGE * len(graph), rng), learned_q, exploring, rng)
    return learned_q
