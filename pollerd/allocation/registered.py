"""Names of the allocators and objectives, for callers that only check or list them and need not load the policies."""

from __future__ import annotations

from typing import Literal, get_args

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
GObjective = Literal["changes", "freshness", "interest"]
"""Objectives whose index is `(A / C) g(r τ)`: `index.py`."""
TimelyObjective = Literal["delay", "deadline"]
"""Objectives about how soon changes are found. Every change counts, also those that one poll finds together."""
Objective = Literal[GObjective, TimelyObjective]
G_OBJECTIVES: tuple[str, ...] = get_args(GObjective)
TIMELY: tuple[str, ...] = get_args(TimelyObjective)
OBJECTIVES: tuple[str, ...] = get_args(Objective)
"""All of them, the default first."""
DEFAULT_DEADLINE_S = 1800.0
"""Seconds in which a change should be found under `deadline`, if nothing else is given."""
