"""What sources of signals taught together, which is what a new one starts with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pollerd.allocation.signals.quality import START_POLLS, LearnedSource

_START = {"announced": 1.0, "unannounced": 1.0, "false": 1.0, "exposure": 0.0}
"""Sums of a source of which nothing is known."""


@dataclass
class _Sums:
    """Sums of several sources, less those of which nothing is known, and of how many polls they are."""

    announced: float = 0.0
    unannounced: float = 0.0
    false: float = 0.0
    exposure: float = 0.0
    polls: float = 0.0

    def include(self, of: LearnedSource) -> None:
        """Adds a source."""
        for name, start in _START.items():
            setattr(self, name, getattr(self, name) + getattr(of, name) - start)
        # Its own prior is in its sums, too: else new sources would pass on more than was learned.
        self.polls += of.polls + of.prior_polls


class PooledQuality:
    """Sums of all sources and of those of each host, which are made when they are asked for."""

    def __init__(self) -> None:
        self._all: _Sums | None = None
        self._by_host: dict[int, _Sums] = {}

    def teach(self, new: LearnedSource, others: Iterable[LearnedSource]) -> None:
        """Has a new source start like the others of its host, or else like all; not as far as they are believed."""
        if self._all is None:
            self._all = _Sums()
            for of in others:
                self.include(of)
        sums = self._by_host.get(new.host, self._all)
        if sums.polls <= 0.0:
            return
        share = min(START_POLLS / sums.polls, 1.0)
        for name, start in _START.items():
            setattr(new, name, start + share * getattr(sums, name))
        new.prior_polls = share * sums.polls

    def include(self, of: LearnedSource) -> None:
        """Adds a source to the sums."""
        if self._all is None:
            return
        self._all.include(of)
        if of.host >= 0:
            self._by_host.setdefault(of.host, _Sums()).include(of)

    def clear(self) -> None:
        """Forgets the sums: sources have learned, or are others."""
        self._all = None
        self._by_host.clear()
