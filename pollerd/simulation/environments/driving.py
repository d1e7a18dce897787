"""Drives an allocator through its contract in a world: one poll a step, and what came of it, stretch by stretch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation import Allocator, EvidenceBatch
from pollerd.errors import InvalidValueError
from pollerd.simulation.environments.changes import Changes, RatePhase

EPOCH_S = 1.75e9
"""UTC of step 0: a date like any, as allocators may look at the hour."""
STEP_S = 10.0


@dataclass(frozen=True)
class Record:
    """Polls in order, one a step: poll j happened at step j + 1.

    page int32[m]. gap float64[m]: steps since the page's last poll, or since 0. first float64[m]: when the page's first
    change in that gap happened, inf if there was none. unseen float64[n]: of each page at the end, the first change
    that no poll found.
    """

    page: NDArray[np.int32]
    gap: NDArray[np.float64]
    first: NDArray[np.float64]
    unseen: NDArray[np.float64]

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether each poll found a change (truly, whatever noise said), bool[m]."""
        return np.isfinite(self.first)


def drive(
    allocator: Allocator,
    changes: Changes,
    polls: int,
    *,
    step: float = STEP_S,
    noise: float = 0.0,
    rng: np.random.Generator | None = None,
    half_life: NDArray[np.float64] | None = None,
) -> Record:
    """Polls one page a step, for so many steps of `step` s, and tells the allocator what each poll showed.

    The allocator must be empty; pages become slots 0..n-1 with weight and cost 1, known since step 0. noise: white
    noise on the feedback, the probability that a poll reports the opposite of what it found; it needs `rng`. half_life
    float64[n] s, of each page's news; None: none is told.
    """
    if not 0 <= noise < 0.5:
        raise InvalidValueError("noise", "from 0, below 0.5", noise)
    if noise and rng is None:
        raise InvalidValueError("rng", "a generator, where there is noise", rng)
    n = changes.pages
    allocator.add(np.arange(n), np.ones(n), np.ones(n), half_life)
    lies = rng.random(polls) < noise if rng is not None and noise else np.zeros(polls, np.bool_)
    evidence_of, lied = [EvidenceBatch(np.array([changed])) for changed in (False, True)], lies.tolist()
    page, first, gap = np.empty(polls, np.int32), np.empty(polls), np.empty(polls)
    last, elapsed, eligible = np.full(n, EPOCH_S), np.empty(n), np.ones(n, np.bool_)
    for j in range(polls):
        now = EPOCH_S + (j + 1) * step
        chosen = allocator.select(np.subtract(now, last, out=elapsed), now, eligible, 1)
        slot = int(chosen[0])
        page[j], waited = slot, elapsed[chosen]
        first[j] = when = changes.poll(slot, j + 1.0)
        gap[j] = waited[0] / step
        allocator.observe(chosen, waited, evidence_of[(when < math.inf) != lied[j]], now)
        last[slot] = now
    return Record(page, np.rint(gap), first, changes.unseen(float(polls)))


def detections(record: Record, edges: Sequence[int]) -> NDArray[np.float64]:
    """Share of polls that found a change, in each stretch of polls that ends at `edges`: float64[len(edges)]."""
    found = np.concatenate([[0], np.cumsum(record.found)])
    ends = np.concatenate([[0], np.asarray(edges)])
    return np.asarray(np.diff(found[ends]) / np.diff(ends))


def freshness(record: Record, edges: Sequence[int]) -> NDArray[np.float64]:
    """Share of page-time in which our copy was current, in each stretch of steps that ends at `edges`."""
    late = record.found
    begin = np.concatenate([record.first[late], record.unseen[np.isfinite(record.unseen)]])
    stale = np.concatenate([np.flatnonzero(late) + 1.0, np.full(len(begin) - int(late.sum()), math.inf)])
    ends = np.concatenate([[0], np.asarray(edges)]).astype(np.float64)
    pages = len(record.unseen)
    lost = [
        np.clip(np.minimum(stale, high) - np.maximum(begin, low), 0, None).sum()
        for low, high in itertools.pairwise(ends)
    ]
    return np.asarray(1.0 - np.array(lost) / (np.diff(ends) * pages))


def interest(
    record: Record, edges: Sequence[int], phases: Iterable[RatePhase], decay: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Value of new items when found, per step, in each stretch of polls that ends at `edges`; new items are worth 1.

    phases: true items per step, from 0 to the last poll. decay float64[n]: μ per step of each page. It is the
    expectation given the gaps that were kept: what happened but for the luck of when items came within a gap. A poll at
    t finds of a phase that lasts from a to b of its gap `(Λ/μ)(1 - e^{-μ(b - a)}) e^{-μ(t - b)}`.
    """
    page, at = record.page, np.arange(1.0, len(record.page) + 1.0)
    found = np.zeros(len(page))
    for phase in phases:
        end = np.minimum(at, phase.end)
        lasted = np.maximum(end - np.maximum(at - record.gap, phase.begin), 0.0)
        fresh = phase.rate[page] / decay[page] * -np.expm1(-decay[page] * lasted)
        found += fresh * np.exp(-decay[page] * (at - end))
    total = np.concatenate([[0.0], np.cumsum(found)])
    ends = np.concatenate([[0], np.asarray(edges)])
    return np.asarray(np.diff(total[ends]) / np.diff(ends))
