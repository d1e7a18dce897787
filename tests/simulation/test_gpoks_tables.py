"""[B]'s tables: the sweep has a place for each printed number, and a quick one comes out."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pollerd.allocation.bandits.ucb1 import Ucb1
from pollerd.simulation.environments.knapsack import Knapsack
from pollerd.simulation.experiments import Claim, Experiment, cell
from pollerd.simulation.experiments.gpoks import EXPERIMENTS
from pollerd.simulation.experiments.gpoks.claims import SAID, VARIANCE, RankingClaim
from pollerd.simulation.experiments.gpoks.eight_pages import EIGHT_PAGES
from pollerd.simulation.experiments.gpoks.many_pages import ManyPages
from pollerd.simulation.experiments.gpoks.play import GAINS, automata, gpoks, materials, splits
from pollerd.simulation.experiments.gpoks.running_time import FAST, RunningTime
from pollerd.simulation.experiments.gpoks.schemes import AUTOMATA, FIXED, SPLITS, VARIANT, scores
from pollerd.simulation.experiments.gpoks.tables import Table
from pollerd.simulation.experiments.gpoks.two_pages import TWO_PAGES
from pollerd.simulation.experiments.reproduction import reproduce
from pollerd.simulation.experiments.results import Estimate, Results
from pollerd.simulation.experiments.runner import conduct

TABLES = {experiment.name: experiment for experiment in EXPERIMENTS}
PAIR = Knapsack(np.array([0.75, 0.25]))
SEEDS = [np.random.SeedSequence([1, run]) for run in range(6)]


def table_of(name: str) -> Table:
    """The experiment of this name, which is a table."""
    found = TABLES[name]
    assert isinstance(found, Table)
    return found


def silent(done: int, total: int) -> None:
    """Shows nothing."""


@pytest.mark.parametrize("experiment", [*TWO_PAGES, *EIGHT_PAGES], ids=lambda experiment: experiment.name)
def test_every_printed_number_has_its_place(experiment: Experiment) -> None:
    cells = experiment.cells("full")
    assert len({cell.key for cell in cells}) == len(cells)
    places = {(cell.row, cell.column) for cell in cells}
    for number in experiment.printed():
        column, _, _ = number.column.rpartition(" t=")
        assert (number.row, column) in places or (number.row, number.column) in places or (number.row, "") in places
    assert set(experiment.reasons()) <= {(one.row, one.column) for one in experiment.printed()}


def test_tables_have_as_many_runs_as_the_thesis_and_a_tenth_where_functions_are_rejected() -> None:
    table = TABLES["gpoks-8.2"]
    runs = {cell.row: (table.runs_of(cell, "full"), table.runs_of(cell, "quick")) for cell in table.cells("full")}
    assert runs == {
        "GPOKS": (100, 10),
        "GPOKS:TS": (1000, 10),
        "GPOKS:OTS": (100, 10),
        "GPOKS:MONO": (100, 10),
    }


def test_all_tables_are_there() -> None:
    assert {f"gpoks-8.{table}" for table in range(1, 12)} | {"gpoks-short-1", "gpoks-short-2"} <= set(TABLES)


@pytest.mark.parametrize("row", [*VARIANT, *SPLITS, *AUTOMATA])
def test_no_scheme_is_better_than_the_best_mix(row: str) -> None:
    found = scores(row, PAIR, 30, SEEDS)
    assert found.shape == (6, 30)
    assert (found <= PAIR.optimum + 1e-12).all()
    assert (found > 0.2).all()
    np.testing.assert_array_equal(found, scores(row, PAIR, 30, SEEDS))


def test_the_two_that_do_not_learn_are_worth_what_the_formula_says() -> None:
    """1 - .25 · .75 and the mean of 1 - .25² and 1 - .75² ([B] (2.2))."""
    best, even = (scores(row, PAIR, 1, SEEDS[:1])[0, 0] for row in FIXED)
    assert best == pytest.approx(0.8125)
    assert even == pytest.approx((2 - 0.25**2 - 0.75**2) / 2)


@pytest.mark.parametrize("gain", GAINS)
def test_gpoks_learns(gain: str) -> None:
    """In steps 150 to 300 better than the even split by 6 %; the deviation of the mean of 20 runs is below 1 %."""
    late = gpoks(PAIR, "ucb", 300, 20, np.random.default_rng(2), gain=gain)[:, 150:].mean()
    assert late > 1.06 * 0.6875


def test_an_even_start_tells_of_all_materials() -> None:
    """Step 1 is worth the even split; what step 2 draws from has seen a change of one page, and none of the other."""
    certain = Knapsack(np.array([1 - 1e-12, 1e-12]))
    found = gpoks(certain, "gpr", 2, 20, np.random.default_rng(8), even_start=True)
    np.testing.assert_allclose(found[:, 0], certain.value(np.array([0.5, 0.5])))
    assert (found[:, 1] > 0.98).all()


def test_a_mix_is_polled_as_often_as_its_amounts_say() -> None:
    """A knapsack where only material 1 ever changes: the mean (GPR) ends at nearly all of it, .9 or more."""
    lonely = Knapsack(np.array([0.9, 1e-12]))
    late = gpoks(lonely, "gpr", 300, 20, np.random.default_rng(3))[:, 200:].mean()
    assert late > 0.85


def test_raw_meets_real_gaps() -> None:
    """Its first poll of page 2 comes two steps after the start, so it finds a change with 1 - .75²."""
    found = materials(PAIR, 2, np.random.default_rng(4))
    np.testing.assert_allclose(found, [0.75, 1 - 0.75**2])


def test_ucb1_goes_through_its_splits_in_order() -> None:
    first = np.arange(1, 100) / 100
    mixes = np.column_stack([first, 1 - first])
    np.testing.assert_allclose(splits(PAIR, Ucb1, 99, np.random.default_rng(5)), PAIR.value(mixes))


def test_automata_start_from_the_even_split() -> None:
    for allocator in AUTOMATA.values():
        assert automata(PAIR, allocator, 1, np.random.default_rng(6))[0] == pytest.approx(0.6875, abs=0.005)


def test_running_time_is_told() -> None:
    outcome = RunningTime().run(cell(FAST, "t=5", steps=5), np.random.SeedSequence(7), "quick")
    assert outcome.scores[""] > 0


def test_a_quick_table_is_reported_beside_the_print(tmp_path: Path) -> None:
    table = table_of("gpoks-8.2")
    numbers = tuple(number for number in table.numbers if number.row == "GPOKS:TS" and "0.75" in number.column)
    small = replace(table, rows=("GPOKS:TS",), environments=(table.environments[1],), numbers=numbers)
    verdicts = reproduce(small, "quick", tmp_path, jobs=1, draw=True, report_progress=silent)
    assert verdicts.total() == 3
    report = (tmp_path / "gpoks-8.2" / "report.md").read_text()
    assert "Size quick, 10 runs." in report
    assert "| GPOKS:TS | 0.75/0.25 t=1000 | 787.9 |" in report
    with (tmp_path / "gpoks-8.2" / "table.csv").open(newline="") as file:
        found = {(line["row"], line["column"]): float(line["value"]) for line in csv.DictReader(file)}
    assert 0.93 * 812.5 < found["GPOKS:TS", "0.75/0.25 t=1000"] <= 812.5


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_is_of_rows_and_columns_that_there_are(name: str) -> None:
    table = TABLES[name]
    places = {(number.row, number.column) for number in table.printed()}
    for said in SAID[name]:
        assert places >= {(row, column) for row in (*said.ahead, *said.of) for column in said.columns}


def test_what_is_said_is_asked_of_the_rows_that_there_are(tmp_path: Path) -> None:
    """By 60 updates in 740, with a standard error of 2."""
    small = replace(table_of("gpoks-8.8"), rows=("MAB:UCB-1", "MAB:UCB-1-RAW"), numbers=())
    (claim,) = small.claims(conduct(small, "quick", tmp_path, 1, silent))
    assert claim.holds
    assert claim.shown_by.startswith("0.75/0.25 t=1000: 7")


def test_less_variance_is_ahead() -> None:
    said = RankingClaim("steadier", ("A",), ("B", "C"), (VARIANCE,))
    results = Results(TABLES["gpoks-8.3"], "quick", {})
    results.estimates = {
        (row, VARIANCE): Estimate(value, 0.1, 9) for row, value in (("A", 2.0), ("B", 3.0), ("C", 2.5))
    }
    assert said.asked(results) == Claim("steadier", True, "variance: 2.0 and 2.5")
    results.estimates["C", VARIANCE] = Estimate(1.5, 0.1, 9)
    assert not said.asked(results).holds


def test_a_quick_table_of_variances_comes_out(tmp_path: Path) -> None:
    """The variance of runs, one batch of them, through the runner."""
    small = replace(table_of("gpoks-8.9"), rows=("MAB:UCB-1", "MAB:UCB-1-RAW"), numbers=())
    results = conduct(small, "quick", tmp_path, 1, silent)
    assert results.rows == ["MAB:UCB-1", "MAB:UCB-1-RAW"]
    assert all(results.estimates[row, "variance"].runs == 10 for row in results.rows)
    assert all(0 < results.value(row, "variance") < 1000 for row in results.rows)


def test_many_pages_keep_their_share_of_what_eight_have() -> None:
    asked = ManyPages()
    told = {
        cell: [asked.run(cell, np.random.SeedSequence(run), "quick") for run in (1, 2)] for cell in asked.cells("quick")
    }
    results = Results(asked, "quick", told)
    assert results.columns == ["0-5", "5-10"]
    (claim,) = asked.claims(results)
    least = min(
        results.value(f"64 pages, {web}", column) / results.value(f"8 pages, {web}", column)
        for web in ("0.3/1.0", "0.6/1.0", "0.9/1.5")
        for column in results.columns
    )
    assert claim.shown_by.startswith(f"least {least:.3f}")
    assert claim.holds == (least >= 0.9)
