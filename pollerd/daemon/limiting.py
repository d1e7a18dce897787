"""What keeps sites from being polled more often, in words: the budget, or what leaves some of it unspent."""

from __future__ import annotations

from pollerd.scheduling import Limit

REMEDIES = {
    Limit.MIN_YIELD: "a lower min-yield shortens delays",
    Limit.TTL: "most sites ask to be left alone for so long (respect-ttl)",
    Limit.MIN_INTERVAL: "a lower min-interval shortens delays",
    Limit.HOST_INTERVAL: "a lower host-interval shortens delays, where the hosts can bear it",
}


def in_words(limit: Limit, rate: float, budget: float) -> str:
    """For a person; rate and budget in polls per second."""
    if limit is Limit.NO_SITES:
        return "no sites to poll"
    used = f"{f'{rate:.0f}' if rate >= 10 else f'{rate:.2g}'} of {budget:g} polls/s used"
    if limit is Limit.BUDGET:
        return f"budget binding: {used}; a larger one shortens delays"
    return f"budget not binding: {used}; {REMEDIES[limit]}"
