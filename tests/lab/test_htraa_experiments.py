"""[A]'s experiments and ours run from the sweep to the report: small, with the schemes they really have."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pollerd.errors import InvalidValueError
from pollerd.lab.environments.changes import ZipfChanges
from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.catalogue import experiment, experiments
from pollerd.lab.experiments.experiment import Cell, Size
from pollerd.lab.experiments.htraa.scalability import HtraaScalability, Scalability
from pollerd.lab.experiments.htraa.schedulers import DRAWN, EDF, LARGEST, PLAIN, RULES, share_found
from pollerd.lab.experiments.htraa.static import AT_MIX, DOUBLING, PERTURBED, PERTURBED_LAKG, Perturbed, Steep
from pollerd.lab.experiments.htraa.theorem import UNIT_VALUES, by_hierarchy, by_lagrange, detection
from pollerd.lab.experiments.htraa.updating import UPDATING
from pollerd.lab.experiments.learning_curves import DETECTIONS, WINDOWS, LearningCurves
from pollerd.lab.experiments.ours_web.competitors import ENVIRONMENTS
from pollerd.lab.experiments.ours_web.contest import OursWeb
from pollerd.lab.experiments.reproduction import reproduce
from pollerd.lab.experiments.results import Results
from pollerd.lab.experiments.runner import conduct

POLLS = 1200


def silent(done: int, total: int) -> None:
    """Shows nothing."""


def small(of: LearningCurves, pages: int = 16) -> LearningCurves:
    """The experiment with fewer pages and polls; the catalogue's stays as it is."""
    of = deepcopy(of)
    learning = replace(of.learning, runs={"quick": 1, "full": 1})
    zipf = replace(learning.zipf, pages=pages, switch_every=learning.zipf.switch_every and 500)
    schemes = tuple(replace(each, web=_fewer(each.web)) for each in learning.schemes)
    of.learning = replace(learning, zipf=zipf, schemes=schemes, polls={"quick": POLLS, "full": POLLS})
    of.runs = of.learning.runs
    return of


def learning_curves(figure: int) -> LearningCurves:
    """The experiment of this figure, which shows learning curves."""
    found = experiment(f"htraa-fig-{figure}")
    assert isinstance(found, LearningCurves)
    return found


def _fewer(web: Sequence[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value // 64 if name == "pages" else value) for name, value in web)


def test_every_scheme_of_figure_6_runs_and_is_reported(tmp_path: Path) -> None:
    figure = small(Perturbed(6, 0.3, 1.5, (*PERTURBED, DOUBLING, PERTURBED_LAKG)))
    reproduce(figure, "quick", tmp_path, jobs=1, draw=True, report_progress=silent)
    report = (tmp_path / "htraa-fig-6" / "report.md").read_text()
    for row in ("Optimal", "Proportional", "Uniform", "Estimator 1,000", "LAKG", "H-TRAA, 10^6 swaps"):
        assert f"\n| {row} |" in report
    assert "Proportional and Optimal are more or less the same" in report
    assert (tmp_path / "htraa-fig-6" / "htraa-fig-6.svg").exists()


def test_curves_and_stretches_tell_the_same(tmp_path: Path) -> None:
    figure = small(Steep(8, 0.9, 1.5, AT_MIX))
    results = conduct(figure, "quick", tmp_path, 1, silent)
    best = Zipf(16, 0.9, 1.5).optimum
    for row in results.rows:
        curve = results.curves[row, "", DETECTIONS].mean
        assert len(curve) == WINDOWS
        found = (results.value(row, "0-1k") * 1000 + results.value(row, "1k-1200") * 200) * best
        assert curve.sum() / WINDOWS * POLLS == pytest.approx(found)
    assert results.value("Optimal", "0-1k") > results.value("Uniform", "0-1k")
    assert figure.polls_to(results, "Optimal", 0.1) <= 10 * POLLS / WINDOWS
    assert figure.polls_to(results, "Uniform", 2.0) == np.inf


def test_what_is_said_of_slow_and_fast_switches_and_of_a_flat_ranking_is_asked(tmp_path: Path) -> None:
    """In the small web there are 500 polls before the first switch, and 500 between two."""
    slow, fast, flat = (small(learning_curves(number)) for number in (9, 10, 7))
    results = conduct(slow, "quick", tmp_path / "slow", 1, silent)
    *_, said = slow.claims(results)
    curve = results.curves["H-TRAA", "", DETECTIONS].mean / slow.learning.zipf.optimum
    windows = POLLS // WINDOWS
    before, later = (curve[end // windows - 2 : end // windows].mean() for end in (500, 1000))
    assert f"before the first switch {before:.3f}" in said.shown_by
    assert f"before the next {later:.3f}" in said.shown_by
    assert said.holds == (later >= before - 0.02)
    *_, said = fast.claims(conduct(fast, "quick", tmp_path / "fast", 1, silent))
    assert said.text == "H-TRAA is never allowed to reach an optimal solution"
    *_, said = flat.claims(conduct(flat, "quick", tmp_path / "flat", 1, silent))
    assert said.holds


def test_the_quick_size_leaves_out_the_largest_trees() -> None:
    figures = [experiment(f"htraa-fig-{number}") for number in (11, 12)]
    for figure in figures:
        assert isinstance(figure, Scalability)
        quick, full = figure.cells("quick"), figure.cells("full")
        assert [each.row for each in quick] == [each.row for each in full][: len(quick)]
        assert len(quick) < len(full)
        assert full[-1].row.endswith("32,768 pages")
    largest = figures[1]
    assert isinstance(largest, Scalability)
    few = small(largest, pages=8)
    assert isinstance(few, HtraaScalability)
    told = {cell: few.run_together(cell, [np.random.SeedSequence(1)], "quick") for cell in few.cells("quick")}
    claims = few.claims(Results(few, "quick", told))
    assert "pages times 8" in claims[0].shown_by
    assert "LAKG, 4,096 pages" in claims[1].shown_by


def test_updating_schemes_meet_the_same_web() -> None:
    assert len({cell.stream for cell in UPDATING.cells("full")}) == 1


def test_ours_web_has_every_allocator_at_the_sizes_it_is_made_for() -> None:
    from pollerd.allocation.registry import names

    competitors = {policy.allocator for environment in ENVIRONMENTS for policy in environment.competitors.values()}
    assert competitors == set(names())
    limit = dict.fromkeys(names(), 1_000_000) | {"lspe": 30, "gpoks": 1000}
    limit |= dict.fromkeys(("ucb1", "ucb1-raw", "thompson", "gp-ucb"), 2)
    for environment in ENVIRONMENTS:
        pages, sorted_ = environment.zipf.pages, environment.zipf.order == "sorted"
        able = {name for name in names() if limit[name] >= pages}
        learners = {policy.allocator for policy in environment.learners.values()}
        assert learners == (able - {"gpoks"} if sorted_ else able), environment.name


class Smallest(OursWeb):
    """The webs of two pages."""

    runs = {"quick": 1, "full": 1}  # noqa: RUF012

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell for cell in super().cells(size) if cell.row.startswith("2 ") and "static" in cell.row]


def test_ours_web_runs_and_says_where_whittle_is_behind(tmp_path: Path) -> None:
    results = conduct(Smallest(), "quick", tmp_path, 1, silent)
    assert results.columns == ["0-1", "1-2", "2-4", "4-10", "10-20", "20-40", "40-80", "80-200"]
    claims = Smallest().claims(results)
    assert len(claims) == 2  # .9/1.5, and .90/.10
    for claim in claims:
        assert claim.holds == (claim.shown_by == "in no stretch")
    known = results.value("2 shuffled pages, α 0.9, β 1.5, static: optimal, rates known", "80-200")
    assert known == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("family", UNIT_VALUES)
def test_local_optima_of_all_nodes_are_the_global_one(family: str) -> None:
    s = np.array([0.7, 0.1, 0.4, 0.25])
    local, best = (split(UNIT_VALUES[family], s, 1.0) for split in (by_hierarchy, by_lagrange))
    assert best.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(local, best, atol=1e-7)
    assert by_hierarchy(UNIT_VALUES[family], s[:1], 0.3) == pytest.approx([0.3])


def test_the_optimum_of_web_polling_is_in_proportion_to_the_rates() -> None:
    """[A] 4.2."""
    rates = np.array([1.4, 0.2, 0.8, 0.5])
    np.testing.assert_allclose(by_lagrange(detection, rates, 1.0), rates / rates.sum(), atol=1e-9)


def test_schedulers_that_keep_the_gaps_even_find_more_than_chance() -> None:
    """Best amounts of eight pages. By chance the gap τ is geometric, and `E q^τ = x q / (1 - (1 - x) q)`."""
    knapsack = Knapsack(Zipf(8, 0.6, 1.0).by_rank)
    shares = {
        rule: share_found(knapsack, RULES[rule](knapsack.best_mix, np.random.default_rng(2)), 8000) for rule in RULES
    }
    assert shares[EDF] == pytest.approx(shares[LARGEST], abs=0.005)
    assert 0.98 < shares[EDF] < 1
    assert 0.98 < shares[PLAIN] < 1
    q = 1 - knapsack.p
    drawn = float((knapsack.best_mix * (1 - knapsack.best_mix * q / (1 - (1 - knapsack.best_mix) * q))).sum())
    assert shares[DRAWN] == pytest.approx(drawn / knapsack.optimum, abs=0.01)


def test_irregular_switches_come_at_the_same_times_in_all_webs() -> None:
    zipf = Zipf(16, 0.9, 1.5, switch_every=100, irregular=True)
    first, other = (ZipfChanges(zipf, np.random.default_rng(seed)) for seed in (1, 2))
    ends = [phase.end for phase in first.phases(20_000.0)]
    assert ends == [phase.end for phase in other.phases(20_000.0)]
    another = ZipfChanges(replace(zipf, draw=7), np.random.default_rng(1))
    assert ends != [phase.end for phase in another.phases(20_000.0)]
    gaps = np.diff([0.0, *ends])[:-1]
    assert gaps.min() < 30 < 300 < gaps.max()
    assert gaps.mean() == pytest.approx(100, abs=30)
    assert repr(zipf) == repr(replace(zipf, irregular=False, draw=7)), "repr is part of the keys of stored runs"
    with pytest.raises(InvalidValueError, match="irregular: must be false where ranks do not switch"):
        Zipf(16, irregular=True)


def test_switches_at_random_times_are_reported(tmp_path: Path) -> None:
    of = experiment("htraa-random-switching")
    assert isinstance(of, LearningCurves)
    reproduce(small(of), "quick", tmp_path, jobs=1, draw=False, report_progress=silent)
    report = (tmp_path / of.name / "report.md").read_text()
    assert all(f"\n| {row} |" in report for row in ("LAKG", "LAKG, at random", "H-TRAA", "H-TRAA, at random"))


def test_the_quick_checks_of_a_come_out() -> None:
    """Of theorem 2 one draw of one family; the claims of both experiments on what they made."""
    theorem, schedulers = (experiment(f"htraa-{name}") for name in ("theorem-2", "schedulers"))
    one = theorem.cells("quick")[0]
    made = Results(theorem, "quick", {one: [theorem.run(one, np.random.SeedSequence(5), "quick")]})
    assert [claim.holds for claim in theorem.claims(made)] == [True]
    flat = [cell for cell in schedulers.cells("quick") if cell.column == "0.6/1.0, 8 pages"]
    told = {cell: [schedulers.run(cell, np.random.SeedSequence(5), "quick")] for cell in flat}
    assert [claim.holds for claim in schedulers.claims(Results(schedulers, "quick", told))] == [True]


def test_names_are_those_of_the_command_line() -> None:
    assert {f"htraa-fig-{number}" for number in range(5, 13)} | {"htraa-updates", "ours-web"} <= set(experiments())
