"""Durations as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd import quantities


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (0.5, "0.5s"),
        (30, "30s"),
        (59.99, "1m"),
        (90, "1.5m"),
        (300, "5m"),
        (5_400, "1.5h"),
        (86_399, "1d"),
        (172_800, "2d"),
        (86_400 * 365, "365d"),
        (86_400 * 3_650, "3650d"),
        (-30, "-30s"),
    ],
)
def test_a_duration_in_words(value: float, text: str) -> None:
    assert quantities.duration(value) == text


@given(st.floats(min_value=0, max_value=1e9, allow_subnormal=False))
def test_what_is_written_is_read_as_nearly_the_same(value: float) -> None:
    assert quantities.seconds(quantities.duration(value)) == pytest.approx(value, rel=6e-3)
