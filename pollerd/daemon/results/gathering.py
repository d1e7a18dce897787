"""Decides how long a finished poll may wait for others, to be learned and committed with them.

A batch costs the loop, the allocator and the database nearly the same with one poll as with ten.
"""

from __future__ import annotations

import math

from pollerd.daemon.state.poll_result import PollResult
from pollerd.model import OutcomeKind
from pollerd.scheduling import SchedulingSettings, SiteTable

_NOTHING_NEW = frozenset({OutcomeKind.UNCHANGED, OutcomeKind.NOT_MODIFIED})


def free_to_wait(result: PollResult, sites: SiteTable, settings: SchedulingSettings) -> float:
    """Returns the seconds that the result may be delayed without effect; 0 if it is needed now.

    A result may wait if it found nothing new, as the poll before, if it was not requested by hand, and if its site,
    which stays in flight until the commit, could not be polled earlier anyway because of its min_interval.
    """
    outcome, detection, slot = result.outcome, result.detection, result.slot
    if detection is None or detection.kind not in _NOTHING_NEW or outcome.redirects or result.reading is not None:
        return 0.0
    last = result.context.last_outcome
    if last is None or not last.informative or sites.asap[slot]:
        return 0.0
    own = float(sites.min_interval[slot])
    return max((settings.min_interval_seconds if math.isnan(own) else own) - outcome.duration, 0.0)
