"""Names of the allocators and objectives, for callers that only check or list them and need not load the policies."""

from __future__ import annotations

NAMES = (
    "whittle",
    "htraa",
    "lspe",
    "lakg",
    "gpoks",
    "estimator",
    "proportional",
    "optimal",
    "ucb1-raw",
    "ucb1",
    "thompson",
    "gp-ucb",
    "uniform",
)
"""Equal to `names()` of the registry, the default first; a test compares them."""
OBJECTIVES = ("changes", "freshness", "interest", "delay", "deadline")
"""Equal to those of `core.objectives`, the default first."""
DEFAULT_DEADLINE_S = 1800.0
"""Seconds within which a change should be found under `deadline`."""
