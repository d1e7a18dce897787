"""[C]'s experiments and ours on the crawler run from the sweep to the report, small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pollerd.lab.environments.topical_web.graph import SEED, generate
from pollerd.lab.experiments.catalogue import experiments
from pollerd.lab.experiments.focused_crawler import concurrency, traversals, unseen, upkeep
from pollerd.lab.experiments.focused_crawler.webs import GATED_WEB, KINDS, numbered_graph, run_number
from pollerd.lab.experiments.reproduction import reproduce
from pollerd.lab.experiments.runner import conduct, seed_of


def silent(done: int, total: int) -> None:
    """Shows nothing."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Webs of a few hundred pages, few runs, short phases."""
    for module, pages in ((traversals, 400), (unseen, 400), (upkeep, 200)):
        monkeypatch.setattr(module, "PAGES", {"quick": pages})
    monkeypatch.setattr(unseen, "TRAINING_PAGES", {"quick": 400})
    monkeypatch.setattr(traversals, "RANDOM_SCHEDULES", 20)
    monkeypatch.setattr(concurrency, "PHASE_S", {"quick": 10.0})
    for experiment in (traversals.Traversals, unseen.Unseen, upkeep.Upkeep, concurrency.Concurrency):
        monkeypatch.setattr(experiment, "runs", {"quick": 1})
    unseen.training.cache_clear()
    yield
    unseen.training.cache_clear()


def test_the_robot_learns_and_passes_fringe_greedy_where_hubs_are_gates(tmp_path: Path) -> None:
    experiment = traversals.Traversals()
    results = conduct(experiment, "quick", tmp_path / experiment.name, 1, silent)
    for kind in KINDS:
        first, last = (results.value(traversals.ROBOT, f"{kind} after {number}") for number in (1, 30))
        assert first < last <= 1
        assert results.value(traversals.RANDOM, f"{kind} after 30") < last
        assert len(results.curves[traversals.ROBOT, kind, "by traversal"].mean) == 30
    assert results.value(traversals.ROBOT, f"{GATED_WEB} {traversals.PASSED}") <= 15
    reproduce(experiment, "quick", tmp_path, jobs=1, draw=True, report_progress=silent)
    report = (tmp_path / experiment.name / "report.md").read_text()
    assert "\n| robot | gated web after 30 | 0.96 |" in report
    assert all((tmp_path / experiment.name / f"{figure}.svg").exists() for figure in experiment.figures())


def test_features_are_better_than_parents_alone_on_a_web_never_seen(tmp_path: Path) -> None:
    results = conduct(unseen.Unseen(), "quick", tmp_path, 1, silent)
    for kind in KINDS:
        assert results.value(unseen.TRAINED, kind) > results.value("breadth-first", kind)
    assert results.value(unseen.TRAINED, GATED_WEB) > results.value(unseen.PARENT, GATED_WEB)


def test_upkeep_and_fetchers_are_reported(tmp_path: Path) -> None:
    for experiment in (upkeep.Upkeep(), concurrency.Concurrency()):
        reproduce(experiment, "quick", tmp_path, jobs=1, draw=False, report_progress=silent)
        report = (tmp_path / experiment.name / "report.md").read_text()
        assert all(f"\n| {cell.row} |" in report for cell in experiment.cells("quick"))


def test_graphs_are_numbered_by_run_and_none_is_trained_on() -> None:
    experiment = unseen.Unseen()
    seed = seed_of(experiment.name, experiment.cells("quick")[0], 3)
    assert run_number(seed) == 3
    graphs = [
        numbered_graph(GATED_WEB, 400, *which).relevance[:50] for which in ((3, 0), (3, 0), (4, 0), (3, 7), (4, 7))
    ]
    assert np.array_equal(graphs[0], graphs[1])
    assert len({graph.tobytes() for graph in graphs}) == 4
    of_the_tables = generate(400, np.random.SeedSequence((SEED, 3)), KINDS[GATED_WEB])
    assert np.array_equal(graphs[0], of_the_tables.relevance[:50]), "entropy 0 is none"


def test_another_entropy_trains_on_other_webs() -> None:
    learned = [unseen.training(GATED_WEB, "quick", entropy).frontier[0].pack() for entropy in (0, 7)]
    assert learned[0] != learned[1]


def test_names_are_those_of_the_command_line() -> None:
    assert {"robot", "robot-unseen", "robot-upkeep", "robot-fetchers"} <= set(experiments())
