"""The tree of automata and the tournament on it: what is done to many at once is what is done to each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.allocation.automata.hierarchy import Hierarchy, Tournament, TraaSettings


def settled(seed: int, n: int, **parameters: Any) -> tuple[Hierarchy, np.ndarray]:
    """A tree of n sites that came by amounts of four orders of magnitude, and these."""
    tree, chance = Hierarchy(TraaSettings(**parameters)), np.random.default_rng(seed)
    tree.add(n, None)
    amounts = np.sort(np.exp(chance.uniform(-4, 4, n)))[::-1]
    tree.split_by(amounts)
    return tree, amounts


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 70), st.sampled_from([1.0, 2.0]), st.sampled_from([1.0, 2.0]))
def test_a_settled_tree_splits_as_its_states_say(seed: int, n: int, growth: float, exponent: float) -> None:
    tree, _ = settled(seed, n, growth=growth, exponent=exponent)
    again = Hierarchy(tree.settings)
    again.restore(tree.states, tree.occupied())
    np.testing.assert_array_equal(tree.part, again.part)
    np.testing.assert_array_equal(tree.count, again.count)
    assert tree.occupied().sum() == n


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 70))
def test_a_settled_tree_gives_amounts_in_proportion(seed: int, n: int) -> None:
    """Within half a state at each of the automata on the way, none of which splits more unevenly than it can."""
    tree, amounts = settled(seed, n, resolution=100_000)
    np.testing.assert_allclose(tree.amounts()[:n], amounts / amounts.sum(), rtol=0.05, atol=7 / 200_000)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 200))
def test_many_leaves_enter_as_each_by_itself(seed: int, n: int) -> None:
    tree, _ = settled(seed, n)
    chance = np.random.default_rng(seed)
    leaves, last = chance.permutation(n), chance.uniform(0, 1000, n)
    together, singly = Tournament(tree, 1000.0), Tournament(tree, 1000.0)
    together.enter(leaves, last)
    for leaf, at in zip(leaves, last, strict=True):
        singly.enter(np.array([leaf]), np.array([at]))
    for now in (1000.0, 1010.0, 2000.0):
        together.advance(now)
        singly.advance(now)
        ranking = list(together.ranking())
        assert ranking == list(singly.ranking())
        assert sorted(leaf for leaf, _ in ranking) == list(range(n))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.booleans())
def test_until_failure_nobody_above_the_first_failure_is_told(seed: int, reward: bool) -> None:
    """With the draws known, an automaton moves when its own draw and all below it succeed ([B] 5.2)."""
    n, leaf = 16, 5
    tree = Hierarchy(TraaSettings(resolution=99, climb="until-failure"))
    tree.add(n, None)
    before, part = tree.states.copy(), tree.part.copy()
    draws = np.random.default_rng(seed).random((1, tree.depth))[0]
    tree.teach(np.array([leaf]), np.array([reward]), np.random.default_rng(seed))
    node, told = leaf + n, True
    for draw in draws:
        told = told and draw <= 1.0 - part[node]
        step = (1 if (node % 2 == 0) == reward else -1) if told else 0
        node //= 2
        assert tree.states[node] - before[node] == step
        before[node] += step
    np.testing.assert_array_equal(tree.states, before)
