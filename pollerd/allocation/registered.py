"""Names of the allocators, for callers that only check or list them and need not load the policies."""

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
