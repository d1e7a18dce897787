"""The index under `interest` on learned rates, for sites that show only their newest items.

The formulas are those of `core.objectives.finite_feeds`. Unlike the index of other sites this one is not linear in the
rate: a feed that may be fast may be full soon. So it is the expectation over the belief, which is exact if the rate
holds over the gap. Rates of less than a ten thousandth of the belief are left out, as most are after some polls. The
incomplete gamma functions are interpolated (`gamma_table`), but for feeds of very many items.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import g
from pollerd.allocation.core.objectives.finite_feeds import finite_index
from pollerd.allocation.core.objectives.gamma_table import GammaTable
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.whittle.age_split import Part
from pollerd.allocation.whittle.rate_model.belief import Belief

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
        return not self._slot_table.is_as_ever("items_shown")

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
        there = np.exp(self._kept_log) * self._table.lower(first, start, np.sqrt(root * root + fading[place]))
        each = self._amplitude * (g(fading)[place] * (1.0 - came) + np.maximum(came - there, 0.0))
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
