"""Sites whose change waits for a proof poll, in their order, and what such polls are worth.

A proof poll turns a change that was found into one that counts, so it competes with other polls by that worth. Only
sites whose proofs mostly showed noise are held to a share of the budget, and not even those while budget is left over.
"""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
from numpy.typing import NDArray

PROOF_SHARE = 0.1
"""Maximum share of a budget that binds that is spent on proof polls of noisy sites."""
SAVED_MOST = 16.0
"""Maximum cost of the proof polls saved up while no noisy site needs one: in a time of T seconds they cost at most
`PROOF_SHARE`·budget·T plus this."""
_MAX_EXCESS = 4
"""A site's proofs that showed noise count at most so many times more than those that showed a change, or less."""
_PRIOR_PROOFS = 20.0
"""So many proofs, all of which would show a change, count as seen at the start; older ones are forgotten by then."""
_LOOKED_AT = 4_096
"""Maximum number of waiting sites looked at in one choice."""


class ProofQueue:
    """Slots that wait for a proof poll.

    Those whose second poll would still be prompt come first, since a late one has to be followed by another; among
    them, and among the late ones, who asked first.
    """

    def __init__(self) -> None:
        self._prompt_until: dict[int, float] = {}
        """Slot -> time until which its second poll is prompt, epoch s; in the order of first asking."""
        self._chosen: set[int] = set()
        self._paid: set[int] = set()
        """Those of the chosen whose polls are paid from the share."""
        self.left: dict[int, float] = {}
        """Slot whose change is proven by its next regular poll, and not by one more -> until when it is left alone."""
        self._noise: dict[int, int] = {}
        """Slot -> how many more of its proofs showed noise than a change, from -`_MAX_EXCESS` to `_MAX_EXCESS`."""
        self._changes, self._proofs = _PRIOR_PROOFS, _PRIOR_PROOFS
        self._credit, self._income, self._earned_at = SAVED_MOST, 0.0, math.nan

    def __len__(self) -> int:
        return len(self._prompt_until)

    def __bool__(self) -> bool:
        """Whether any slot waits."""
        return bool(self._prompt_until)

    def __contains__(self, slot: int) -> bool:
        return slot in self._prompt_until

    def ask(self, slot: int, prompt_until: float) -> None:
        """Lets the slot wait; one that waits already keeps its place. prompt_until: epoch s."""
        self._prompt_until[slot] = prompt_until
        self._chosen.discard(slot)
        self._paid.discard(slot)

    def drop(self, slot: int) -> None:
        """Ends the waiting of the slot, if it waits."""
        self.left.pop(slot, None)
        self._prompt_until.pop(slot, None)
        self._chosen.discard(slot)
        self._paid.discard(slot)

    def clear(self, slot: int) -> None:
        """Forgets the slot: its site is gone."""
        self.drop(slot)
        self._noise.pop(slot, None)

    def note(self, slot: int, *, noise: bool) -> None:
        """Notes what a proof showed: noise, or a change."""
        if not self.is_noisy(np.array([slot]))[0]:
            keep = 1 - 1 / (50 * _PRIOR_PROOFS)
            self._changes, self._proofs = keep * self._changes + (not noise), keep * self._proofs + 1
        self._noise[slot] = min(max(self._noise.get(slot, 0) + (1 if noise else -1), -_MAX_EXCESS), _MAX_EXCESS)

    def is_noisy(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns bool[k]: which of the slots int64[k] are of sites whose proofs mostly showed noise."""
        if not self._noise:
            return np.zeros(len(slots), np.bool_)
        return np.array([self._noise.get(slot, 0) > 0 for slot in slots.tolist()], np.bool_)

    @property
    def confirms(self) -> float:
        """The chance that a proof at a site that is not noisy shows a change, from those so far."""
        return self._changes / self._proofs

    def had_its_turn(self, slot: int) -> bool:
        """Returns whether the waiting slot was chosen for its proof poll."""
        return slot in self._chosen

    def earn(self, now: float, budget: float) -> None:
        """Adds what the time since the last call earns; budget: cost per second."""
        self._income = PROOF_SHARE * budget
        if now > self._earned_at:  # not at the first call, nor after the clock was set back
            self._credit = min(self._credit + self._income * (now - self._earned_at), SAVED_MOST)
        self._earned_at = now

    def affordable(self, slots: NDArray[np.int64], costs: NDArray[np.float64], now: float) -> int:
        """Returns how many proof polls of these noisy slots, int64[k], can be paid now, in order; costs float64[k].

        A late one must leave enough for the poll after it, or that would be late again.
        """
        late = np.array([self._prompt_until[slot] < now for slot in slots.tolist()], np.bool_)
        costs = np.where(late, 2.0, 1.0) * costs
        spent = np.concatenate([[0.0], np.cumsum(costs)[:-1]]) if len(costs) else costs
        return int(np.count_nonzero(np.logical_and.accumulate(self._credit - spent >= np.minimum(costs, SAVED_MOST))))

    def in_order(self, now: float) -> NDArray[np.int64]:
        """Returns the waiting slots, int64[k]."""
        if not self._prompt_until:
            return np.empty(0, np.int64)
        slots = np.array(list(islice(self._prompt_until, _LOOKED_AT)), np.int64)
        until = np.array(list(islice(self._prompt_until.values(), _LOOKED_AT)))
        return slots[np.argsort(until < now, kind="stable")]

    def choose(self, slots: list[int], *, paid: bool = False) -> None:
        """Notes that the slots were chosen for their proof polls. paid: from the share of noisy sites."""
        self._chosen.update(slots)
        if paid:
            self._paid.update(slots)

    def started(self, slot: int, cost: float) -> None:
        """Pays for a poll that starts, if it is a proof poll that was chosen to be paid from the share."""
        if slot in self._paid:
            self._paid.discard(slot)
            self._credit -= cost
