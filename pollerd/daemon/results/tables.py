"""The apply step: writes committed polls into the scheduler's tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pollerd.daemon.results.private_addresses import PrivateAddresses
from pollerd.daemon.state.believed_unchanged import note_announced_ttl, note_quiet
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.model import STATE_CODE, Media
from pollerd.storage import HostUpdate, PollRecord, StoredRobots


class TableUpdates:
    """Writes results into the site table, and collects host updates to be stored."""

    def __init__(self, scheduler: SchedulerState) -> None:
        self._scheduler = scheduler
        self._private = PrivateAddresses(scheduler.sites)

    def apply(self, results: Sequence[PollResult], records: Sequence[PollRecord]) -> None:
        """Updates the sites and frees them for their next poll."""
        sites, slots = self._scheduler.sites, np.array([result.slot for result in results], np.int64)
        informed = [i for i, r in enumerate(records) if r.poll.elapsed is not None and r.poll.outcome.informative]
        counts_items = self._scheduler.allocator.counts_items
        puzzling = [_puzzling(results[i], records[i], counts_items=counts_items) for i in informed]
        sites.note_history(slots[informed], np.array(puzzling, np.bool_))
        sites.forget_history(slots[[i for i in informed if records[i].misled and not records[i].poll.changed]])
        sites.last_gap[slots[informed]] = [records[i].poll.elapsed for i in informed]
        sites.last_poll[slots] = [r.poll.at for r in records]
        sites.last_seen[slots] = [-math.inf if r.last_seen_at is None else r.last_seen_at for r in records]
        sites.not_before[slots] = [r.not_before or 0.0 for r in records]
        sites.failures[slots] = [r.failures for r in records]
        sites.polls[slots] += 1
        sites.changes[slots] += [r.changes for r in records]
        sites.state[slots] = [STATE_CODE[r.state] for r in records]
        sites.asap[slots] = sites.in_flight[slots] = False
        sites.touch(slots)
        ttls = np.array([_ttl(result, record) for result, record in zip(results, records, strict=True)])
        broken = np.array([record.context.baseline.ttl_broken for record in records])
        note_announced_ttl(self._scheduler, slots, ttls, broken)
        self._private.note(slots, records)
        note_quiet(self._scheduler, slots)

    def host_updates(self, robots: dict[int, StoredRobots]) -> list[HostUpdate]:
        """Returns the hosts touched since the last call; `robots`: new robots.txt by host slot."""
        hosts = self._scheduler.hosts
        n = hosts.size
        touched = np.flatnonzero(hosts.touched[:n] & (hosts.host_id[:n] >= 0)).tolist()
        hosts.touched[:n] = False
        return [
            HostUpdate(
                host_id=int(hosts.host_id[slot]),
                last_start_at=start if math.isfinite(start := float(hosts.last_start[slot])) else None,
                paused_until=float(hosts.paused_until[slot]) or None,
                throttles=int(hosts.throttles[slot]),
                robots=robots.get(slot),
            )
            for slot in touched
        ]


def _puzzling(result: PollResult, record: PollRecord, *, counts_items: bool) -> bool:
    """Returns whether a change has no known cause: a feed with identified new entries has one, and what is dated.

    For an allocator that counts items also if all of them are new: a feed that drops items is not to be held back.
    """
    baseline = record.context.baseline
    full = counts_items and baseline.window is not None and baseline.window.full
    return (
        record.poll.changed
        and not result.date_believed
        and not (baseline.media is Media.FEED and (record.poll.count or full))
    )


def _ttl(result: PollResult, record: PollRecord) -> float:
    """Returns the seconds for which the page, by its headers or as a feed, asks not to be polled again; 0: none."""
    return max(result.outcome.fresh_for or 0.0, record.context.baseline.ttl or 0.0)
