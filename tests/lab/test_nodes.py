"""Pages split over nodes: the budget is kept, one node is one allocator, one price finds more than an even split."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.registry import create
from pollerd.lab.environments.changes import ZipfChanges
from pollerd.lab.environments.driving import STEP_S, drive
from pollerd.lab.environments.nodes import NodesRecord, Sharing, drive_nodes, nodes_of
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.catalogue import experiment

PAGES = 40


def changes() -> ZipfChanges:
    return ZipfChanges(Zipf(PAGES, 0.3, 1.0, "sorted"), np.random.default_rng(1))


def made(name: str, budget: float) -> Allocator:
    return create(name, budget=budget, rng=np.random.default_rng(2))


def driven(node: NDArray[np.int64], sharing: Sharing, polls: int, name: str = "whittle") -> NodesRecord:
    return drive_nodes(lambda b: made(name, b), changes(), node, polls, sharing=sharing, divide_every=20)


def test_one_node_is_one_allocator() -> None:
    record = driven(np.zeros(PAGES, np.int64), "even", 200)
    alone = drive(made("whittle", 1 / STEP_S), changes(), 200)
    assert record.found.sum() == alone.found.sum()
    assert record.step.tolist() == list(range(1, 201))


@pytest.mark.parametrize("sharing", ["price", "sites", "even"])
def test_all_nodes_together_spend_the_budget(sharing: Sharing) -> None:
    node = np.arange(PAGES) % 4
    record = driven(node, sharing, 200)
    assert (record.grants.sum(1) <= 1 + 1e-12).all()
    assert len(record.step) == pytest.approx(200, abs=4)
    inside = np.searchsorted(record.step, np.arange(0, 201, 10), "right")
    assert (np.diff(inside) <= 10 + 4).all()


def test_one_price_gives_the_budget_to_the_node_with_the_pages_that_change() -> None:
    """The first ten pages make half of all changes; an even split polls them with a quarter of the budget."""
    node = np.arange(PAGES) // 10
    price, even = (driven(node, sharing, 800) for sharing in ("price", "even"))
    assert price.grants[-1, 0] > 0.4
    assert price.found[-500:].sum() > even.found[-500:].sum()


def test_hosts_stay_together() -> None:
    node = nodes_of(["a", "b", "a", "c", "b"], 8)
    assert node[0] == node[2]
    assert node[1] == node[4]
    assert len(set(nodes_of([f"host {k}" for k in range(200)], 8).tolist())) == 8


def test_the_experiment_has_all_ways_for_each_web() -> None:
    cells = experiment("ours-nodes").cells("quick")
    assert len(cells) == 12
    assert len({cell.stream for cell in cells}) == 3
