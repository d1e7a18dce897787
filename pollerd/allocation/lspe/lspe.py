"""The allocator around the learner of [D], which estimates the interest that waits at each site from its polls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.finite_feeds import finite_value, most_collected
from pollerd.allocation.index import amplitude_and_rate, decay_rates
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
from pollerd.allocation.lspe.learner import Learner, Observation, StateIndex, Transition
from pollerd.allocation.lspe.sources import (
    FIELDS,
    INVERSES,
    LAWS,
    REWARDS,
    Arrivals,
    LspeSettings,
    number_if_full,
    value_if_full,
)
from pollerd.allocation.registered import G_OBJECTIVES
from pollerd.allocation.slots import MAX_POLLS, NEVER_POLLED_S, SOUND, SlotTable, floats
from pollerd.errors import InvalidValueError

NAME, VERSION = "lspe", 1
MAX_SITES = 30
"""30 sites have 495 features, and a step works on matrices of 495 x 495."""
NEVER_POLLED = 1e300
"""Urgency of a site never polled: above all others, finite."""
_POSITION, _GENERATION, _LAST = 0, 1, 2
_FOUND = slice(3, 3 + len(FIELDS))
_COEFFICIENTS = slice(3 + len(FIELDS), 6 + len(FIELDS))
_COLUMNS = 6 + len(FIELDS)
"""Columns of a stored row: position (from 1) and generation, time of the last poll, counts, coefficients."""

_LARGEST = 1e100
"""Bound of coefficients; actual ones are far smaller, in units of u*, projected at each step."""


class Lspe(Allocator):
    """Thresholds on the interest at each site, learned by policy gradient on LSPE(0) values ([D]); at most 30 sites.

    **State.** `X_i = A_i (1 - e^(-r_i τ_i))`, [E]'s mean dynamics at the gap τ since the last poll: for `interest` A is
    arrivals times weight over decay μ = ln 2 / half-life, and r is μ. `changes` and `freshness` are as in `index.py`:
    A = weight, or weight / λ, and r = λ, the site's rate of changes. Arrivals and changes per second are learned from
    the polls: for `interest` from counts of new items if a site has polls with counts; else from changed or not, as
    `htraa` estimates rates.

    **Steps.** One call of `observe` is one step: its polls are ν(n), the states just before it X(n), all of them by the
    allocator's own record of last polls. Its length is the cost of its polls in units of the mean cost, so that the
    learned quantity is value per unit of budget. A poll that found k items collects the remaining interest of k items
    spread evenly over the gap, `weight k (1 - e^(-μτ)) / (μτ)`; one that only found "changed", that of the mean k; for
    the other objectives a changed poll collects A. First polls teach nothing.

    **Items that are displaced.** Under `interest`, X of a site that shows only its newest M items (`set_items_shown`)
    is what a poll would collect of these, its limit replaces u*, and a poll that finds all of them new collects and
    counts what is to be expected then (`value_if_full`, `number_if_full`).

    **Choice.** By margins X_i - T_i. With `law="shared"` each poll is a draw with probabilities in proportion to
    `e^(κ' (X_i - T_i))` (for equal costs; else margins plus noise are divided by the costs): the budget is kept, and
    the gradient is that of the law by which sites are polled. With `law="independent"` the largest margin is polled and
    [D]'s independent probabilities f_i are used for the gradient only, as [D] III proposes for online learning:
    measured, performance decreases (docs/papers/ephemeral.md). T_i depends on the states of the others by the own
    record, not by the elapsed times given in the call.

    `add` and `admit` raise InvalidValueError for more than 30 sites. A poll costs O(ℓ²) for ℓ = n (n + 3) / 2 features
    of n sites (`inverse="tikhonov"`: O(ℓ³)); the shared state has 16 ℓ² bytes, 4 MB with 30 sites. The gradient steps
    become ever smaller ([D]'s a(n)): late changes are followed slowly.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("lspe", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([0.137, 0.347])
    """

    most_sites = MAX_SITES

    def __init__(self, budget: float, objective: str, settings: LspeSettings, rng: np.random.Generator) -> None:
        super().__init__(budget)
        if objective not in G_OBJECTIVES:
            allowed = f"one of {', '.join(G_OBJECTIVES)}, which {NAME} is defined for"
            raise InvalidValueError("objective", allowed, objective)
        self._objective, self._settings = objective, settings
        self.counts_items = objective == "interest"
        self._bit_generator, self._rng = own_generator(rng)
        self._slot_table, self._arrivals, self._state_index = SlotTable(), Arrivals(), StateIndex()
        self._last = np.full(self._slot_table.capacity, np.nan)
        """Time of each site's last poll, UTC epoch s; nan: never."""
        self._arrivals.grow(self._slot_table.capacity)
        self._learner = Learner(0, self._settings)
        self._noise = np.zeros(0)
        """Noise on each position's margin until the next step, in units of the law's width, float64[positions]."""
        self._step: Transition | None = None
        """The last step; learned from at the next, when its outcome is known."""
        self._stored: dict[str, NDArray[Any]] | None = None
        self._rows_to_place: dict[int, NDArray[np.float64]] = {}
        """Arrays and rows of a restored state; applied before the next use."""

    # --- sites ---------------------------------------------------------------------------------------------------

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        self._slot_table.admit_at_most(MAX_SITES, slots, floats("weight", weight).size, NAME)

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
        self._arrivals.grow(self._slot_table.capacity)
        self._last = np.concatenate([self._last, np.full(self._slot_table.capacity - len(self._last), np.nan)])
        self._last[slots] = np.nan
        self._arrivals.forget(slots)
        self._state_index.take(slots)
        self._learner.grow(self._state_index.number)
        self._noise = np.append(self._noise, np.zeros(self._state_index.number - len(self._noise)))
        if self._step is not None:
            self._step = self._step.with_positions(self._state_index.number)

    def set_items_shown(self, slots: NDArray[np.int64], items: NDArray[np.float64]) -> None:
        self._slot_table.set_items_shown(slots, items)

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._bind()
        slots = self._slot_table.remove(slots)
        left = self._state_index.release(slots)
        self._learner.forget(left)
        self._noise[left] = 0.0
        if self._step is not None:
            self._step = self._step.without(left)

    # --- choosing ------------------------------------------------------------------------------------------------

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        self._bind()
        elapsed = self._slot_table.check_elapsed(elapsed)
        out = np.full(len(elapsed), -np.inf)
        slots, positions = self._state_index.pairs()
        if len(slots):
            observation = self._observation(now)
            amplitude, filled = self._ceiling_and_filled(slots, np.fmax(elapsed[slots], 0.0))
            waiting = amplitude * filled
            noise = self._noise[positions] * (observation.scale / self._settings.sharpness)
            margin = waiting - self._learner.thresholds(observation)[positions] + noise
            priority = np.where(amplitude > 0, margin / self._slot_table.cost[slots], -NEVER_POLLED)
            out[slots] = np.where(np.isposinf(elapsed[slots]), NEVER_POLLED, priority)
        return out

    def _rates(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns items per second for `interest`, changes per second else."""
        known = self._arrivals.items if self._objective == "interest" else self._arrivals.changes
        return known(slots, self._cycle())

    def _amplitude_and_rate(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weight, half_life = self._slot_table.weight[slots], self._slot_table.half_life[slots]
        return amplitude_and_rate(self._objective, self._rates(slots), weight, half_life)

    def _observation(self, now: float) -> Observation:
        """Returns the state of each position at `now`, by the times of the last polls; u* for sites never polled."""
        slots, positions = self._state_index.pairs()
        filled, ceiling, low = np.zeros((3, self._state_index.number))
        gap = np.where(np.isnan(self._last[slots]), np.inf, np.maximum(now - self._last[slots], 0.0))
        with np.errstate(invalid="ignore"):
            ceiling[positions], share = self._ceiling_and_filled(slots, gap)
        filled[positions] = np.nan_to_num(share, nan=0.0)
        epoch = np.full(len(slots), self._cycle()) / max(self._slot_table.size, 1)
        low[positions] = self._ceiling_and_filled(slots, epoch)[1]
        return Observation(filled, ceiling, low)

    def _ceiling_and_filled(
        self, slots: NDArray[np.int64], gap: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns u* and x/u* of slots int64[k] at gap float64[k] s, float64[k] each."""
        ceiling, rate = self._amplitude_and_rate(slots)
        filled = -np.expm1(-rate * gap)
        limited = self._limited(slots)
        if limited.size:
            ceiling, filled = ceiling.copy(), filled.copy()
            of = self._feeds(slots[limited])
            most = most_collected(*of)
            ceiling[limited] = self._slot_table.weight[slots[limited]] * most
            filled[limited] = finite_value(gap[limited], *of) / np.where(most > 0, most, 1.0)
        return ceiling, filled

    def _limited(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the places in slots int64[k] of sites of whose items only the newest are shown, int64[m]."""
        if not self.counts_items or self._slot_table.is_default("items_shown"):
            return np.empty(0, np.int64)
        return np.flatnonzero(~np.isnan(self._slot_table.items_shown[slots]))

    def _feeds(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Returns items per second, decay per second and number of items shown of such slots, float64[m] each."""
        return self._rates(slots), decay_rates(self._slot_table.half_life[slots]), self._slot_table.items_shown[slots]

    def poll_probabilities(self, now: float) -> NDArray[np.float64]:
        """Returns the probabilities at `now` of the slots in use, ascending, to get the next poll, float64[sites].

        With `law="independent"`: the independent probability of each, used for the gradient only.
        """
        self._bind()
        slots, positions = self._state_index.pairs()
        return self._learner.poll_probabilities(self._observation(now))[positions[np.argsort(slots)]]

    def _cycle(self) -> float:
        """Returns the seconds in which the budget polls every site once."""
        return (self._slot_table.total_cost or 1.0) / self.budget

    # --- learning ------------------------------------------------------------------------------------------------

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        self._bind()
        slots, elapsed = self._slot_table.check_polls(slots, elapsed, evidence)
        informative = np.isfinite(elapsed)
        if informative.any():
            self._take_step(slots[informative], elapsed[informative], evidence.take(np.flatnonzero(informative)), now)
        self._last[slots] = now

    def _take_step(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        """Learns from the previous step, whose outcome is the present observation, and stores this one."""
        observation = self._observation(now)
        if self._step is not None:
            self._learner.learn(self._step, observation)
        polled = np.zeros(self._state_index.number, np.bool_)
        polled[self._state_index.of(slots)] = True
        duration = float(self._slot_table.cost[slots].sum()) * self._slot_table.size / self._slot_table.total_cost
        self._step = Transition(observation, polled, self._collected(slots, elapsed, evidence), duration)
        self._arrivals.note(slots, elapsed, evidence, *self._counted(slots, elapsed, evidence))
        if self._settings.law == "shared":
            # The argmax of margins plus Gumbel noise is a draw with probabilities in proportion to e^margin.
            self._noise = self._rng.gumbel(size=self._state_index.number)

    def _collected(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch) -> float:
        """Returns the collected value of the polls."""
        amplitude, rate = self._amplitude_and_rate(slots)
        waiting = amplitude * -np.expm1(-rate * elapsed)
        expected = self._rates(slots) * elapsed
        realised = evidence.changed / np.maximum(-np.expm1(-expected), 1e-12)
        if self._objective == "interest":
            with np.errstate(invalid="ignore", divide="ignore"):
                counted = np.where(expected > 0, evidence.count / expected, 0.0)
            realised = np.where(evidence.count >= 0, counted, realised)
        value = waiting * realised
        limited = self._limited(slots)
        if limited.size:
            some, gap = slots[limited], elapsed[limited]
            of, weight = self._feeds(some), self._slot_table.weight[some]
            changed = realised[limited] * finite_value(gap, *of)
            uncounted = np.where(self._all_new(slots, evidence)[limited], value_if_full(gap, *of), changed)
            value[limited] = np.where(evidence.count[limited] >= 0, value[limited], weight * uncounted)
        return float(value.sum())

    def _all_new(self, slots: NDArray[np.int64], evidence: EvidenceBatch) -> NDArray[np.bool_]:
        """Returns whether all items that a poll of slots int64[k] saw were new, and others may have come, bool[k]."""
        return np.asarray((evidence.count < 0) & (evidence.at_least > 0) & evidence.changed)

    def _counted(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | tuple[None, None]:
        """Returns `items` and `seconds` of `Arrivals.note`; None if no poll is of a site that shows its newest only."""
        limited = self._limited(slots)
        if not limited.size:
            return None, None
        items, seconds = evidence.count.astype(np.float64), elapsed.copy()
        full = limited[self._all_new(slots, evidence)[limited]]
        rates, _, shown = self._feeds(slots[full])
        dated = ~np.isnan(evidence.span[full])
        expected = number_if_full(elapsed[full], rates, np.maximum(shown, 1.0))
        items[full] = np.where(dated, evidence.at_least[full], expected)
        seconds[full] = np.where(dated, evidence.span[full], elapsed[full])
        return items, seconds

    def rates(self) -> NDArray[np.float64]:
        n = self._slot_table.n
        return np.where(self._slot_table.used[:n], self._rates(np.arange(n)), np.nan)

    # --- storage -------------------------------------------------------------------------------------------------

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns position (from 1) and generation, time of the last poll, counts, coefficients: float64 each."""
        self._bind()
        slots = self._slot_table.known(slots)
        positions = self._state_index.of(slots)
        own = np.column_stack([1.0 + positions, self._state_index.generations[positions], self._last[slots]])
        return pack_rows(own, self._arrivals.rows(slots), self._learner.coefficients[positions])

    def shared_state(self) -> bytes:
        """Returns the learned state that sites share, and the pending step."""
        self._bind()
        return pack(NAME, VERSION, self._arrays(self._state_index.generations, self._noise, self._learner, self._step))

    def _arrays(
        self, generations: NDArray[np.int64], noise: NDArray[np.float64], learner: Learner, step: Transition | None
    ) -> dict[str, NDArray[Any]]:
        form = {"form": self._form(), "tickets": generations, "issued": np.array([self._state_index.issued])}
        drawn = {"luck": noise, "random": dump_rng(self._bit_generator)}
        return {**form, **drawn, **learner.state(), **({} if step is None else step.state())}

    def _check(self, kept: dict[str, NDArray[Any]]) -> None:
        """Raises InvalidValueError for a state that `shared_state` cannot have returned."""
        generations = kept.get("tickets", np.zeros(0, np.int64))
        positions = generations.size
        if positions > MAX_SITES or not (generations >= 0).all():
            raise InvalidValueError(
                "shared_state", f"generations of at most {MAX_SITES} positions, 0 or more", generations
            )
        step = Transition.empty(positions) if "step" in kept else None
        same_form(
            kept,
            self._arrays(np.zeros(positions, np.int64), np.zeros(positions), Learner(positions, self._settings), step),
        )
        if not np.array_equal(kept["form"], self._form()):
            raise InvalidValueError("objective and parameters of the state", f"{self._form()}", kept["form"])

    def _form(self) -> NDArray[np.float64]:
        """Returns the settings that must be equal in a stored state and the allocator that restores it."""
        settings = self._settings
        kinds = (G_OBJECTIVES.index(self._objective), REWARDS.index(settings.reward), INVERSES.index(settings.inverse))
        law = (LAWS.index(settings.law), settings.sharpness)
        numbers = (
            settings.start,
            settings.steepness,
            settings.shift,
            settings.gain,
            settings.ascent,
            settings.epsilon,
            settings.delta,
        )
        return np.array([*kinds, *law, *numbers], np.float64)

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        kept = unpack(NAME, VERSION, shared_state)
        self._check(kept)
        rows = self._unpacked(slots, site_state)
        self._stored = kept
        self._rows_to_place.update(zip(slots.tolist(), rows, strict=True))
        self._last[slots] = rows[:, _LAST]
        self._arrivals.put_rows(slots, rows[:, _FOUND])

    def _bind(self) -> None:
        """After `restore`, maybe in chunks: matches every site to its position; sites without one are added as new."""
        if self._stored is None:
            return
        kept, stored_at = self._stored, self._rows_to_place
        self._stored, self._rows_to_place = None, {}
        positions = {slot: (int(row[_POSITION]) - 1, int(row[_GENERATION])) for slot, row in stored_at.items()}
        changed_hands = self._state_index.reassign(positions, kept["tickets"], int(kept["issued"][0]))
        self._learner.load(len(kept["tickets"]), kept)
        self._learner.grow(self._state_index.number)
        self._learner.forget(changed_hands)
        self._noise = np.where(
            changed_hands, 0.0, np.append(kept["luck"], np.zeros(len(changed_hands) - len(kept["luck"])))
        )
        load_rng(self._bit_generator, kept["random"])
        slots = np.array(list(stored_at), np.int64)
        self._learner.coefficients[self._state_index.of(slots)] = [
            stored_at[slot][_COEFFICIENTS] for slot in slots.tolist()
        ]
        self._step = None
        if "step" in kept:
            self._step = Transition.load(kept).with_positions(self._state_index.number).without(changed_hands)

    def _unpacked(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Unpacks stored rows, float64[k, columns]; raises InvalidValueError for foreign rows."""
        rows = unpack_rows(NAME, site_state, len(slots), _COLUMNS)
        for what, column, most in (("position", _POSITION, MAX_SITES), ("generation", _GENERATION, MAX_POLLS)):
            number = rows[:, column]
            whole = (number >= 1) & (number <= most) & (number == np.floor(number))
            all_sound(NAME, f"a {what}, a whole number from 1 to {most:g}", whole, number)
        last, coefficients = rows[:, _LAST], rows[:, _COEFFICIENTS]
        known = np.asarray(np.isnan(last) | (np.abs(last) <= NEVER_POLLED_S))
        all_sound(NAME, "a last poll within 10^18 s, or nan", known, last)
        all_sound(NAME, f"{SOUND}, and as many counts of items", self._arrivals.sound(rows[:, _FOUND]), rows[:, _FOUND])
        all_sound(NAME, f"coefficients within {_LARGEST:g}", np.abs(coefficients) <= _LARGEST, coefficients)
        return rows
