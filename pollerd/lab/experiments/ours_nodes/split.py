"""The experiment `ours-nodes`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from pollerd.allocation.contract import Allocator
from pollerd.lab.environments.changes import ZipfChanges
from pollerd.lab.environments.driving import STEP_S, detections, drive
from pollerd.lab.environments.nodes import Sharing, drive_nodes, nodes_of
from pollerd.lab.environments.web import Policy, streams
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.results import Results

PAGES, HOSTS, NODES = 512, 64, 8
DIVIDE_EVERY = 64
"""Steps between two divisions: an eighth of a uniform cycle."""
ENDS: Mapping[Size, tuple[int, ...]] = {"quick": (1, 4), "full": (1, 2, 4, 10, 20, 40)}
"""Ends of the intervals, in polls a page."""
ONE = "one allocator"
SHARINGS: Mapping[str, Sharing] = {
    "8 nodes, one price": "price",
    "8 nodes, by pages": "sites",
    "8 nodes, even": "even",
}
WEBS: Mapping[str, Zipf] = {
    f"{alpha}/{beta}{how}": Zipf(PAGES, alpha, beta, "shuffled", switch_every=every)
    for how, every in (("", 0), (", switching", 1000))
    for alpha, beta in ((0.3, 1.5), (0.3, 1.0), (0.9, 1.5))
}
GOAL = 0.99


class OursNodes(Experiment):
    """Rows are ways to share one budget, by web; columns intervals of polls a page; scores shares of the optimum."""

    name = "ours-nodes"
    title = "one budget over 8 nodes, as a share of the clairvoyant optimum over all pages"
    source = "ours, in the environments of [A]"
    runs: Mapping[Size, int] = {"quick": 2, "full": 10}
    remarks = (
        f"{PAGES} pages on {HOSTS} hosts; a hash of the host decides on the node. Each node has a `whittle` of its "
        f"own, which learns from its own polls only. `one price` divides the budget every {DIVIDE_EVERY} polls by the "
        "nodes' price curves, with floors and hysteresis as nodes do. One poll a step over all nodes; all ways meet "
        "the same webs."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [
            cell(f"{web}: {row}", stream=web, web=web, way=row)
            for web in WEBS
            if size == "full" or "," not in web
            for row in (ONE, *SHARINGS)
        ]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        zipf, ends = WEBS[cell["web"]], ENDS[size]
        edges = [end * PAGES for end in ends]
        web, own, placing = streams(seed)
        changes = ZipfChanges(zipf, web)

        def make(budget: float) -> Allocator:
            return Policy("whittle").made(1.0 / budget, own, changes.rates() / STEP_S)

        host = placing.integers(0, HOSTS, PAGES)
        if cell["way"] == ONE:
            shares = detections(drive(make(1.0 / STEP_S), changes, edges[-1]), edges)
        else:
            node = nodes_of([f"host {number}" for number in host], NODES)
            sharing = SHARINGS[cell["way"]]
            shares = drive_nodes(make, changes, node, edges[-1], sharing=sharing, divide_every=DIVIDE_EVERY).detections(
                edges
            )
        names = [f"{begin}-{end}" for begin, end in itertools.pairwise((0, *ends))]
        return RunOutcome(dict(zip(names, (shares / zipf.optimum).tolist(), strict=True)))

    def claims(self, results: Results) -> Sequence[Claim]:
        """Checks our own target: that nodes find `GOAL` of what one allocator does, in the last interval."""
        return [_reached(web, results) for web in WEBS if f"{web}: {ONE}" in results.rows]


def _reached(web: str, results: Results) -> Claim:
    column = results.columns[-1]
    single = results.value(f"{web}: {ONE}", column)
    rows = {row: results.value(f"{web}: {row}", column) / single for row in SHARINGS}
    shown = ", ".join(f"{row} {share:.3f}" for row, share in rows.items())
    text = f"8 nodes at one price find {GOAL} of what one allocator finds: {web}, polls a page {column}"
    return Claim(text, next(iter(rows.values())) >= GOAL, f"as shares of it: {shown}")


OURS_NODES = OursNodes()
