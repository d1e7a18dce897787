"""What lists of sites are sorted by and only the daemon knows: believed rates, and when a site may be polled next."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.storage import PollRecord

_DAY_SECONDS = 86_400.0


def listed(
    results: Sequence[PollResult], records: Sequence[PollRecord], scheduler: SchedulerState
) -> tuple[PollRecord, ...]:
    """Returns the records with the believed rate of each site after its poll, and the earliest moment of its next.

    Before its second poll nothing is believed of a site: its rate is the prior's.
    """
    if not results:
        return tuple(records)
    sites, slots = scheduler.sites, np.array([result.slot for result in results], np.int64)
    rates = scheduler.allocator.rates_of(slots) * _DAY_SECONDS
    rates[(sites.polls[slots] < 1) | ~np.isfinite(rates)] = math.nan
    floors = scheduler.floors(slots)
    out = []
    for record, rate, floor in zip(records, rates.tolist(), floors.tolist(), strict=True):
        known = None if math.isnan(rate) or record.last_seen_at is None else rate
        soonest = record.poll.at + floor if math.isfinite(floor) else record.poll.at
        out.append(replace(record, rate=known, next_poll_at=max(soonest, record.not_before or 0.0)))
    return tuple(out)
