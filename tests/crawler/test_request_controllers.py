"""The request controller: equation (10) by hand, local states against their definitions, learning on small webs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.crawler.controllers import (
    Approximation,
    FeaturedController,
    LearnedQ,
    RequestOutcome,
    RequestSettings,
    TabularController,
)
from pollerd.crawler.link_features import FRONTIER, RETRIEVED, LinkFeatures, RetrievedPage
from pollerd.errors import InvalidValueError


def traverse(controller: TabularController, web: dict[int, tuple[float, list[int]]]) -> list[int]:
    """One traversal of a tree: page -> (reward, what it discovers)."""
    controller.arrive(0, [0])
    order = list[int]()
    while (page := controller.choose()) is not None:
        order.append(page)
        controller.retrieved(page, *web[page])
    return order


def test_two_traversals_of_a_chain_by_hand() -> None:
    # 0 discovers 1 and 2, 1 discovers 3; rewards 0, .5, .2, .8. States: who discovered (page 0 itself: 0).
    web = {0: (0.0, [1, 2]), 1: (0.5, [3]), 2: (0.2, []), 3: (0.8, [])}
    settings = RequestSettings(discount=0.5, step=0.5, exploration=0.0, passive="best")
    controller = TabularController(4, settings, np.random.default_rng(0))
    assert traverse(controller, web)[:2] == [0, 1]
    # Request 0: 0 + γ·0. Request 1: .5 + γ·0 is the second lesson of state 0. Then 3 (state 1) and 2 in either order.
    ask_3, _ = controller.values(1)
    assert ask_3 == pytest.approx(0.8)
    controller.begin()
    # Index of state 0 is above 0, so of the two it holds page 1 comes first; then state 1, worth .8, before page 2.
    assert traverse(controller, web) == [0, 1, 3, 2]


def test_what_a_page_discovers_counts_for_it() -> None:
    web = {0: (0.0, [1]), 1: (0.0, [2]), 2: (1.0, [])}
    settings = RequestSettings(discount=0.5, step=1.0, exploration=0.0)
    controller = TabularController(3, settings, np.random.default_rng(0))
    for _ in range(4):
        controller.begin()
        assert traverse(controller, web) == [0, 1, 2]
    assert controller.values(1)[0] == pytest.approx(1.0)
    # Pages 0 and 1 share state 0; the last lesson is page 1's: γ times what its only child is worth.
    assert controller.values(0)[0] == pytest.approx(0.5)


def test_waiting_is_one_lesson_discounted_by_its_length() -> None:
    web = {0: (0.0, [1, 2, 3]), 1: (0.4, []), 2: (0.4, []), 3: (0.4, [])}
    settings = RequestSettings(discount=0.5, step=1.0, exploration=0.0)
    controller = TabularController(4, settings, np.random.default_rng(0))
    assert traverse(controller, web) == [0, 1, 2, 3]
    # Page 3 was passed over twice, when asking was worth .4; requests before its own moved Q(x, 1) to .4 already.
    assert controller.values(0)[1] == pytest.approx(0.5**2 * 0.4)


def test_a_hub_without_relevance_of_its_own_is_asked_for_early() -> None:
    # 0 discovers two lists, 1 and 2; 1 leads to 20 pages of .1, 2 to a hub without relevance that leads to 20 of .9.
    web: dict[int, tuple[float, list[int]]] = {0: (0.0, [1, 2]), 1: (0.0, list(range(4, 24))), 2: (0.0, [3])}
    web |= {page: (0.1, []) for page in range(4, 24)}
    web |= {3: (0.0, list(range(24, 44)))} | {page: (0.9, []) for page in range(24, 44)}
    for seed in range(10):
        controller = TabularController(44, RequestSettings(exploration=0.0), np.random.default_rng(seed))
        for _ in range(10):
            controller.begin()
            order = traverse(controller, web)
        assert order.index(3) <= 4
        assert sorted(order) == list(range(44))


def test_settings_are_checked() -> None:
    bad: dict[str, Any] = {"discount": 1.0, "step": 0.0, "exploration": 1.5, "passive": "other"}
    for field, value in bad.items():
        with pytest.raises(InvalidValueError, match=field):
            RequestSettings(**{field: value})
    with pytest.raises(InvalidValueError, match="documents"):
        TabularController(0, RequestSettings(), np.random.default_rng(0))
    with pytest.raises(InvalidValueError, match="memory"):
        LearnedQ(memory=0.0)
    with pytest.raises(InvalidValueError, match="documents"):
        FeaturedController(0, LearnedQ(), RequestSettings(), np.random.default_rng(0))
    controller = TabularController(2, RequestSettings(), np.random.default_rng(0))
    with pytest.raises(KeyError):
        controller.retrieved(0, 1.0, [])


def random_page(rng: np.random.Generator, documents: int, page: int) -> RetrievedPage:
    """A page with up to six links."""
    links = np.setdiff1d(rng.integers(0, documents, rng.integers(0, 7)), [page])
    k = len(links)
    return RetrievedPage(
        float(rng.random()),
        links,
        rng.random(k) * (rng.random(k) < 0.7),
        rng.random(k) < 0.2,
        rng.random(k) < 0.5,
        links % 5,
    )


def test_local_states_are_what_they_are_defined_to_be() -> None:
    rng = np.random.default_rng(7)
    documents = 40
    states, shown = LinkFeatures(documents, patience=10.0), dict[int, RetrievedPage]()
    states.start(0)
    for step in range(300):
        page = int(rng.choice(np.flatnonzero(states.known)))
        if page in shown and rng.random() < 0.3:
            states.take_in(page, shown[page], step, changed=False)
        elif page in shown and rng.random() < 0.1:
            states.forget(page, step)
            del shown[page]
        else:
            shown[page] = random_page(rng, documents, page)
            states.take_in(page, shown[page], step, changed=True)
        expect_states(states, shown)


def expect_states(states: LinkFeatures, shown: dict[int, RetrievedPage]) -> None:
    """Means over parents and over children, from the definition."""
    frontier = np.array([i for i in np.flatnonzero(states.known) if i not in shown], np.int64)
    parents = [[p.relevance for p in shown.values() if i in p.links] for i in frontier]
    means = [float(np.mean(found)) if found else 0.0 for found in parents]
    features = states.frontier(frontier)
    assert features.shape == (len(frontier), len(FRONTIER))
    assert features[:, 0] == pytest.approx(means, abs=1e-9)
    counts = [np.log1p(max(len(found), 1)) / 3 for found in parents]
    assert features[:, FRONTIER.index("known parents")] == pytest.approx(counts)
    held = np.array(sorted(shown), np.int64)
    children = [[shown[c].relevance for c in shown[i].links.tolist() if c in shown] for i in held]
    features = states.held(held, 300)
    assert features.shape == (len(held), len(RETRIEVED))
    assert features[:, 0] == pytest.approx([shown[i].relevance for i in held])
    assert features[:, 1] == pytest.approx([float(np.mean(found)) if found else 0.0 for found in children], abs=1e-9)


def test_an_approximation_finds_a_quadratic() -> None:
    rng = np.random.default_rng(1)

    def truth(states: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.3 + states[:, 0] * states[:, 1] - 0.5 * states[:, 2] ** 2

    function = Approximation(3, memory=1e6)
    assert function(rng.random((5, 3))).tolist() == [0.0] * 5
    for state in rng.random((6_400, 3)):
        function.learn(state, float(truth(state[None, :])[0]))
    assert function.samples == 6_400
    unseen = rng.random((100, 3))
    # The ridge of 1 weighs against thousands of lessons; a linear function would miss by .1.
    assert np.abs(function(unseen) - truth(unseen)).max() < 0.02


def test_a_linear_approximation_finds_a_plane_and_of_a_product_no_more_than_that() -> None:
    rng = np.random.default_rng(2)
    plane, product = Approximation(3, memory=1e6, linear=True), Approximation(3, memory=1e6, linear=True)
    for state in rng.random((3_200, 3)):
        plane.learn(state, float(0.2 + 0.5 * state[0] - 0.3 * state[2]))
        product.learn(state, float(state[0] * state[1]))
    unseen = rng.random((100, 3))
    assert np.abs(plane(unseen) - (0.2 + 0.5 * unseen[:, 0] - 0.3 * unseen[:, 2])).max() < 0.02
    # Least squares over the unit square: x y is nearest to (x + y) / 2 - 1 / 4, a quarter off at the corners.
    assert np.abs(product(unseen) - (unseen[:, 0] + unseen[:, 1]) / 2 + 0.25).max() < 0.02
    assert len(plane.pack()) == plane.packed_bytes < Approximation(3, memory=1e6).packed_bytes


def leaf(relevance: float) -> RetrievedPage:
    """A page without links."""
    none = np.empty(0, np.int64)
    return RetrievedPage(relevance, none, np.empty(0), np.empty(0, np.bool_), np.empty(0, np.bool_), none)


def test_the_robot_with_features_asks_for_each_page_once_or_keeps_on() -> None:
    links = np.arange(1, 6)
    start = RetrievedPage(0.0, links, np.linspace(0.1, 0.9, 5), np.zeros(5, np.bool_), np.ones(5, np.bool_), links)
    for refresh in (False, True):
        controller = FeaturedController(6, LearnedQ(), RequestSettings(), np.random.default_rng(0), refresh=refresh)
        controller.start(0)
        seen = dict[int, int]()
        # All are alike for the first 64 lessons: a page of the six is never drawn in one of 16,000 seeds.
        for _ in range(100):
            if (page := controller.choose()) is None:
                break
            seen[page] = seen.get(page, 0) + 1
            first = RequestOutcome.FIRST if seen[page] == 1 else RequestOutcome.SAME
            controller.retrieved(page, leaf(0.5) if page else start, first)
        assert sorted(seen) == list(range(6))
        assert sum(seen.values()) == (100 if refresh else 6)


def test_a_page_that_is_gone_is_asked_for_no_more() -> None:
    controller = FeaturedController(2, LearnedQ(), RequestSettings(), np.random.default_rng(0), refresh=True)
    controller.start(0)
    assert controller.choose() == 0
    controller.retrieved(0, leaf(0.5), RequestOutcome.FIRST)
    assert controller.choose() == 0
    controller.gone(0)
    assert controller.choose() is None
