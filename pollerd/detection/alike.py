"""How far two contents are the same, from either end."""

from __future__ import annotations

from typing import Literal


def alike(a: bytes, b: bytes, end: Literal[1, -1]) -> int:
    """How many bytes both begin (1) or end (-1) with, found by halving: comparing is far cheaper than splitting."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        same = (
            a[low:middle] == b[low:middle] if end == 1 else _slice_back(a, low, middle) == _slice_back(b, low, middle)
        )
        if same:
            low = middle
        else:
            high = middle - 1
    return low


def _slice_back(text: bytes, near: int, far: int) -> bytes:
    """The bytes from `far` to `near` places before the end."""
    return text[len(text) - far : len(text) - near]
