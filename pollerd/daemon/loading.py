"""Stored rows, loaded into memory at a start: hosts first, then their sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.daemon.faults import replace_invalid_settings
from pollerd.daemon.scheduler_state import SchedulerState, with_defaults
from pollerd.scheduling.robots import USER_AGENT_TOKEN, RobotsText
from pollerd.site_settings import NUMERIC_SETTINGS, SITE
from pollerd.storage.values import HostRow, ScheduleRows
from pollerd.texts import _

LONGEST_WAIT_SECONDS = 1.1 * 86_400.0
"""Longest valid wait: backoffs and pauses end within a day, a denial is rechecked soon after a day."""


class ScheduleLoader:
    """Fills a scheduler, some rows at a time; `set_right` comes last."""

    def __init__(self, scheduler: SchedulerState) -> None:
        self._scheduler, self._sites, self._hosts = scheduler, scheduler.sites, scheduler.hosts

    def add_hosts(self, hosts: Sequence[HostRow]) -> None:
        """Loads some of the stored hosts, before their sites."""
        slots = self._hosts.add_many([(row.id, row.name) for row in hosts])
        for slot, row in zip(slots.tolist(), hosts, strict=True):
            self._load_host(slot, row)

    def expect(self, sites: int) -> None:
        """Allocates room for `sites` sites at once: growing stepwise would copy all columns repeatedly."""
        self._sites.grow(sites)
        self._scheduler.allocator.expect(sites)

    def add_sites(self, rows: ScheduleRows, faults: Mapping[int, str]) -> None:
        """Loads some of the stored sites.

        faults: site id -> what could not be read of its row; such sites are set aside when they are chosen.
        """
        scheduler, table = self._scheduler, self._sites
        slots = table.add(rows.site_id)
        table.host[slots] = self._hosts_of(rows)
        table.state[slots] = rows.state
        table.paused[slots] = rows.paused
        numbers = with_defaults({name: getattr(rows, name) for name in NUMERIC_SETTINGS})
        for name in ("failures", "polls", "changes"):
            numbers[name] = getattr(rows, name)
        learned = rows.learned_half_life
        numbers["learned_half_life"] = np.where((learned > 0) & (learned <= SITE["half_life"].highest), learned, np.nan)
        numbers["items_shown"] = np.where(rows.items_shown >= 1, rows.items_shown, np.nan)
        for name, values in numbers.items():
            table.put(name, slots, values)
        scheduler.load_windows(rows.windows)
        table.last_poll[slots] = np.where(np.isnan(rows.last_poll_at), -np.inf, rows.last_poll_at)
        table.last_seen[slots] = np.where(np.isnan(rows.last_seen_at), -np.inf, rows.last_seen_at)
        table.not_before[slots] = np.nan_to_num(rows.not_before, nan=0.0)
        scheduler.retry_blocked(slots)
        scheduler.unusable |= replace_invalid_settings(table, slots)
        table.touch(slots)
        scheduler.unusable |= faults
        scheduler.take_in(slots)

    def set_right(self, now: float) -> None:
        """Corrects future times left by a clock that ran ahead: times become now, waits the longest valid one.

        Otherwise a site would not be polled until the clock has caught up.
        """
        self.set_hosts_right(slice(None), now)
        self.set_sites_right(slice(None), now)
        self._sites.eligibility.touch_all()

    def set_hosts_right(self, slots: NDArray[np.int64] | slice, now: float) -> None:
        """As `set_right`, of some hosts: another node, or an earlier run, may have left these times."""
        _at_most(now, slots, self._hosts.last_start, self._hosts.robots_at)
        _at_most(self._latest(now), slots, self._hosts.paused_until)

    def set_sites_right(self, slots: NDArray[np.int64] | slice, now: float) -> None:
        """As `set_right`, of some sites, which the caller touches."""
        _at_most(now, slots, self._sites.last_poll, self._sites.last_seen)
        _at_most(self._latest(now), slots, self._sites.not_before)

    def _latest(self, now: float) -> float:
        return now + max(self._scheduler.settings.backoff_cap_seconds, LONGEST_WAIT_SECONDS)

    def _hosts_of(self, rows: ScheduleRows) -> NDArray[np.int32]:
        """Returns the slots of the sites' hosts; sites whose host is not stored get one without a name."""
        hosts = self._hosts.slots_of_ids(rows.host_id)
        lost = hosts < 0
        if lost.any():
            hosts[lost] = self._hosts.add(-1, "")
            ids = zip(rows.site_id[lost].tolist(), rows.host_id[lost].tolist(), strict=True)
            self._scheduler.unusable |= {
                site: _("host_id: must be a host's; given: {host}", host=host) for site, host in ids
            }
        return hosts

    def _load_host(self, slot: int, row: HostRow) -> None:
        hosts = self._hosts
        if row.last_start_at is not None:
            hosts.last_start[slot] = row.last_start_at
        if row.paused_until or row.throttles:
            hosts.paused_until[slot] = row.paused_until or 0.0
            hosts.throttles[slot] = row.throttles
        if row.override is not None:
            hosts.load_override(slot, row.override)
        robots = row.robots
        if robots is not None and robots.kind != "unreachable":
            text = None if robots.body is None else RobotsText.of(robots.body, USER_AGENT_TOKEN)
            hosts.load_rules(slot, text, robots.at, robots.crawl_delay or 0.0)


def _at_most(highest: float, slots: NDArray[np.int64] | slice, *columns: NDArray[np.float64]) -> None:
    for column in columns:
        column[slots] = np.minimum(column[slots], highest)
