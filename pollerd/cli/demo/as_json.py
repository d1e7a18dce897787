"""Formats the result of a demo as JSON."""

from __future__ import annotations

import math
from typing import Any

from pollerd.cli.demo.sample import Sample, SampleRow
from pollerd.cli.demo.view import delay


def in_json(reading: Sample) -> dict[str, Any]:
    """Returns polls and changes in total, then per site: rates in changes per minute, times in seconds; null: unknown.

    A site that differs at every request has no true rate.
    """
    status, score = reading.status, reading.score
    return {
        "seconds": round(reading.elapsed, 3),
        "budget": status.budget,
        "polls": status.polls,
        "changes_happened": score.happened,
        "changes_noticed": score.noticed,
        "polls_that_found_one": score.found,
        "median_delay": _number(delay(reading)),
        "share_of_polls_that_found_one": _number(score.share),
        "share_under_uniform": _number(score.uniform_share),
        "sites": [_site(row) for row in sorted(reading.rows, key=lambda row: -row.true)],
    }


def _site(row: SampleRow) -> dict[str, Any]:
    return {
        "url": row.site.url,
        "kind": row.site.kind.value,
        "state": row.state,
        "true_rate": _number(row.true),
        "learned_rate": row.learned,
        "learned_low": row.low,
        "learned_high": row.high,
        "polls": row.polls,
        "changes_happened": row.happened,
        "polls_that_found_one": row.found,
        "last_outcome": row.outcome,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
