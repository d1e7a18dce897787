"""GPOKS as an allocator where pages change places, and where they do not: with and without forgetting, in groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pollerd.lab.environments.web import Policy, run_web
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.learning_curves import means
from pollerd.lab.experiments.results import Results

ENDS: Mapping[Size, tuple[int, ...]] = {"quick": (10, 40), "full": (20, 40, 200)}
"""Ends of intervals, in polls a page."""
FORGETTING, FLAT, GROUPED, WHITTLE = "gpoks", "gpoks, nothing forgotten", "gpoks in groups", "whittle"
POLICIES = {
    FORGETTING: Policy("gpoks", parameters=(("forgetting", "learned"),)),
    FLAT: Policy("gpoks", parameters=(("forgetting", "none"),)),
    GROUPED: Policy("gpoks", parameters=(("forgetting", "learned"), ("groups", "rates"))),
    WHITTLE: Policy("whittle"),
    "htraa": Policy("htraa"),
    "uniform": Policy("uniform"),
}
MIN_GROUPED = 64
"""Least number of pages of a web on which groups are run."""
MOVES_TWO = "a switch moves two pages, and the others are better known where nothing is forgotten"
"""Why forgetting may gain nothing where there are more than two pages."""
ALLOWED_LOSS = 0.01
"""Share of the optimum by which forgetting may be behind on static pages, and groups on any, besides two standard
errors."""


@dataclass(frozen=True)
class SwitchingWeb:
    """A web; full, quick: its last interval's end in these sizes, in polls a page, 0: the size leaves it out."""

    zipf: Zipf
    full: int
    quick: int = 0

    def ends(self, size: Size) -> list[int]:
        """Returns the ends of intervals, in polls a page."""
        last = self.full if size == "full" else self.quick
        return [end for end in ENDS[size] if end <= last]

    @property
    def policies(self) -> dict[str, Policy]:
        """Those that are run: groups only of enough pages."""
        return {name: each for name, each in POLICIES.items() if name != GROUPED or self.zipf.pages >= MIN_GROUPED}


def _pair(p: float, every: int) -> Zipf:
    """Returns [B]'s two materials with change probabilities p and 1 - p."""
    return Zipf(2, p, math.log2(p / (1 - p)), "shuffled", switch_every=every)


def _eight(alpha: float, beta: float, every: int) -> Zipf:
    return Zipf(8, alpha, beta, "shuffled", switch_every=every)


WEBS = {
    "2 pages, .75/.25, switching": SwitchingWeb(_pair(0.75, 100), 200),
    "2 pages, .90/.10, switching": SwitchingWeb(_pair(0.9, 100), 200, quick=40),
    "8 pages, .6/1.0, switching": SwitchingWeb(_eight(0.6, 1.0, 400), 200),
    "8 pages, .9/1.5, switching": SwitchingWeb(_eight(0.9, 1.5, 400), 200, quick=40),
    "64 pages, .9/1.5, switching": SwitchingWeb(Zipf(64, 0.9, 1.5, "shuffled", switch_every=400), 40),
    "2 pages, .75/.25, static": SwitchingWeb(_pair(0.75, 0), 200),
    "2 pages, .90/.10, static": SwitchingWeb(_pair(0.9, 0), 200, quick=40),
    "8 pages, .6/1.0, static": SwitchingWeb(_eight(0.6, 1.0, 0), 200),
    "8 pages, .9/1.5, static": SwitchingWeb(_eight(0.9, 1.5, 0), 200, quick=40),
    "64 pages, .9/1.5, static": SwitchingWeb(Zipf(64, 0.9, 1.5, "shuffled"), 40, quick=10),
}


class GpoksSwitching(Experiment):
    """Rows are webs and policies, columns intervals of polls a page; scores are shares of the clairvoyant optimum."""

    name = "gpoks-switching"
    title = "GPOKS with forgetting, and in groups, where ranks switch and where they do not"
    source = "ours, on the webs of ours-web"
    runs: Mapping[Size, int] = {"quick": 3, "full": 30}
    remarks = (
        "Pages in random order, true changes, real gaps, one poll a step; columns are polls a page. Two pages change "
        "places every 100 polls; of 8 and 64 a page drawn in proportion to its p swaps with the next in rank every "
        "400. All policies meet the same webs."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [
            cell(f"{web}: {name}", web=web, policy=repr(policy), entrant=name, stream=web)
            for web, place in WEBS.items()
            if place.ends(size)
            for name, policy in place.policies.items()
        ]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        web = WEBS[cell["web"]]
        ends = web.ends(size)
        edges = [end * web.zipf.pages for end in ends]
        detected = run_web(web.zipf, POLICIES[cell["entrant"]], edges[-1], seed).found
        shares = means(detected, edges) / web.zipf.optimum
        columns = [f"{begin}-{end}" for begin, end in itertools.pairwise((0, *ends))]
        return RunOutcome(dict(zip(columns, shares.tolist(), strict=True)))

    def claims(self, results: Results) -> Sequence[Claim]:
        """Checks our own targets: forgetting gains where ranks switch, and loses nowhere else; groups lose nothing."""
        return [claim for web, place in WEBS.items() if place.ends(results.size) for claim in _claims(results, web)]


def _claims(results: Results, web: str) -> Iterator[Claim]:
    """Yields what is claimed of one web, in its last interval."""
    place = WEBS[web]
    if place.zipf.switch_every:
        yield _compared(results, web, f"forgetting finds more: {web}", FORGETTING, FLAT, 0.0, 2.0)
    else:
        yield _compared(results, web, f"forgetting does not lose: {web}", FORGETTING, FLAT, -ALLOWED_LOSS, -2.0)
    if GROUPED in place.policies:
        yield _compared(results, web, f"groups do not lose: {web}", GROUPED, FORGETTING, -ALLOWED_LOSS, -2.0)


def _compared(results: Results, web: str, text: str, policy: str, other: str, lead: float, errors: float) -> Claim:
    """Claims that `policy` is ahead of `other` by more than a lead and so many errors of their difference.

    An error that is not known, of a single run, counts as 0.
    """
    begin, end = [0, *WEBS[web].ends(results.size)][-2:]
    column = f"{begin}-{end}"
    estimates = {name: results.estimates[f"{web}: {name}", column] for name in (policy, other, WHITTLE)}
    error = float(np.hypot(*np.nan_to_num([estimates[policy].error, estimates[other].error])))
    shown = ", ".join(f"{name} {each.value:.3f} ± {each.error:.3f}" for name, each in estimates.items())
    holds = estimates[policy].value > estimates[other].value + lead + errors * error
    return Claim(text, holds, f"polls {column}: {shown}", MOVES_TWO if WEBS[web].zipf.pages > 2 and lead == 0 else "")
