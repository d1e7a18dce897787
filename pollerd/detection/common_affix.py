"""How far two contents are the same, from either end."""

from __future__ import annotations

from typing import Literal

import numpy as np


def common_affix_length(a: bytes, b: bytes, end: Literal[1, -1]) -> int:
    """How many bytes both begin (1) or end (-1) with."""
    number = min(len(a), len(b))
    first, second = (np.frombuffer(text, np.uint8, number, 0 if end == 1 else len(text) - number) for text in (a, b))
    differs: bytes = (first != second).tobytes()  # in bytes, for find and rfind look at many at once
    if end == 1:
        return found if (found := differs.find(1)) >= 0 else number
    return number - 1 - differs.rfind(1)
