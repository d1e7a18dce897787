"""[B]'s tables: the sweep has a place for each printed number, and a quick one comes out."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pollerd.allocation.bandits import Ucb1
from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.experiments.experiment import Claim, Experiment, cell
from pollerd.lab.experiments.gpoks import EXPERIMENTS
from pollerd.lab.experiments.gpoks.claims import SAID, VARIANCE, RankingClaim
from pollerd.lab.experiments.gpoks.eight_pages import EIGHT_PAGES
from pollerd.lab.experiments.gpoks.greedy import GREEDY_KNAPSACK
from pollerd.lab.experiments.gpoks.many_pages import ManyPages
from pollerd.lab.experiments.gpoks.more_bandits import MORE_BANDITS, EpsilonGreedy, Greedy
from pollerd.lab.experiments.gpoks.numbers import NUMBERS
from pollerd.lab.experiments.gpoks.play import GAINS, automata, gpoks, materials, mixes_of, splits
from pollerd.lab.experiments.gpoks.readings import (
    LAKG_EVEN,
    LAKG_OF_5_1,
    READS,
    ThompsonByDeviations,
    Ucb1ByChance,
    lakg_of_5_1,
)
from pollerd.lab.experiments.gpoks.reasons import even_split_of_all_pairs
from pollerd.lab.experiments.gpoks.running_time import FAST, RunningTime
from pollerd.lab.experiments.gpoks.schemes import AUTOMATA, FIXED, SPLITS, VARIANT, scores
from pollerd.lab.experiments.gpoks.tables import Table
from pollerd.lab.experiments.gpoks.two_pages import TWO_PAGES
from pollerd.lab.experiments.reproduction import reproduce
from pollerd.lab.experiments.results import Estimate, Results
from pollerd.lab.experiments.runner import conduct

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


@pytest.mark.parametrize("row", [*VARIANT, *SPLITS, *AUTOMATA, LAKG_OF_5_1, LAKG_EVEN])
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


def test_an_automaton_drawn_by_chance_starts_even_and_differs_later() -> None:
    first, other = (automata(PAIR, "lakg", 60, np.random.default_rng(6), by_chance=chance) for chance in (False, True))
    assert first[0] == other[0] == pytest.approx(0.6875)
    assert not np.array_equal(first, other)


def test_lakg_of_5_1_goes_down_though_the_knapsack_is_not_full() -> None:
    """Two materials that never change: each poll lowers a state, so the mix, which starts even, stays near it."""
    barren = Knapsack(np.array([1e-12, 1e-12]))
    found = lakg_of_5_1(barren, 400, SEEDS)
    assert found.shape == (6, 400)
    assert (found < 1e-11).all()
    # one material that always changes: the other falls to 1 or 2 of 100, this one rises until both add up to 1
    certain = lakg_of_5_1(Knapsack(np.array([1 - 1e-12, 1e-12])), 400, SEEDS)
    np.testing.assert_allclose(certain[:, 0], 0.5)
    assert (certain[:, -1] > 0.97).all()


def test_lakg_of_5_1_from_an_even_start_makes_the_print_of_eight_pages() -> None:
    """[B] prints 571.8 for .3/1.0 after 1,000 steps; from N/2 each of eight states has far to fall."""
    web = Knapsack(0.3 / np.arange(1, 9))
    half, even = (lakg_of_5_1(web, 1000, SEEDS, even_start=start).sum(1).mean() for start in (False, True))
    assert even == pytest.approx(571.8, rel=0.02)
    assert half < 0.98 * even


def test_taking_the_best_step_at_a_time_needs_values_that_are_concave() -> None:
    """[B] appendix A; of unit values that only fall some draws are filled worse."""
    greedy = GREEDY_KNAPSACK
    drawn = {cell: [greedy.run(cell, seed, "quick") for seed in SEEDS * 5] for cell in greedy.cells("quick")}
    results = Results(greedy, "quick", drawn)
    assert [claim.holds for claim in greedy.claims(results)] == [True]
    assert results.value("falling unit values", "least of all runs") < 0.999


def test_readings_repeat_the_printed_row_that_they_read() -> None:
    table = table_of("gpoks-8.8")
    numbers = {(number.row, number.column): number.value for number in table.printed()}
    columns = {number.column for number in table.printed()}
    for other, printed in READS.items():
        assert all(numbers[other, column] == numbers[printed, column] for column in columns)
        assert table.rows.index(other) > table.rows.index(printed)


def test_ucb1_with_ties_by_chance_pulls_each_arm_once() -> None:
    arms, rng, order = Ucb1ByChance(5), np.random.default_rng(9), list[int]()
    for _ in range(5):
        order.append(arms.choose(rng))
        arms.learn(order[-1], 0.5)
    assert sorted(order) == [0, 1, 2, 3, 4] != order


def test_deviations_draw_as_b_3_8_has_it() -> None:
    """Prior N(.7, .2²), ten rewards of 1, deviation .05: 1 / V = 25 + 4,000, M = V (17.5 + 4,000); against N(.7, .2²).

    The chance that the untried arm's draw is larger is Φ((.7 - M) / sqrt(.04 + V)), .069; as variances it is .27.
    """
    arms, rng = ThompsonByDeviations(2), np.random.default_rng(3)
    arms.counts[0], arms.sums[0] = 10, 10
    untried = np.mean([arms.choose(rng) for _ in range(4000)])
    variance = 1 / 4025
    away = (0.7 - variance * 4017.5) / math.sqrt(0.04 + variance)
    assert untried == pytest.approx(0.5 * math.erfc(-away / math.sqrt(2)), abs=0.016)


def test_extremes_are_those_of_the_runs(tmp_path: Path) -> None:
    table = table_of("gpoks-8.11")
    numbers = tuple(number for number in table.numbers if number.row == "LA:H-TRAA")
    assert {number.column: number.value for number in numbers} == {
        "variance": "1008.4",
        "least": "396.6",
        "most": "766.7",
    }
    small = replace(table, rows=("LA:H-TRAA",), numbers=numbers, runs={"quick": 4, "full": 4})
    found = conduct(small, "quick", tmp_path, 1, silent)
    assert found.value("LA:H-TRAA", "least") < found.value("LA:H-TRAA", "most")
    assert np.isnan(found.estimates["LA:H-TRAA", "least"].error)
    with pytest.raises(KeyError):
        found.value("LA:H-TRAA", "mean")


def test_the_even_split_of_all_pairs_is_what_h_traa_is_printed_with() -> None:
    """6.75, 67.5, 675: [B] 8.8 prints 6.8, 68.8 and 676.4 for each of its pairs."""
    assert [even_split_of_all_pairs(steps) for steps in (10, 100, 1000)] == pytest.approx([6.75, 67.5, 675.0])


def test_the_numbers_that_need_no_run_come_out(tmp_path: Path) -> None:
    verdicts = reproduce(NUMBERS, "quick", tmp_path, jobs=1, draw=False, report_progress=silent)
    assert verdicts == {"agrees": 9, "differs": 2}, "the sums of two webs are cut, not rounded"


@pytest.mark.parametrize(("materials", "points", "number"), [(2, 101, 99), (3, 11, 36), (4, 11, 84), (1, 11, 1)])
def test_mixes_fill_the_knapsack_and_leave_nobody_out(materials: int, points: int, number: int) -> None:
    mixes = mixes_of(materials, points)
    assert mixes.shape == (number, materials)
    assert len(np.unique(mixes, axis=0)) == number
    np.testing.assert_allclose(mixes.sum(1), 1.0)
    assert mixes.min() >= 1 / (points - 1) - 1e-12


def test_greedy_bandits_pull_all_arms_once_and_then_the_best_or_sometimes_any() -> None:
    rng = np.random.default_rng(4)
    for player, strays in ((Greedy, False), (EpsilonGreedy, True)):
        arms, pulled = player(4), list[int]()
        for _ in range(400):
            pulled.append(arms.choose(rng))
            arms.learn(pulled[-1], float(pulled[-1] == 2))
        assert set(pulled) == {0, 1, 2, 3}
        late = np.array(pulled[100:])
        assert (late == 2).mean() > 0.8
        assert bool((late != 2).any()) == strays


def test_more_bandits_run_on_two_and_three_pages() -> None:
    wanted = [cell for cell in MORE_BANDITS.cells("quick") if cell.column in ("0.75/0.25", "3 pages, 0.9/1.5")]
    told = {cell: [MORE_BANDITS.run(cell, np.random.SeedSequence(3), "quick")] for cell in wanted}
    results = Results(MORE_BANDITS, "quick", told)
    assert len(results.rows) == 6
    assert all(400 < each.value < 1000 for each in results.estimates.values())
    assert len(MORE_BANDITS.claims(results)) == 1


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
