"""What `whittle` says of a site for a person."""

from __future__ import annotations

import numpy as np

from pollerd.allocation import registry
from pollerd.allocation.evidence import EvidenceBatch

SITES = 40


def test_words_follow_what_is_believed() -> None:
    policy = registry.create("whittle", budget=1.0, rng=np.random.default_rng(1))
    slots = np.arange(SITES)
    policy.add(slots, np.ones(SITES), np.ones(SITES))
    assert policy.notes(0) == {
        "prior_source": "at the start: about one change between two checks",
        "profile": "all sites change at their usual pace now",
    }
    now, cycle = 1.7e9, float(SITES)
    for turn in range(60):
        now += cycle
        changed = slots % 2 == 0
        changed[0] = turn >= 50
        policy.observe(slots, np.full(SITES, cycle), EvidenceBatch(changed), now)
    said = policy.notes(0)
    assert said["prior_source"] == "learned from 2,400 polls of all sites"
    assert said["drift"].startswith("its rate drifts fast with probability ")
