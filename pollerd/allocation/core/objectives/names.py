"""Names of the objectives, for the policies: `registered` lists them, which loads nothing."""

from __future__ import annotations

from pollerd.allocation.registered import DEFAULT_DEADLINE_S, OBJECTIVES, TIMELY

__all__ = ["DEFAULT_DEADLINE_S", "OBJECTIVES", "TIMELY"]
