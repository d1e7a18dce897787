"""Explains the belief about a site in words."""

from __future__ import annotations

import numpy as np

from pollerd.allocation.whittle.estimates import mean_rates
from pollerd.allocation.whittle.rate_model.belief import Belief
from pollerd.quantities import counted

_RECENT_CYCLES = 0.125
"""Period over which the current speed of all sites is measured, in uniform cycles."""
_USUAL = 1.1
_MARKED = 2.0


def words(belief: Belief, slot: int) -> dict[str, str]:
    """Returns what `Allocator.notes` returns, for a slot in use."""
    out = {"prior_source": _prior_source(belief, slot), "profile": _profile(belief)}
    if belief.observed[slot] > 0:
        out |= {"spell": _spell(belief, slot), "drift": _drift(belief, slot)}
    return out


def _prior_source(belief: Belief, slot: int) -> str:
    if not belief.learned:
        return "the start: around one change per uniform cycle"
    of_all = f"learned from {counted(belief.polls, 'poll')} of all sites"
    names = ("its host's", "its neighbours' in the list")
    more = [name for name, shares in zip(names, belief.group_priors.shares_in(slot), strict=True) if shares]
    return ", and from ".join([of_all, *more])


def _profile(belief: Belief) -> str:
    span = _RECENT_CYCLES * belief.cycle
    speed = float(belief.clock.gap(np.array([span]), belief.now)[0]) / span
    if 1.0 / _USUAL < speed < _USUAL:
        return "all sites change at their usual pace now"
    return f"all sites change at {speed:.2g} times their usual pace now"


def _spell(belief: Belief, slot: int) -> str:
    share = belief.occupancy[slot].astype(np.float64)
    usual = float(share @ belief.rates / share.sum())
    ratio = float(mean_rates(belief, np.array([slot]))[0]) / usual
    word = "active" if ratio >= _MARKED else "quiet" if ratio <= 1.0 / _MARKED else "usual"
    return f"{word}: {ratio:.2g} times its long-run rate"


def _drift(belief: Belief, slot: int) -> str:
    fast = belief.fast_share(np.array([slot]))[0]
    return f"its rate drifts fast with probability {fast:.2f}"
