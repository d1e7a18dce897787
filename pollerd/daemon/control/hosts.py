"""Views of hosts, and the operator's actions on them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.daemon.commit import Journal
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.views import HostView, PausedBy, RobotsState, RobotsView
from pollerd.errors import DatabaseUnavailableError, InvalidValueError, NotFoundError
from pollerd.model import HostOverride
from pollerd.storage.hosts import HostStore
from pollerd.storage.values import KnownHost
from pollerd.texts import N_, _, n_

LATEST_MOMENT = 253_402_300_799.0
"""The end of the year 9999, epoch s."""
_PIECE = 1_000_000
"""Sites processed before yielding to the loop."""


class HostControl:
    """Shows hosts, pauses them by hand, and ends their pauses."""

    def __init__(
        self,
        *,
        store: HostStore,
        scheduler: SchedulerState,
        journal: Journal,
        runtime: Runtime,
    ) -> None:
        self._store, self._scheduler, self._journal = store, scheduler, journal
        self._health, self._clock = runtime.health, runtime.clock
        self._log = structlog.get_logger("pollerd.hosts")

    async def views(self, known: Sequence[KnownHost]) -> list[HostView]:
        """Returns the current state of the hosts."""
        slots = self._scheduler.hosts.slots_of_ids(np.array([host.id for host in known], np.int64))
        sites, last_poll = await self._sites_on(slots)
        rows = zip(known, slots.tolist(), sites.tolist(), last_poll.tolist(), strict=True)
        return [self._view(host, slot, *counted) for host, slot, *counted in rows if slot >= 0]

    def ids(self, *, paused: bool | None, unreachable: bool | None) -> NDArray[np.int64] | None:
        """Returns ids, int64[k], of the stored hosts that match the filters on pauses and unreachable robots.txt.

        None: no filter is given.
        """
        hosts = self._scheduler.hosts
        if paused is None and unreachable is None:
            return None
        ours = hosts.host_id[: hosts.size] >= 0
        if paused is not None:
            ours &= hosts.paused(self._clock()) == paused
        if unreachable is not None:
            ours &= hosts.unreachable() == unreachable
        return np.asarray(hosts.host_id[: hosts.size][ours])

    async def override(self, name: str, *, paused: bool, until: float | None, by: str) -> HostView:
        """Pauses the host by hand, until a time (epoch s) or without limit; or ends all its pauses.

        Ending the pauses also ends the backoffs of its sites after status 429 or 503. Raises NotFoundError, and
        InvalidValueError for a time that is not in the future.
        """
        now = self._clock()
        if until is not None and not now < until <= LATEST_MOMENT:
            raise InvalidValueError("paused_until", _("a moment to come, up to the year 9999"), until)
        if self._health.failure is not None:
            raise DatabaseUnavailableError(self._health.failure)
        known = await self._store.get(name)
        # Without this a batch being committed would restore the pause that ends here.
        async with self._journal.quiesced():
            slot = self._slot(known)
            override = HostOverride(self._clock(), by, paused, until)
            waiting = [] if paused else self._scheduler.backing_off_on(slot, now).tolist()
            freed = await self._store.override(known.id, override, waiting)
            self._scheduler.hosts.override(slot, override)
            self._scheduler.end_backoffs(freed)
        if paused:
            self._log.warning("host_paused", host=name, until=until, by=by)
        else:
            self._log.warning("host_resumed", host=name, sites=len(freed), by=by)
        self._scheduler.due.set()
        return (await self.views([known]))[0]

    def _slot(self, known: KnownHost) -> int:
        slot = self._scheduler.hosts.slot_of(known.name)
        if slot is None:
            raise NotFoundError(N_("host"), known.name)
        return slot

    def _view(self, known: KnownHost, slot: int, sites: int, last_poll: float) -> HostView:
        hosts = self._scheduler.hosts
        asked = max(hosts.last_request_of(slot) or -math.inf, last_poll)
        until, by, reason = self._pause(slot)
        earliest = max(hosts.ready_at_of(slot), self._clock())
        return HostView(
            name=known.name,
            sites=sites,
            spacing=hosts.interval_of(slot),
            crawl_delay=float(hosts.crawl_delay[slot]) or None,
            robots=self._robots(known, slot),
            paused=until is not None,
            paused_until=_moment(until),
            paused_by=by,
            pause_reason=reason,
            refusals=int(hosts.throttles[slot]),
            last_request_at=_moment(asked),
            next_request_at=_moment(earliest),
            busy=bool(hosts.busy[slot]),
            override=hosts.overrides.get(slot),
        )

    def _pause(self, slot: int) -> tuple[float | None, PausedBy | None, str | None]:
        """Returns the end of the host's pause (inf: no limit), who paused it and why; None if it is not paused."""
        hosts, now = self._scheduler.hosts, self._clock()
        own, held = float(hosts.paused_until[slot]), float(hosts.held_until[slot])
        if max(own, held) <= now:
            return None, None, None
        if held >= own:
            return held, "operator", _("paused by hand, by {by}", by=hosts.overrides[slot].by)
        refusals = int(hosts.throttles[slot])
        return (
            own,
            "host",
            n_(
                "it asked to be left alone: {count} refusal in a row",
                "it asked to be left alone: {count} refusals in a row",
                refusals,
            ),
        )

    def _robots(self, known: KnownHost, slot: int) -> RobotsView:
        hosts = self._scheduler.hosts
        fetched_at = _moment(float(hosts.robots_at[slot]))
        failures, retry_at = int(hosts.robots_failures[slot]), float(hosts.robots_retry_at[slot])
        state: RobotsState
        if fetched_at is None:
            state = "unreachable" if failures else "unknown"
        else:
            state = "absent" if hosts.robots_text(slot) is None else "found"
        waiting = retry_at if retry_at > self._clock() else None
        return RobotsView(state, fetched_at, waiting, failures, known.robots_detail)

    async def _sites_on(self, slots: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the number of sites of the host slots [k], int64[k], and their last poll, float64[k], -inf: none."""
        table = self._scheduler.sites
        count, last = np.zeros(len(slots), np.int64), np.full(len(slots), -math.inf)
        place = np.full(self._scheduler.hosts.size + 1, -1, np.int64)
        place[slots] = np.arange(len(slots))
        place[-1] = -1  # the entry that unknown slots, -1, wrote to
        for start in range(0, table.size, _PIECE):
            part = slice(start, min(start + _PIECE, table.size))
            at = np.where(table.site_id[part] >= 0, place[table.host[part]], -1)
            ours = np.flatnonzero(at >= 0)
            count += np.bincount(at[ours], minlength=len(slots))
            np.maximum.at(last, at[ours], table.last_poll[part][ours])
            await asyncio.sleep(0)
        return count, last


def _moment(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
