"""How long a finished poll may wait for others, to be learned from and committed with them.

A batch costs the loop, the allocator and the database nearly the same with one poll in it as with ten.
"""

from __future__ import annotations

import math

from pollerd.daemon.state.poll_result import PollResult
from pollerd.model import OutcomeKind
from pollerd.scheduling import SchedulingSettings, SiteTable

_NOTHING_NEW = frozenset({OutcomeKind.UNCHANGED, OutcomeKind.NOT_MODIFIED})


def free_to_wait(result: PollResult, sites: SiteTable, settings: SchedulingSettings) -> float:
    """Seconds for which nobody misses what the result says, 0 where somebody may.

    Its site, which stays in flight until the commit, could not be polled earlier anyway, by its min_interval; the poll
    found what the one before did; and nobody asked for it by hand.
    """
    outcome, detection, slot = result.outcome, result.detection, result.slot
    if detection is None or detection.kind not in _NOTHING_NEW or outcome.redirects or result.reading is not None:
        return 0.0
    last = result.context.last_outcome
    if last is None or not last.informative or sites.asap[slot]:
        return 0.0
    own = float(sites.min_interval[slot])
    return max((settings.min_interval_seconds if math.isnan(own) else own) - outcome.duration, 0.0)
