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


def lengthened(backoff: float, asked: float | None, cap: float) -> float:
    """The longer of our backoff and the server's Retry-After (both s); `asked` counts up to `cap`, None: none given.

    Retry-After never shortens a backoff: a server that always says "come back at once" would be asked for ever.
    """
    usable = clamp_retry_after(asked, cap)
    return backoff if usable is None else max(backoff, usable)


def clamp_retry_after(seconds: float | None, cap: float) -> float | None:
    """A server's Retry-After in [1, cap] seconds; None where there is none that can be used."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(max(seconds, RETRY_AFTER_FLOOR_SECONDS), cap)
