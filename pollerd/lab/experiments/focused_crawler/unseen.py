"""The feature-based crawler in its first traversal of a web not seen in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache

import numpy as np

from pollerd.crawler.controllers import LearnedQ, RequestSettings
from pollerd.lab.environments.topical_web import traversals as by
from pollerd.lab.environments.topical_web.graph import TopicalGraph, generate
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.focused_crawler.webs import KINDS, PAPER, WORDS, numbered_graph, run_number, seed_of_words
from pollerd.lab.experiments.results import Results

TRAINED_ON: Mapping[Size, int] = {"quick": 3, "full": 6}
TRAINING_PAGES: Mapping[Size, int] = {"quick": 1_000, "full": 3_000}
PAGES: Mapping[Size, int] = {"quick": 2_000, "full": 10_000}
TRAINING_SEED = 51_877
"""Training webs use `seed_of_words(TRAINING_SEED, k)`: no run uses one of them."""
TARGET = 0.85
TRAINED, UNTRAINED = "features, trained on other webs", "features, untrained"
OTHER_KIND = "features, trained on the other kind"
PARENT = "parent-greedy"
OTHERS: Mapping[str, Callable[[TopicalGraph], by.Schedule]] = {
    "fringe-greedy": by.frontier_greedy,
    PARENT: by.parent_greedy,
    "breadth-first": by.breadth_first,
}


class Unseen(Experiment):
    """Rows are schedules, columns the kinds of web; shares of the upper bound, first traversal."""

    name = "robot-unseen"
    title = "building a collection: first sight of an unseen web"
    source = f"{PAPER}, what it calls for in section 'Neuro-Dynamic Programming'"
    runs: Mapping[Size, int] = {"quick": 5, "full": 10}
    remarks = (
        f"{WORDS} Here a robot knows a document by features: its known parents' relevance, its siblings, the texts of "
        "links to it, its URL. Q(x, 1) and Q(x, 2) are quadratic in them, fitted by least squares; γ = 0.9 as for the "
        "robot of [C], ε = 0.05 in training and 0 after. Trained by one traversal of each of "
        f"{TRAINED_ON['full']} webs of {TRAINING_PAGES['full']:,} pages "
        f"({TRAINED_ON['quick']} of {TRAINING_PAGES['quick']:,} when quick), tried on webs of {PAGES['full']:,} "
        f"({PAGES['quick']:,}), on which it learns on. Unlike fringe-greedy it is told no relevance "
        "before it has retrieved a page."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        rows = (TRAINED, OTHER_KIND, UNTRAINED, *OTHERS)
        return [cell(row, kind, stream=kind) for kind in KINDS for row in rows]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        graph = numbered_graph(cell.column, PAGES[size], run_number(seed), self.entropy)
        upper = by.score(graph, by.unconstrained(graph))
        if cell.row in OTHERS:
            return RunOutcome({"": by.score(graph, OTHERS[cell.row](graph)) / upper})
        kind = cell.column
        if cell.row == OTHER_KIND:
            (kind,) = (other for other in KINDS if other != cell.column)
        learned_q = LearnedQ() if cell.row == UNTRAINED else _trained(kind, size, self.entropy)
        settings = RequestSettings(exploration=0.05 if cell.row == UNTRAINED else 0.0)
        schedule = by.by_features(graph, learned_q, settings, np.random.default_rng(seed))
        return RunOutcome({"": by.score(graph, schedule) / upper})

    def claims(self, results: Results) -> Sequence[Claim]:
        return [
            Claim(
                f"{kind}: {TARGET:.0%} of the upper bound at first sight (our own target)",
                results.value(TRAINED, kind) >= TARGET,
                f"{results.value(TRAINED, kind):.3f}; trained on the other kind {results.value(OTHER_KIND, kind):.3f}, "
                f"untrained {results.value(UNTRAINED, kind):.3f}, {PARENT} {results.value(PARENT, kind):.3f}",
            )
            for kind in KINDS
        ]


def _trained(kind: str, size: Size, entropy: int) -> LearnedQ:
    """Returns a copy of `training`, which may learn further."""
    return deepcopy(training(kind, size, entropy))


@lru_cache(maxsize=4)
def training(kind: str, size: Size, entropy: int) -> LearnedQ:
    """Returns the Q-function learned on other webs of a kind: cached, so it must be copied before learning on."""
    learned_q = LearnedQ()
    for number in range(TRAINED_ON[size]):
        seed = seed_of_words(TRAINING_SEED, number, entropy=entropy)
        graph = generate(TRAINING_PAGES[size], seed, KINDS[kind])
        by.by_features(graph, learned_q, RequestSettings(), np.random.default_rng(seed))
    return learned_q
