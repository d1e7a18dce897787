"""Values from outside that cannot be used: every one is named, with what is allowed and what was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pollerd.allocation.baselines import in_proportion
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create, names, parameters
from pollerd.errors import InvalidValueError

NOW = 1.75e9
NO_NUMBERS: tuple[Any, ...] = ("x", None, [], [1.0], {}, True, 1j, np.nan, np.inf, -1.0)
MAY_BE_NONE = ("rates", "phase")
"""None stands for what they are without."""
WHOLE = {"resolution": 500, "points": 5, "phase": 20, "em_steps": 3}
WORDS = ("updating", "climb", "variant", "reward", "inverse", "law")


@pytest.fixture(params=names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(name: str, **given: Any) -> Allocator:
    return create(name, **{"budget": 1.0, "rng": np.random.default_rng(1), **given})


def filled(name: str, **given: Any) -> Allocator:
    allocator = made(name, **given)
    allocator.add(np.arange(2), np.ones(2), np.ones(2))
    return allocator


@pytest.mark.parametrize("given", [*NO_NUMBERS, 0.0])
def test_a_budget_is_a_number_above_0(name: str, given: object) -> None:
    with pytest.raises(InvalidValueError, match="budget: must be finite and > 0; given"):
        made(name, budget=given)
    allocator = made(name)
    with pytest.raises(InvalidValueError, match="budget"):
        allocator.budget = given  # type: ignore[assignment]


@pytest.mark.parametrize("given", NO_NUMBERS)
def test_parameters_of_another_type_are_named(name: str, given: object) -> None:
    for parameter in parameters(name):
        if (given is None and parameter in MAY_BE_NONE) or (given is True and parameter == "reorder"):
            continue
        if isinstance(given, list) and parameter == "rates":
            continue  # rates are a list
        with pytest.raises(InvalidValueError, match=f"{parameter}: must be .*; given"):
            made(name, **{parameter: given})


def test_whole_numbers_may_be_floats(name: str) -> None:
    for parameter, number in WHOLE.items():
        if parameter not in parameters(name):
            continue
        for given in (float(number), np.float64(number), np.int64(number)):
            allocator = filled(name, **{parameter: given})
            for poll in range(30):
                slots = allocator.select(np.full(2, 5.0), NOW + poll, np.ones(2, bool), 1)
                allocator.observe(slots, np.full(1, 5.0), EvidenceBatch(np.array([poll % 2 == 0])), NOW + poll)
            assert allocator.shared_state() == _of_ints(name, parameter, number)
        with pytest.raises(InvalidValueError, match=f"{parameter}: must be a whole number from"):
            made(name, **{parameter: number + 0.5})


def _of_ints(name: str, parameter: str, number: int) -> bytes:
    allocator = filled(name, **{parameter: number})
    for poll in range(30):
        slots = allocator.select(np.full(2, 5.0), NOW + poll, np.ones(2, bool), 1)
        allocator.observe(slots, np.full(1, 5.0), EvidenceBatch(np.array([poll % 2 == 0])), NOW + poll)
    return allocator.shared_state()


@pytest.mark.parametrize("given", [0, 1001, 1e308])
def test_em_steps_have_an_end(given: float) -> None:
    with pytest.raises(InvalidValueError, match="em_steps: must be a whole number from 1 to 1000"):
        made("whittle", em_steps=given)


@pytest.mark.parametrize("given", [["whittle"], None, 3, np.array(["whittle"]), {}])
def test_names_and_objectives_are_words(given: Any) -> None:
    with pytest.raises(InvalidValueError, match="allocator: must be one of whittle"):
        made(given)
    with pytest.raises(InvalidValueError, match="objective: must be one of changes"):
        made("whittle", objective=given)


def test_random_numbers_come_from_a_generator(name: str) -> None:
    for given in (None, 3, np.random):
        with pytest.raises(InvalidValueError, match=r"rng: must be a numpy.random.Generator"):
            made(name, rng=given)


@pytest.mark.parametrize("policy", ["optimal", "proportional"])
@pytest.mark.parametrize("given", [3.0, "x", [1.0, "x"], [[1.0, 2.0]], [1.0, None], [1.0, -1.0], [[1.0], [1.0, 2.0]]])
def test_rates_are_a_row_of_numbers(policy: str, given: Any) -> None:
    with pytest.raises(InvalidValueError, match="rates: must be"):
        made(policy, rates=given)


@pytest.mark.parametrize("slots", [[7.5], [np.nan], [np.inf], [1e300], ["a"], [True], [None], 7, [[7]], [[1], [1, 2]]])
def test_slots_are_whole_numbers(name: str, slots: Any) -> None:
    allocator = made(name)
    given: Any = np.array(slots) if not isinstance(slots, list) or slots != [[1], [1, 2]] else slots
    with pytest.raises(InvalidValueError, match="slots: must be"):
        allocator.add(given, np.ones(1), np.ones(1))
    assert allocator.rates().shape == (0,)
    allocator.add(np.array([7.0]), np.ones(1), np.ones(1))
    assert allocator.rates().shape == (8,)
    with pytest.raises(InvalidValueError, match="slots: must be"):
        allocator.remove(given if slots != 7 else np.array([7.5]))


def test_weights_and_costs_are_numbers(name: str) -> None:
    allocator, one = made(name), np.ones(1)
    no_numbers: tuple[Any, ...] = ("x", ["x"], [None], [[1.0], [1.0, 2.0]], {})
    for given in no_numbers:
        for weight, cost, field in ((given, one, "weight"), (one, given, "cost")):
            with pytest.raises(InvalidValueError, match=f"{field}: must be"):
                allocator.add(np.array([0]), weight, cost)


def test_polls_are_checked(name: str) -> None:
    allocator = filled(name)
    two, changed = np.arange(2), EvidenceBatch(np.array([True, False]))
    for elapsed in ([1.0, np.nan], [1.0, -1.0], [1.0], [1.0, 2.0, 3.0], 1.0, ["a", "b"]):
        with pytest.raises(InvalidValueError, match="elapsed: must be"):
            allocator.observe(two, np.array(elapsed), changed, NOW)
    with pytest.raises(InvalidValueError, match="evidence: must be 2 rows"):
        allocator.observe(two, np.ones(2), EvidenceBatch(np.array([True])), NOW)
    with pytest.raises(InvalidValueError, match="slots: must be"):
        allocator.observe(np.array([0.5, 1.0]), np.ones(2), changed, NOW)


@pytest.mark.parametrize("budget", [1e-300, 1e300, 1.7e308])
def test_periods_of_extreme_budgets_are_exact_and_without_a_warning(budget: float) -> None:
    """Warnings fail tests: budget times amount, 8 at most, is beyond what a float holds at the largest."""
    np.testing.assert_allclose(in_proportion(np.array([8.0, 2.0, 0.0]), budget) * budget, [1.25, 5.0, np.inf])


def test_a_slot_without_weight_and_rate_has_an_urgency() -> None:
    """Of nothing that never changes our copy is fresh: nought by nought is no poll, not a warning."""
    allocator = create(
        "optimal", budget=1.0, objective="freshness", rng=np.random.default_rng(1), rates=np.array([0.0, 0.1])
    )
    allocator.add(np.arange(2), np.array([0.0, 1.0]), np.ones(2))
    assert np.isfinite(allocator.urgency(np.full(2, 5.0), NOW)).all()
    allocator.remove(np.array([0]))
    assert np.isfinite(allocator.urgency(np.full(2, 5.0), NOW)[1])
