"""Prints digests of what `whittle` chooses and keeps without sources: `python -m tests.allocation.recorded_choices`."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create

OBJECTIVES = ("changes", "freshness", "interest")
SITES, POLLS = 300, 600


def digest(objective: str) -> str:
    """Returns a digest of the choices on drawn changes, and of the state that they leave."""
    rates = -np.log1p(-0.9 / np.arange(1, SITES + 1))
    policy = create("whittle", budget=float(rates.sum()), objective=objective, rng=np.random.default_rng(0))
    policy.add(np.arange(SITES), np.ones(SITES), np.ones(SITES))
    rng, step, now = np.random.default_rng(1), 1.0 / policy.budget, 0.0
    last, dirty, every = np.zeros(SITES), np.zeros(SITES, bool), np.ones(SITES, bool)
    chosen = []
    for _ in range(POLLS):
        now += step
        changed = np.flatnonzero(rng.random(SITES) < -np.expm1(-rates * step))
        dirty[changed] = True
        rng.random(len(changed) + SITES)  # as many draws as when this was recorded
        polled = policy.select(now - last, now, every, 1)
        chosen += polled.tolist()
        policy.observe(polled, now - last[polled], EvidenceBatch(dirty[polled].copy()), now)
        last[polled], dirty[polled] = now, False
    out = hashlib.sha256(np.array(chosen).tobytes())
    out.update(np.array(policy.site_state(np.arange(SITES))).tobytes())
    out.update(policy.shared_state())
    return out.hexdigest()[:16]


if __name__ == "__main__":
    for objective in OBJECTIVES:
        sys.stdout.write(f"{objective} {digest(objective)}\n")
