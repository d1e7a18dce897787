"""Site table: one numpy row per site, with poll times, settings and state."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import Columns, chunks
from pollerd.model import STATE_CODE, STATES, SiteState
from pollerd.scheduling.eligibility import EligibilityIndex
from pollerd.scheduling.proofs import ProofQueue
from pollerd.scheduling.windows import Timetable
from pollerd.site_settings import NUMERIC_SETTINGS

_GONE = STATE_CODE[SiteState.GONE]

HISTORY_POLLS = 16
_HISTORY_KNOWN = 4
_TRUSTED_POLLS = 64
_RECENT = 3
"""Number of last polls, all with a change, after which a page is suspected of differing at every fetch."""
_SUSPECTED_FROM = 2
_FAILURES_COUNTED = 255


class SiteTable(Columns):
    """Sites by slot. A slot is a row index; slots of removed sites are reused.

    Columns, each [capacity], meaningful up to `size`:
        site_id int64 (-1: empty) · host int32 (host slot) · weight, cost float64 · min_interval, max_interval float64
        (s, nan: the default) · min_saving float64 (s, nan: the default) · min_yield float64 (probability, nan: the
        default) ·
        respect_ttl float64 (a `RespectTtl`, nan: the default) · half_life, deadline float64 (s, nan) ·
        learned_half_life float64 (learned from reads, s, nan; see `half_lives`) · last_poll float64 (epoch s, -inf:
        never) · last_seen float64 (last informative poll, epoch s, -inf: never) · last_gap
        float32 (s between the last two informative polls, inf) · not_before float64 (epoch s) · failures int32
        (consecutive) · polls, changes int32 · state uint8 (index into STATES) · paused, in_flight, asap bool ·
        proof_at float64 (its last proof poll, epoch s, -inf) · proof_failures uint8 (proofs in a row that left a
        difference) · history uint16, history_length uint8 (whether the last informative polls found a change, newest
        in the lowest bit) · trusted uint8 (informative polls for which its changes are trusted, after a proof poll
        without a difference) ·
        value float64 (of a site on trial: expected value of its first answer; nan: not on trial) · private bool (its
        last poll was refused because its address is private) · unchanged_until float64 (believed unchanged until then,
        or within its TTL, epoch s; -inf: neither) · announced_ttl float64 (TTL of the last answer as far as it is
        believed, s; 0: none) · ttl_broken bool (a change was found inside such a time) · items_shown float64 (of a
        feed: how many of its newest items it shows; nan: no limit is known) · no_text bool (its last answer had no text
        that could be compared) ·
        hours int32 (row of the `timetable`, 0: always open)
    """

    _DEFAULTS = {  # noqa: RUF012
        "site_id": (np.int64, -1),
        "host": (np.int32, 0),
        **{name: (np.float64, math.nan if default is None else default) for name, default in NUMERIC_SETTINGS.items()},
        "learned_half_life": (np.float64, math.nan),
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
        "proof_at": (np.float64, -math.inf),
        "proof_failures": (np.uint8, 0),
        "history": (np.uint16, 0),
        "history_length": (np.uint8, 0),
        "trusted": (np.uint8, 0),
        "value": (np.float64, math.nan),
        "private": (np.bool_, False),
        "unchanged_until": (np.float64, -math.inf),
        "announced_ttl": (np.float64, 0.0),
        "ttl_broken": (np.bool_, False),
        "items_shown": (np.float64, math.nan),
        "no_text": (np.bool_, False),
        "hours": (np.int32, 0),
    }

    _SPARSE = frozenset(
        {
            *NUMERIC_SETTINGS,
            "learned_half_life",
            "value",
            "private",
            "unchanged_until",
            "announced_ttl",
            "ttl_broken",
            "items_shown",
            "no_text",
            "hours",
        }
    )

    site_id: NDArray[np.int64]
    host: NDArray[np.int32]
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    min_interval: NDArray[np.float64]
    max_interval: NDArray[np.float64]
    min_saving: NDArray[np.float64]
    min_yield: NDArray[np.float64]
    respect_ttl: NDArray[np.float64]
    half_life: NDArray[np.float64]
    deadline: NDArray[np.float64]
    learned_half_life: NDArray[np.float64]
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
    proof_at: NDArray[np.float64]
    proof_failures: NDArray[np.uint8]
    history: NDArray[np.uint16]
    history_length: NDArray[np.uint8]
    trusted: NDArray[np.uint8]
    value: NDArray[np.float64]
    private: NDArray[np.bool_]
    no_text: NDArray[np.bool_]
    unchanged_until: NDArray[np.float64]
    announced_ttl: NDArray[np.float64]
    ttl_broken: NDArray[np.bool_]
    items_shown: NDArray[np.float64]
    hours: NDArray[np.int32]

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        """Highest slot ever used, plus one."""
        self._free: list[int] = []
        self._slot_by_id = np.full(64, -1, np.int32)
        self.eligibility = EligibilityIndex(self)
        """Index of eligible rows, for long lists."""
        self.timetable = Timetable(self)
        """When sites are open."""
        self.proofs = ProofQueue()
        """Slots whose change waits for a proof poll."""

    def __len__(self) -> int:
        return self.size - len(self._free)

    def touch(self, slots: NDArray[np.int64] | list[int]) -> None:
        """Must be called after each write to columns of slots int64[k], except `private` and those of TTLs."""
        self.eligibility.touch(slots)

    def add(self, site_ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Assigns a slot to each new site id; returns the slots, int64[k], in order."""
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
        """Clears the slot for reuse."""
        self._slot_by_id[self.site_id[slot]] = -1
        self.proofs.clear(slot)
        self.clear(slot)
        self._free.append(slot)
        self.touch([slot])

    def slot_of(self, site_id: int) -> int | None:
        """Returns the site's slot, or None if the site is unknown."""
        if not 0 <= site_id < len(self._slot_by_id):
            return None
        slot = int(self._slot_by_id[site_id])
        return None if slot < 0 else slot

    def slots_of(self, site_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64[k]: the slots of the sites, -1 if unknown."""
        slots = np.full(len(site_ids), -1, np.int64)
        inside = (site_ids >= 0) & (site_ids < len(self._slot_by_id))
        slots[inside] = self._slot_by_id[site_ids[inside]]
        return slots

    def half_lives(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: half-lives in force, s: those that users gave, else learned from reads; nan: neither."""
        configured = self.half_life[slots]
        return (
            configured
            if self.is_default("learned_half_life")
            else np.where(np.isnan(configured), self.learned_half_life[slots], configured)
        )

    def occupied(self) -> NDArray[np.bool_]:
        """Returns bool[size]: slots that hold a site."""
        return self.site_id[: self.size] >= 0

    def counts(self) -> list[int]:
        """Returns the number of unpaused sites by state, in the order of `STATES`, then the number of paused sites."""
        if self.eligibility.is_kept:
            return [int(number) for number in self.eligibility.counts()[: len(STATES) + 1]]
        counts, paused = np.zeros(len(STATES), np.int64), 0
        for part in chunks(self.size):
            occupied = self.site_id[part] >= 0
            active = occupied & ~self.paused[part]
            counts += np.bincount(self.state[part][active], minlength=len(STATES))
            paused += int(np.count_nonzero(occupied)) - int(np.count_nonzero(active))
        return [*counts.tolist(), paused]

    def on_trial(self) -> NDArray[np.bool_] | None:
        """Returns bool[size]: sites on trial by the focused crawler; None if there never was one."""
        return None if self.is_default("value") else ~np.isnan(self.value[: self.size])

    def elapsed(self, now: float) -> NDArray[np.float64]:
        """Returns float64[size]: seconds since the last informative poll, inf without one; never below 0."""
        out = np.empty(self.size)
        for part in chunks(self.size):
            since = np.subtract(now, self.last_seen[part], out=out[part])
            np.maximum(since, 0.0, out=since)
        return out

    def elapsed_of(self, slots: NDArray[np.int64] | slice, now: float) -> NDArray[np.float64]:
        """Returns float64[k]: `elapsed` of these slots."""
        since = now - self.last_seen[slots]
        return np.maximum(since, 0.0, out=since)

    def next_allowed(
        self, default_min_interval: float, part: NDArray[np.int64] | slice | None = None
    ) -> NDArray[np.float64]:
        """Returns float64[k]: the earliest next poll by the sites' own limits, epoch s.

        part: rows below `size`; None: all.
        """
        part = slice(0, self.size) if part is None else part
        allowed = self.last_poll[part] + self.interval(default_min_interval, part)
        if not self.is_default("unchanged_until"):
            np.maximum(allowed, self.unchanged_until[part], out=allowed)
        if not self.is_default("hours"):
            np.maximum(allowed, self.timetable.opens_at(part), out=allowed)
        return np.asarray(np.maximum(allowed, self.not_before[part], out=allowed))

    def interval(
        self, default_min_interval: float, part: NDArray[np.int64] | slice | None = None
    ) -> NDArray[np.float64] | float:
        """Returns float64[k] of those rows (None: all), or one value for all: minimum s between polls of a site."""
        if self.is_default("min_interval"):
            return default_min_interval
        own = self.min_interval[slice(0, self.size) if part is None else part]
        return np.where(np.isnan(own), default_min_interval, own)

    def in_force(self, slots: NDArray[np.int64] | slice | None = None) -> NDArray[np.bool_]:
        """Returns bool[k]: which of `slots` (None: all) hold sites that share the budget: watched and not gone."""
        part = slice(0, self.size) if slots is None else slots
        eligible = self.watched(part)
        eligible &= self.state[part] != _GONE
        return eligible

    def watched(self, part: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Returns bool[k]: which of those rows hold sites that are not paused; one that is gone is polled rarely."""
        eligible: NDArray[np.bool_] = self.site_id[part] >= 0
        eligible &= ~self.paused[part]
        return eligible

    def pollable(self, now: float, default_min_interval: float) -> NDArray[np.bool_]:
        """Returns bool[size]: sites that may be polled now by their own limits.

        A site requested by hand (`asap`) ignores min_interval and `unchanged_until`, but neither Retry-After and
        backoff nor its windows.
        """
        out = np.empty(self.size, np.bool_)
        for part in chunks(self.size):
            asked = self.next_allowed(default_min_interval, part) <= now
            asked |= self.asap[part]
            np.logical_and(asked, self.askable(now, part), out=out[part])
        return out

    def earliest(self, default_min_interval: float, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: when those rows become `pollable`, epoch s, if they are in force and not in flight."""
        return np.where(self.asap[part], self.soonest(part), self.next_allowed(default_min_interval, part))

    def soonest(self, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: when sites of those rows that are requested by hand may be polled, epoch s."""
        later = self.not_before[part]
        return later if self.is_default("hours") else np.maximum(later, self.timetable.opens_at(part))

    def open_now(self, part: NDArray[np.int64] | slice) -> NDArray[np.bool_] | np.bool_:
        """Returns bool[k], or one value for all: which of those rows are in their windows, as of the last turn."""
        return np.True_ if self.is_default("hours") else self.timetable.is_open(part)

    def unchanged_waits(self, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: seconds after their last informative polls for which those slots are believed unchanged.

        0 without such a belief.
        """
        until, seen = self.unchanged_until[part], self.last_seen[part]
        return np.subtract(until, seen, out=np.zeros(len(until)), where=np.isfinite(until) & np.isfinite(seen))

    def askable(self, now: float, slots: NDArray[np.int64] | slice | None = None) -> NDArray[np.bool_]:
        """Returns bool[k]: which of `slots` (None: all) may be polled now, ignoring min_interval and min_yield."""
        part = slice(0, self.size) if slots is None else slots
        free = self.not_before[part] <= now
        free &= self.watched(part)
        free &= ~self.in_flight[part]
        if not self.is_default("hours"):
            free &= self.timetable.opens_at(part) <= now
        return free

    def lateness(
        self, now: float, default_max_interval: float, slots: NDArray[np.int64] | slice | None = None
    ) -> NDArray[np.float64]:
        """Returns float64[k]: seconds by which each of `slots` (None: all) exceeds its max_interval.

        Negative if it is not exceeded, or the site was never polled. Time for which a site is closed is no lateness:
        one that was due then is due when it opens.
        """
        part = slice(0, self.size) if slots is None else slots
        maximum = self.max_interval[part]
        limit = np.where(np.isnan(maximum), default_max_interval, maximum)
        last = self.last_poll[part]
        late = now - np.where(np.isfinite(last), last, now) - limit
        if self.is_default("hours"):
            return late
        table = self.timetable
        return np.where(table.opens_at(part) > now, -math.inf, np.minimum(late, now - table.opened_at(part)))

    def overdue(self, mask: NDArray[np.bool_], now: float, default_max_interval: float) -> NDArray[np.int64]:
        """Returns the slots in `mask` bool[size] past their max_interval, latest first."""
        if default_max_interval == math.inf:  # most sites have no max_interval then
            if self.is_default("max_interval"):
                return np.empty(0, np.int64)
            mask = mask & ~np.isnan(self.max_interval[: self.size])
        slots = np.flatnonzero(mask)
        late = self.lateness(now, default_max_interval, slots)
        slots, late = slots[late >= 0], late[late >= 0]
        return slots[np.argsort(-late, kind="stable")]

    def note_history(self, slots: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Records whether the latest informative poll of each slot, int64[k], found a change, bool[k].

        The slots must be distinct.
        """
        self.history[slots] = self.history[slots] << 1 | changed
        self.history_length[slots] = np.minimum(self.history_length[slots] + 1, HISTORY_POLLS)
        trusted = self.trusted[slots]
        self.trusted[slots] = trusted - (trusted > 0)
        self.touch(slots)

    def note_proof(self, slot: int, at: float, *, same: bool) -> None:
        """Records a proof poll, epoch s. same: whether it left no difference to the poll before it.

        If a page that kept changing is the same both times it is no noise: its changes are trusted for a while.
        """
        failures = int(self.proof_failures[slot])
        self.proof_at[slot], self.proof_failures[slot] = at, 0 if same else min(failures + 1, _FAILURES_COUNTED)
        if same and self.keeps_changing(slot):
            self.history[slot] = self.history_length[slot] = 0
            self.trusted[slot] = _TRUSTED_POLLS
        self.touch([slot])

    def note_undecided_proof(self, slot: int, at: float) -> None:
        """Records a proof poll that showed nothing, epoch s: the next one waits as after one that left a difference."""
        self.proof_at[slot], self.proof_failures[slot] = at, max(int(self.proof_failures[slot]), 1)

    def forget_history(self, slots: NDArray[np.int64]) -> None:
        """Clears the history of slots int64[k]: their changes were noise that is now known, and predict nothing."""
        self.history[slots] = self.history_length[slots] = self.trusted[slots] = 0
        self.touch(slots)

    def keeps_changing(self, slot: int) -> bool:
        """Returns whether the slot changed at each of its last three informative polls, or of two if it had no more.

        False while its changes are trusted.
        """
        length = int(self.history_length[slot])
        recent = (1 << min(length, _RECENT)) - 1
        return length >= _SUSPECTED_FROM and int(self.history[slot]) & recent == recent and not self.trusted[slot]

    def changes_always(self, slots: NDArray[np.int64] | slice | None = None) -> NDArray[np.bool_]:
        """Returns bool[k]: which of `slots` (None: all) changed at nearly every one of their last polls, at least four.

        At most one in 16 found no change.
        """
        part = slice(0, self.size) if slots is None else slots
        length = self.history_length[part]
        always: NDArray[np.bool_] = (length >= _HISTORY_KNOWN) & (self.trusted[part] == 0)
        if 8 * np.count_nonzero(always) > len(always):
            always &= np.bitwise_count(self.history[part]) + (length >= HISTORY_POLLS) >= length
            return always
        known = np.flatnonzero(always)  # few of many, as long as many were seldom polled
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
