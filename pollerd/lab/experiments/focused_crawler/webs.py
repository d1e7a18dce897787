"""The webs on which crawlers are compared, and their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pollerd.lab.environments.topical_web.graph import GATED, SEED, Constants, TopicalGraph, generate
from pollerd.lab.experiments.experiment import Size

PAPER = "[C] O'Meara & Patel, A topic-specific web robot model based on restless bandits"
OPEN_WEB, GATED_WEB = "open web", "gated web"
KINDS: Mapping[str, Constants] = {OPEN_WEB: Constants(), GATED_WEB: GATED}
WORDS = (
    "[C]'s graph is not published. Webs are generated, each run on one of its own; generator, constants and seed were "
    "fixed before a robot first ran on such a web. The open web is the one that was made first. On it fringe-greedy, "
    "which is told the relevance of pages before they are retrieved, is close to the upper bound: relevant pages are "
    "reached through relevant ones. The gated web was then added, where 90 % of the authorities are linked to by "
    "hubs alone, and hubs look worthless."
)


def numbered_graph(kind: str, pages: int, number: int, entropy: int) -> TopicalGraph:
    """Generates graph `number` of the experiment with that entropy."""
    return generate(pages, seed_of_words(SEED, number, entropy=entropy), KINDS[kind])


def seed_of_words(*words: int, entropy: int) -> np.random.SeedSequence:
    """Returns the seed of up to three words; with the entropy 0 it is that of the words alone, as numpy pads with 0."""
    return np.random.SeedSequence((*words, entropy))


def run_number(seed: np.random.SeedSequence) -> int:
    """Returns the number of the run from the framework's seed: its last word."""
    entropy = seed.entropy
    assert isinstance(entropy, Sequence)
    return int(entropy[-1])


PAGES: Mapping[Size, int] = {"quick": 2_000, "full": 140_000}
