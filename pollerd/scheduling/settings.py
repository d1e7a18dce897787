"""User settings of intervals and politeness."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pollerd.errors import InvalidValueError

LONGEST_TTL_SECONDS = 86_400.0
"""Maximum TTL that is honoured: versioned pages commonly announce a year."""


@dataclass(frozen=True)
class SchedulingSettings:
    """Intervals and politeness, all in seconds.

    min_interval_seconds: minimum time between two polls of a site without its own, >= 0. max_interval_seconds: maximum,
    > 0, inf: none. min_yield: a site is not polled while the believed probability of a change is lower, from 0 (off) to
    below 1. max_silence_seconds: maximum wait because of min_yield, > 0, inf: none. respect_ttl: whether a site is also
    not polled for the TTL that it announces (max-age, a feed's ttl), at most LONGEST_TTL_SECONDS and its max_interval.
    host_interval_seconds: between two requests to one host, >= 0; a longer Crawl-delay wins. backoff_base_seconds,
    backoff_cap_seconds: first and maximum wait after failures. crawl_delay_cap_seconds: upper limit of a Crawl-delay.
    """

    min_interval_seconds: float = 30.0
    max_interval_seconds: float = math.inf
    min_yield: float = 0.01
    max_silence_seconds: float = 86_400.0
    respect_ttl: bool = False
    host_interval_seconds: float = 1.0
    backoff_base_seconds: float = 60.0
    backoff_cap_seconds: float = 86_400.0
    crawl_delay_cap_seconds: float = 3_600.0

    def __post_init__(self) -> None:
        for name in ("min_interval_seconds", "host_interval_seconds"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InvalidValueError(name, "a finite number of seconds, 0 or more", value)
        if not 0 <= self.min_yield < 1:
            raise InvalidValueError("min_yield", "a chance from 0 (off) to below 1, like 1% or 0.01", self.min_yield)
        for name in ("max_interval_seconds", "max_silence_seconds", "backoff_base_seconds", "backoff_cap_seconds"):
            value = getattr(self, name)
            if not value > 0:
                raise InvalidValueError(name, "a number of seconds above 0", value)
        if self.max_interval_seconds < self.min_interval_seconds:
            raise InvalidValueError(
                "max_interval_seconds",
                f"at least the shortest interval ({self.min_interval_seconds:g})",
                self.max_interval_seconds,
            )
