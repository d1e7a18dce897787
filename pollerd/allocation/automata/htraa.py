"""H-TRAA, the hierarchy of twofold resource allocation automata ([A]), for a changing set of sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.automata.hierarchy import Hierarchy, Schedule, TraaSettings
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import (
    all_sound,
    dump_rng,
    load_rng,
    own_generator,
    pack,
    pack_rows,
    same_form,
    unpack,
    unpack_rows,
)
from pollerd.allocation.slots import FIELDS, SOUND, PollCounts, SlotTable, credit_after, finite, positive_or_0, put, top
from pollerd.columns import lengthen
from pollerd.errors import InvalidValueError

NAME, VERSION = "htraa", 1
FIRST_REORDER_POLLS = 1000


@dataclass(frozen=True)
class HtraaSettings(TraaSettings):
    """Settings of the automata, and:

    reorder: sort the leaves by estimated rate at 1,000, 2,000, 4,000 … polls ([A] keeps them in order of arrival).
    step: s between two polls, above 0; 0: 1 / budget.
    """

    reorder: bool = True
    step: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.reorder, bool):
            raise InvalidValueError("reorder", "true or false", self.reorder)
        put(self, step=positive_or_0("step", self.step))


class Htraa(Allocator):
    """Equalises the probability that a poll finds a change, without estimating rates, by learning automata.

    Only for the objective `changes` and for sites of equal weight and equal cost: `create`, `add` and `admit` raise
    InvalidValueError for others. Of the evidence only `changed` is used; first polls teach nothing. Half-lives and the
    budget do not affect the amounts.

    `select` is exact: largest `urgency` first; ties at the cut-off go to the leaf further left in the tree. It costs
    O(log n) for each leaf that it looks at, plus array passes over the sites that were not eligible when they last came
    up. If nearly all leaves that come up are not eligible it falls back to one pass over all.

    The automata's rules hold for polls made at the tree's own frequencies. Polls observed before the first `select` of
    a new allocator (replayed from another one) were not, so they are only counted; the tree then starts from the rates
    estimated from them: leaves sorted, amounts in proportion, which is the optimum for those rates.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("htraa", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([0.137, 0.347])
    """

    def __init__(self, budget: float, settings: HtraaSettings, rng: np.random.Generator) -> None:
        super().__init__(budget)
        self._settings = settings
        self._bit_generator, self._rng = own_generator(rng)
        self._slot_table, self._poll_counts = SlotTable(), PollCounts()
        self._tree = Hierarchy(settings)
        self._leaf = np.zeros(0, np.int64)
        self._key = np.zeros(0, np.uint64)
        self._credit = np.zeros(0)
        """Seconds by which each site's last poll came late (early: < 0). Added to elapsed, to meet the frequencies."""
        self._schedule = Schedule(self._tree)
        self._started = False
        self._informed = False
        """Whether the automata have learned more than the number of sites."""
        self._polls_learned = 0
        self._reorder_at = FIRST_REORDER_POLLS
        self._stored_keys: NDArray[np.uint64] | None = None
        """Keys of the leaves in a restored state; sites are matched to their leaves before the next use."""

    @property
    def polls_learned(self) -> int:
        """Number of polls that the automata have learned from."""
        return self._polls_learned

    def counted_polls(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the number of polls behind the rate estimates of slots int64[k] in use, float64[k]."""
        return np.asarray(self._poll_counts.rows[self._slot_table.known(slots), 0])

    # --- sites ---------------------------------------------------------------------------------------------------

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        self._slot_table.admit_equal(slots, weight, cost, NAME)

    def expect(self, sites: int) -> None:
        self._slot_table.grow(sites)

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        self._bind()
        self.admit(slots, weight, cost)
        slots = self._slot_table.add(slots, weight, cost, half_life, deadline)
        self._grow()
        self._poll_counts.rows[slots] = 0.0
        self._credit[slots] = 0.0
        self._key[slots] = self._rng.integers(1, 2**63, size=len(slots), dtype=np.uint64)
        self._place(slots)

    def _grow(self) -> None:
        extra = self._slot_table.capacity - len(self._leaf)
        self._poll_counts.grow(self._slot_table.capacity)
        for name, value in (("_leaf", -1), ("_key", 0), ("_credit", 0.0)):
            lengthen(vars(self), name, extra, value)

    def _place(self, slots: NDArray[np.int64]) -> None:
        self._leaf[slots] = self._tree.add(len(slots), self._rng if self._informed else None)
        self._schedule.place(slots, self._leaf[slots])

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._bind()
        slots = self._slot_table.remove(slots)
        leaves = self._leaf[slots]
        self._tree.remove(leaves, self._rng if self._informed else None)
        self._schedule.remove(leaves)
        self._leaf[slots] = -1

    # --- choosing ------------------------------------------------------------------------------------------------

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        self._bind()
        elapsed = self._slot_table.check_elapsed(elapsed)
        out = np.full(len(elapsed), -np.inf)
        slots = np.flatnonzero(self._slot_table.used)
        out[slots] = self._tree.amounts(self._leaf[slots]) * (finite(elapsed[slots]) + self._credit[slots])
        return out

    def select(
        self, elapsed: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        self._bind()
        elapsed = self._slot_table.check_elapsed(elapsed)
        if not self._started:
            self._start()
        if k <= 0 or not self._slot_table.size:
            return np.empty(0, np.int64)
        chosen = self._schedule.choose(elapsed, self._credit, now, eligible, k)
        if chosen is None:
            return top(np.where(eligible, self.urgency(elapsed, now), -np.inf), k)
        urgency = self._tree.amounts(self._leaf[chosen]) * (finite(elapsed[chosen]) + self._credit[chosen])
        return chosen[np.lexsort((chosen, -urgency))][:k]

    # --- learning ------------------------------------------------------------------------------------------------

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        self._bind()
        slots, elapsed = self._slot_table.check_polls(slots, elapsed, evidence)
        informative = np.flatnonzero(np.isfinite(elapsed))
        while len(informative):
            room = len(informative)
            if self._started and self._settings.reorder:
                room = min(room, self._reorder_at - self._polls_learned)
            part, informative = informative[:room], informative[room:]
            self._poll_counts.note(slots[part], elapsed[part], evidence.changed[part])
            if self._started:
                self._spend_credit(slots[part], elapsed[part])
                self._teach(slots[part], evidence.changed[part])

    def _teach(self, slots: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        leaves = self._leaf[slots]
        self._tree.teach(leaves, changed, self._rng)
        self._informed = True
        self._polls_learned += len(slots)
        if self._settings.reorder and self._polls_learned == self._reorder_at:
            self._reorder_at *= 2
            self._sort()
        else:
            self._schedule.set_aside(leaves)

    def _spend_credit(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> None:
        """Charges each poll one period of its site, `step / x`."""
        period = self._step() / self._tree.amounts(self._leaf[slots])
        self._credit[slots] = credit_after(elapsed, self._credit[slots], period)

    def _start(self) -> None:
        """Prepares the first choice: initialises the tree from the polls observed so far."""
        self._started = True
        if self._poll_counts.rows[self._slot_table.used.nonzero()[0], 0].any():
            self._sort()

    def _sort(self) -> None:
        """Sorts the leaves by estimated rate, fastest on the left, and sets the automata to amounts in proportion."""
        slots = np.flatnonzero(self._slot_table.used)
        rates = self.rates()[slots]
        order = np.lexsort((self._leaf[slots], -rates))
        slots = slots[order]
        self._leaf[slots] = np.arange(len(slots))
        self._tree.split_by(rates[order])
        self._informed = True
        self._schedule.renew(slots, self._leaf[slots])

    def rates(self) -> NDArray[np.float64]:
        n = self._slot_table.n
        return np.where(self._slot_table.used[:n], self._poll_counts.rates(n, self._cycle()), np.nan)

    def shares(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the tree's amounts; before the first choice the rates, which its initial amounts will follow."""
        self._bind()
        return self._tree.amounts(self._leaf[slots]) if self._started else self.rates()[slots]

    def _cycle(self) -> float:
        """Returns the seconds in which every site is polled once."""
        return self._step() * max(self._slot_table.size, 1)

    def _step(self) -> float:
        """Returns the seconds between two polls."""
        return self._settings.step or 1.0 / self.budget

    # --- storage -------------------------------------------------------------------------------------------------

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns the key of the site's leaf (stable when leaves are sorted), its poll counts and its credit."""
        slots = self._slot_table.known(slots)
        return pack_rows(self._key[slots].view(np.float64), self._poll_counts.rows[slots], self._credit[slots])

    def shared_state(self) -> bytes:
        """Returns the tree with the keys of its leaves, the random generator's state, and the poll counters."""
        self._bind()
        keys = np.zeros(self._tree.capacity, np.uint64)
        slots = np.flatnonzero(self._slot_table.used)
        keys[self._leaf[slots]] = self._key[slots]
        return pack(NAME, VERSION, self._arrays(self._tree.states, keys))

    def _arrays(self, states: NDArray[np.int64], keys: NDArray[np.uint64]) -> dict[str, NDArray[Any]]:
        return {
            "form": self._form(),
            "progress": np.array([self._started, self._informed, self._polls_learned, self._reorder_at]),
            "random": dump_rng(self._bit_generator),
            "states": states.astype(np.uint32 if states.max() < 2**32 else np.uint64),
            "keys": keys,
        }

    def _form(self) -> NDArray[np.float64]:
        settings = self._settings
        return np.array([settings.resolution, settings.growth, settings.exponent], np.float64)

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        kept = unpack(NAME, VERSION, shared_state)
        same_form(kept, self._arrays(self._tree.states, self._key), ("states", "keys"))
        key, rows, credit = self._taken_apart(slots, site_state)
        if not np.array_equal(kept["form"], self._form()):
            raise InvalidValueError("resolution, growth and exponent of the state", f"{self._form()}", kept["form"])
        started, informed, polls_learned, reorder_at = kept["progress"]
        most = reorder_at - 1 if self._settings.reorder else np.iinfo(np.int64).max
        if not 0 <= polls_learned <= most or reorder_at < FIRST_REORDER_POLLS:
            allowed = f"from 0 to {most} polls taught, before leaves are sorted at {FIRST_REORDER_POLLS} or more"
            raise InvalidValueError("progress of the state", allowed, (int(polls_learned), int(reorder_at)))
        self._tree.restore(kept["states"].astype(np.int64), kept["keys"] != 0)
        self._key[slots], self._poll_counts.rows[slots], self._credit[slots] = key, rows, credit
        self._started, self._informed = bool(started), bool(informed)
        self._polls_learned, self._reorder_at = int(polls_learned), int(reorder_at)
        load_rng(self._bit_generator, kept["random"])
        self._stored_keys = kept["keys"]

    def _bind(self) -> None:
        """After `restore`, maybe in chunks: matches every site to its leaf by key; others are added as new."""
        if self._stored_keys is None:
            return
        names, self._stored_keys = self._stored_keys, None
        slots = np.flatnonzero(self._slot_table.used)
        order = np.argsort(names, kind="stable")
        at = np.minimum(np.searchsorted(names, self._key[slots], sorter=order), len(names) - 1)
        leaves = order[at]
        leaves[names[leaves] != self._key[slots]] = -1
        leaves[np.setdiff1d(np.arange(len(slots)), np.unique(leaves, return_index=True)[1])] = -1
        known = leaves >= 0
        occupied = np.zeros(len(names), np.bool_)
        occupied[leaves[known]] = True
        self._tree.restore(self._tree.states, occupied)
        self._leaf[slots] = leaves
        self._schedule.renew(slots[known], leaves[known])
        self._place(slots[~known])

    def _taken_apart(
        self, slots: NDArray[np.int64], site_state: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
        """Unpacks stored rows: keys [k], poll counts [k, fields], credits [k]. Raises InvalidValueError."""
        data = unpack_rows(NAME, site_state, len(slots), 1 + len(FIELDS) + 1)
        key = np.ascontiguousarray(data[:, 0]).view(np.uint64)
        rows, credit = data[:, 1:-1], data[:, -1]
        all_sound(NAME, "a name above 0", key > 0, key)
        all_sound(NAME, SOUND, self._poll_counts.sound(rows), rows)
        all_sound(NAME, "a finite credit", np.isfinite(credit), credit)
        return key, rows, credit
