"""What one process must have for itself: allocators with one state over all sites."""

from __future__ import annotations

from collections.abc import Iterable

UNSPLIT = frozenset({"htraa", "lakg", "gpoks", "lspe"})
"""Allocators whose state cannot be split over several nodes."""


def unsplit_among(names: Iterable[str]) -> list[str]:
    """Returns those of these allocators whose state cannot be split, in order."""
    return [name for name in names if name in UNSPLIT]
