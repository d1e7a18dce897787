"""Words that follow a number."""

from __future__ import annotations


def counted(number: float, thing: str, things: str | None = None) -> str:
    """The number with its thing, as in "1 line" and "1,204 lines"; `things`: where more are not just with an s."""
    return f"{number:,.0f} {thing if number == 1 else things or thing + 's'}"
