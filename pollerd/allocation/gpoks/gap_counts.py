"""Polls and changes of each site by gap, older ones faded: once for each share of them that is kept at a poll."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.poll_counts import MEMORY_POLLS


class GapCounts:
    """Counts in the rows of sites, for C shares of the earlier polls that are kept when a site is polled.

    kept: the C shares, above 0 to 1; 1 keeps all. A share φ is exponential forgetting: a poll that n others followed
    counts φ^n, so that `1 / (1 - φ)` polls count in the long run. In a Gaussian process a poll with count c is one with
    noise σ_n² / c. Whatever the share, at `MEMORY_POLLS` a site's counts are halved.
    """

    def __init__(self, bins: int, kept: tuple[float, ...]) -> None:
        self._bins, self._kept = bins, np.array(kept)
        self.width = 2 * len(kept) * bins
        """Numbers in a site's row."""
        self.set_rows(np.zeros((0, self.width)))

    def set_rows(self, rows: NDArray[np.float64]) -> None:
        """Sets the rows float64[capacity, width], which are written to."""
        self._table = self._split(rows)

    def _split(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns rows as float64[k, C, 2, bins]: polls, then changes."""
        return rows.reshape(len(rows), len(self._kept), 2, self._bins)

    def of(self, slots: NDArray[np.int64], share: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns polls and changes of slots int64[k] under one share, by its number: float64[k, bins] each."""
        found = self._table[slots, share]
        return found[:, 0], found[:, 1]

    def of_all(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns polls and changes of slots int64[k] under each share, float64[k C, bins]: slot by slot."""
        found = self._table[slots].reshape(-1, 2, self._bins)
        return found[:, 0], found[:, 1]

    def note(self, slots: NDArray[np.int64], bins: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Adds polls of slots int64[k] with gaps in bins int64[k], and whether each found a change, bool[k].

        Slots may repeat only if the one share is 1: else their order matters (`rounds`).
        """
        fading = np.flatnonzero(self._kept < 1)
        if len(fading):
            self._table[slots[:, None], fading] *= self._kept[fading][:, None, None]
        for share in range(len(self._kept)):
            table = self._table[:, share]
            np.add.at(table[:, 0], (slots, bins), 1.0)
            np.add.at(table[:, 1], (slots, bins), changed)
            polled = np.unique(slots)
            while (full := table[polled, 0].sum(1) >= MEMORY_POLLS).any():
                table[polled[full]] /= 2

    def no_more_changes_than_polls(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns, for stored rows float64[k, width], where there are no more changes than polls: bool[k, C, bins]."""
        polls, changes = np.moveaxis(self._split(rows), 2, 0)
        return np.asarray((changes >= 0) & (changes <= polls))

    def within_memory(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns, for stored rows float64[k, width], which have at most `MEMORY_POLLS` polls: bool[k, C]."""
        return np.asarray(self._split(rows)[:, :, 0].sum(-1) <= MEMORY_POLLS)


def rounds(slots: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yields rows int64 of slots int64[k], in order, so that none yielded together are of one slot."""
    order = np.argsort(slots, kind="stable")
    grouped = slots[order]
    first = np.searchsorted(grouped, grouped)
    turn = np.empty(len(slots), np.int64)
    turn[order] = np.arange(len(slots)) - first
    for number in range(int(turn.max(initial=-1)) + 1):
        yield np.flatnonzero(turn == number)
