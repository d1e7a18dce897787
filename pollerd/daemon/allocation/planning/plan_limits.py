"""Why no budget learns of enough changes in time: what keeps which sites from being polled often enough."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.daemon.allocation.planning.plan_rows import PlanRows
from pollerd.planning.budget_plan import HeldBack, PlanLimit

_LONGER = 1 + 1e-6
"""Factor by which a period must exceed what the site itself allows, for its host to be the reason."""


def held_back(
    rows: PlanRows, unlimited: NDArray[np.float64], changes: NDArray[np.float64], within: float
) -> tuple[HeldBack, ...]:
    """Returns what holds back the sites that count, the limits by which most changes are missed first.

    unlimited: float64[k] s, periods if polls cost nothing; changes: float64[k], expected changes per second.
    """
    with np.errstate(invalid="ignore"):
        missed = np.where(rows.asked, changes * np.maximum(1.0 - within / unlimited, 0.0), 0.0)
    total = float(changes.sum(where=rows.asked))
    found = []
    left = missed > 0
    for limit, holds, span in _limits(rows, unlimited):
        held = left & holds
        left &= ~holds
        if held.any():
            hosts = np.unique(rows.bounds.host[held])
            spans = rows.host_interval[hosts] if limit is PlanLimit.HOST_INTERVAL else span[held]
            typical = float(np.median(spans))
            found.append(
                HeldBack(
                    limit=limit,
                    sites=round(float(rows.sites[held].sum())),
                    hosts=len(hosts),
                    seconds=typical if math.isfinite(typical) else None,
                    share=float(missed[held].sum()) / total,
                )
            )
    return tuple(sorted(found, key=lambda one: -one.share))


def _limits(
    rows: PlanRows, unlimited: NDArray[np.float64]
) -> tuple[tuple[PlanLimit, NDArray[np.bool_], NDArray[np.float64]], ...]:
    """Returns each limit, which rows it holds, bool[k], and how long, float64[k] s; the first one counts."""
    by_itself = np.maximum(rows.bounds.shortest, np.finfo(np.float64).tiny)
    quiet = rows.unchanged > rows.min_interval
    everyone = np.ones(len(unlimited), np.bool_)
    return (
        (PlanLimit.NEVER_POLLED, np.isinf(unlimited), unlimited),
        (PlanLimit.HOST_INTERVAL, unlimited > by_itself * _LONGER, unlimited),
        (PlanLimit.TTL, rows.announced, rows.unchanged),
        (PlanLimit.MIN_YIELD, quiet, rows.unchanged),
        (PlanLimit.MIN_INTERVAL, everyone, rows.min_interval),
    )
