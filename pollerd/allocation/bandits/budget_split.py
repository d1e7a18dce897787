"""Bandits whose arms are splits of the budget between two sites: `ucb1`, `thompson`, `gp-ucb` ([B] 5.3.1, 7.2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.bandits.arms import Arms
from pollerd.allocation.bandits.gp_ucb import GpUcb
from pollerd.allocation.bandits.thompson import Thompson
from pollerd.allocation.bandits.ucb1 import Ucb1
from pollerd.allocation.core.periodic import Periodic
from pollerd.allocation.slots.poll_counts import MOST_POLLS
from pollerd.allocation.slots.rng_state import dump_rng, load_rng, own_generator
from pollerd.allocation.slots.validation import floats, put, whole
from pollerd.errors import InvalidValueError

MOST_SITES = 2


@dataclass(frozen=True)
class MixtureSettings:
    """points: number of amounts from 0 to 1 for the splits, 3 to 1,001; the two ends are not arms."""

    points: int = 101

    def __post_init__(self) -> None:
        put(self, points=whole("points", self.points, 3, 1001))

    @property
    def amounts(self) -> NDArray[np.float64]:
        """Amount of the first site at each arm, float64[points - 2], from `1 / (points - 1)` up."""
        return np.arange(1, self.points - 1) / (self.points - 1)


class MixtureBandit(Periodic):
    """Pulls one of 99 arms, the splits (.01, .99) to (.99, .01), for each poll; earliest deadline first.

    The poll's result, 1 for a change and 0 for none, is the reward of the arm in use. With three sites there would be
    4,950 arms and with five 3.9 million ([B] table 5.2), so it accepts at most two sites; for a third, `add` and
    `admit` raise InvalidValueError. When a site is added or removed, the player starts over.

    A choice costs O(1), a poll one pull of one of m = points - 2 arms: O(m), with GP-UCB O(m r²) for its r features.
    Only for the objective `changes` and sites of equal weight and cost: others raise InvalidValueError. It does not
    estimate rates.
    """

    most_sites = MOST_SITES
    PLAYER: ClassVar[type[Arms]]
    _FIELDS = 0
    _VARYING = ("counts", "sums")

    def __init__(self, budget: float, settings: MixtureSettings, rng: np.random.Generator) -> None:
        super().__init__(budget)
        self._amounts = settings.amounts
        self._bit_generator, self._rng = own_generator(rng)
        self._nothing = np.zeros((0, 0))
        self._start()

    def _start(self) -> None:
        self._arms = self.PLAYER(len(self._amounts))
        self._arm = self._arms.choose(self._rng)

    # --- sites ---------------------------------------------------------------------------------------------------

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        self._slot_table.admit_at_most(MOST_SITES, slots, floats("weight", weight).size, self.NAME)
        super().admit(slots, weight, cost)

    def _forget(self, slots: NDArray[np.int64]) -> None:
        super()._forget(slots)
        if len(slots):
            self._start()

    def _grow(self, capacity: int) -> None:
        self._nothing = np.zeros((capacity, 0))

    def _rows(self) -> NDArray[np.float64]:
        return self._nothing

    # --- choosing and learning -----------------------------------------------------------------------------------

    def _periods(self) -> NDArray[np.float64]:
        slots, every = np.flatnonzero(self._slot_table.used), np.full(self._slot_table.n, np.inf)
        first = self._amounts[self._arm] if len(slots) == MOST_SITES else 1.0
        every[slots] = 1.0 / (self.budget * np.array([first, 1.0 - first])[: len(slots)])
        return every

    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        for found in changed.tolist():
            self._arms.learn(self._arm, float(found))
            self._arm = self._arms.choose(self._rng)

    # --- storage -------------------------------------------------------------------------------------------------

    def _shared(self) -> dict[str, NDArray[Any]]:
        return {
            "arm": np.array([self._arm]),
            "counts": self._arms.counts,
            "sums": self._arms.sums,
            "random": dump_rng(self._bit_generator),
        }

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        number = len(self._amounts)
        counts, sums = kept["counts"], kept["sums"]
        if len(counts) != number or len(sums) != number or not 0 <= kept["arm"][0] < number:
            raise InvalidValueError("shared_state", f"{number} arms", f"{len(counts)} arms")
        if not ((sums >= 0) & (sums <= counts) & (counts <= MOST_POLLS)).all():
            raise InvalidValueError("shared_state", "rewards from 0 to 1 for each pull", "others")
        self._arm, self._arms.counts, self._arms.sums = int(kept["arm"][0]), counts, sums
        load_rng(self._bit_generator, kept["random"])


class Ucb1Splits(MixtureBandit):
    """Splits chosen by UCB-1.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("ucb1", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([1])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    NAME = "ucb1"
    PLAYER = Ucb1


class ThompsonSplits(MixtureBandit):
    """Splits chosen by Thompson sampling.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("thompson", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    NAME = "thompson"
    PLAYER = Thompson


class GpUcbSplits(MixtureBandit):
    """Splits chosen by GP-UCB, which treats neighbouring splits as similar.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("gp-ucb", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([1])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    NAME = "gp-ucb"
    PLAYER = GpUcb


BANDITS: tuple[type[MixtureBandit], ...] = (Ucb1Splits, ThompsonSplits, GpUcbSplits)
