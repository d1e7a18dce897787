"""Grammatical number of words."""

from __future__ import annotations


def counted(number: float, thing: str, things: str | None = None) -> str:
    """Formats a number with its noun, as in "1 line" and "1,204 lines"; `things`: an irregular plural."""
    return f"{number:,.0f} {thing if number == 1 else things or thing + 's'}"
