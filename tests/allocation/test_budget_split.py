"""One budget divided among nodes: sums, floors, equal prices, what is held, and curves as bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.budget_split import (
    EMPTY,
    EVEN_SHARE,
    HELD_SHARE,
    ROUND_ROBIN_SHARE,
    PriceCurve,
    divide_budget,
    divide_reported,
    price_curve,
)
from pollerd.allocation.index import Mixture, solve_price
from pollerd.errors import InvalidValueError

Rates = NDArray[np.float64]


def mixture_of(rates: Rates, floor: float = 0.0) -> Mixture:
    """Sites of weight and cost 1 whose rates are known, for the objective `changes`."""
    one = np.ones((len(rates), 1))
    return Mixture(one, rates[:, None], one[:, 0], np.full(len(rates), floor))


def curve_of(rates: Rates, whole: float, floor: float = 0.0) -> PriceCurve:
    return price_curve(mixture_of(rates, floor), np.ones(len(rates)), whole)


@st.composite
def curves(draw: st.DrawFn) -> PriceCurve | None:
    kind = draw(st.integers(0, 9))
    if kind < 2:
        return (None, EMPTY)[kind]
    number = draw(st.integers(1, 6))
    budgets = np.sort(draw(st.lists(st.floats(1e-6, 100), min_size=number, max_size=number)))
    some = st.sampled_from([1e-9, 0.3, 0.3, 0.7, 1.0, 1e6])
    prices = np.sort(draw(st.lists(some, min_size=number, max_size=number)))
    return PriceCurve(np.array(budgets), np.array(prices)[::-1].copy())


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Rates, list[PriceCurve | None]]:
    number = draw(st.integers(1, 8))
    cost = draw(st.lists(st.sampled_from([0.0, 1.0, 3.0, 1e6]), min_size=number, max_size=number))
    return np.array(cost), draw(st.lists(curves(), min_size=number, max_size=number))


BUDGETS = st.floats(0.01, 10_000)


@given(BUDGETS, clusters())
@settings(max_examples=300, deadline=None)
def test_grants_spend_the_budget_and_no_more(budget: float, cluster: tuple[Rates, list[PriceCurve | None]]) -> None:
    found = divide_budget(budget, *cluster)
    assert found.grants.sum() <= budget * (1 + 1e-15)
    assert found.grants.sum() == pytest.approx(budget, rel=1e-6)
    least = budget * EVEN_SHARE / len(found.grants)
    assert (found.grants >= least * (1 - 1e-9)).all() or found.grants.min() >= least / 2
    assert found.price >= 0


@given(BUDGETS, st.floats(1.0, 10.0), clusters())
@settings(max_examples=300, deadline=None)
def test_with_more_budget_no_node_gets_less(
    budget: float, times: float, cluster: tuple[Rates, list[PriceCurve | None]]
) -> None:
    less, more = divide_budget(budget, *cluster), divide_budget(budget * times, *cluster)
    assert (more.grants >= less.grants * (1 - 1e-6) - 1e-9).all()
    assert more.price <= less.price * (1 + 1e-9)


@given(BUDGETS, clusters())
@settings(max_examples=300, deadline=None)
def test_prices_are_equal_where_a_node_is_between_its_bounds(
    budget: float, cluster: tuple[Rates, list[PriceCurve | None]]
) -> None:
    cost, nodes = cluster
    found = divide_budget(budget, cost, nodes)
    total = cost.sum()
    for own, grant, curve in zip(cost, found.grants, nodes, strict=True):
        cycle = budget * own / total if total else budget / len(nodes)
        floor = max(cycle * ROUND_ROBIN_SHARE, budget * EVEN_SHARE / len(nodes))
        if curve is None or found.price <= 0 or not floor * (1 + 1e-6) < grant < curve.reach * (1 - 1e-6):
            continue
        above, below = curve.price_at(grant * (1 - 1e-6)), curve.price_at(grant * (1 + 1e-6))
        assert below * (1 - 1e-3) <= found.price <= above * (1 + 1e-3) or math.isclose(above, found.price, rel_tol=1e-3)


@given(BUDGETS, clusters())
@settings(max_examples=200, deadline=None)
def test_a_division_is_held_until_it_differs(budget: float, cluster: tuple[Rates, list[PriceCurve | None]]) -> None:
    best = divide_budget(budget, *cluster).grants
    near = best * np.where(np.arange(len(best)) % 2, 1.0, 1 - HELD_SHARE / 5)
    near *= budget / near.sum()
    # What a node had that left, or what came to the budget, belongs to those that are there.
    for share in (1.0, 1 - HELD_SHARE / 10):
        kept = divide_budget(budget, *cluster, held=near * share).grants
        np.testing.assert_allclose(kept, near, rtol=1e-11)
        again = divide_budget(budget, *cluster, held=kept).grants
        np.testing.assert_allclose(again, kept, rtol=1e-15, err_msg="it is held from then on")
    for other in (best * 1.001, best * 0.98, np.full(len(best), np.nan)):
        np.testing.assert_allclose(divide_budget(budget, *cluster, held=other).grants, best)


def test_one_node_gets_all() -> None:
    for curve in (None, EMPTY, curve_of(np.array([0.1, 1.0]), 3.0)):
        assert divide_budget(3.0, np.array([2.0]), [curve]).grants.tolist() == [pytest.approx(3.0)]


def test_nodes_without_curves_share_by_their_sites() -> None:
    assert divide_budget(8.0, np.array([1.0, 3.0]), [None, None]).grants == pytest.approx([2.0, 6.0], rel=0.02)
    assert divide_budget(8.0, np.zeros(2), [None, None]).grants == pytest.approx([4.0, 4.0])


def test_a_new_node_starts_from_a_floor() -> None:
    rich = curve_of(np.full(50, 1.0), 10.0)
    found = divide_budget(10.0, np.array([50.0, 0.0]), [rich, EMPTY])
    assert found.grants[1] == pytest.approx(10.0 * EVEN_SHARE / 2)


def test_what_nobody_can_spend_is_divided_evenly() -> None:
    slow = curve_of(np.array([1.0]), 10.0, floor=1.0)  # one poll a second at most
    found = divide_budget(10.0, np.ones(2), [slow, slow])
    assert found.price == 0.0
    assert found.grants.tolist() == [pytest.approx(5.0)] * 2


@pytest.mark.parametrize("curves", [[None] * 3, [curve_of(np.full(50, 1.0), 30.0)] * 3])
def test_what_a_slow_node_cannot_spend_the_others_get(curves: list[PriceCurve | None]) -> None:
    slow = np.array([np.inf, 2.0, np.inf])
    assert divide_budget(30.0, np.ones(3), curves, able=slow).grants == pytest.approx([14.0, 2.0, 14.0], rel=0.01)
    all_slow = divide_budget(30.0, np.ones(3), curves, able=np.array([1.0, 2.0, 3.0])).grants
    assert all_slow.sum() == pytest.approx(30.0)
    assert all_slow - all_slow[0] == pytest.approx([0.0, 1.0, 2.0])


@pytest.mark.parametrize("nodes", [2, 8])
@pytest.mark.parametrize("budget", [10.0, 100.0, 1000.0])
def test_nodes_together_have_the_price_and_budgets_of_one_allocator(nodes: int, budget: float) -> None:
    """The best division of a budget over all sites, and how it falls to the nodes' sites (`index.solve_price`)."""
    rng = np.random.default_rng(nodes)
    rates = np.exp(rng.normal(-2, 2, 400))
    weight = rng.choice([1.0, 5.0], 400)
    node = rng.integers(0, nodes, 400)
    price, periods = solve_price(budget, weight, rates, np.ones(400))
    best = np.bincount(node, 1 / periods, nodes)
    own = [
        Mixture(weight[mine, None], rates[mine, None], np.ones(len(mine)), np.zeros(len(mine)))
        for mine in (np.flatnonzero(node == k) for k in range(nodes))
    ]
    found = divide_budget(
        budget,
        np.bincount(node, minlength=nodes).astype(float),
        [price_curve(mixture, np.ones(int((node == k).sum())), budget) for k, mixture in enumerate(own)],
    )
    assert found.price == pytest.approx(price, rel=0.05)
    floor = budget * np.bincount(node, minlength=nodes) / 400 * ROUND_ROBIN_SHARE
    if budget > 10.0:  # below, the price is flat: many divisions are alike to some digits of it
        free = found.grants > floor * 1.01
        assert free.sum() >= nodes - 1
        assert found.grants[free] == pytest.approx(best[free], rel=0.05)
    reached = sum(mixture.value(mixture.split(grant)[1]) for mixture, grant in zip(own, found.grants, strict=True))
    every = Mixture(weight[:, None], rates[:, None], np.ones(400), np.zeros(400))
    assert reached >= 0.995 * every.value(periods)


def test_a_sample_stands_for_all_sites() -> None:
    rates = np.tile(np.geomspace(0.01, 1, 20), 5)
    every, some = curve_of(rates, 4.0), price_curve(mixture_of(rates[:20]), np.ones(20), 4.0, factor=5.0)
    for budget in (0.1, 1.0, 3.9):
        assert some.price_at(budget) == pytest.approx(every.price_at(budget), rel=1e-3)


@given(curves())
@settings(deadline=None)
def test_curves_survive_as_bytes(curve: PriceCurve | None) -> None:
    if curve is None:
        return
    back = PriceCurve.from_bytes(curve.to_bytes())
    np.testing.assert_allclose(back.budgets, curve.budgets, rtol=1e-6)
    np.testing.assert_allclose(back.prices, curve.prices, rtol=1e-6)


@pytest.mark.parametrize("data", [b"", b"\x02" + bytes(8), b"\x01abc", b"\x01" + b"\xff" * 8, b"\x01" + bytes(8)])
def test_other_bytes_are_refused_and_count_as_not_known(data: bytes) -> None:
    with pytest.raises(InvalidValueError, match="curve"):
        PriceCurve.from_bytes(data)
    none = np.full(2, np.nan)
    assert divide_reported(4.0, np.ones(2), [data, None], none, np.full(2, np.inf))[1].tolist() == [2.0, 2.0]


def test_a_curve_is_small() -> None:
    assert len(curve_of(np.geomspace(1e-6, 10, 1000), 100.0).to_bytes()) <= 401


def test_sites_without_value_have_an_empty_curve() -> None:
    assert curve_of(np.zeros(3), 1.0) == EMPTY or curve_of(np.zeros(3), 1.0).reach == 0
    assert price_curve(mixture_of(np.empty(0)), np.empty(0), 1.0).reach == 0


@pytest.mark.parametrize(
    ("budget", "cost", "match"), [(0.0, [1.0], "budget"), (1.0, [1.0, 2.0], "cost"), (1.0, [-1.0], "cost")]
)
def test_what_is_refused(budget: float, cost: list[float], match: str) -> None:
    with pytest.raises(InvalidValueError, match=match):
        divide_budget(budget, np.array(cost), [EMPTY])
    with pytest.raises(InvalidValueError, match="curves"):
        divide_budget(1.0, np.empty(0), [])
