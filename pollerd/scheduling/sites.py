"""One numpy row per site: when it was polled, when it may be, and how it stands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import Columns, stretches
from pollerd.model import STATE_CODE, STATES, SiteState
from pollerd.scheduling.eligibility import EligibilityIndex

_GONE = STATE_CODE[SiteState.GONE]

HISTORY_POLLS = 16
_HISTORY_KNOWN = 4
_TRUSTED_POLLS = 64


class SiteTable(Columns):
    """Sites by slot. A slot is a row index; slots of removed sites are used again.

    Columns, each [capacity], meaningful up to `size`:
        site_id int64 (-1: empty) · host int32 (host slot) · weight, cost float64 · min_interval, max_interval float64
        (s, nan: the default) · min_yield float64 (chance, nan: the default) ·
        respect_ttl float64 (1: yes, 0: no, nan: the default) · half_life float64 (s, nan) · last_poll
        float64 (epoch s, -inf: never) · last_seen float64 (last informative poll, epoch s, -inf: never) · last_gap
        float32 (s between the last two informative polls, inf) · not_before float64 (epoch s) · failures int32 (in a
        row) · polls, changes int32 · state uint8 (index into STATES) · paused, in_flight, asap bool ·
        twin_at float64 (when it was last chosen to be asked twice in a row, epoch s, -inf) · history uint16,
        history_length uint8 (was a change found, newest bit lowest, over the last informative polls) · trusted uint8
        (informative polls for which its changes are believed, because a repeat fetch held still) · value float64
        (of a site on trial: what its first answer is expected to bring; nan: it is not on trial) · private bool (its
        last poll was refused because its address is private) · quiet_until float64 (believed unchanged until then, or
        said to be, epoch s; -inf: neither) · announced_ttl float64 (for how long the page last said that it need not be
        asked again, s; 0: it does not, or is not heard)
    """

    _DEFAULTS = {  # noqa: RUF012
        "site_id": (np.int64, -1),
        "host": (np.int32, 0),
        "weight": (np.float64, 1.0),
        "cost": (np.float64, 1.0),
        "min_interval": (np.float64, math.nan),
        "max_interval": (np.float64, math.nan),
        "min_yield": (np.float64, math.nan),
        "respect_ttl": (np.float64, math.nan),
        "half_life": (np.float64, math.nan),
        "last_poll": (np.float64, -math.inf),
        "last_seen": (np.float64, -math.inf),
        "last_gap": (np.float32, math.inf),
        "not_before": (np.float64, 0.0),
        "failures": (np.int32, 0),
        "polls": (np.int32, 0),
        "changes": (np.int32, 0),
        "state": (np.uint8, 0),
        "paused": (np.bool_, False),
        "in_flight": (np.bool_, False),
        "asap": (np.bool_, False),
        "repeat_at": (np.float64, -math.inf),
        "history": (np.uint16, 0),
        "history_length": (np.uint8, 0),
        "trusted": (np.uint8, 0),
        "value": (np.float64, math.nan),
        "private": (np.bool_, False),
        "quiet_until": (np.float64, -math.inf),
        "announced_ttl": (np.float64, 0.0),
    }

    _SELDOM_SET = frozenset(
        {
            "weight",
            "cost",
            "min_interval",
            "max_interval",
            "min_yield",
            "respect_ttl",
            "half_life",
            "value",
            "private",
            "quiet_until",
            "announced_ttl",
        }
    )

    site_id: NDArray[np.int64]
    host: NDArray[np.int32]
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    min_interval: NDArray[np.float64]
    max_interval: NDArray[np.float64]
    min_yield: NDArray[np.float64]
    respect_ttl: NDArray[np.float64]
    half_life: NDArray[np.float64]
    last_poll: NDArray[np.float64]
    last_seen: NDArray[np.float64]
    last_gap: NDArray[np.float32]
    not_before: NDArray[np.float64]
    failures: NDArray[np.int32]
    polls: NDArray[np.int32]
    changes: NDArray[np.int32]
    state: NDArray[np.uint8]
    paused: NDArray[np.bool_]
    in_flight: NDArray[np.bool_]
    asap: NDArray[np.bool_]
    repeat_at: NDArray[np.float64]
    history: NDArray[np.uint16]
    history_length: NDArray[np.uint8]
    trusted: NDArray[np.uint8]
    value: NDArray[np.float64]
    private: NDArray[np.bool_]
    quiet_until: NDArray[np.float64]
    announced_ttl: NDArray[np.float64]

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        """Highest slot ever used, plus one."""
        self._free: list[int] = []
        self._slot_by_id = np.full(64, -1, np.int32)
        self.eligibility = EligibilityIndex(self)
        """How each row stands, where they are many."""

    def __len__(self) -> int:
        return self.size - len(self._free)

    def touch(self, slots: NDArray[np.int64] | list[int]) -> None:
        """To be called by whoever writes into columns of the slots int64[k], `private` and `announced_ttl` aside."""
        self.eligibility.touch(slots)

    def add(self, site_ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Takes a slot for each new site id; returns the slots, int64[k], in order."""
        ids = np.asarray(site_ids, np.int64)
        reused = [self._free.pop() for _ in range(min(len(self._free), len(ids)))]
        fresh = np.arange(self.size, self.size + len(ids) - len(reused))
        slots = np.concatenate([np.asarray(reused, np.int64), fresh])
        self.size += len(fresh)
        self.grow(self.size)
        self.site_id[slots] = ids
        self._index(ids, slots)
        self.touch(slots)
        return slots

    def remove(self, slot: int) -> None:
        """Empties the slot for reuse."""
        self._slot_by_id[self.site_id[slot]] = -1
        self.clear(slot)
        self._free.append(slot)
        self.touch([slot])

    def slot_of(self, site_id: int) -> int | None:
        """The site's slot, or None where the site is not known."""
        if not 0 <= site_id < len(self._slot_by_id):
            return None
        slot = int(self._slot_by_id[site_id])
        return None if slot < 0 else slot

    def slots_of(self, site_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[k]: the slots of the sites, -1 where a site is not known."""
        slots = np.full(len(site_ids), -1, np.int64)
        inside = (site_ids >= 0) & (site_ids < len(self._slot_by_id))
        slots[inside] = self._slot_by_id[site_ids[inside]]
        return slots

    def occupied(self) -> NDArray[np.bool_]:
        """bool[size]: slots that hold a site."""
        return self.site_id[: self.size] >= 0

    def counts(self) -> list[int]:
        """How many sites stand where, in the order of `STATES`, and last, how many of all are paused."""
        if self.eligibility.is_kept:
            return [int(number) for number in self.eligibility.counts()[: len(STATES) + 1]]
        counts, paused = np.zeros(len(STATES), np.int64), 0
        for part in stretches(self.size):
            occupied = self.site_id[part] >= 0
            active = occupied & ~self.paused[part]
            counts += np.bincount(self.state[part][active], minlength=len(STATES))
            paused += int(np.count_nonzero(occupied)) - int(np.count_nonzero(active))
        return [*counts.tolist(), paused]

    def on_trial(self) -> NDArray[np.bool_] | None:
        """bool[size]: sites that the focused crawler has on trial; None where there never was any."""
        return None if self.is_as_ever("value") else ~np.isnan(self.value[: self.size])

    def elapsed(self, now: float) -> NDArray[np.float64]:
        """float64[size]: seconds since the last informative poll, inf where there was none; never below 0."""
        out = np.empty(self.size)
        for part in stretches(self.size):
            since = np.subtract(now, self.last_seen[part], out=out[part])
            np.maximum(since, 0.0, out=since)
        return out

    def elapsed_of(self, slots: NDArray[np.int64] | slice, now: float) -> NDArray[np.float64]:
        """float64[k]: `elapsed` of these slots."""
        since = now - self.last_seen[slots]
        return np.maximum(since, 0.0, out=since)

    def next_allowed(
        self, default_min_interval: float, part: NDArray[np.int64] | slice | None = None
    ) -> NDArray[np.float64]:
        """float64[k]: the earliest moment of the next poll as far as the sites themselves are concerned, epoch s.

        part: rows below `size`; None: all.
        """
        part = slice(0, self.size) if part is None else part
        allowed = self.last_poll[part] + self.interval(default_min_interval, part)
        if not self.is_as_ever("quiet_until"):
            np.maximum(allowed, self.quiet_until[part], out=allowed)
        return np.asarray(np.maximum(allowed, self.not_before[part], out=allowed))

    def interval(
        self, default_min_interval: float, part: NDArray[np.int64] | slice | None = None
    ) -> NDArray[np.float64] | float:
        """float64[k] of those rows (None: of all), or one for all: the shortest time between two polls of a site, s."""
        if self.is_as_ever("min_interval"):
            return default_min_interval
        own = self.min_interval[slice(0, self.size) if part is None else part]
        return np.where(np.isnan(own), default_min_interval, own)

    def in_force(self, slots: NDArray[np.int64] | slice | None = None) -> NDArray[np.bool_]:
        """bool[k]: which of `slots` (None: all) are sites that are polled at all: neither gone nor paused."""
        part = slice(0, self.size) if slots is None else slots
        there: NDArray[np.bool_] = (self.state[part] != _GONE) & (self.site_id[part] >= 0)
        there &= ~self.paused[part]
        return there

    def pollable(self, now: float, default_min_interval: float) -> NDArray[np.bool_]:
        """bool[size]: sites that may be polled now as far as they themselves are concerned.

        A site asked for by hand (`asap`) waits neither for its min_interval nor until a change is likely enough, only
        for its Retry-After and backoff.
        """
        out = np.empty(self.size, np.bool_)
        for part in stretches(self.size):
            asked = self.next_allowed(default_min_interval, part) <= now
            asked |= self.asap[part]
            np.logical_and(asked, self.askable(now, part), out=out[part])
        return out

    def earliest(self, default_min_interval: float, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """float64[k]: from when those rows are `pollable`, epoch s, if they are in force and not in flight."""
        return np.where(self.asap[part], self.not_before[part], self.next_allowed(default_min_interval, part))

    def quiet_waits(self, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """float64[k]: seconds after their last informative polls in which those slots are believed unchanged.

        0 where nothing of the kind is believed.
        """
        until, seen = self.quiet_until[part], self.last_seen[part]
        return np.subtract(until, seen, out=np.zeros(len(until)), where=np.isfinite(until) & np.isfinite(seen))

    def askable(self, now: float, slots: NDArray[np.int64] | slice | None = None) -> NDArray[np.bool_]:
        """bool[k]: which of `slots` (None: all) may be polled now but for their min_interval and min_yield."""
        part = slice(0, self.size) if slots is None else slots
        free = self.not_before[part] <= now
        free &= self.in_force(slots)
        free &= ~self.in_flight[part]
        return free

    def lateness(
        self, now: float, default_max_interval: float, slots: NDArray[np.int64] | slice | None = None
    ) -> NDArray[np.float64]:
        """float64[k]: seconds that each of `slots` (None: all) is past its max_interval.

        Negative where it is not over, or never began.
        """
        part = slice(0, self.size) if slots is None else slots
        maximum = self.max_interval[part]
        limit = np.where(np.isnan(maximum), default_max_interval, maximum)
        last = self.last_poll[part]
        return now - np.where(np.isfinite(last), last, now) - limit

    def overdue(self, mask: NDArray[np.bool_], now: float, default_max_interval: float) -> NDArray[np.int64]:
        """Slots in `mask` bool[size] past their max_interval, the latest first."""
        if default_max_interval == math.inf:  # then most sites have none
            if self.is_as_ever("max_interval"):
                return np.empty(0, np.int64)
            mask = mask & ~np.isnan(self.max_interval[: self.size])
        slots = np.flatnonzero(mask)
        late = self.lateness(now, default_max_interval, slots)
        slots, late = slots[late >= 0], late[late >= 0]
        return slots[np.argsort(-late, kind="stable")]

    def note_history(self, slots: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Keeps whether the latest informative poll of each slot, int64[k], found a change, bool[k].

        No slot twice; to be called before `last_poll` moves. A page that a repeat fetch finds unchanged is
        no noise: its history begins anew, and its changes are believed for a while.
        """
        still = ~changed & (self.repeat_at[slots] > self.last_poll[slots])
        kept = self.history[slots]
        self.history[slots] = np.where(still, 0, kept << 1 | changed)
        longer = np.minimum(self.history_length[slots] + 1, HISTORY_POLLS)
        self.history_length[slots] = np.where(still, 0, longer)
        trusted = self.trusted[slots]
        self.trusted[slots] = np.where(still, _TRUSTED_POLLS, trusted - (trusted > 0))
        self.touch(slots)

    def forget_history(self, slots: NDArray[np.int64]) -> None:
        """What the polls of the slots int64[k] found was noise, known from now on: it says nothing of what comes."""
        self.history[slots] = self.history_length[slots] = self.trusted[slots] = 0
        self.touch(slots)

    def suspect(self, slot: int) -> None:
        """The slot counts as one that changes always, and its next repeat fetch is due, until that says otherwise."""
        self.history[slot], self.history_length[slot], self.trusted[slot] = 0xFFFF, HISTORY_POLLS, 0
        self.repeat_at[slot] = -math.inf
        self.touch([slot])

    def changes_always(
        self, slots: NDArray[np.int64] | slice | None = None, after: int = _HISTORY_KNOWN
    ) -> NDArray[np.bool_]:
        """bool[k]: which of `slots` (None: all) changed at nearly every one of their last polls.

        At most one in 16 did not. after: so many informative polls at least there must have been; after fewer than 4
        it is a suspicion.
        """
        part = slice(0, self.size) if slots is None else slots
        length = self.history_length[part]
        always: NDArray[np.bool_] = (length >= after) & (self.trusted[part] == 0)
        if 8 * np.count_nonzero(always) > len(always):
            always &= np.bitwise_count(self.history[part]) + (length >= HISTORY_POLLS) >= length
            return always
        known = np.flatnonzero(always)  # few of many, as long as many were polled seldom
        length = length[known]
        always[known] = np.bitwise_count(self.history[part][known]) + (length >= HISTORY_POLLS) >= length
        return always

    def _index(self, ids: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        if not len(ids):
            return
        top = int(ids.max()) + 1
        if top > len(self._slot_by_id):
            index = np.full(max(top, len(self._slot_by_id) * 3 // 2), -1, np.int32)
            index[: len(self._slot_by_id)] = self._slot_by_id
            self._slot_by_id = index
        self._slot_by_id[ids] = slots
