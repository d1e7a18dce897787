"""Names of the objectives, for all that reads, checks or lists them."""

from __future__ import annotations

from pollerd.allocation.core.index import G_OBJECTIVES

TIMELY = ("delay", "deadline")
"""Objectives about how soon changes are found. Every change counts, also those that one poll finds together."""
OBJECTIVES = (*G_OBJECTIVES, *TIMELY)
DEFAULT_DEADLINE_S = 1800.0
"""Seconds in which a change should be found under `deadline`, if nothing else is given."""
