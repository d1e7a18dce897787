"""Sitemaps and feeds whose pages become sites."""

from __future__ import annotations

from typing import Protocol

from pollerd.storage import Source, SourceSpec


class SourcesPort(Protocol):
    """Adds, changes and removes sources of sites."""

    async def add(self, spec: SourceSpec, *, after: float = 0.0) -> Source:
        """Adds a source, to be read after so many seconds. Raises DuplicateError with the existing id."""

    async def update(self, source_id: int, spec: SourceSpec) -> Source:
        """Sets the settings of a source, but for URL and kind. Raises NotFoundError."""

    async def delete(self, source_id: int, *, remove_sites: bool = False) -> int:
        """Deletes a source, and perhaps its sites; returns how many of these. Raises NotFoundError."""

    async def read_now(self, source_id: int) -> Source:
        """Has a source read next. Raises NotFoundError."""
