"""Grammatical number of words, and short waits."""

from __future__ import annotations

import math


def soon(seconds: float) -> str:
    """Formats a wait as in "in 3 s": rounded up, so that who waits for it does not come too early."""
    return f"in {max(math.ceil(seconds), 1):,} s"


def counted(number: float, thing: str, things: str | None = None) -> str:
    """Formats a number with its noun, as in "1 line" and "1,204 lines"; `things`: an irregular plural."""
    return f"{number:,.0f} {thing if number == 1 else things or thing + 's'}"
