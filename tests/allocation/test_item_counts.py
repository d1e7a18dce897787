"""Numbers of items as evidence of the rate: the law of a Gamma-Poisson mixture, censored, dated; who learns of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create, names
from pollerd.allocation.whittle.grid import (
    SHAPE,
    likelihood,
    log_likelihood_of_items,
    log_of_any,
    log_of_at_least,
    log_of_number,
    score,
)
from pollerd.errors import InvalidValueError

MEANS = st.floats(1e-3, 1e3)
KINDS = ("exact", "full", "dated", "first")


def chance(mean: float, number: int) -> float:
    """P(N = k) of a Poisson variable whose mean is `mean` times a Gamma variable of mean 1 and shape SHAPE."""
    share = mean / (mean + SHAPE)
    log = math.lgamma(number + SHAPE) - math.lgamma(SHAPE) - math.lgamma(number + 1)
    return math.exp(log + number * math.log(share) + SHAPE * math.log1p(-share))


def evidence_of(kind: str, number: int) -> tuple[EvidenceBatch, float]:
    """Returns a poll that showed `number` new items, and its gap in s."""
    count = number if kind == "exact" else -1
    span = {"dated": 30.0, "first": 30.0}.get(kind, np.nan)
    batch = EvidenceBatch(
        np.array([kind != "first"]), count=np.array([count]), at_least=np.array([number]), span=np.array([span])
    )
    return batch, math.inf if kind == "first" else 50.0


@given(MEANS, st.integers(1, 60))
def test_numbers_follow_a_gamma_poisson_law(mean: float, number: int) -> None:
    one, other = (
        float(log_of_number(np.array(m), np.array(float(number)))) - math.log(chance(m, number)) for m in (mean, 1.0)
    )
    assert one == pytest.approx(other, abs=1e-6)
    below = math.fsum(chance(mean, k) for k in range(number))
    assert math.exp(float(log_of_at_least(np.array(mean), np.array(float(number))))) == pytest.approx(
        1.0 - below, abs=1e-9
    )
    assert math.exp(float(log_of_any(np.array(mean)))) == pytest.approx(1.0 - chance(mean, 0), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(number=st.integers(1, 40), rate=st.floats(1e-3, 10.0))
def test_the_score_is_the_slope_of_the_likelihood(kind: str, number: int, rate: float) -> None:
    evidence, elapsed = evidence_of(kind, number)
    first = np.array([math.isinf(elapsed)])
    gap = np.where(first, 0.0, elapsed)
    step = 1e-4

    def log_of(rates: np.ndarray) -> np.ndarray:
        out = log_likelihood_of_items(rates, gap, evidence, first)
        return out if first[0] else out + np.log(-np.expm1(-rates * gap))

    below, above = log_of(rate * np.exp(np.array([-step, step])))[0]
    slope, information = score(np.array([rate]), gap, evidence.found, evidence)
    assert slope[0] == pytest.approx((above - below) / (2 * step), abs=2e-3 * (1 + number))
    assert information[0] >= 0


@pytest.mark.parametrize("kind", KINDS)
def test_more_items_make_a_faster_feed(kind: str) -> None:
    rates = np.geomspace(1e-4, 10, 200)
    best = []
    for number in (2, 10, 40):
        evidence, elapsed = evidence_of(kind, number)
        best.append(rates[likelihood(rates, np.array([elapsed]), evidence)[0].argmax()])
    assert best[0] < best[1] < best[2] or (kind == "full" and best == [rates[-1]] * 3)


def learned(objective: str, items: float, evidence: EvidenceBatch) -> bytes:
    policy = create("whittle", budget=1.0, objective=objective, rng=np.random.default_rng(0))
    policy.add(np.arange(3), np.ones(3), np.ones(3))
    policy.set_items_shown(np.array([1]), np.array([items]))
    policy.observe(np.array([1]), np.array([40.0]), evidence, 1e6)
    return policy.site_state(np.arange(3)).tobytes() + policy.shared_state()


@pytest.mark.parametrize("objective", ["changes", "freshness", "delay", "deadline", "interest"])
def test_only_interest_counts_the_items_of_feeds_that_drop_some(objective: str) -> None:
    with_items, _ = evidence_of("full", 20)
    without = EvidenceBatch(with_items.changed, count=with_items.count)
    assert learned(objective, np.nan, with_items) == learned(objective, np.nan, without)
    same = learned(objective, 20.0, with_items) == learned(objective, 20.0, without)
    assert same == (objective != "interest")


def test_a_first_poll_tells_the_rate_by_dates_alone() -> None:
    policy = create("whittle", budget=1.0, objective="interest", rng=np.random.default_rng(0))
    policy.add(np.arange(2), np.ones(2), np.ones(2))
    policy.set_items_shown(np.arange(2), np.full(2, 20.0))
    both = np.arange(2)
    policy.observe(both, np.full(2, np.inf), EvidenceBatch(np.zeros(2, bool), at_least=np.full(2, 20)), 1e6)
    assert policy.rates()[0] == policy.rates()[1]
    dated = EvidenceBatch(np.zeros(2, bool), at_least=np.full(2, 10), span=np.array([0.5, 500.0]))
    policy.observe(both, np.full(2, np.inf), dated, 1e6)
    assert policy.rates()[0] > 3 * policy.rates()[1]


def test_a_feed_about_to_drop_is_polled_first() -> None:
    policy = create("whittle", budget=1.0, objective="interest", rng=np.random.default_rng(0))
    policy.add(np.arange(2), np.ones(2), np.ones(2), np.full(2, 1e6))
    policy.set_items_shown(np.array([1]), np.array([10.0]))
    for step in range(20):
        evidence = EvidenceBatch(np.ones(2, bool), count=np.full(2, 5), at_least=np.full(2, 5))
        policy.observe(np.arange(2), np.full(2, 10.0), evidence, 1e6 + 10.0 * step)
    polled = policy.select(np.full(2, 15.0), 1e6 + 205.0, np.ones(2, bool), 1)
    assert polled.tolist() == [1]


@pytest.mark.parametrize("objective", ["interest", "changes"])
def test_choices_are_the_most_urgent_sites(objective: str) -> None:
    """With feeds among many sites, of which most are not looked at."""
    n, rng, now = 2_000, np.random.default_rng(2), 0.0
    rates, items = np.exp(rng.normal(-1, 1, n)), rng.choice([5, 10, 20], n)
    policy = create("whittle", budget=500.0, objective=objective, rng=np.random.default_rng(0))
    policy.add(np.arange(n), np.ones(n), np.ones(n), rng.choice([1.0, 50.0], n))
    policy.set_items_shown(np.arange(0, n, 2), items[::2].astype(float))
    last, every, skipped = np.full(n, -np.inf), np.ones(n, np.bool_), 0
    for _ in range(160):
        now += 20 / 500.0
        elapsed = now - last
        urgency = policy.urgency(elapsed, now)
        chosen = policy.select(elapsed, now, every, 20)
        skipped += policy.looked_at < n  # type: ignore[attr-defined]
        # indices of float32 crossing times and ties in low-discrepancy order: within a thousandth
        assert urgency[chosen].min() >= np.sort(urgency)[-20] * (1 - 1e-3)
        gap = now - last[chosen]
        number = rng.poisson(rates[chosen] * np.where(np.isfinite(gap), gap, 0.0))
        full = number >= items[chosen]
        shown = np.minimum(number, items[chosen])
        evidence = EvidenceBatch(number > 0, count=np.where(full, -1, number), at_least=shown)
        policy.observe(chosen, gap, evidence, now)
        last[chosen] = now
    assert skipped > 20


def teach(policy: Allocator, told: bool) -> None:
    """Has two sites observed, with numbers of items if `told`."""
    policy.add(np.arange(2), np.ones(2), np.ones(2))
    if told:
        policy.set_items_shown(np.arange(2), np.array([5.0, np.nan]))
    for step in range(3):
        changed = np.ones(2, bool)
        items = {"at_least": np.array([5, 4]), "span": np.array([3.0, np.nan])} if told else {}
        polled = policy.select(np.full(2, 10.0), 1e6 + step, changed, 2)
        policy.observe(polled, np.full(2, 10.0)[: len(polled)], EvidenceBatch(changed, **items), 1e6 + 10.0 * step)


@pytest.mark.parametrize("name", names())
def test_who_does_not_count_items_ignores_them(name: str) -> None:
    states = []
    for told in (True, False):
        policy = create(name, budget=1.0, rng=np.random.default_rng(0))
        assert not policy.counts_items
        teach(policy, told)
        states.append(policy.site_state(np.arange(2)).tobytes() + policy.shared_state())
    assert states[0] == states[1]


def test_choices_continue_after_a_restart() -> None:
    before, after = (create("whittle", budget=1.0, objective="interest", rng=np.random.default_rng(0)) for _ in "12")
    teach(before, told=True)
    after.add(np.arange(2), np.ones(2), np.ones(2))
    after.set_items_shown(np.arange(2), np.array([5.0, np.nan]))
    after.restore(np.arange(2), before.site_state(np.arange(2)), before.shared_state())
    for gap in (1.0, 10.0, 100.0):
        elapsed = np.array([gap, 0.5 * gap])
        np.testing.assert_array_equal(before.urgency(elapsed, 1e6 + 200), after.urgency(elapsed, 1e6 + 200))


def test_a_reused_slot_shows_no_items() -> None:
    policy, fresh = (create("whittle", budget=1.0, objective="interest", rng=np.random.default_rng(0)) for _ in "12")
    policy.add(np.arange(2), np.ones(2), np.ones(2))
    policy.set_items_shown(np.arange(2), np.full(2, 2.0))
    policy.remove(np.arange(2))
    for each in (policy, fresh):
        each.add(np.arange(2), np.ones(2), np.ones(2))
    elapsed = np.array([30.0, 3.0])
    np.testing.assert_array_equal(policy.urgency(elapsed, 1e6), fresh.urgency(elapsed, 1e6))


def test_what_is_no_number_of_items_is_refused() -> None:
    policy = create("whittle", budget=1.0, objective="interest", rng=np.random.default_rng(0))
    policy.add(np.arange(2), np.ones(2), np.ones(2))
    for items in (np.array([0.0]), np.array([1.0, 2.0])):
        with pytest.raises(InvalidValueError, match="items"):
            policy.set_items_shown(np.array([1]), items)
    with pytest.raises(InvalidValueError, match="at_least"):
        EvidenceBatch(np.ones(1, bool), at_least=np.array([-2]))
    with pytest.raises(InvalidValueError, match="span"):
        EvidenceBatch(np.ones(1, bool), span=np.array([0.0]))
