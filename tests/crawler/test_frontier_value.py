"""Worth of pages on the frontier, from columns: the same features as in memory, learned, kept as bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pollerd.crawler.controllers import FrontierRows, FrontierValue, RequestSettings, discovered, like_hub, path_depth
from pollerd.crawler.link_features import LinkFeatures, RetrievedPage
from pollerd.errors import InvalidValueError

SETTINGS = RequestSettings()


def rows(**columns: float) -> FrontierRows:
    """One page on the frontier; the rest is 0."""
    names = (
        "parents",
        "parents_sum",
        "parents_best",
        "anchors",
        "anchor_sum",
        "child_count",
        "children_retrieved",
        "children_relevance",
    )
    given = {name: np.array([columns.get(name, 0.0)]) for name in names}
    return FrontierRows(urls=["http://a/x/y.html"], same_host=np.array([True]), **given)


def test_columns_give_the_features_of_local_states() -> None:
    """Page 0 discovers 1, 2 and 3; page 1 was retrieved and links to 2 and 0."""
    known = LinkFeatures(4, patience=10.0)
    known.start(0)
    ends = {"like_hub": np.zeros(3, np.bool_), "same_host": np.ones(3, np.bool_), "depth": np.full(3, 2)}
    known.take_in(0, RetrievedPage(0.6, np.array([1, 2, 3]), np.array([0.0, 0.4, 0.2]), **ends), 0, changed=True)
    second = {name: column[:2] for name, column in ends.items()}
    known.take_in(1, RetrievedPage(0.2, np.array([2, 0]), np.array([0.1, 0.0]), **second), 1, changed=True)
    columns = rows(
        parents=2,
        parents_sum=0.8,
        parents_best=0.6,
        anchors=2,
        anchor_sum=0.5,
        child_count=3,
        children_retrieved=1,
        children_relevance=0.2,
    )
    np.testing.assert_allclose(columns.states(), known.frontier(np.array([2])))


def test_a_page_is_discovered_as_local_states_have_it() -> None:
    known = LinkFeatures(2, patience=10.0)
    known.start(0)
    page = RetrievedPage(0.6, np.array([1]), np.array([0.4]), np.array([False]), np.array([True]), np.array([2]))
    known.take_in(0, page, 0, changed=True)
    found = discovered(["http://a/x/y.html"], 0.6, np.array([0.4]), np.array([True]))
    np.testing.assert_allclose(found.states(), known.frontier(np.array([1])))


def test_nothing_known_is_no_error() -> None:
    assert discovered([], 0.5, np.empty(0), np.empty(0, np.bool_)).states().shape == (0, 10)
    seed = discovered(["http://a/"], 0.5, np.zeros(1), np.array([False]), known=False).states()
    assert np.isfinite(seed).all()


def test_before_its_first_lesson_it_goes_by_siblings_and_anchors() -> None:
    states = np.concatenate(
        [rows(parents=1, parents_sum=s, parents_best=s, anchors=1, anchor_sum=a, child_count=2).states() for s, a in
         [(0.1, 0.1), (0.1, 0.9), (0.9, 0.1), (0.9, 0.9)]]
    )  # fmt: skip
    value = FrontierValue(SETTINGS).value(states)
    np.testing.assert_allclose(value, [0.1, 0.5, 0.5, 0.9])


def test_pages_that_bring_nothing_keep_their_order() -> None:
    """What is believed of siblings and texts is never unlearned so far that all are worth 0."""
    frontier_value, none = FrontierValue(SETTINGS), np.empty((0, 10))
    states = np.linspace(0.1, 0.9, 9)[:, None] * np.ones(10)
    for state in np.tile(states, (50, 1)):
        frontier_value.learn(state, 0.0, none, 0.0)
    value = frontier_value.value(states)
    assert value.min() > 0
    assert (np.diff(value) > 0).all()


def test_it_learns_what_requests_bring() -> None:
    """Here pages with telling anchors bring nothing, and hubs much: the opposite of what it begins with."""
    frontier_value, rng = FrontierValue(SETTINGS), np.random.default_rng(1)
    none = np.empty((0, 10))
    for _ in range(2_000):
        state = rng.uniform(size=10)
        frontier_value.learn(state, float(state[6] * (1.0 - state[4])), none, 0.0)
    low, high = np.full((1, 10), 0.5), np.full((1, 10), 0.5)
    low[0, [4, 6]], high[0, [4, 6]] = (0.9, 0.1), (0.1, 0.9)
    assert frontier_value.value(high)[0] > 0.5 > 0.2 > frontier_value.value(low)[0]


def test_a_page_is_worth_what_it_leads_to() -> None:
    frontier_value, rich = FrontierValue(SETTINGS), np.full((3, 10), 0.9)
    state = np.full(10, 0.3)
    before = frontier_value.value(state[None])[0]
    for _ in range(1_000):
        frontier_value.learn(state, 0.0, rich, 0.0)
    assert frontier_value.value(state[None])[0] > 2 * before
    assert frontier_value.value(state[None])[0] <= 1.0 / (1.0 - SETTINGS.discount)


def test_what_was_learned_comes_back() -> None:
    first, rng = FrontierValue(SETTINGS), np.random.default_rng(2)
    states = rng.uniform(size=(300, 10))
    for state in states:
        first.learn(state, float(state[0]), states[:2], 0.1)
        first.learn_waiting(state, state, 3)
    second = FrontierValue(SETTINGS)
    second.restore(first.pack())
    for frontier_value in (first, second):
        for state in states:
            frontier_value.learn(state, 0.5, states[:2], 0.1)
    np.testing.assert_array_equal(first.value(states), second.value(states))
    assert first.pack() == second.pack()


@pytest.mark.parametrize(
    "spoil",
    [lambda b: b"", lambda b: b[:-8], lambda b: b"x" + b, lambda b: b[:-8] + b"\xff" * 8, lambda b: b + bytes(8)],
)
def test_other_bytes_are_refused(spoil: Callable[[bytes], bytes]) -> None:
    learned, fresh, states = (
        FrontierValue(SETTINGS),
        FrontierValue(SETTINGS),
        np.random.default_rng(3).uniform(size=(64, 10)),
    )
    for state in states:
        learned.learn(state, 1.0, states[:2], 0.1)
    assert (learned.value(states) != fresh.value(states)).all()
    before = fresh.pack()
    with pytest.raises(InvalidValueError, match="learned"):
        fresh.restore(spoil(learned.pack()))
    assert fresh.pack() == before


@pytest.mark.parametrize(
    ("url", "hub"),
    [
        ("http://a/", True),
        ("http://a/cats/", True),
        ("http://a/links.html", True),
        ("http://a/category/cats", True),
        ("http://a/cats.html", False),
        ("http://links.org/cats.html", False),
        ("http://a/cats?list=1", False),
    ],
)
def test_hubs_by_their_urls(url: str, hub: bool) -> None:
    assert like_hub(url) is hub


def test_depth_counts_segments() -> None:
    assert [path_depth(url) for url in ("http://a/", "http://a/b", "http://a/b/c/?d=/e")] == [0, 1, 2]
