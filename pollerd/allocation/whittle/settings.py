"""Settings of learning."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pollerd.allocation.slots.validation import positive, put, whole
from pollerd.errors import InvalidValueError

MOST_EM_STEPS = 1000
"""More steps change nothing."""

ORDINARY_CLOCK = ("interest", "deadline")
"""Objectives whose gaps are not measured on the activity clock."""


@dataclass(frozen=True)
class LearningSettings:
    """All values > 0, `own_share` and `start_share` at most 1, `em_steps` a whole number from 1 to 1,000.

    The defaults are measured (docs/research/learning.md).
    """

    start_width_efolds: float = 2.0
    """Standard deviation of the log rate in the initial prior."""
    start_sites: float = 10.0
    """Weight of the initial prior in sites, besides `prior_pull_share`."""
    prior_pull_share: float = 0.05
    """Weight of the initial prior as a share of the sites seen."""
    em_steps: int = 2
    """EM steps at each update of the prior."""
    own_share: float = 0.5
    """Share of the page's own long-run distribution in that of a redrawn rate; the rest is the population."""
    start_share: float = 0.5
    """Share of the wide initial prior in the population."""
    occupancy_cycles: float = 20.0
    """Uniform cycles over which the page's own long run is averaged."""
    memory_polls: float = 10_000.0
    """Polls over which the comparisons of hazards and of clocks are discounted."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "em_steps":
                positive(field.name, getattr(self, field.name))
        for name in ("own_share", "start_share"):
            if getattr(self, name) > 1:
                raise InvalidValueError(name, "at most 1", getattr(self, name))
        put(self, em_steps=whole("em_steps", self.em_steps, 1, MOST_EM_STEPS))
