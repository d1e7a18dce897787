"""Runs an allocator in a world with one poll a step, and scores it per interval of polls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.changes import Changes, RatePhase

EPOCH_S = 1.75e9
"""UTC of step 0: an arbitrary date, as allocators may depend on the time of day."""
STEP_S = 10.0


@dataclass(frozen=True)
class Record:
    """Polls in order, one a step: poll j happened at step j + 1.

    page int32[m]. gap float64[m]: steps since the page's last poll, or since 0. first float64[m]: time of the page's
    first change in that gap, inf if there was none. unseen float64[n]: for each page at the end, the first change that
    no poll found.
    """

    page: NDArray[np.int32]
    gap: NDArray[np.float64]
    first: NDArray[np.float64]
    unseen: NDArray[np.float64]

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether each poll found a change (the truth, without noise), bool[m]."""
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
    """Polls one page a step, for `polls` steps of `step` s, and passes the evidence to the allocator.

    The allocator must be empty; pages become slots 0..n-1 with weight and cost 1, known since step 0. noise:
    probability that a poll reports the opposite of what it found; it needs `rng`. half_life float64[n] s, of each
    page's news; None: not given.
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
    """Returns the share of polls that found a change, in each interval of polls that ends at `edges`, float64[k]."""
    detected_before = np.concatenate([[0], np.cumsum(record.found)])
    ends = np.concatenate([[0], np.asarray(edges)])
    return np.asarray(np.diff(detected_before[ends]) / np.diff(ends))


def freshness(record: Record, edges: Sequence[int]) -> NDArray[np.float64]:
    """Returns the share of page-time in which our copy was current, in each interval of steps that ends at `edges`."""
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
    """Returns the value of new items when found, per step, in each interval of polls that ends at `edges`.

    New items have value 1. phases: true items per step, from 0 to the last poll. decay float64[n]: μ per step of each
    page. The value is the expectation given the gaps, so it excludes the randomness of arrival times. With arrival rate
    Λ, of a phase from a to b within its gap a poll at t finds `(Λ/μ)(1 - e^{-μ(b - a)}) e^{-μ(t - b)}`.
    """
    page, at = record.page, np.arange(1.0, len(record.page) + 1.0)
    rewards = np.zeros(len(page))
    for phase in phases:
        end = np.minimum(at, phase.end)
        lasted = np.maximum(end - np.maximum(at - record.gap, phase.begin), 0.0)
        fresh = phase.rate[page] / decay[page] * -np.expm1(-decay[page] * lasted)
        rewards += fresh * np.exp(-decay[page] * (at - end))
    total = np.concatenate([[0.0], np.cumsum(rewards)])
    ends = np.concatenate([[0], np.asarray(edges)])
    return np.asarray(np.diff(total[ends]) / np.diff(ends))
