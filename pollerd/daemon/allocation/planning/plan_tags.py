"""Delays by tag: as expected at today's budget, beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.delays import Delays
from pollerd.daemon.allocation.planning.plan_rows import PlanRows
from pollerd.planning.budget_plan import MeasuredDelays, TagPlan

MOST_TAGS = 50
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class DatedDelays:
    """Delays of changes whose date the page named, float64[m] s, and their sites, int64[m]."""

    site_id: NDArray[np.int64]
    seconds: NDArray[np.float64]

    def of(self, site_ids: NDArray[np.int64]) -> DatedDelays:
        """Returns those of these sites, int64[k]."""
        there = np.isin(self.site_id, site_ids)
        return DatedDelays(self.site_id[there], self.seconds[there])

    def measured(self) -> MeasuredDelays | None:
        """Returns their median and 90th percentile; None: there are none."""
        if not len(self.seconds):
            return None
        median, p90 = np.quantile(self.seconds, [0.5, 0.9]).tolist()
        return MeasuredDelays(len(self.seconds), median, p90)


@dataclass(frozen=True)
class ExpectedDelays:
    """Periods float64[k] s and changes float64[k] per second of k rows."""

    periods: NDArray[np.float64]
    changes: NDArray[np.float64]
    estimated: bool
    """Whether the changes are estimated."""


def tag_plans(
    rows: PlanRows, expected: ExpectedDelays, tags: Sequence[tuple[int, str]], dated: DatedDelays, within: float
) -> tuple[TagPlan, ...]:
    """Returns the plan of each tag, those with most sites first; tags: a row for each site and tag, in any order."""
    if not tags or not len(rows.slots):
        return ()
    ids, words = zip(*tags, strict=True)
    site_id = np.array(ids, np.int64)
    names, of = np.unique(np.array(words), return_inverse=True)
    order = np.argsort(rows.site_id)
    row = order[np.minimum(np.searchsorted(rows.site_id, site_id, sorter=order), len(order) - 1)]
    there = rows.site_id[row] == site_id
    number = np.bincount(of[there], rows.sites[row[there]], len(names))
    known = np.flatnonzero(number)
    plans = []
    for tag in known[np.argsort(-number[known], kind="stable")][:MOST_TAGS].tolist():
        mine = row[there & (of == tag)]
        changes = expected.changes[mine]
        delays = Delays(expected.periods[mine], changes)
        plans.append(
            TagPlan(
                tag=str(names[tag]),
                sites=rounded(rows.sites[mine]),
                changes_per_day=per_day(changes) if expected.estimated else None,
                share=finite(delays.share(within)),
                delay_median=finite(delays.quantile(0.5)),
                delay_p90=finite(delays.quantile(0.9)),
                measured=dated.of(site_id[of == tag]).measured(),
            )
        )
    return tuple(plans)


def per_day(changes: NDArray[np.float64]) -> float:
    """Returns the changes a day of rows with so many per second."""
    return float(changes.sum()) * _DAY_SECONDS


def rounded(sites: NDArray[np.float64]) -> int:
    """Returns how many sites the rows stand for together."""
    return round(float(sites.sum()))


def finite(value: float) -> float | None:
    """Returns the number, None if it is none or infinite."""
    return value if math.isfinite(value) else None
