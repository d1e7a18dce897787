"""How long to leave something alone after failures in a row: doubling, jittered, capped, never for ever."""

from __future__ import annotations

import math

import numpy as np

RETRY_AFTER_FLOOR_SECONDS = 1.0


def backoff_seconds(failures: int, base: float, cap: float, rng: np.random.Generator) -> float:
    """Seconds to wait after the `failures`-th failure in a row (>= 1), within (base/2, cap].

    base · 2^(failures-1), capped, times a uniform jitter from 0.5 to 1 so that sites that failed together do not
    come back together.
    """
    exponent = min(max(failures, 1) - 1, 64)
    return float(min(cap, base * 2.0**exponent) * rng.uniform(0.5, 1.0))


def clamp_retry_after(seconds: float | None, cap: float) -> float | None:
    """A server's Retry-After in [1, cap] seconds; None where there is none that can be used."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(max(seconds, RETRY_AFTER_FLOOR_SECONDS), cap)
