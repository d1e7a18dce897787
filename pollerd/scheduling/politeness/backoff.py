"""Backoff after consecutive failures: exponential, jittered, capped."""

from __future__ import annotations

import math

import numpy as np

RETRY_AFTER_FLOOR_SECONDS = 1.0


def backoff_seconds(failures: int, base: float, cap: float, rng: np.random.Generator) -> float:
    """Returns the seconds to wait after the `failures`-th consecutive failure (>= 1), within (base/2, cap].

    base · 2^(failures-1), capped, times a uniform jitter from 0.5 to 1 so that sites that failed together are not
    retried together.
    """
    exponent = min(max(failures, 1) - 1, 64)
    return float(min(cap, base * 2.0**exponent) * rng.uniform(0.5, 1.0))


def lengthened(backoff: float, asked: float | None, cap: float) -> float:
    """Returns the longer of our backoff and the server's Retry-After, in s; `asked` is limited to `cap`, None: absent.

    Retry-After never shortens a backoff: a server that always sends a short one would be polled forever.
    """
    usable = clamp_retry_after(asked, cap)
    return backoff if usable is None else max(backoff, usable)


def clamp_retry_after(seconds: float | None, cap: float) -> float | None:
    """Limits a server's Retry-After to [1, cap] seconds; returns None if it is absent or unusable."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(max(seconds, RETRY_AFTER_FLOOR_SECONDS), cap)
