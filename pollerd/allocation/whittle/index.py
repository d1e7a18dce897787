"""The index on learned rates, by objective, and the estimates of rates from beliefs, refined within the lattice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.finite_feeds import GammaTable, finite_index
from pollerd.allocation.index import g
from pollerd.allocation.objectives import CLOCK_ERROR_S, deadline_index, deadlines, delay_index
from pollerd.allocation.slots import SlotTable
from pollerd.allocation.whittle.belief import Belief
from pollerd.allocation.whittle.lazy_top_k import Part

_ROWS_AT_A_TIME = 16_384
_FEW_CHANGES, _MANY_CHANGES = 0.01, 40.0
"""Expected changes below which two terms of the series suffice, and above which a change is certain."""


def mean_rates(belief: Belief, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns mean rates (1/s) of slots int64[k], as of their last polls, float64[k]."""
    out = np.empty(len(slots))
    for at in range(0, len(slots), _ROWS_AT_A_TIME):
        some = slots[at : at + _ROWS_AT_A_TIME]
        out[at : at + len(some)] = (belief.posterior(some) * belief.rates).sum(1) * belief.factor(some)
    return out


def rate_interval(
    belief: Belief, slots: NDArray[np.int64], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns central credible intervals of rates (1/s) of slots int64[k], (low, high), float64[k]; 0 < level < 1."""
    low, high = belief.refinement.interval(slots, belief.posterior(slots), level, belief.lattice)
    return belief.lattice.at(low), belief.lattice.at(high)


def fine_posterior(belief: Belief, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns rates float64[1, J] (1/s), the lattice's and midpoints, and posteriors of slots int64[k], float64[k, J].

    As of their last polls. Mass between two rates is split so that its mean is preserved.
    """
    posterior, rates = belief.posterior(slots), belief.lattice.fine_rates
    edges, cells = rates[::2], rates[1::2]
    by = belief.factor(slots)[:, None]
    up, down = (by - 1.0) / (edges[1:] / cells - 1.0), (1.0 - by) / (1.0 - edges[:-1] / cells)
    above, below = posterior * np.clip(up, 0.0, 1.0), posterior * np.clip(down, 0.0, 1.0)
    out = np.zeros((len(slots), len(rates)))
    out[:, 1::2] = posterior - above - below
    out[:, 2::2] = above
    out[:, :-1:2] += below
    return rates[None], out


def change_probability(belief: Belief, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the probability float64[k] that polls of slots int64[k] find a change, after elapsed float64[k] s.

    On the activity clock as of the last poll of any site.
    """
    gap = belief.clock.gap(elapsed, belief.now)
    seen = -np.expm1(-(gap * belief.factor(slots))[:, None] * belief.rates)
    return np.asarray((belief.predicted_rows(slots, gap) * seen).sum(1))


def change_probabilities(belief: Belief, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `change_probability` of slots int64[k] after m gaps each, elapsed float64[k, m] s: float64[k, m].

    Reads the belief of a slot once for all its gaps, which is most of the work.
    """
    gap = belief.clock.gap(elapsed.ravel(), belief.now).reshape(elapsed.shape)
    expected = (gap * belief.factor(slots)[:, None]).astype(np.float32)[:, :, None] * belief.rates.astype(np.float32)
    return belief.predicted_sums(slots, gap, _chance_of_any(expected))


def _chance_of_any(expected: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns 1 - exp(-expected), any shape, to a part in 10,000, in a fraction of the time of `expm1`."""
    few = expected * (1.0 - 0.5 * expected)
    return np.where(expected < _FEW_CHANGES, few, 1.0 - np.exp(-np.minimum(expected, _MANY_CHANGES)))


# Exploration under `interest`, in which polls have to be spent to learn if news fades quickly.
#
# With half-lives far below the uniform cycle few pages are worth their polls, and a learner that goes by mean rates
# keeps polling the first good ones it found: the others look average and are hardly ever polled again. So each page has
# an exploration bonus, its claim, for how much its value may exceed the price θ of a poll. A page of amplitude A > θ
# yields A - θ more with each poll spent on it, up to X polls a second. It is assumed to do so for a share of the time
# since its last poll: so the cost of exploration stays small relative to its return, disappointing pages are polled at
# ever longer gaps, and no horizon has to be known. With rate λ and gap τ:
#
#     claim(τ) = E[(A(λ) - θ)+] · X · ahead · τ,   u = (index + claim) / θ,   index' = max(index, 2 θ u / (1 + u))

_AHEAD = 0.02
"""Assumed duration of the gain from a better page, as a share of the time since its last poll."""
_AHEAD_AT_FIRST = 0.1
"""The same share for a page never polled, for which a poll is most informative."""
_STEP = 0.02
"""Relative step of the price per poll."""
_SAME_PRICE = 0.25
"""Change of the logarithm of the price above which the index is updated."""


def ahead(observed: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns shares float64[k] of the time since the last poll, for pages observed float32[k] times."""
    return np.maximum(_AHEAD, _AHEAD_AT_FIRST / (1.0 + observed.astype(np.float64)))


class Exploration:
    """Tracks the price of a poll: the median of the indices at which sites were polled.

    `price` moves in steps; 0 before the first poll: no exploration.
    """

    def __init__(self) -> None:
        self.price = 0.0
        self._followed = 0.0

    def observe(self, index: NDArray[np.float64]) -> bool:
        """Updates with the indices float64[k] >= 0 without bonuses at which sites were polled, in order.

        Returns whether `price` moved.
        """
        for value in index.tolist():
            if not self._followed:
                self._followed = value
            else:
                self._followed *= math.exp(_STEP if value > self._followed else -_STEP)
        if not self._followed or (self.price and abs(math.log(self._followed / self.price)) < _SAME_PRICE):
            return False
        self.price = self._followed
        return True

    def with_claims(
        self,
        index: NDArray[np.float64],
        better: NDArray[np.float64],
        polls: NDArray[np.float64],
        value_per_cost: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Returns the indices float64[k] with the bonuses, float64[k].

        index, better (E[(A - θ)+]) float64[k] for a value of 1; polls float64[k] (X ahead τ); value_per_cost float64[k]
        >= 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            price = self.price / value_per_cost
            many = (index + better * polls) / price
            claimed = np.where(price < np.inf, 2.0 * price * many / (1.0 + many), 0.0)
        return np.fmax(index, claimed)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        return {"price": np.array([self.price, self._followed])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`."""
        self.price, self._followed = (float(x) for x in arrays["price"])


# The index under `interest`, for sites that show only their newest items.
#
# The formulas are those of `allocation/finite_feeds.py`. Unlike the index of other sites this one is not linear in the
# rate: a feed that may be fast may be full soon. So it is the expectation over the belief, which is exact if the rate
# holds over the gap. Rates of less than a ten thousandth of the belief are left out, as most are after some polls. The
# incomplete gamma functions are interpolated (`GammaTable`), but for feeds of very many items.

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Rows = NDArray[np.floating]
_NEGLIGIBLE = 1e-4


class FeedIndex:
    """Finds the sites whose number of items is known; those of others stay as they are."""

    def __init__(self, slot_table: SlotTable, belief: Belief) -> None:
        self._slot_table, self._belief = slot_table, belief
        self._table = GammaTable()

    @property
    def any_limited(self) -> bool:
        """Whether the number of items of any site was ever known."""
        return not self._slot_table.is_default("items_shown")

    def limited(self, part: Part) -> Places:
        """Returns the places in `part` of slots whose number of items is known, int64[m]."""
        return np.flatnonzero(~np.isnan(self._slot_table.items_shown[part]))

    def believed(self, part: Part, rows: Rows, decay: Array) -> BelievedFeeds | None:
        """Returns the feeds in `part` under beliefs rows float32[k, K]; None if there are none. decay float64[k], 1/s.

        Rows may sum to more than 1: bounds of beliefs give bounds of indices.
        """
        here = self.limited(part)
        if not here.size:
            return None
        slots = here + part.start if isinstance(part, slice) else part[here]
        rates = self._rates(slots, rows[here])
        return BelievedFeeds(here, *rates, decay[here], self._slot_table.items_shown[slots], self._table)

    def _rates(self, slots: Places, rows: Rows) -> tuple[Places, Array, Array]:
        """Returns the rates believed in, each with its place in slots int64[m], int64[p], float64[p], and mass.

        Those of the feeds' own beliefs, float32[m, K], and of the common rate.
        """
        belief, common = self._belief, self._belief.common_rate
        place, cell, mass = _not_negligible(rows)
        rates = belief.rates[cell] * belief.factor(slots)[place]
        if common.weight == 1.0:
            return place, rates, mass
        which, pooled_cell, pooled_mass = _not_negligible(common.cells[None])
        number, each = len(slots), len(which)
        return (
            np.concatenate([place, np.repeat(np.arange(number), each)]),
            np.concatenate([rates, np.tile(belief.rates[pooled_cell], number)]),
            np.concatenate([common.weight * mass, np.tile((1.0 - common.weight) * pooled_mass, number)]),
        )


class BelievedFeeds:
    """m feeds with p rates believed in: `place` int64[p] among the feeds, `rates` float64[p], 1/s, `mass` float64[p].

    `here` int64[m]: their places among the sites of a call; decay float64[m], 1/s; items float64[m], what they show.
    """

    def __init__(
        self, here: Places, place: Places, rates: Array, mass: Array, decay: Array, items: Array, table: GammaTable
    ) -> None:
        self._here, self._place, self._rates, self._mass = here, place, rates, mass
        self._decay, self._items, self._table = decay, items, table
        self._amplitude = rates / decay[place]
        self._kept_log = -items[place] * np.log1p(1.0 / self._amplitude)
        """M log ρ of each rate."""

    def index(self, gap: Array, index: Array) -> Array:
        """Returns index float64[k], for weight and cost 1, with that of feeds at gap float64[k] s put in."""
        gap, place = gap[self._here], self._place
        tabulated = self._table.tabulated(self._items)
        first, start = self._table.places(np.where(tabulated, self._items, 1.0))
        first, start = first[place], start[place]
        fading = self._decay * gap
        root = np.sqrt(gap)[place] * np.sqrt(self._rates)
        came = self._table.lower(first, start, root)
        discounted = np.exp(self._kept_log) * self._table.lower(first, start, np.sqrt(root * root + fading[place]))
        each = self._amplitude * (g(fading)[place] * (1.0 - came) + np.maximum(came - discounted, 0.0))
        if not tabulated.all():
            some = np.flatnonzero(~tabulated[place])
            of = place[some]
            each[some] = finite_index(gap[of], self._rates[some], self._decay[of], self._items[of])
        index[self._here] = self._expected(each)
        return index

    def gain(self, price: Array, better: Array, often: Array) -> tuple[Array, Array]:
        """Returns what a poll of better sites would gain over price float64[k, 1], and how often at most, in 1/s.

        float64[k] each, with those of feeds in place of `better` and `often`, whose rates of decay are given there:
        a poll gains nothing more often than items fade or a feed fills.
        """
        most = self._amplitude * -np.expm1(self._kept_log)
        often = often.copy()
        better[self._here] = self._expected(np.maximum(most - price[self._here, 0][self._place], 0.0))
        often[self._here] += self._expected(self._rates) / self._items
        return better, often

    def _expected(self, each: Array) -> Array:
        """Returns the expectation float64[m] of a value of each rate, float64[p]."""
        return np.asarray(np.bincount(self._place, self._mass * each, len(self._here)), np.float64)


def _not_negligible(rows: Rows) -> tuple[Places, Places, Array]:
    """Returns row and column of the shares float32[m, K] that count, int64[p], and these, with the sum of each row."""
    flat = np.flatnonzero(rows > _NEGLIGIBLE)
    place, cell = np.divmod(flat, rows.shape[1])
    mass = rows.ravel()[flat].astype(np.float64)
    mass *= (rows.sum(1) / np.bincount(place, mass, len(rows)))[place]
    return place, cell, mass


# The index under `delay` and `deadline` (docs/objectives.md).
#
# Both are linear in the rate, so the mean rate takes its place. Under `deadline` polls before the deadline gain
# nothing, and all later ones the same: equal indices are common. Spare polls go where most changes would wait longest,
# as under `delay`, and among equal indices of sites that are due the one that has waited longer goes first: it loses
# nothing, and polls are spread over sites about which little is known.

EARLY = 1e-6
"""Index of a site just before its deadline, as a share of that at its deadline."""
_TIE_SLOPE = 1e-6
"""Relative increase of the index of a site that is due, per deadline."""
_MAX_JUMPS = 16
"""Different deadlines told to those who tabulate urgencies."""


class TimelyIndex:
    """Indices of sites whose changes should be found soon.

    deadline: s, of sites without their own; None for `delay`.
    """

    def __init__(self, slot_table: SlotTable, deadline: float | None) -> None:
        self._slot_table, self._usual = slot_table, deadline

    @property
    def has_deadlines(self) -> bool:
        """Whether the objective is `deadline`."""
        return self._usual is not None

    def index(self, part: Part, gap: Array, rates: Array) -> Array:
        """Returns the index of the slots in `part` for weight and cost 1, float64[k], of mean rates float64[k], 1/s."""
        if self._usual is None:
            return delay_index(gap, rates)
        return self.by_deadline(gap, rates, self.deadlines(part))

    def by_deadline(self, gap: Array, rates: Array, deadline: Array) -> Array:
        """Returns the index under `deadline` for weight and cost 1, with polls before it ordered as under `delay`."""
        share = gap / deadline
        early = EARLY * rates * deadline * np.minimum(share, 1.0) ** 2
        return np.asarray(np.maximum(deadline_index(gap, rates, deadline) * (1.0 + _TIE_SLOPE * share), early))

    def deadlines(self, part: Part) -> Array:
        """Returns the deadlines in s of the slots in `part`, float64[k]; inf under `delay`."""
        return deadlines(self._slot_table.deadline[part], math.inf if self._usual is None else self._usual)

    def until_due(self, part: Part, gap: Array) -> Array:
        """Returns the s until the deadlines of the slots in `part` pass, after gaps float64[k] s; inf: they have."""
        left = self.deadlines(part) - gap
        return np.where(left > CLOCK_ERROR_S, left, np.inf)

    def jumps(self) -> Array:
        """Returns gaps at which indices jump, float64[2 m] s, ascending: before and at each deadline in use."""
        if self._usual is None or not self._slot_table.n:
            return np.empty(0)
        n = self._slot_table.n
        at = np.unique(self.deadlines(slice(0, n))[self._slot_table.used[:n]])[:_MAX_JUMPS]
        return np.sort(np.concatenate([at - 4 * CLOCK_ERROR_S, at]))
