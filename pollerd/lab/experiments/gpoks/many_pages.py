"""GPOKS as an allocator, with real gaps, on eight pages as in [B] and on as many as a daemon has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from pollerd.lab.environments.web import Policy, run_web
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.gpoks.printed import ZIPFS
from pollerd.lab.experiments.learning_curves import means
from pollerd.lab.experiments.results import Results

PAGES: Mapping[Size, tuple[int, ...]] = {"quick": (8, 64), "full": (8, 64, 1000)}
ENDS: Mapping[Size, tuple[int, ...]] = {"quick": (5, 10), "full": (5, 10, 20, 40)}
"""Ends of intervals, in polls a page."""
LAST: Mapping[int, int] = {1000: 20}
"""The last of them by number of pages, where polls are expensive."""
NOTHING_FORGOTTEN = Policy("gpoks", parameters=(("forgetting", "none"),))
"""As it was measured; the experiment gpoks-switching has it with forgetting, too."""
SHARE = 0.9
"""Least ratio of the share of the optimum with many pages to that with eight, at equal polls a page."""


class ManyPages(Experiment):
    """Rows are webs, columns intervals of polls a page."""

    name = "gpoks-many-pages"
    title = "GPOKS as an allocator on 8 to 1,000 pages, as a share of the clairvoyant optimum"
    source = "ours, on the webs of [B], table 8.10"
    runs: Mapping[Size, int] = {"quick": 4, "full": 30}
    remarks = (
        "Pages in random order, true changes, real gaps, one poll a step; columns are polls a page. A run of "
        "1,000 pages takes about a minute."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [
            cell(f"{pages:,} pages, {web}", pages=pages, alpha=alpha, beta=beta)
            for pages in PAGES[size]
            for web, (alpha, beta) in ZIPFS.items()
        ]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        pages = cell["pages"]
        zipf = Zipf(pages, cell["alpha"], cell["beta"], "shuffled")
        ends = [end for end in ENDS[size] if end <= LAST.get(pages, end)]
        edges = [end * pages for end in ends]
        shares = means(run_web(zipf, NOTHING_FORGOTTEN, edges[-1], seed).found, edges) / zipf.optimum
        columns = [f"{begin}-{end}" for begin, end in itertools.pairwise((0, *ends))]
        return RunOutcome(dict(zip(columns, shares.tolist(), strict=True)))

    def claims(self, results: Results) -> Sequence[Claim]:
        """Checks our own target for the allocator; no paper claims it."""
        return [_keeps(results, pages) for pages in PAGES[results.size][1:]]


def _keeps(results: Results, pages: int) -> Claim:
    of_eight = {
        (web, column): results.value(f"{pages:,} pages, {web}", column) / results.value(f"8 pages, {web}", column)
        for web, column in itertools.product(ZIPFS, results.columns)
        if (f"{pages:,} pages, {web}", column) in results.estimates
    }
    (web, column), least = min(of_eight.items(), key=lambda each: each[1])
    text = f"{pages:,} pages have at least {SHARE} of the share of the optimum that 8 have at equal polls a page"
    return Claim(text, least >= SHARE, f"least {least:.3f}: {web}, {column}")
