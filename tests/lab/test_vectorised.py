"""Runs done side by side choose and learn as the allocators do."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.allocation.automata.hierarchy import UPDATING, Hierarchy, TraaSettings
from pollerd.allocation.periodic import EarliestDeadlineFirst
from pollerd.allocation.slots import credit_after
from pollerd.lab.environments.knapsack import Knapsack, drive_knapsack
from pollerd.lab.environments.vectorised import BatchedHtraa, BatchedPeriodic
from pollerd.lab.environments.web import Policy, run_web, streams
from pollerd.lab.environments.web_together import can_go_together, found_together, values_together
from pollerd.lab.environments.zipf import Zipf

EXACT = {
    "uniform": Policy("uniform"),
    "optimal": Policy("optimal", told_rates=True),
    "proportional": Policy("proportional", told_rates=True),
    "estimator": Policy("estimator", parameters=(("phase", 130),)),
    "lakg": Policy("lakg", parameters=(("resolution", 40),)),
}


@pytest.fixture
def any_seed() -> np.random.SeedSequence:
    """Another one at every run: what is tested holds for all."""
    return np.random.SeedSequence()


def seeds(any_seed: np.random.SeedSequence, runs: int) -> list[np.random.SeedSequence]:
    return any_seed.spawn(runs)


@pytest.mark.parametrize("name", EXACT)
def test_in_the_web_each_poll_is_the_allocators(name: str, any_seed: np.random.SeedSequence) -> None:
    zipf = Zipf(20, 0.9, 1.0, "shuffled", switch_every=150)
    runs = seeds(any_seed, 3)
    together = found_together(zipf, EXACT[name], 500, runs)
    alone = [run_web(zipf, EXACT[name], 500, seed).found for seed in runs]
    np.testing.assert_array_equal(together, alone)


def test_many_unreleased_pages_before_the_first_released_change_nothing(any_seed: np.random.SeedSequence) -> None:
    """Periods far longer than their pages' share of the polls: all polls but the first of each page come too early."""
    period, rng = 1e4 * np.random.default_rng(any_seed).random((2, 60)), np.random.default_rng(any_seed)
    players, edf = BatchedPeriodic(period, 10.0), EarliestDeadlineFirst()
    edf.grow(period.size)
    last = np.zeros(period.shape)
    for now in 10.0 * np.arange(1, 400):
        elapsed = now - last
        page, at = players.choose(elapsed), np.arange(2)
        late = edf.lateness(elapsed.ravel(), period.ravel()).reshape(period.shape)
        np.testing.assert_array_equal(page, late.argmax(1))
        edf.polled(players.flat(page), elapsed[at, page], period[at, page])
        players.learn(page, elapsed[at, page], rng.random(2) < 0.5)
        last[at, page] = now


@pytest.mark.parametrize("name", ["proportional", "lakg"])
def test_in_the_knapsack_each_value_is_the_allocators(name: str, any_seed: np.random.SeedSequence) -> None:
    zipf = Zipf(8, 0.6, 1.0, "shuffled")
    runs = seeds(any_seed, 3)
    together = values_together(zipf, EXACT[name], 200, runs)
    for found, seed in zip(together, runs, strict=True):
        world, own, draws = streams(seed)
        p = np.empty(8)
        p[zipf.page_of_rank(world)] = zipf.by_rank
        allocator = EXACT[name].made(10.0, own, Knapsack(p).rate / 10.0)
        np.testing.assert_allclose(found, drive_knapsack(allocator, Knapsack(p), 200, draws), rtol=1e-12)


@pytest.mark.parametrize("updating", UPDATING)
def test_trees_move_as_the_hierarchy_and_poll_whose_turn_it_is(updating: str, any_seed: np.random.SeedSequence) -> None:
    settings, runs, pages, step = TraaSettings(resolution=7, updating=updating, exponent=1.5, growth=1.5), 3, 16, 10.0
    own = seeds(any_seed, runs)
    players = BatchedHtraa(pages, step, settings, [np.random.default_rng(seed) for seed in own])
    trees, draws = [Hierarchy(settings) for _ in own], [np.random.default_rng(seed) for seed in own]
    for tree in trees:
        tree.add(pages, None)
    last, credit, coins = np.zeros((runs, pages)), np.zeros((runs, pages)), np.random.default_rng(any_seed)
    for now in step * np.arange(1, 601):
        elapsed = now - last
        page, changed = players.choose(elapsed), coins.random(runs) < 0.5
        players.learn(page, elapsed[np.arange(runs), page], changed)
        for run, (tree, polled) in enumerate(zip(trees, page.tolist(), strict=True)):
            amounts = tree.amounts(np.arange(pages))
            urgency = amounts * (elapsed[run] + credit[run])
            assert urgency[polled] >= urgency.max() - 1e-9 * abs(urgency.max())
            credit[run, polled] = credit_after(elapsed[run, polled], credit[run, polled], step / amounts[polled])
            tree.teach(np.array([polled]), changed[[run]], draws[run])
        last[np.arange(runs), page] = now
    np.testing.assert_allclose(players.mix(), [tree.amounts(np.arange(pages)) for tree in trees], rtol=1e-12)
    np.testing.assert_array_equal(players.states, [tree.states for tree in trees])


def test_a_web_does_not_hang_on_the_webs_beside_it(any_seed: np.random.SeedSequence) -> None:
    policy = Policy("htraa", parameters=(("reorder", False),))
    zipf, runs = Zipf(16, 0.9, 1.5), seeds(any_seed, 4)
    together = found_together(zipf, policy, 300, runs)
    np.testing.assert_array_equal(together[2:], found_together(zipf, policy, 300, runs[2:]))


@pytest.mark.parametrize(
    ("policy", "pages", "can"),
    [
        (EXACT["uniform"], 512, True),
        (EXACT["lakg"], 32_768, True),
        (Policy("optimal"), 512, False),
        (Policy("estimator"), 512, False),
        (Policy("whittle"), 512, False),
        (Policy("htraa"), 512, False),
        (Policy("htraa", parameters=(("reorder", False),)), 512, True),
        (Policy("htraa", parameters=(("reorder", False),)), 500, False),
        (Policy("htraa", parameters=(("reorder", False),)), 8192, False),
        (Policy("htraa", parameters=(("climb", "until-failure"), ("reorder", False))), 512, False),
        (Policy("uniform", objective="freshness"), 512, False),
    ],
)
def test_only_what_is_written_for_many_runs_goes_together(policy: Policy, pages: int, can: bool) -> None:
    assert can_go_together(policy, pages) is can


def test_what_is_not_written_for_many_runs_is_refused_there() -> None:
    zipf = Zipf(30, 0.3, 1.0, "shuffled")
    for together in (found_together, values_together):
        with pytest.raises(ValueError, match=r"not written for many runs at once with 30 pages: .*'whittle'"):
            together(zipf, Policy("whittle"), 30, [np.random.SeedSequence(1)])
