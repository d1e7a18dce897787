"""The host table: one numpy row per host, with one request at a time, spacing, and pauses that the host requested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import Columns, chunks
from pollerd.model import HostOverride, Outcome
from pollerd.scheduling.robots import FRESH_SECONDS, RobotsCache, RobotsText
from pollerd.scheduling.settings import SchedulingSettings

# Queues of hosts: redirected requests that wait for a host, and between them the polls of its own sites.

POLLS_TURN_SECONDS = 2.0
"""How long a host that could be requested is kept for the polls at the head of its queue, s: they are chosen every
0.1 s, up to a second ahead of when the budget lets them start."""


class HostLines:
    """By host slot, who waits for it, first come first served; most hosts have no queue.

    All polls of a host's own sites hold one place, and only behind others: without others they need none. Without a
    place they would wait for ever at a host to which redirects lead faster than it may be requested.
    """

    __slots__ = ("_kept_until", "waiting")

    _POLLS = object()

    def __init__(self) -> None:
        self.waiting: dict[int, list[object]] = {}
        """Host slot -> who waits, in order."""
        self._kept_until: dict[int, float] = {}

    def join(self, slot: int, waiter: object) -> None:
        """Adds the waiter to the queue of the host."""
        self.waiting.setdefault(slot, []).append(waiter)

    def join_polls(self, slot: int) -> None:
        """Gives the polls of the host a place in its queue, if it has a queue in which they have none."""
        line = self.waiting.get(slot)
        if line is not None and self._POLLS not in line:
            line.append(self._POLLS)

    def leave(self, slot: int, waiter: object) -> None:
        """Removes the waiter from the queue of the host; polls alone need no queue."""
        line = self.waiting[slot]
        line.remove(waiter)
        if not line or line == [self._POLLS]:
            del self.waiting[slot]
            self._kept_until.pop(slot, None)

    def put_first(self, slot: int, waiter: object) -> None:
        """Puts the waiter at the head of the queue of the host, whether it was in it or not."""
        line = self.waiting.setdefault(slot, [])
        if waiter in line:
            line.remove(waiter)
        line.insert(0, waiter)
        self._kept_until.pop(slot, None)

    def put_last(self, slot: int, waiter: object) -> None:
        """Puts a waiter of the queue of the host at its end."""
        line = self.waiting[slot]
        line.remove(waiter)
        line.append(waiter)

    def is_first(self, slot: int, waiter: object) -> bool:
        """Returns whether the waiter is at the head of the queue."""
        return self.waiting[slot][0] is waiter

    def others_wait(self, slot: int) -> bool:
        """Returns whether somebody waits beside one that always does."""
        return len(self.waiting[slot]) > 1

    def end_polls_turn(self, slot: int) -> None:
        """Ends the turn of the host's polls, if it is theirs: one started, or none was chosen."""
        line = self.waiting.get(slot)
        if line is not None and line[0] is self._POLLS:
            line.pop(0)
            self._kept_until.pop(slot, None)

    def is_polls_turn(self, slot: int) -> bool:
        """Returns whether a poll may start as far as the queue is concerned: it is at the head, or there is none."""
        line = self.waiting.get(slot)
        return line is None or line[0] is self._POLLS

    def is_turn_of(self, slot: int, waiter: object, now: float) -> bool:
        """Returns whether the waiter is the next, given that the host may be requested now (epoch s).

        Ends a turn of the polls that they did not use in time: the sites may have been paused.
        """
        line = self.waiting[slot]
        if line[0] is self._POLLS and now > self._kept_until.setdefault(slot, now + POLLS_TURN_SECONDS):
            self.end_polls_turn(slot)
        return line[0] is waiter


# Backoff after consecutive failures: exponential, jittered, capped.

RETRY_AFTER_FLOOR_SECONDS = 1.0


def backoff_seconds(failures: int, base: float, cap: float, rng: np.random.Generator) -> float:
    """Returns the seconds to wait after the `failures`-th consecutive failure (>= 1), within (base/2, cap].

    base · 2^(failures-1), capped, times a uniform jitter from 0.5 to 1 so that sites that failed together are not
    retried together.
    """
    exponent = min(max(failures, 1) - 1, 64)
    return float(min(cap, base * 2.0**exponent) * rng.uniform(0.5, 1.0))


def lengthened(backoff: float, asked: float | None, cap: float) -> float:
    """Returns the longer of our backoff and the server's Retry-After, in s; `asked` is limited to `cap`, None: absent.

    Retry-After never shortens a backoff: a server that always sends a short one would be polled forever.
    """
    usable = clamp_retry_after(asked, cap)
    return backoff if usable is None else max(backoff, usable)


def clamp_retry_after(seconds: float | None, cap: float) -> float | None:
    """Limits a server's Retry-After to [1, cap] seconds; returns None if it is absent or unusable."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(max(seconds, RETRY_AFTER_FLOOR_SECONDS), cap)


SPACING_KEPT_SECONDS = 10.0
"""The last request of a host is stored for restarts only where the host's interval is longer than this. Other hosts
wait their full interval after a restart, which costs less than a row written with every poll."""

_REFUSALS = frozenset({429, 503})
_UNAVAILABLE = 503
_UNAVAILABLE_IN_A_ROW = 3
"""Refusals in a row from which 503 means the whole host, not only the page."""

PASSING_ROBOTS_BYTES = 8 * 1024 * 1024
"""Maximum size of the robots.txt kept of hosts without sites: redirects to ever new hosts must not fill the memory."""


class HostTable(Columns):
    """Hosts (name and port) by slot; a host is kept until the process ends.

    Columns, each [capacity], meaningful up to `size`:
        host_id int64 · crawl_delay float64 (s) · last_start float64 (when the last request was sent, or, until it is
        sent, when it started; epoch s, -inf: never) · paused_until float64 (epoch s) · resting_until float64 (epoch s,
        lost at a restart) · held_until float64 (a pause by hand, epoch s, inf: until somebody ends it) ·
        robots_at float64 (when robots.txt was last read, epoch s, -inf: never) · robots_retry_at
        float64 (epoch s) · throttles, robots_failures int32 (consecutive) · busy bool (a request is under way) ·
        touched bool (changed since the last commit)
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

    _SPARSE = frozenset({"resting_until", "held_until"})

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
        """Slot -> an operator's last action on the host; most hosts have none."""
        self._robots_cache = RobotsCache()
        self._passing: dict[int, int] = {}
        self.lines = HostLines()
        """Who waits for a host; `ready`, `may_start` and `start` keep to it."""
        self._slot_by_name: dict[str, int] = {}
        self._slot_by_id: NDArray[np.int32] = np.full(0, -1, np.int32)
        self.begun_at = -math.inf
        """Substitute for the last request of hosts for which none was stored: start of the daemon, epoch s."""

    def add(self, host_id: int, name: str) -> int:
        """Returns the slot of the host, a new one if it is unknown; host_id -1: not stored."""
        slot = self._slot_by_name.get(name)
        if slot is not None:
            if host_id >= 0:  # first seen as the target of a redirect, now the host of a site
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
        """Adds stored hosts (id, name) like `add`: int32[k]. Most of a list's hosts are found by their ids."""
        ids = np.fromiter(map(itemgetter(0), hosts), np.int64, len(hosts))
        slots = self.slots_of_ids(ids)
        unknown = np.flatnonzero(slots < 0)
        fresh = {}
        for place in unknown.tolist():
            host_id, name = hosts[place]
            fresh[name] = host_id
        if len(fresh) < len(unknown) or not self._slot_by_name.keys().isdisjoint(fresh):  # some known from redirects
            for place in unknown.tolist():
                slots[place] = self.add(*hosts[place])
        elif fresh:
            slots[unknown] = self._append(np.fromiter(fresh.values(), np.int64, len(fresh)), list(fresh))
        return slots

    def _append(self, host_ids: NDArray[np.int64], names: list[str]) -> NDArray[np.int64]:
        """Returns new slots, int64[k], for distinct stored hosts whose ids and names are all unknown."""
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
        """Returns the slot of the host "name:port", None if it is unknown."""
        return self._slot_by_name.get(name)

    def slots_of_ids(self, host_ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns int32[k]: the slots of stored hosts, -1 if unknown."""
        known = (host_ids >= 0) & (host_ids < len(self._slot_by_id))
        slots = np.full(len(host_ids), -1, np.int32)
        slots[known] = self._slot_by_id[host_ids[known]]
        return slots

    def interval(self, part: slice | None = None) -> NDArray[np.float64]:
        """Returns float64[k]: minimum seconds between two requests to each host; part: rows below `size`, None: all."""
        part = slice(0, self.size) if part is None else part
        delay = np.minimum(self.crawl_delay[part], self.settings.crawl_delay_cap_seconds)
        return np.maximum(delay, self.settings.host_interval_seconds)

    def interval_of(self, slot: int) -> float:
        """Returns the minimum seconds between two requests to this host."""
        delay = min(float(self.crawl_delay[slot]), self.settings.crawl_delay_cap_seconds)
        return max(delay, self.settings.host_interval_seconds)

    def ready_at(self, part: slice | None = None) -> NDArray[np.float64]:
        """Returns float64[k]: the earliest next request to each host, epoch s (ignoring a request under way).

        A host whose robots.txt was never obtained gets no other request until it is retried. part: rows below `size`,
        None: all.
        """
        part = slice(0, self.size) if part is None else part
        spaced = np.maximum(self.last_start[part] + self.interval(part), self.paused_until[part])
        for column in self._SPARSE:
            if not self.is_default(column):
                np.maximum(spaced, getattr(self, column)[part], out=spaced)
        unknown = np.isneginf(self.robots_at[part])
        return np.where(unknown, np.maximum(spaced, self.robots_retry_at[part]), spaced)

    def ready(self, now: float) -> NDArray[np.bool_]:
        """Returns bool[size]: hosts to which a request may start now."""
        out = np.empty(self.size, np.bool_)
        for part in chunks(self.size):
            np.logical_and(~self.busy[part], self.ready_at(part) <= now, out=out[part])
        for slot in self.lines.waiting:
            out[slot] &= self.lines.is_polls_turn(slot)
        return out

    def ready_at_of(self, slot: int) -> float:
        """Returns the earliest next request to this host, epoch s."""
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
        """Returns whether a request to this host may start now.

        The queue of the host (`lines`) is served in order; `waiter`: one in it, None: a poll of a site of the host.
        """
        if self.busy[slot] or self.ready_at_of(slot) > now:
            return False
        if not self.lines.waiting:
            return waiter is None
        return self.lines.is_polls_turn(slot) if waiter is None else self.lines.is_turn_of(slot, waiter, now)

    def spacing_left(self, slot: int, now: float) -> float:
        """Returns the seconds left of the host's interval since its last request, negative if it is over."""
        return float(self.last_start[slot]) + self.interval_of(slot) - now

    def spacing_left_at(self, name: str, now: float) -> float:
        """`spacing_left` of a host by name; 0 if it is unknown."""
        slot = self._slot_by_name.get(name)
        return 0.0 if slot is None else self.spacing_left(slot, now)

    def start(self, slot: int, now: float) -> None:
        """Records that a request to the host starts."""
        self.busy[slot] = True
        self.last_start[slot] = now

    def sent(self, name: str, now: float) -> None:
        """Records that a request was written to the host's connection: it starts now. Ignores an unknown host.

        That may be long after `start`: connecting takes time, and the loop may be late.
        """
        slot = self._slot_by_name.get(name)
        if slot is not None:
            self.last_start[slot] = max(float(self.last_start[slot]), now)

    def begin_anew(self, now: float, *, all_hosts: bool) -> None:
        """As `asked_until`, of all hosts, at the start."""
        self.begun_at = now
        self.asked_until(np.arange(self.size), now, all_hosts=all_hosts)

    def asked_until(self, slots: NDArray[np.int64], now: float, *, all_hosts: bool) -> None:
        """Notes that hosts int64[k] may have been asked until `now` by a process whose last requests are not known.

        all_hosts: all of these hosts; else those with an interval so short that times of requests are not stored.
        """
        unkept = self.interval()[slots] <= SPACING_KEPT_SECONDS
        self.last_start[slots] = np.where(unkept | all_hosts, now, self.last_start[slots])

    def finish(self, slot: int) -> None:
        """Records the end of the request, and marks the host for storing if the time of its request is to be kept."""
        self.busy[slot] = False
        if self.interval_of(slot) > SPACING_KEPT_SECONDS:
            self.touched[slot] = True

    def rest(self, slot: int, until: float) -> None:
        """Blocks requests to the host until `until` (epoch s): it answered slowly. Unlike a pause, not stored."""
        self.put("resting_until", slot, until)

    def pause(self, slot: int, until: float) -> None:
        """Blocks requests to the host until `until` (epoch s); a later pause in force remains."""
        self.paused_until[slot] = max(float(self.paused_until[slot]), until)
        self.touched[slot] = True

    def answered(self, slot: int, outcome: Outcome, now: float, rng: np.random.Generator) -> None:
        """Notes the answer of a request to the host, before the host is free: 429 pauses it at once, 503 when repeated.

        Each refusal in a row lengthens the pause; any other answer but a 5xx ends the row.
        """
        if outcome.status is None:
            return
        throttles = int(self.throttles[slot])
        if outcome.status in _REFUSALS:
            throttles += 1
            if outcome.status != _UNAVAILABLE or throttles >= _UNAVAILABLE_IN_A_ROW:
                cap = self.settings.backoff_cap_seconds
                own = backoff_seconds(throttles, self.settings.backoff_base_seconds, cap, rng)
                self.pause(slot, now + lengthened(own, outcome.retry_after, cap))
        elif outcome.status < 500:
            throttles = 0
        if self.throttles[slot] != throttles:  # stored, or an old refusal would count after a restart
            self.throttles[slot], self.touched[slot] = throttles, True

    def override(self, slot: int, override: HostOverride) -> None:
        """Applies an operator's pause by hand, or end of all pauses; the latter resets the count of throttles."""
        self.load_override(slot, override)
        if not override.paused:
            self.paused_until[slot] = 0.0
            self.throttles[slot] = 0

    def load_override(self, slot: int, override: HostOverride) -> None:
        """Restores an operator's action from before a restart; a pause that the host requested since remains."""
        self.overrides[slot] = override
        self.put("held_until", slot, override.held_until)

    def held(self, now: float) -> NDArray[np.bool_]:
        """Returns bool[size]: hosts that are paused by hand."""
        return self.held_until[: self.size] > now

    def paused(self, now: float) -> NDArray[np.bool_]:
        """Returns bool[size]: hosts that are paused, by themselves or by hand."""
        return self.held(now) | (self.paused_until[: self.size] > now)

    def unreachable(self) -> NDArray[np.bool_]:
        """Returns bool[size]: hosts whose robots.txt was requested but never obtained: they get no other requests."""
        return np.isneginf(self.robots_at[: self.size]) & (self.robots_failures[: self.size] > 0)

    def last_request_of(self, slot: int) -> float | None:
        """Returns the time of the last request to the host, epoch s; None: never, or lost at a restart."""
        last = float(self.last_start[slot])
        return None if last in (-math.inf, self.begun_at) else last

    def robots_wanted(self, now: float) -> NDArray[np.bool_]:
        """Returns bool[size]: hosts whose robots.txt is unknown or a day old, and may be requested now."""
        out = np.empty(self.size, np.bool_)
        for part in chunks(self.size):
            old = self.robots_at[part] + FRESH_SECONDS <= now
            np.logical_and(old, self.robots_retry_at[part] <= now, out=out[part])
        return out

    def set_rules(self, slot: int, text: RobotsText | None, fetched_at: float, crawl_delay: float = 0.0) -> None:
        """Sets the rules of robots.txt; without a text everything is allowed. crawl_delay in s, 0: none."""
        self.load_rules(slot, text, fetched_at, crawl_delay)
        self.robots_retry_at[slot] = 0.0
        self.robots_failures[slot] = 0
        self.touched[slot] = True
        self._passing.pop(slot, None)
        if self.host_id[slot] < 0:
            self._passing[slot] = 0 if text is None else text.size
            self._forget_passing()

    def load_rules(self, slot: int, text: RobotsText | None, fetched_at: float, crawl_delay: float) -> None:
        """Restores stored rules of robots.txt; the text is parsed when the host is polled."""
        if text is None:
            self._robots_cache.drop(slot)
        else:
            self._robots_cache.put(slot, text)
        self.robots_at[slot], self.crawl_delay[slot] = fetched_at, crawl_delay

    def _forget_passing(self) -> None:
        """Drops the oldest rules of hosts without sites; they are requested again on the next visit."""
        while len(self._passing) > 1 and sum(self._passing.values()) > PASSING_ROBOTS_BYTES:
            slot = next(iter(self._passing))
            del self._passing[slot]
            if self.host_id[slot] < 0:
                self._robots_cache.drop(slot)
                self.robots_at[slot] = -math.inf

    def robots_unreachable(self, slot: int, retry_at: float) -> None:
        """Records a failed request of robots.txt: known rules remain, else the host is blocked until `retry_at`."""
        self.robots_retry_at[slot] = retry_at
        self.robots_failures[slot] += 1
        self.touched[slot] = True

    def put_off_robots(self, slot: int, retry_at: float) -> None:
        """Has robots.txt requested again at `retry_at`, by no fault of the host."""
        self.robots_retry_at[slot] = retry_at

    def allows(self, slot: int, url: str) -> bool | None:
        """Returns whether the known robots.txt of the host allows the URL.

        None: the text is long, and the answer has to be computed elsewhere (`rules_allow`) and noted.
        """
        return self._robots_cache.allows(slot, url)

    @property
    def robots_cache(self) -> RobotsCache:
        """Where the rules of all hosts are kept."""
        return self._robots_cache

    def robots_text(self, slot: int) -> RobotsText | None:
        """Returns the known robots.txt of the host; None if everything is allowed."""
        return self._robots_cache.text(slot)

    def delay_in(self, text: RobotsText) -> float | None:
        """Returns the crawl delay of a robots.txt, s, 0: none. None: it is long; use `rules_delay`."""
        return self._robots_cache.delay(text)

    def note_answer(self, text: RobotsText, url: str, answer: bool) -> None:
        """Caches what a robots.txt says of a URL, for the next `allows` of its hosts."""
        self._robots_cache.note(text, url, answer)
