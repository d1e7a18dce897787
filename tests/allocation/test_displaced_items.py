"""`lspe` at sites that show only their newest items: what a full poll collects and counts, and what it learns of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.finite_feeds import finite_value, most_collected
from pollerd.allocation.lspe.lspe import Lspe
from pollerd.allocation.lspe.sources import number_if_full, value_if_full
from pollerd.allocation.registry import create

Array = NDArray[np.float64]
GAP_S, RATE, DECAY = 5.0, 1.2, 0.3


@pytest.mark.parametrize("items", [1, 2, 7, 15])
def test_a_full_poll_brings_what_drawn_feeds_have(items: int) -> None:
    """Means of drawn feeds are within 4 standard errors but in 1 of 16,000 seeds."""
    rng, values, numbers = np.random.default_rng(1), [], []
    for came in rng.poisson(RATE * GAP_S, 40_000):
        if came >= items:
            ages = np.sort(rng.uniform(0, GAP_S, came))[:items]
            values.append(np.exp(-DECAY * ages).sum())
            numbers.append(came)
    of = [np.array([x]) for x in (GAP_S, RATE, DECAY, float(items))]
    for drawn, expected in ((values, value_if_full(*of)), (numbers, number_if_full(of[0], of[1], of[3]))):
        assert abs(np.mean(drawn) - float(expected[0])) < 4 * np.std(drawn) / np.sqrt(len(drawn)) + 1e-9


def test_of_the_unlikely_no_more_is_said_than_was_seen() -> None:
    of = [np.array([x]) for x in (1e-6, 1e-6, 1e-3, 50.0)]
    assert value_if_full(*of) == pytest.approx(50.0)
    assert number_if_full(of[0], of[1], of[3]) == pytest.approx(50.0)


def policy_of(objective: str = "interest") -> Lspe:
    policy = create("lspe", budget=1.0, objective=objective, rng=np.random.default_rng(2))
    assert isinstance(policy, Lspe)
    policy.add(np.arange(3), np.ones(3), np.ones(3), np.full(3, 20.0))
    return policy


def polled(policy: Lspe, items: Array, *, told: bool) -> list[Array]:
    """Returns the urgencies during 60 polls of three feeds with 1, 2 and 4 items in 10 s."""
    rng, last, out = np.random.default_rng(3), np.zeros(3), []
    for now in np.arange(1.0, 61.0) * 4.0:
        slot = policy.select(now - last, now, np.ones(3, np.bool_), 1)
        gap = now - last[slot]
        came = rng.poisson(np.array([0.1, 0.2, 0.4])[slot] * gap)
        full = came >= items[slot]
        count = np.where(full, -1, came) if told else came
        at_least = np.minimum(came, items[slot]).astype(np.int64) if told else np.full(1, -1)
        policy.observe(slot, gap, EvidenceBatch(came > 0, count=count, at_least=at_least), now)
        last[slot] = now
        out.append(policy.urgency(now - last, now))
    return out


@pytest.mark.parametrize("objective", ["changes", "freshness", "interest"])
def test_without_a_number_of_items_it_chooses_as_ever(objective: str) -> None:
    plain, unlimited = policy_of(objective), policy_of(objective)
    unlimited.set_items_shown(np.arange(3), np.full(3, np.nan))
    many = np.full(3, 1e6)
    first, second = polled(plain, many, told=False), polled(unlimited, many, told=True)
    np.testing.assert_array_equal(first, second)
    limited = policy_of(objective)
    limited.set_items_shown(np.arange(3), np.full(3, 3.0))
    same = np.array_equal(first, polled(limited, many, told=True))
    assert same == (objective != "interest")


def test_rates_are_learned_from_full_feeds() -> None:
    """Of 5 items shown, all new at each poll after 100 s at 1 item in 10 s, where counts alone teach nothing."""
    rates = []
    for form in ("counts", "items", "dated"):
        policy = policy_of()
        if form != "counts":
            policy.set_items_shown(np.arange(3), np.full(3, 5.0))
        for poll in range(1, 40):
            at_least = np.array([-1 if form == "counts" else 5])
            span = np.array([50.0 if form == "dated" else np.nan])
            batch = EvidenceBatch(np.array([True]), count=np.array([-1]), at_least=at_least, span=span)
            policy.observe(np.array([0]), np.array([100.0]), batch, 100.0 * poll)
        rates.append(policy.rates()[0])
    assert rates[0] < rates[1]
    assert rates[2] == pytest.approx(0.1, rel=0.05)


def test_what_waits_is_what_a_poll_would_collect() -> None:
    policy = policy_of()
    policy.set_items_shown(np.array([0]), np.array([2.0]))
    gap = np.array([30.0, 30.0, 30.0])
    ceiling, filled = policy._ceiling_and_filled(np.arange(3), gap)  # noqa: SLF001
    of = [np.array([x]) for x in (policy.rates()[0], np.log(2) / 20.0, 2.0)]
    assert ceiling[0] == pytest.approx(float(most_collected(*of)[0]))
    assert ceiling[0] * filled[0] == pytest.approx(float(finite_value(gap[:1], *of)[0]))
    assert ceiling[0] < ceiling[1]
