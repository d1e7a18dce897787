"""One numpy row per host: one request at a time, spaced, paused where the host asked for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import Columns, stretches
from pollerd.model import HostOverride
from pollerd.scheduling.politeness.robots_txt import FRESH_SECONDS, RobotsCache, RobotsText
from pollerd.scheduling.settings import SchedulingSettings

SPACING_KEPT_SECONDS = 10.0
"""The last start at a host is worth keeping over a restart only where it asks for longer gaps than this; the others
are given their whole interval anew, which costs less than a row written with every poll."""

PASSING_ROBOTS_BYTES = 8 * 1024 * 1024
"""How much robots.txt is kept of hosts that are no site's: a site that redirects to ever new ones must not fill the
memory."""


class HostTable(Columns):
    """Hosts (name and port) by slot; hosts are kept for the life of the process.

    Columns, each [capacity], meaningful up to `size`:
        host_id int64 · crawl_delay float64 (s) · last_start float64 (of the last request: when it was sent, until then
        when it was begun; epoch s, -inf: never) · paused_until float64 (epoch s) · resting_until float64 (epoch s, kept
        by no restart) · held_until float64 (a pause by hand, epoch s, inf: until somebody ends it) ·
        robots_at float64 (when robots.txt was last read, epoch s, -inf: never) · robots_retry_at
        float64 (epoch s) · throttles, robots_failures int32 (in a row) · busy bool (a request is under way) · touched
        bool (changed since the last commit)
    """

    _DEFAULTS = {  # noqa: RUF012
        "host_id": (np.int64, -1),
        "crawl_delay": (np.float64, 0.0),
        "last_start": (np.float64, -math.inf),
        "paused_until": (np.float64, 0.0),
        "resting_until": (np.float64, 0.0),
        "held_until": (np.float64, 0.0),
        "robots_at": (np.float64, -math.inf),
        "robots_retry_at": (np.float64, 0.0),
        "throttles": (np.int32, 0),
        "robots_failures": (np.int32, 0),
        "busy": (np.bool_, False),
        "touched": (np.bool_, False),
    }

    _SELDOM_SET = frozenset({"resting_until", "held_until"})

    host_id: NDArray[np.int64]
    crawl_delay: NDArray[np.float64]
    last_start: NDArray[np.float64]
    paused_until: NDArray[np.float64]
    resting_until: NDArray[np.float64]
    held_until: NDArray[np.float64]
    robots_at: NDArray[np.float64]
    robots_retry_at: NDArray[np.float64]
    throttles: NDArray[np.int32]
    robots_failures: NDArray[np.int32]
    busy: NDArray[np.bool_]
    touched: NDArray[np.bool_]

    def __init__(self, settings: SchedulingSettings) -> None:
        super().__init__()
        self.size = 0
        self.settings = settings
        self.names: list[str] = []
        self.overrides: dict[int, HostOverride] = {}
        """Slot -> what an operator last did to the host; of most nobody ever did anything."""
        self._robots_cache = RobotsCache()
        self._passing: dict[int, int] = {}
        self._lines: dict[int, list[object]] = {}
        self._slot_by_name: dict[str, int] = {}
        self._slot_by_id: NDArray[np.int32] = np.full(0, -1, np.int32)
        self.begun_at = -math.inf
        """What stands for the last start at hosts of which it was not kept: when the daemon started, epoch s."""

    def add(self, host_id: int, name: str) -> int:
        """The slot of the host, a new one where it was not known; host_id -1: not stored."""
        slot = self._slot_by_name.get(name)
        if slot is not None:
            if host_id >= 0:  # met as a redirect's target first, now a site's host
                self._take_id(slot, host_id)
            return slot
        slot = self.size
        self.size += 1
        self.grow(self.size)
        self.names.append(name)
        self._slot_by_name[name] = slot
        self._take_id(slot, host_id)
        return slot

    def add_many(self, hosts: Sequence[tuple[int, str]]) -> NDArray[np.int32]:
        """`add` of each of the stored hosts (id, name): int32[k]. Most of a list's are known by their ids."""
        ids = np.array([host_id for host_id, _ in hosts], np.int64)
        slots = self.slots_of_ids(ids)
        unknown = np.flatnonzero(slots < 0)
        fresh = {name: host_id for host_id, name in (hosts[place] for place in unknown.tolist())}
        if len(fresh) < len(unknown) or not self._slot_by_name.keys().isdisjoint(fresh):  # met by redirects, perhaps
            for place in unknown.tolist():
                slots[place] = self.add(*hosts[place])
        elif fresh:
            slots[unknown] = self._append(np.fromiter(fresh.values(), np.int64, len(fresh)), list(fresh))
        return slots

    def _append(self, host_ids: NDArray[np.int64], names: list[str]) -> NDArray[np.int64]:
        """New slots, int64[k], for stored hosts of which neither id nor name is known, none twice."""
        slots = np.arange(self.size, self.size + len(names))
        self.size += len(names)
        self.grow(self.size)
        self.names += names
        self._slot_by_name.update(zip(names, slots.tolist(), strict=True))
        self.host_id[slots] = host_ids
        self._make_room_for(int(host_ids.max()))
        self._slot_by_id[host_ids] = slots
        return slots

    def _take_id(self, slot: int, host_id: int) -> None:
        self.host_id[slot] = host_id
        if host_id >= 0:
            self._make_room_for(host_id)
            self._slot_by_id[host_id] = slot

    def _make_room_for(self, host_id: int) -> None:
        if host_id >= len(self._slot_by_id):
            room = np.full(max(host_id + 1, len(self._slot_by_id) * 3 // 2, 64), -1, np.int32)
            room[: len(self._slot_by_id)] = self._slot_by_id
            self._slot_by_id = room

    def slot_of(self, name: str) -> int | None:
        """The slot of the host "name:port", None where it is not known."""
        return self._slot_by_name.get(name)

    def slot_of_id(self, host_id: int) -> int:
        """The slot of a stored host."""
        return int(self._slot_by_id[host_id])

    def slots_of_ids(self, host_ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """int32[k]: the slots of stored hosts, -1 where there is none."""
        known = (host_ids >= 0) & (host_ids < len(self._slot_by_id))
        slots = np.full(len(host_ids), -1, np.int32)
        slots[known] = self._slot_by_id[host_ids[known]]
        return slots

    def interval(self, part: slice | None = None) -> NDArray[np.float64]:
        """float64[k]: seconds between two starts at each host; part: rows below `size`, None: all."""
        part = slice(0, self.size) if part is None else part
        delay = np.minimum(self.crawl_delay[part], self.settings.crawl_delay_cap_seconds)
        return np.maximum(delay, self.settings.host_interval_seconds)

    def interval_of(self, slot: int) -> float:
        """Seconds between two starts at this host."""
        delay = min(float(self.crawl_delay[slot]), self.settings.crawl_delay_cap_seconds)
        return max(delay, self.settings.host_interval_seconds)

    def ready_at(self, part: slice | None = None) -> NDArray[np.float64]:
        """float64[k]: the earliest next start at each host, epoch s (a request under way not counted).

        A host whose robots.txt was never had is asked for nothing else until it is tried again. part: rows below
        `size`, None: all.
        """
        part = slice(0, self.size) if part is None else part
        spaced = np.maximum(self.last_start[part] + self.interval(part), self.paused_until[part])
        for column in self._SELDOM_SET:
            if not self.is_as_ever(column):
                np.maximum(spaced, getattr(self, column)[part], out=spaced)
        unknown = np.isneginf(self.robots_at[part])
        return np.where(unknown, np.maximum(spaced, self.robots_retry_at[part]), spaced)

    def ready(self, now: float) -> NDArray[np.bool_]:
        """bool[size]: hosts at which a request may start now."""
        out = np.empty(self.size, np.bool_)
        for part in stretches(self.size):
            np.logical_and(~self.busy[part], self.ready_at(part) <= now, out=out[part])
        out[list(self._lines)] = False
        return out

    def ready_at_of(self, slot: int) -> float:
        """The earliest next start at this host, epoch s."""
        spaced = max(
            float(self.last_start[slot]) + self.interval_of(slot),
            float(self.paused_until[slot]),
            float(self.resting_until[slot]),
            float(self.held_until[slot]),
        )
        if self.robots_at[slot] == -math.inf:
            return max(spaced, float(self.robots_retry_at[slot]))
        return spaced

    def may_start(self, slot: int, now: float, waiter: object = None) -> bool:
        """Whether a request to this host may start now.

        Those that wait in line go first, in its order; `waiter`: one of them, None: who is in no line.
        """
        line = self._lines.get(slot)
        if line is not None and line[0] is not waiter:
            return False
        return not self.busy[slot] and self.ready_at_of(slot) <= now

    def line_up(self, slot: int, waiter: object) -> None:
        """`waiter` is to ask the host when it may be; polls wait behind it, as they can be of any other host.

        At a host that is polled again as soon as it may be, its turn would never come otherwise.
        """
        self._lines.setdefault(slot, []).append(waiter)

    def leave_line(self, slot: int, waiter: object) -> None:
        """`waiter` asks now, or has given up."""
        line = self._lines[slot]
        line.remove(waiter)
        if not line:
            del self._lines[slot]

    def spacing_left(self, slot: int, now: float) -> float:
        """Seconds until the host's interval since its last request is over, below 0 where it is."""
        return float(self.last_start[slot]) + self.interval_of(slot) - now

    def spacing_left_at(self, name: str, now: float) -> float:
        """`spacing_left` of a host by its name; 0 where it is not known."""
        slot = self._slot_by_name.get(name)
        return 0.0 if slot is None else self.spacing_left(slot, now)

    def start(self, slot: int, now: float) -> None:
        """A request to the host starts."""
        self.busy[slot] = True
        self.last_start[slot] = now

    def sent(self, name: str, now: float) -> None:
        """A request to the host, where it is known, was written to its connection: its start counts as now.

        That may be long after `start`: connecting takes time, and the loop may be late.
        """
        slot = self._slot_by_name.get(name)
        if slot is not None:
            self.last_start[slot] = max(float(self.last_start[slot]), now)

    def begin_anew(self, now: float, *, all_hosts: bool) -> None:
        """After a restart: hosts whose last start was not kept are taken to have been asked just now."""
        n, self.begun_at = self.size, now
        unkept = self.interval() <= SPACING_KEPT_SECONDS
        self.last_start[:n] = np.where(unkept | all_hosts, now, self.last_start[:n])

    def finish(self, slot: int) -> None:
        """The request is over; where its start is to be kept, it is now known for good."""
        self.busy[slot] = False
        if self.interval_of(slot) > SPACING_KEPT_SECONDS:
            self.touched[slot] = True

    def rest(self, slot: int, until: float) -> None:
        """Nothing starts at the host before `until` (epoch s): it answered slowly. Less than a pause: not kept."""
        self.put("resting_until", slot, until)

    def pause(self, slot: int, until: float) -> None:
        """Nothing starts at the host before `until` (epoch s); a later pause in force stays."""
        self.paused_until[slot] = max(float(self.paused_until[slot]), until)
        self.touched[slot] = True

    def override(self, slot: int, override: HostOverride) -> None:
        """An operator paused the host by hand, or ended all its pauses: refusals are counted anew from then on."""
        self.load_override(slot, override)
        if not override.paused:
            self.paused_until[slot] = 0.0
            self.throttles[slot] = 0

    def load_override(self, slot: int, override: HostOverride) -> None:
        """Takes over what an operator did before a restart: a pause that the host asked for since stays."""
        self.overrides[slot] = override
        self.put("held_until", slot, override.held_until)

    def held(self, now: float) -> NDArray[np.bool_]:
        """bool[size]: hosts that are paused by hand."""
        return self.held_until[: self.size] > now

    def paused(self, now: float) -> NDArray[np.bool_]:
        """bool[size]: hosts that are paused, by themselves or by hand."""
        return self.held(now) | (self.paused_until[: self.size] > now)

    def unreachable(self) -> NDArray[np.bool_]:
        """bool[size]: hosts whose robots.txt was asked for and never had: nothing else is asked of them."""
        return np.isneginf(self.robots_at[: self.size]) & (self.robots_failures[: self.size] > 0)

    def last_request_of(self, slot: int) -> float | None:
        """When the host was last asked for anything, epoch s; None: never, or it was not kept over a restart."""
        last = float(self.last_start[slot])
        return None if last in (-math.inf, self.begun_at) else last

    def robots_wanted(self, now: float) -> NDArray[np.bool_]:
        """bool[size]: hosts whose robots.txt is unknown or a day old, and may be asked for now."""
        out = np.empty(self.size, np.bool_)
        for part in stretches(self.size):
            old = self.robots_at[part] + FRESH_SECONDS <= now
            np.logical_and(old, self.robots_retry_at[part] <= now, out=out[part])
        return out

    def set_rules(self, slot: int, text: RobotsText | None, fetched_at: float, crawl_delay: float = 0.0) -> None:
        """Takes over what robots.txt says; without a text all is allowed. crawl_delay in s, 0: none."""
        self.load_rules(slot, text, fetched_at, crawl_delay)
        self.robots_retry_at[slot] = 0.0
        self.robots_failures[slot] = 0
        self.touched[slot] = True
        self._passing.pop(slot, None)
        if self.host_id[slot] < 0:
            self._passing[slot] = 0 if text is None else text.size
            self._forget_passing()

    def load_rules(self, slot: int, text: RobotsText | None, fetched_at: float, crawl_delay: float) -> None:
        """Takes over what was known of robots.txt when it was stored; it is read when the host is polled."""
        if text is None:
            self._robots_cache.drop(slot)
        else:
            self._robots_cache.put(slot, text)
        self.robots_at[slot], self.crawl_delay[slot] = fetched_at, crawl_delay

    def _forget_passing(self) -> None:
        """The hosts of redirects whose rules were read longest ago are asked for them again, should we come again."""
        while len(self._passing) > 1 and sum(self._passing.values()) > PASSING_ROBOTS_BYTES:
            slot = next(iter(self._passing))
            del self._passing[slot]
            if self.host_id[slot] < 0:
                self._robots_cache.drop(slot)
                self.robots_at[slot] = -math.inf

    def robots_unreachable(self, slot: int, retry_at: float) -> None:
        """robots.txt could not be had: what was known stays in force, else the host is left alone until then."""
        self.robots_retry_at[slot] = retry_at
        self.robots_failures[slot] += 1
        self.touched[slot] = True

    def allows(self, slot: int, url: str) -> bool | None:
        """Whether the known robots.txt of the host lets us ask for the URL.

        None: it is long, and what it says of the URL has to be found out elsewhere (`rules_allow`) and noted.
        """
        return self._robots_cache.allows(slot, url)

    @property
    def robots_cache(self) -> RobotsCache:
        """Where the rules of all hosts are kept."""
        return self._robots_cache

    def robots_text(self, slot: int) -> RobotsText | None:
        """The known robots.txt of the host; None where all is allowed."""
        return self._robots_cache.text(slot)

    def delay_in(self, text: RobotsText) -> float | None:
        """The crawl delay that a robots.txt asks for, s, 0: none. None: it is long, and `rules_delay` has to tell."""
        return self._robots_cache.delay(text)

    def note_answer(self, text: RobotsText, url: str, answer: bool) -> None:
        """Remembers what a robots.txt says of a URL, for the next `allows` of its hosts."""
        self._robots_cache.note(text, url, answer)
