"""LSPE(0) against the exact Poisson equation, the gradient against differences, and `lspe` in front of sites."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import pack, unpack
from pollerd.allocation.lspe.learner import (
    Evaluation,
    Features,
    Learner,
    Observation,
    StateIndex,
    Transition,
    projected,
    score,
)
from pollerd.allocation.lspe.lspe import NAME, VERSION, Lspe
from pollerd.allocation.lspe.sources import LspeSettings
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError

NOW = 1.75e9

# --- values ------------------------------------------------------------------------------------------------------

CIRCUIT = (0, 1, 2, 0, 0, 2, 1, 0, 1, 1, 2, 2)
"""A walk through all nine transitions, then from the start again: its averages are a chain's exact ones."""
REWARD, LASTED = np.array([3.0, -1.0, 5.5]), np.array([1.0, 2.0, 0.5])


def exact_values() -> tuple[NDArray[np.float64], float]:
    """V, with V(0) = 0, and β of the chain that the circuit walks: `V = R - β t + PV`."""
    counts = np.zeros((3, 3))
    for now, then in itertools.pairwise((*CIRCUIT, CIRCUIT[0])):
        counts[now, then] += 1
    chain = counts / counts.sum(1, keepdims=True)
    system = np.column_stack([np.eye(3) - chain, LASTED])[:, 1:]
    *values, average = np.linalg.solve(system, REWARD)
    return np.array([0.0, *values]), float(average)


@pytest.mark.parametrize("inverse", ["sherman-morrison", "tikhonov"])
def test_values_solve_the_poisson_equation(inverse: Literal["sherman-morrison", "tikhonov"]) -> None:
    values, average = exact_values()
    learned = Evaluation(3, LspeSettings(inverse=inverse))
    own = np.eye(3)
    for now, then in itertools.pairwise([*CIRCUIT * 1000, CIRCUIT[0]]):
        learned.learn(own[now], own[then], float(REWARD[now]), float(LASTED[now]))
    assert learned.average == pytest.approx(average, rel=1e-9)
    np.testing.assert_allclose(learned.weights - learned.weights[0], values, atol=0.01)


def random_walk(features: int, steps: int, seed: int = 3) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(steps, features))


def test_sherman_morrison_is_the_inverse_of_the_running_mean() -> None:
    settings, walk = LspeSettings(), random_walk(6, 40)
    learned = Evaluation(6, settings)
    mean = settings.epsilon * np.eye(6)
    for n, (phi, following) in enumerate(itertools.pairwise(walk), 1):
        learned.learn(phi, following, 1.0)
        mean += (np.outer(phi, phi) - mean) / (n + 1)
        np.testing.assert_allclose(learned.state()["matrix"], np.linalg.inv(mean), rtol=1e-7, atol=1e-7)


def test_slow_averages_forget_what_came_long_ago() -> None:
    """b(n) = c = .1 in the first thousand steps: η is the mean with weights (1 - c)^age, and so is B̄."""
    settings = LspeSettings(inverse="tikhonov", averages="slow", epsilon=1e-3)
    learned, rng = Evaluation(2, settings), np.random.default_rng(11)
    rewards, phis = rng.random(40), rng.random((41, 2))
    for reward, phi, following in zip(rewards, phis, phis[1:], strict=False):
        learned.learn(phi, following, float(reward))
    weights = 0.1 * 0.9 ** np.arange(39, -1, -1)
    assert learned.average == pytest.approx(float(weights @ rewards / weights.sum()))
    mean = np.einsum("k,ki,kj->ij", weights, phis[:-1], phis[:-1]) + 0.9**40 * 1e-3 * np.eye(2)
    np.testing.assert_allclose(learned.state()["matrix"], mean)
    with pytest.raises(InvalidValueError, match="averages: must be all, where inverse is sherman-morrison"):
        LspeSettings(averages="slow")


@pytest.mark.parametrize("inverse", ["sherman-morrison", "tikhonov"])
def test_new_features_count_as_zero_so_far(inverse: Literal["sherman-morrison", "tikhonov"]) -> None:
    settings = LspeSettings(inverse=inverse)
    walk, late = random_walk(5, 60), 30
    walk[:late, 3:] = 0.0
    whole, grown, cleared = Evaluation(5, settings), Evaluation(3, settings), Evaluation(5, settings)
    other = walk.copy()
    other[: late - 1, 3:] = 7.0
    for n in range(59):
        if n == late - 1:
            grown.grow(5)
            cleared.forget(np.array([False, False, False, True, True]))
        reward = 1.0 + n % 3
        whole.learn(walk[n], walk[n + 1], reward)
        few = slice(0, len(grown.weights))
        grown.learn(walk[n, few], walk[n + 1, few], reward)
        cleared.learn(other[n], other[n + 1], reward)
    for name, kept in whole.state().items():
        np.testing.assert_allclose(grown.state()[name], kept, rtol=1e-6, atol=1e-9)
    rest = np.ix_(range(3), range(3))
    for name in ("a", "matrix"):
        assert cleared.state()[name].shape == (5, 5)
    if inverse == "tikhonov":
        np.testing.assert_allclose(cleared.state()["matrix"], whole.state()["matrix"], rtol=1e-9)
        np.testing.assert_allclose(cleared.state()["a"][rest], whole.state()["a"][rest], rtol=1e-9)
    else:
        np.testing.assert_allclose(
            np.linalg.inv(cleared.state()["matrix"]), np.linalg.inv(whole.state()["matrix"]), rtol=1e-5, atol=1e-9
        )


def test_features_are_the_states_and_their_products() -> None:
    states = np.array([2.0, 3.0, 5.0])
    features = Features(3)
    assert features.of(states).tolist() == [2, 4, 3, 6, 9, 5, 10, 15, 25]
    assert features.with_positions(np.array([True, False, False])).tolist() == [1, 1, 0, 1, 0, 0, 1, 0, 0]
    assert len(Features(30)) == 495
    np.testing.assert_array_equal(Features(2).of(states[:2]), features.of(states)[:5])


# --- thresholds --------------------------------------------------------------------------------------------------

AGES = 5
CEILING, DECAY = np.array([3.0, 5.0]), np.array([0.6, 0.3])
SETTINGS = LspeSettings(law="independent", steepness=1.3, shift=0.2)


def observation(ages: tuple[int, ...]) -> Observation:
    return Observation(-np.expm1(-DECAY * np.array(ages)), CEILING, -np.expm1(-DECAY))


def chain(learner: Learner, printed: bool) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Stationary law, values and average reward when two sites, of at most five ages, are polled by chance each."""
    states = list(itertools.product(range(1, AGES + 1), repeat=2))
    matrix, reward = np.zeros((len(states), len(states))), np.zeros(len(states))
    for here, ages in enumerate(states):
        chance = learner.poll_probabilities(observation(ages))
        for polled in itertools.product((False, True), repeat=2):
            weight = np.where(polled, chance, 1 - chance).prod()
            then = tuple(1 if p else min(age + 1, AGES) for age, p in zip(ages, polled, strict=True))
            matrix[here, states.index(then)] += weight
            waiting = observation(ages).waiting
            reward[here] += weight * (waiting.sum() if printed else waiting @ np.array(polled))
    system = np.vstack([(matrix.T - np.eye(len(states)))[:-1], np.ones(len(states))])
    law = np.linalg.solve(system, np.eye(len(states))[-1])
    average = float(law @ reward)
    *values, _ = np.linalg.solve(np.column_stack([np.eye(len(states)) - matrix, np.ones(len(states))])[:, 1:], reward)
    return law, np.array([0.0, *values]), average


def policy_gradient(learner: Learner, printed: bool) -> NDArray[np.float64]:
    """`E[∇ log p (R + V(X'))]` in the coefficients; the printed reward does not hang on the polls, so V alone."""
    law, values, _ = chain(learner, printed)
    states = list(itertools.product(range(1, AGES + 1), repeat=2))
    out = np.zeros((2, 3))
    for weight, ages in zip(law, states, strict=True):
        here = observation(ages)
        chance = learner.poll_probabilities(here)
        for polled in itertools.product((False, True), repeat=2):
            then = tuple(1 if p else min(age + 1, AGES) for age, p in zip(ages, polled, strict=True))
            gain = values[states.index(then)] + (0.0 if printed else here.waiting @ np.array(polled))
            slope = score(chance, np.array(polled), SETTINGS) * here.ceiling
            out += weight * np.where(polled, chance, 1 - chance).prod() * gain * slope[:, None] * here.psi
    return out


@pytest.mark.parametrize("printed", [False, True])
def test_the_score_is_the_gradient_of_the_average_reward(printed: bool) -> None:
    learner = Learner(2, SETTINGS)
    learner.coefficients[:] = [[0.62, 0.1, -0.05], [0.55, -0.08, 0.12]]
    exact = policy_gradient(learner, printed)
    for i, j in itertools.product(range(2), range(3)):
        ends = []
        for move in (-1e-5, 1e-5):
            learner.coefficients[i, j] += move
            ends.append(chain(learner, printed)[2])
            learner.coefficients[i, j] -= move
        assert exact[i, j] == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4, abs=1e-7)


def test_the_printed_gradient_is_not_that_of_the_collected_reward() -> None:
    learner = Learner(2, SETTINGS)
    collected, printed = (policy_gradient(learner, way)[:, 0] for way in (False, True))
    assert (collected < 0).all()  # lower thresholds: more polls, more collected
    assert (printed > 0).all()  # higher ones: more is left lying


SHARED = LspeSettings(law="shared", sharpness=4.0)


def shared_chain(learner: Learner) -> tuple[NDArray[np.float64], float]:
    """The gradient of the average reward by scores, and that reward, when each epoch one site is drawn and polled."""
    states = list(itertools.product(range(1, AGES + 1), repeat=2))
    matrix, reward, moves = np.zeros((len(states), len(states))), np.zeros(len(states)), []
    for here, ages in enumerate(states):
        chance, waiting = learner.poll_probabilities(observation(ages)), observation(ages).waiting
        for site in range(2):
            then = tuple(1 if i == site else min(age + 1, AGES) for i, age in enumerate(ages))
            matrix[here, states.index(then)] += chance[site]
            reward[here] += chance[site] * waiting[site]
            moves.append((here, states.index(then), chance, np.arange(2) == site, waiting[site]))
    law = np.linalg.lstsq(np.vstack([matrix.T - np.eye(len(states)), np.ones(len(states))]), np.eye(26)[-1])[0]
    average = float(law @ reward)
    values = np.linalg.lstsq(np.eye(len(states)) - matrix, reward - average)[0]
    out = np.zeros((2, 3))
    for here, following, chance, polled, got in moves:
        now = observation(states[here])
        slope = SHARED.sharpness * now.ceiling / now.scale * (chance - polled)
        out += law[here] * chance[polled][0] * (got + values[following]) * slope[:, None] * now.psi
    return out, average


def test_the_shared_law_has_a_score_of_the_same_form() -> None:
    learner = Learner(2, SHARED)
    learner.coefficients[:] = [[0.62, 0.1, -0.05], [0.55, -0.08, 0.12]]
    exact, _ = shared_chain(learner)
    for i, j in itertools.product(range(2), range(3)):
        ends = []
        for move in (-1e-5, 1e-5):
            learner.coefficients[i, j] += move
            ends.append(shared_chain(learner)[1])
            learner.coefficients[i, j] -= move
        assert exact[i, j] == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4, abs=1e-7)


def test_learning_by_the_shared_law_raises_the_average() -> None:
    """Over 25 seeds it rose by .075 with a deviation of .0005."""
    for seed in range(2):
        rng, learner = np.random.default_rng(seed), Learner(2, SHARED)
        ages: tuple[int, ...] = (1, 1)
        learner.coefficients[:, 0] = (0.9, 0.4)
        begin = shared_chain(learner)[1]
        for _ in range(1500):
            here = observation(ages)
            polled = np.arange(2) == int(rng.random() > learner.poll_probabilities(here)[0])
            ages = tuple(1 if p else min(age + 1, AGES) for age, p in zip(ages, polled, strict=True))
            learner.learn(Transition(here, polled, float(here.waiting @ polled)), observation(ages))
        assert shared_chain(learner)[1] > begin + 0.05


def test_thresholds_stay_in_their_interval() -> None:
    psi, low = np.array([[1.0, 0.4, 0.16], [1.0, 0.7, 0.49]]), np.array([0.5, 0.3])
    wild = np.array([[9.0, -3.0, 8.0], [-4.0, 1.0, 0.0]])
    back = projected(wild, psi, low)
    np.testing.assert_allclose((back * psi).sum(1), [1.0, 0.3])
    inside = np.array([[0.6, 0.1, 0.0], [0.5, 0.2, 0.1]])
    np.testing.assert_array_equal(projected(inside, psi, low), inside)


@pytest.mark.parametrize("inverse", ["sherman-morrison", "tikhonov"])
def test_learning_from_collected_rewards_raises_the_average(inverse: Literal["sherman-morrison", "tikhonov"]) -> None:
    settings = LspeSettings(law="independent", steepness=1.3, shift=0.2, inverse=inverse)
    for seed in range(3):
        rng, learner = np.random.default_rng(seed), Learner(2, settings)
        ages: tuple[int, ...] = (1, 1)
        learner.coefficients[:, 0] = 0.85
        begin = chain(learner, printed=False)[2]
        for _ in range(1500):
            here = observation(ages)
            polled = rng.random(2) < learner.poll_probabilities(here)
            ages = tuple(1 if p else min(age + 1, AGES) for age, p in zip(ages, polled, strict=True))
            learner.learn(Transition(here, polled, float(here.waiting @ polled)), observation(ages))
        assert chain(learner, printed=False)[2] > begin + 0.5  # over 60 seeds it rose by .781 with a deviation of .002


# --- the allocator -----------------------------------------------------------------------------------------------


def lspe(n: int, **parameters: Any) -> Lspe:
    made = create("lspe", budget=0.1, objective="interest", rng=np.random.default_rng(0), **parameters)
    assert isinstance(made, Lspe)
    made.add(np.arange(n), np.ones(n), np.ones(n), np.geomspace(60, 6e4, n))
    return made


def live(allocator: Lspe, n: int, steps: int, seed: int, begin: float = NOW) -> list[int]:
    rng, last, polled = np.random.default_rng(seed), np.full(n, begin), []
    for step in range(1, steps + 1):
        now = begin + 10.0 * step
        slot = allocator.select(now - last, now, np.ones(n, bool), 1)
        gap = now - last[slot]
        count = rng.poisson(0.01 * (1 + slot % 3) * gap)
        allocator.observe(slot, gap, EvidenceBatch(count > 0, count=count), now)
        last[slot] = now
        polled.append(int(slot[0]))
    return polled


def test_rates_follow_counts_where_there_are_any() -> None:
    allocator = lspe(2)
    gaps, slots = np.full(50, 100.0), np.zeros(50, np.int64)
    allocator.observe(slots, gaps, EvidenceBatch(np.ones(50, bool), count=np.full(50, 7)), NOW)
    allocator.observe(slots + 1, gaps, EvidenceBatch(np.arange(50) % 2 == 0), NOW)
    counted, told = allocator.rates()
    assert counted == pytest.approx(0.07, rel=0.05)
    assert told == pytest.approx(np.log(2) / 100, rel=0.1)


@pytest.mark.parametrize("inverse", ["sherman-morrison", "tikhonov"])
def test_every_site_is_polled_now_and_then(inverse: Literal["sherman-morrison", "tikhonov"]) -> None:
    assert set(live(lspe(6, inverse=inverse), 6, 1000, 4)) == set(range(6))


def test_the_most_urgent_is_a_draw_of_the_shared_law() -> None:
    """Each site's share of 4,000 draws within 5.5 standard errors: one run in ten million fails."""
    allocator, draws = lspe(4, sharpness=3.0), 4000
    live(allocator, 4, 30, 1)
    now, gap = NOW + 500.0, np.array([400.0, 300.0, 250.0, 200.0])
    for slot in np.arange(4)[:, None]:  # first polls teach nothing: they only say when a site was polled last
        allocator.observe(slot, np.array([np.inf]), EvidenceBatch(np.zeros(1, bool)), now - float(gap[slot[0]]))
    chance = allocator.poll_probabilities(now)
    polled, slots = np.zeros(4), np.arange(4)
    rows, shared = allocator.site_state(slots), unpack(NAME, VERSION, allocator.shared_state())
    for noise in np.random.default_rng(8).gumbel(size=(draws, 4)):
        allocator.restore(slots, rows, pack(NAME, VERSION, {**shared, "luck": noise}))
        polled[allocator.select(gap, now, np.ones(4, bool), 1)] += 1
    assert chance.max() < 0.9
    assert (abs(polled / draws - chance) < 5.5 * np.sqrt(chance * (1 - chance) / draws)).all()


def test_state_outlives_comings_and_goings() -> None:
    """A restart finds sites in other rows, one gone and one new; they go on as in the allocator that saw it live."""
    whole = lspe(5)
    live(whole, 5, 200, 1)
    slots = np.arange(5)
    rows, shared = whole.site_state(slots), whole.shared_state()
    whole.remove(np.array([2]))
    whole.add(np.array([2]), np.ones(1), np.ones(1), np.array([600.0]))
    again, order = lspe(0), np.array([4, 0, 3, 1])
    half_life = np.geomspace(60, 6e4, 5)
    half_life[2] = 600.0
    again.add(np.array([2]), np.ones(1), np.ones(1), half_life[[2]])
    again.add(order, np.ones(4), np.ones(4), half_life[order])
    for some in (order[:1], order[1:]):
        again.restore(some, rows[some], shared)
    gap = np.geomspace(1, 1e4, 5)
    np.testing.assert_allclose(again.urgency(gap, NOW + 2e3), whole.urgency(gap, NOW + 2e3), rtol=1e-12)
    assert live(again, 5, 300, 2, NOW + 3e3) == live(whole, 5, 300, 2, NOW + 3e3)


def test_state_of_other_parameters_is_refused() -> None:
    one, other = lspe(3), lspe(3, reward="printed")
    with pytest.raises(InvalidValueError, match="parameters of the state"):
        other.restore(np.arange(3), one.site_state(np.arange(3)), one.shared_state())


def test_positions_of_other_slots_are_found() -> None:
    positions = StateIndex()
    positions.take(np.array([7, 3, 9]))
    assert positions.of(np.array([3, 7])).tolist() == [1, 0]
    assert positions.release(np.array([3])).tolist() == [False, True, False]
    positions.take(np.array([20]))
    assert positions.of(np.array([20])).tolist() == [1]
    assert positions.generations.tolist() == [1, 4, 3]
    other = StateIndex()
    other.take(np.array([20, 9, 5]))
    strange = other.reassign({20: (1, 4), 9: (2, 2)}, positions.generations, positions.issued)
    assert strange.tolist() == [True, False, True]
    assert other.of(np.array([5, 20, 9])).tolist() == [0, 1, 2]
    assert other.issued == 5


def test_bad_parameters_are_named() -> None:
    for field, bad in {
        "reward": "all",
        "inverse": "lu",
        "steepness": 0.0,
        "start": 1.1,
        "gain": 1.5,
        "delta": -1.0,
    }.items():
        with pytest.raises(InvalidValueError, match=field):
            lspe(1, **{field: bad})
