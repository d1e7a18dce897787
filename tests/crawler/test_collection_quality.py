"""Recall, freshness, their minimum, and rewards: equations (1) to (3) and (11)."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.crawler.controllers import RequestOutcome, reward
from pollerd.crawler.quality import freshness, performance, quality, recall, recall_by_request
from pollerd.errors import InvalidValueError


def test_recall_and_freshness_by_hand() -> None:
    held, current = np.array([0.5, 0.3, 0.2]), np.array([True, False, True])
    assert recall(held, current, 1.4) == pytest.approx(0.5)
    assert freshness(held, current) == pytest.approx(0.7)
    assert quality(held, current, 1.4) == pytest.approx(0.5)
    assert quality(held, current, 0.8) == pytest.approx(0.7)


def test_nothing_held_and_nothing_on_the_web() -> None:
    none, never = np.empty(0), np.empty(0, np.bool_)
    assert (recall(none, never, 2.0), freshness(none, never), recall(none, never, 0.0)) == (0.0, 1.0, 1.0)


def test_performance_is_the_mean_recall_of_a_web_that_stands_still() -> None:
    curve = recall_by_request(np.array([0.0, 3.0, 1.0]), np.array([0, 2, 1]))
    assert curve.tolist() == [0.0, 0.25, 1.0]
    assert performance(curve) == pytest.approx(1.25 / 3)
    assert recall_by_request(np.zeros(2), np.array([0, 1])).tolist() == [1.0, 1.0]
    with pytest.raises(InvalidValueError, match="quality_over_time"):
        performance(np.empty(0))


def test_rewards_are_those_of_equation_11() -> None:
    assert reward(RequestOutcome.FIRST, 0.0, 0.4) == 0.4
    assert reward(RequestOutcome.MODIFIED, 0.4, 0.1) == 0.4
    assert reward(RequestOutcome.MODIFIED, 0.1, 0.4) == 0.4
    assert reward(RequestOutcome.DELETED, 0.4, 0.0) == 0.4
    assert reward(RequestOutcome.SAME, 0.4, 0.4) == 0.0
