"""Lengths of the common prefix and suffix of two contents."""

from __future__ import annotations

from typing import Literal

import numpy as np


def common_affix_length(a: bytes, b: bytes, end: Literal[1, -1]) -> int:
    """Returns the length in bytes of the common prefix (1) or suffix (-1)."""
    number = min(len(a), len(b))
    first, second = (np.frombuffer(text, np.uint8, number, 0 if end == 1 else len(text) - number) for text in (a, b))
    differs: bytes = (first != second).tobytes()  # as bytes, because find and rfind are vectorised
    if end == 1:
        return found if (found := differs.find(1)) >= 0 else number
    return number - 1 - differs.rfind(1)
