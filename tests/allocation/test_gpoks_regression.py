"""Regression on counts and sums, on single observations, and by the formula for joint normal vectors: all the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.allocation.gpoks.regression import Kernel, believe, index_set, regress
from pollerd.errors import InvalidValueError

POINTS = np.linspace(0.0, 1.0, 26)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 60), st.sampled_from([0.3, 1.0, 3.0]))
def test_counts_and_sums_tell_what_the_observations_tell(seed: int, polls: int, length: float) -> None:
    """[B] 6.3.1: "exact within the resolution of our discrete index set"; several polls at one point included."""
    chance, kernel = np.random.default_rng(seed), Kernel(length)
    point, seen = chance.integers(0, len(POINTS), polls), chance.normal(0.5, 0.5, polls)
    counts, sums = np.zeros((2, 1, len(POINTS)))
    np.add.at(counts[0], point, 1.0)
    np.add.at(sums[0], point, seen)
    belief = believe(index_set(POINTS, kernel), counts, sums)
    mean, covariance = regress(kernel, POINTS, POINTS[point], seen)
    np.testing.assert_allclose(belief.mean[0], mean, atol=1e-6)
    np.testing.assert_allclose(belief.root[0] @ belief.root[0].T, covariance, atol=1e-6)
    np.testing.assert_allclose(belief.deviation[0], np.sqrt(np.diag(covariance)), atol=1e-4)


def test_regression_is_the_conditional_of_a_joint_normal_vector() -> None:
    """By Schur's complement in the inverse of the joint covariance of observations and values, written out anew."""
    chance, length, signal, noise = np.random.default_rng(3), 0.7, 1.3, 0.2
    at, seen, asked = chance.random(9), chance.random(9), np.array([0.0, 0.31, 0.9])
    joint = np.array(
        [
            [
                signal * np.exp(-((p - q) ** 2) / (2 * length**2)) + (noise if i == j and i < 9 else 0.0)
                for j, q in enumerate([*at, *asked])
            ]
            for i, p in enumerate([*at, *asked])
        ]
    )
    precision = np.linalg.inv(joint + 1e-12 * np.eye(12))
    expected = np.linalg.inv(precision[9:, 9:])
    mean, covariance = regress(Kernel(length, signal, noise), asked, at, seen)
    np.testing.assert_allclose(covariance, expected, atol=1e-5)
    np.testing.assert_allclose(mean, -expected @ precision[9:, :9] @ seen, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "mean", "deviation", "shared"),
    [
        (
            Kernel(1.0, 1.0, 0.1),
            [1.0159902888, 0.9550625543, 0.7849599574, 0.5655913727, 0.2352894707, -0.0310642357],
            [0.1919461013, 0.1591040453, 0.1284340174, 0.131518696, 0.1655115623, 0.2359027523],
            -0.007837384,
        ),
        (
            Kernel(0.3, 1.7, 0.25),
            [0.8990897428, 0.981756902, 0.8950300793, 0.546274346, 0.0828037503, -0.0297451192],
            [0.3905023509, 0.2920101105, 0.3240101145, 0.295792854, 0.3958210145, 0.4931865559],
            -0.0050633963,
        ),
    ],
)
def test_the_posterior_is_that_of_scikit_learn(
    kernel: Kernel, mean: list[float], deviation: list[float], shared: float
) -> None:
    """Numbers of scikit-learn 1.9.1: `GaussianProcessRegressor(ConstantKernel(s) * RBF(l), alpha=noise)`, fixed.

    shared: the covariance of the first and the last value.
    """
    at, seen = np.array([0.05, 0.05, 0.2, 0.45, 0.45, 0.45, 0.8, 0.95]), np.array([1.0, 1, 1, 1, 0, 1, 0, 0])
    found, covariance = regress(kernel, np.array([0.0, 0.1, 0.3, 0.5, 0.77, 1.0]), at, seen)
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), deviation, atol=1e-6)
    assert covariance[0, -1] == pytest.approx(shared, abs=1e-6)


def test_a_prior_mean_is_what_is_believed_without_polls_and_far_from_them() -> None:
    index = index_set(np.linspace(0.0, 20.0, 41), Kernel())
    prior = np.linspace(1.0, 0.0, 41)
    counts, sums = np.zeros((2, 1, 41))
    np.testing.assert_allclose(believe(index, counts, sums, prior).mean[0], prior)
    counts[0, 0], sums[0, 0] = 1e6, 0.25e6
    belief = believe(index, counts, sums, prior)
    assert belief.mean[0, 0] == pytest.approx(0.25, abs=1e-3)
    np.testing.assert_allclose(belief.mean[0, 12:], prior[12:], atol=1e-6)
    np.testing.assert_allclose(belief.deviation[0, 12:], 1.0, atol=1e-6)


def test_many_functions_are_believed_as_each_by_itself() -> None:
    chance, index = np.random.default_rng(4), index_set(POINTS, Kernel())
    counts = chance.integers(0, 4, (5, len(POINTS))).astype(float)
    sums = counts * chance.random(counts.shape)
    together = believe(index, counts, sums)
    for row in range(5):
        alone = believe(index, counts[[row]], sums[[row]])
        np.testing.assert_allclose(together.mean[row], alone.mean[0], atol=1e-9)
        np.testing.assert_allclose(together.root[row], alone.root[0], atol=1e-9)


def test_features_are_few_and_make_the_kernel() -> None:
    kernel = Kernel()
    index = index_set(np.linspace(0.0, 1.0, 101), kernel)
    assert index.features.shape == (101, 7)
    np.testing.assert_allclose(index.features @ index.features.T, kernel.between(index.points, index.points), atol=1e-8)


@pytest.mark.parametrize("field", ["length", "signal", "noise"])
def test_kernels_have_positive_parameters(field: str) -> None:
    with pytest.raises(InvalidValueError, match=field):
        Kernel(**{field: 0.0})
