"""User settings of intervals and politeness."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pollerd.errors import InvalidValueError
from pollerd.ranges import SCHEDULING
from pollerd.site_settings import RespectTtl
from pollerd.texts import _

LONGEST_TTL_SECONDS = 86_400.0
"""Maximum TTL that is honoured: versioned pages commonly announce a year."""
HINT_TTL_SECONDS = 3_600.0
"""Maximum TTL that is believed as a hint."""


@dataclass(frozen=True)
class SchedulingSettings:
    """Intervals and politeness, all in seconds, in the ranges of `SCHEDULING`.

    min_interval_seconds: shortest time between two polls of a site that sets none of its own.
    max_interval_seconds: longest, inf: none.
    min_saving_seconds: a site of weight and cost 1 is left alone until a poll is expected to bring news so much sooner;
    0: no matter.
    min_yield: a site is left alone while the chance that it has changed is believed to be less; 0: no matter.
    max_silence_seconds: after so long it may be polled whatever is believed, inf: never for that reason.
    respect_ttl: whether a site is also left alone for as long as it announces (max-age, Expires, a feed's ttl), at most
    its max_interval: strictly, at most LONGEST_TTL_SECONDS; as a hint, at most HINT_TTL_SECONDS.
    host_interval_seconds: between two starts at one host; a longer Crawl-delay wins.
    backoff_base_seconds, backoff_cap_seconds: first and longest wait after failures.
    crawl_delay_cap_seconds: a Crawl-delay above this is taken as this.
    """

    min_interval_seconds: float = 30.0
    max_interval_seconds: float = math.inf
    min_saving_seconds: float = 20.0
    min_yield: float = 0.0
    max_silence_seconds: float = 86_400.0
    respect_ttl: RespectTtl = RespectTtl.HINT
    host_interval_seconds: float = 1.0
    backoff_base_seconds: float = 60.0
    backoff_cap_seconds: float = 86_400.0
    crawl_delay_cap_seconds: float = 3_600.0

    def __post_init__(self) -> None:
        for name, allowed in SCHEDULING.items():
            allowed.check(getattr(self, name))
        if self.max_interval_seconds < self.min_interval_seconds:
            raise InvalidValueError(
                "max_interval_seconds",
                _("at least min_interval ({min_interval_seconds:g} s)", min_interval_seconds=self.min_interval_seconds),
                self.max_interval_seconds,
            )
