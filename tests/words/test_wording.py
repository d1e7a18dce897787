"""Words that follow a number."""

from __future__ import annotations

import pytest

from pollerd.quantities import counted


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("failure",), "0 failures"),
        (1, ("failure",), "1 failure"),
        (1.0, ("request",), "1 request"),
        (12_345, ("line",), "12,345 lines"),
        (1, ("new entry", "new entries"), "1 new entry"),
        (2, ("new entry", "new entries"), "2 new entries"),
    ],
)
def test_one_and_several(number: float, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told
