"""The world of ephemeral content, its optimum, and the experiments of [D] and [E]."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.lspe.sources import Sources
from pollerd.allocation.registry import names
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.interest import (
    PollConstraint,
    Trace,
    drawn_gains,
    drive_sources,
    greedy,
    round_robin,
    single,
    whittle,
)
from pollerd.lab.environments.interest_optimum import bound, exact
from pollerd.lab.environments.web import Policy
from pollerd.lab.environments.worlds import Web
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.catalogue import experiment
from pollerd.lab.experiments.ephemeral.example import four_sources
from pollerd.lab.experiments.experiment import Cell, Size
from pollerd.lab.experiments.ours_objectives.objectives import Objectives, PolledSites
from pollerd.lab.experiments.reproduction import reproduce
from pollerd.lab.experiments.results import Results
from pollerd.lab.experiments.runner import conduct, seed_of
from pollerd.lab.experiments.verdict import compare

POLICIES = {"whittle": whittle, "greedy": greedy}


def average(diary: Trace, settled: int = 70) -> float:
    return float(diary.collected[settled:].mean())


def quick(name: str, folder: Path) -> Results:
    return conduct(experiment(name), "quick", folder, 1, lambda done, total: None)


@pytest.mark.parametrize(("polls", "expected"), [(1, 260.39), (2, 337.77)])
def test_the_index_policy_is_optimal_for_the_four_sources(polls: int, expected: float) -> None:
    sources = four_sources()
    index = average(drive_sources(sources, whittle(sources), PollConstraint(polls), 770))
    assert index == pytest.approx(expected, abs=0.01)
    assert index == pytest.approx(exact(sources, PollConstraint(polls), ages=12, error=1e-4), abs=0.01)
    assert index <= bound(sources, polls) + 1e-6


@pytest.mark.parametrize("most", [4, 5])
def test_who_may_poll_all_sites_has_all_there_is(most: int) -> None:
    sources = four_sources()
    best = exact(sources, PollConstraint(most), ages=5)
    assert best == pytest.approx(float(sources.gain.sum()), abs=1e-3)
    assert best == pytest.approx(average(drive_sources(sources, greedy(sources), PollConstraint(most), 100)), abs=1e-3)


def test_the_bound_is_the_best_split_where_epochs_are_short() -> None:
    """One site, one poll in five epochs: nothing is shared out, so the bound is that period's value."""
    one = Sources(np.array([3.0]), np.array([2.0]), np.array([0.1]))
    assert bound(one, 0.2) == pytest.approx(float(one.after(np.array([5.0]))[0]) / 5, rel=1e-9)


@pytest.mark.parametrize("name", POLICIES)
def test_costs_are_kept_in_the_long_run(name: str) -> None:
    sources = four_sources(np.array([2.0, 1.0, 1.0, 0.5]))
    diary = drive_sources(sources, POLICIES[name](sources), PollConstraint(2, "cost"), 2000)
    spent = np.cumsum((diary.polled[:, 0] * sources.cost).sum(-1))
    allowed = 2.0 * np.arange(1, 2001)
    assert (spent <= allowed + 1e-6).all()
    assert (allowed - spent).max() <= 2.0
    assert average(diary) <= bound(sources, 2.0)


def test_round_robin_and_single_do_what_they_say() -> None:
    sources = four_sources()
    turns = drive_sources(sources, round_robin(), PollConstraint(2), 8).polled[:, 0]
    assert turns.sum(0).tolist() == [4, 4, 4, 4]
    alone = drive_sources(sources, single(sources, 1), PollConstraint(2), 8).polled[:, 0]
    assert alone.sum(0).tolist() == [0, 8, 0, 0]


@pytest.mark.parametrize(("values", "spread"), [("even", 1.0), ("exponential", 2.0)])
def test_drawn_gains_have_the_moments_of_a_compound_poisson(
    values: Literal["even", "exponential"], spread: float
) -> None:
    """Mean u and variance Λ E[ξ²] (1 - α²) / (2μ); |z| > 6 of eight such comparisons: one run in 10⁷ fails."""
    sources, epochs = four_sources(), 2000
    gains = drawn_gains(sources, epochs, np.random.default_rng(5), values)
    exact_variance = 250.0 * spread * sources.value**2 * (1 - sources.retained**2) / (2 * sources.decay)
    assert (abs(gains.mean(0) - sources.gain) < 6 * np.sqrt(exact_variance / epochs)).all()
    assert (abs(gains.var(0) / exact_variance - 1) < 6 * np.sqrt(2.1 / epochs)).all()


def test_looking_at_means_is_what_the_mean_dynamics_do() -> None:
    sources = four_sources()
    gains = drawn_gains(sources, 101, np.random.default_rng(2))[:, None]
    drawn = drive_sources(sources, whittle(sources), PollConstraint(2), 100, gains, "means")
    np.testing.assert_array_equal(drawn.polled, drive_sources(sources, whittle(sources), PollConstraint(2), 100).polled)


def test_of_mixed_sources_each_goes_by_its_state_or_by_its_mean() -> None:
    """A policy that notes what it is shown: the state of the observed source, the mean of the other ([E] 7)."""
    sources = four_sources()
    gains = drawn_gains(sources, 41, np.random.default_rng(3))[:, None]
    observed = np.array([True, False, True, False])
    shown: list[NDArray[np.float64]] = []

    def in_turn(interest: NDArray[np.float64], age: NDArray[np.int64]) -> NDArray[np.float64]:
        shown.append(interest)
        return age.astype(np.float64)

    states = drive_sources(sources, in_turn, PollConstraint(1), 40, gains, observed).waiting
    means = drive_sources(sources, round_robin(), PollConstraint(1), 40).waiting
    np.testing.assert_allclose(shown, np.where(observed, states, means))


def test_bad_limits_are_named() -> None:
    for given in ((0.0,), (1.5,), (1, "polls")):
        with pytest.raises(InvalidValueError):
            PollConstraint(*given)
    with pytest.raises(InvalidValueError, match="number of sites"):
        exact(four_sources(), PollConstraint(2.0, "cost"), ages=5)


def test_figures_two_and_three_show_the_order_of_polls_that_the_paper_tells(tmp_path: Path) -> None:
    for name in ("ephemeral-fig-1", "ephemeral-fig-2", "ephemeral-fig-3"):
        results = quick(name, tmp_path / name)
        assert [claim.holds for claim in experiment(name).claims(results)].count(False) == 0


def test_figure_four_is_judged_over_many_paths_and_shows_one(tmp_path: Path) -> None:
    asked = experiment("ephemeral-fig-4")
    results = quick(asked.name, tmp_path)
    (claim,) = asked.claims(results)
    assert not claim.holds, "source 1 is polled in nearly every epoch"
    assert "means of 30 paths" in claim.shown_by
    assert all(0 < estimate.error < 0.01 for (_, column), estimate in results.estimates.items() if "share" in column)
    (cell,) = asked.cells("quick")
    path = asked.run_together(cell, [seed_of(asked.name, cell, 0)], "quick")[0].curves
    np.testing.assert_array_equal(results.curves["whittle", "", "source 1"].mean, path["source 1"])


@pytest.mark.parametrize("name", ["ephemeral-fig-4", "lspe-four-sources"])
def test_what_differs_from_the_paper_is_explained(name: str, tmp_path: Path) -> None:
    asked = experiment(name)
    results = quick(name, tmp_path)
    assert all(claim.shown_by for claim in asked.claims(results))
    assert {comparison.verdict for comparison in compare(asked, results)} <= {"agrees", "differs"}


@pytest.mark.parametrize("name", ["ours-freshness", "ours-interest", "ours-delay", "ours-deadline"])
def test_every_allocator_is_tried_at_sizes_it_is_made_for(name: str) -> None:
    asked = experiment(name)
    cells = asked.cells("quick")
    assert {cell["allocator"] for cell in cells} == set(names())
    small = [cell for cell in cells if cell["pages"] == 2 and cell["web"] == cells[0]["web"]]
    for cell in small:
        scores = asked.run(cell, seed_of(name, cell, 0), "quick").scores
        assert list(scores) == ["0-1", "1-4", "4-10"]
        assert all(score >= 0 for score in scores.values())


class TwoPages(Objectives):
    """The webs of two pages."""

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell for cell in super().cells(size) if cell["pages"] == 2]


def test_an_objective_by_every_allocator_is_reported(tmp_path: Path) -> None:
    asked = TwoPages("interest", {"still": PolledSites(0.3, 1.5), "moving": PolledSites(0.9, 1.5, switching=True)})
    reproduce(asked, "quick", tmp_path, jobs=1, draw=True, report_progress=lambda done, total: None)
    folder = tmp_path / "ours-interest"
    report = (folder / "report.md").read_text()
    assert all(f"| 2 pages, {web}: {name}" in report for web in ("still", "moving") for name in ("whittle", "ucb1"))
    figures = {f"ours-interest-{number}.{kind}" for number in (1, 2) for kind in ("png", "svg")}
    assert figures <= {path.name for path in folder.iterdir()}
    assert ">whittle<" in (folder / "ours-interest-2.svg").read_text()


@pytest.mark.parametrize("objective", ["freshness", "interest"])
def test_who_is_told_the_rates_reaches_the_best(objective: Literal["freshness", "interest"]) -> None:
    """Over 300 polls a page; the best is an average over all time, whose share had a deviation of .005 over 8 seeds."""
    world = Web(Zipf(20, 0.3, 1.0, "shuffled"), objective, half_lives=(300.0, 3e4))
    policy = Policy("optimal", objective, told_rates=True)
    share = world.shares(policy, [600, 6000], np.random.SeedSequence(1))[1]
    assert share == pytest.approx(1.0, abs=0.04)


def test_bad_webs_are_named() -> None:
    zipf = Zipf(4)
    with pytest.raises(InvalidValueError, match="objective"):
        Web(zipf, "worth")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="half_lives"):
        Web(zipf, "interest", half_lives=(5.0, 1.0))
    with pytest.raises(InvalidValueError, match="noise"):
        Web(zipf, "interest", noise=0.1)
