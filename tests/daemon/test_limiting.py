"""What is said of a budget that binds, or does not."""

from __future__ import annotations

import pytest

from pollerd.daemon.limiting import in_words
from pollerd.scheduling import Limit


@pytest.mark.parametrize(
    ("limit", "rate", "words"),
    [
        (Limit.BUDGET, 4.93, "budget binding: 4.9 of 5 polls/s used; a larger one shortens delays"),
        (Limit.MIN_YIELD, 0.0213, "budget not binding: 0.021 of 5 polls/s used; a lower min-yield shortens delays"),
        (Limit.MIN_INTERVAL, 0.0, "budget not binding: 0 of 5 polls/s used; a lower min-interval shortens delays"),
        (Limit.NO_SITES, 0.0, "no sites to poll"),
    ],
)
def test_words(limit: Limit, rate: float, words: str) -> None:
    assert in_words(limit, rate, 5.0) == words


def test_large_rates_are_whole_and_every_limit_has_its_words() -> None:
    assert "123 of 500 polls/s" in in_words(Limit.MIN_YIELD, 123.4, 500.0)
    assert len({in_words(limit, 1.0, 5.0) for limit in Limit}) == len(Limit)
