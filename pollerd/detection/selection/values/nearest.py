"""Names that look like a mistyped one."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 60


def nearest(given: str, names: Sequence[str], most: int = 3) -> str:
    """Returns the names that look most like the given one, joined by commas; empty if none does."""
    from difflib import get_close_matches

    lower = {name.lower(): name for name in names}
    found = get_close_matches(given[:_LONGEST].lower(), list(lower), n=most)
    return ", ".join(lower[name] for name in found)


def with_nearest(allowed: str, given: str, names: Sequence[str], most: int = 1) -> str:
    """Returns what is allowed, with the nearest names behind if there are any."""
    found = nearest(given, names, most)
    return f"{allowed} (nearest: {found})" if found else allowed
