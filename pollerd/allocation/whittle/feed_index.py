"""The index under `interest` on learned rates, for sites that show only their newest items.

The formulas are those of `core.objectives.finite_feeds`. Unlike the index of other sites this one is not linear in the
rate: a feed that may be fast may be full soon. So it is the expectation over the belief, which is exact if the rate
holds over the gap. Rates of less than a ten thousandth of the belief are left out, as most are after some
polls.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.objectives.finite_feeds import finite_index, most_collected
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.whittle.age_split import Part
from pollerd.allocation.whittle.rate_model.belief import Belief

Array = NDArray[np.float64]
Rows = NDArray[np.floating]
_NEGLIGIBLE = 1e-4


class FeedIndex:
    """Indices of the sites whose number of items is known; those of others stay as they are."""

    def __init__(self, slot_table: SlotTable, belief: Belief) -> None:
        self._slot_table, self._belief = slot_table, belief

    @property
    def any_limited(self) -> bool:
        """Whether the number of items of any site was ever known."""
        return not self._slot_table.is_as_ever("items_shown")

    def limited(self, part: Part) -> NDArray[np.int64]:
        """Returns the places in `part` of slots whose number of items is known, int64[m]."""
        return np.flatnonzero(~np.isnan(self._slot_table.items_shown[part]))

    def index(self, part: Part, gap: Array, rows: Rows, decay: Array, index: Array) -> Array:
        """Returns the index float64[k] for weight and cost 1 with that of feeds in place of `index`, which has none.

        gap float64[k] s; rows float32[k, K], beliefs; decay float64[k], 1/s.
        """
        here, slots, items = self._here(part)
        if here.size:
            some_gap, some_decay = gap[here], decay[here]
            index[here] = self._mean(
                slots, rows[here], lambda of, rates: finite_index(some_gap[of], rates, some_decay[of], items[of])
            )
        return index

    def gain(self, part: Part, rows: Rows, price: Array, better: Array, often: Array) -> tuple[Array, Array]:
        """Returns what a poll of better sites would gain over price float64[k, 1], and how often at most, in 1/s.

        float64[k] each, with those of feeds in place of `better` and `often`, whose rates of decay are given there:
        a poll gains nothing more often than items fade or a feed fills.
        """
        here, slots, items = self._here(part)
        if not here.size:
            return better, often
        decay, least = often[here], price[here, 0]
        often = often.copy()
        better[here] = self._mean(
            slots,
            rows[here],
            lambda of, rates: np.maximum(most_collected(rates, decay[of], items[of]) - least[of], 0.0),
        )
        often[here] += self._mean(slots, rows[here], lambda _, rates: rates) / items
        return better, often

    def _here(self, part: Part) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Returns places int64[m] in the part, their slots int64[m], and numbers of items float64[m]."""
        here = self.limited(part)
        slots = here + part.start if isinstance(part, slice) else part[here]
        return here, slots, self._slot_table.items_shown[slots]

    def _mean(self, slots: NDArray[np.int64], rows: Rows, value: Callable[[NDArray[np.int64], Array], Array]) -> Array:
        """Returns the expectation float64[m] of a function of the rate, by beliefs float32[m, K] and the common rate.

        value: of places int64[j] in slots, and a rate in 1/s for each, float64[j].
        """
        belief, common = self._belief, self._belief.common_rate
        own = _expected(rows, belief.rates * belief.factor(slots)[:, None], value)
        if common.weight == 1.0:
            return own
        shape = (len(slots), len(belief.rates))
        pooled = _expected(np.broadcast_to(common.cells, shape), np.broadcast_to(belief.rates, shape), value)
        return np.asarray(common.weight * own + (1.0 - common.weight) * pooled)


def _expected(rows: Rows, rates: Array, value: Callable[[NDArray[np.int64], Array], Array]) -> Array:
    """Returns the expectation float64[m] of a function of rates [m, K] under distributions [m, K]."""
    place, cell = np.nonzero(rows > _NEGLIGIBLE)
    mass = rows[place, cell].astype(np.float64)
    total = np.bincount(place, mass, len(rows))
    return np.asarray(np.bincount(place, mass * value(place, rates[place, cell]), len(rows)) / total)
