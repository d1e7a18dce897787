"""The experiment `ours-web`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pollerd.lab.environments.web import run_web
from pollerd.lab.environments.web_together import can_go_together, found_together
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.learning_curves import means
from pollerd.lab.experiments.ours_web.competitors import ENVIRONMENTS, WHITTLE, WebEnvironment
from pollerd.lab.experiments.results import Results
from pollerd.lab.experiments.shares import draw_web

ENDS = (1, 2, 4, 10, 20, 40, 80, 200, 500)
"""Ends of the intervals, in polls a page."""
_BY_NAME = {environment.name: environment for environment in ENVIRONMENTS}
_DRAWN = {environment.figure: environment for environment in ENVIRONMENTS if environment.quick}
"""Webs of both sizes by the name of their figure."""


class OursWeb(Experiment):
    """Share of the clairvoyant optimum `1 - Π(1 - p)` in intervals of polls a page."""

    name = "ours-web"
    title = "every allocator at the sizes it is made for, as a share of the clairvoyant optimum"
    source = "ours, in the environments of [A] and [B]"
    runs: Mapping[Size, int] = {"quick": 2, "full": 30}
    version = 2
    batch = 10
    independent = True
    remarks = (
        "Columns are polls a page. One poll a step of the web with its true changes; all allocators have their "
        "defaults, but for `gpoks`, which forgets nothing, and meet the same webs. Who knows the rates knows those of "
        "the start: where ranks switch, these go wrong. The quick size has fewer environments and polls."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [
            cell(
                f"{environment.name}: {name}",
                environment=environment.name,
                policy=repr(policy),
                entrant=name,
                polls=environment.polls_a_page(size),
                stream=environment.name,
            )
            for environment in ENVIRONMENTS
            if environment.polls_a_page(size)
            for name, policy in environment.competitors.items()
        ]

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        environment = _BY_NAME[cell["environment"]]
        zipf, policy = environment.zipf, environment.competitors[cell["entrant"]]
        ends = [end for end in ENDS if end <= cell["polls"]]
        edges = [end * zipf.pages for end in ends]
        if can_go_together(policy, zipf.pages):
            detected = list(found_together(zipf, policy, edges[-1], seeds))
        else:
            detected = [run_web(zipf, policy, edges[-1], seed).found for seed in seeds]
        shares = [means(of_run, edges) / zipf.optimum for of_run in detected]
        return [RunOutcome(dict(zip(_columns(ends), share.tolist(), strict=True))) for share in shares]

    def claims(self, results: Results) -> Sequence[Claim]:
        """Checks our own target, which no paper claims: that `whittle` is ahead of every other learner."""
        return [
            _ahead(environment, results)
            for environment in ENVIRONMENTS
            if f"{environment.name}: {WHITTLE}" in results.rows
        ]

    def figures(self) -> Sequence[str]:
        return list(_DRAWN)

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        draw_web(axes, results, _DRAWN[figure].name)


def _columns(ends: Sequence[int]) -> list[str]:
    return [f"{begin}-{end}" for begin, end in itertools.pairwise((0, *ends))]


def _ahead(environment: WebEnvironment, results: Results) -> Claim:
    """Claims that no other learner is ahead of `whittle` by more than two standard errors in any interval."""
    own = f"{environment.name}: {WHITTLE}"
    behind = []
    for column in [column for column in results.columns if (own, column) in results.estimates]:
        ours = results.estimates[own, column]
        for name in environment.learners:
            other = results.estimates.get((f"{environment.name}: {name}", column), ours)
            least = _error_at_least(environment, column, ours.runs)
            error = np.hypot(np.fmax(ours.error, least), np.fmax(other.error, least))
            if other.value > ours.value + 2 * error:
                behind.append(f"{column}: {ours.value:.3f}, {name} {other.value:.3f}")
    text = f"`whittle` is not behind any other learner: {environment.name}"
    return Claim(text, not behind, "; ".join(behind) or "in no stretch")


def _error_at_least(environment: WebEnvironment, column: str, runs: int) -> float:
    """Returns the standard error of a share if polls were fair coins: two runs may agree by chance."""
    begin, end = map(int, column.split("-"))
    polls = (end - begin) * environment.zipf.pages * runs
    return float(0.5 / np.sqrt(polls)) / environment.zipf.optimum


OURS_WEB = OursWeb()
