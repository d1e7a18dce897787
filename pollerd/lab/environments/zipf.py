"""Pages ranked by change probability, `p_k = α / k^β` ([A] 4.3.1), with perturbations of the ranking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError

Order = Literal["sorted", "shuffled"]
MAX_PAGES = 1 << 20


@dataclass(frozen=True)
class Zipf:
    """A ranking of pages.

    pages n, 2 to 2^20. alpha: change probability per step of the page of rank 1, above 0, below 1. beta >= 0: skew.
    order: page k has rank k, or ranks are random. swaps: number of swaps of a random page with the page of the next
    rank ([A]'s perturbations), after the order is set. switch_every: in the running web, after this number of polls a
    page drawn in proportion to its p swaps with the next in rank ([A] 4.3.4); 0: never. irregular: the intervals
    between switches are exponential with that mean, in whole polls, and the same in all webs of one `draw`, whatever
    the seed.
    """

    pages: int = 512
    alpha: float = 0.3
    beta: float = 1.5
    order: Order = "sorted"
    swaps: int = 0
    switch_every: int = 0
    # repr is part of the keys of stored runs
    irregular: bool = field(default=False, repr=False)
    draw: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if not 2 <= self.pages <= MAX_PAGES:
            raise InvalidValueError("pages", f"from 2 to {MAX_PAGES}", self.pages)
        if not 0 < self.alpha < 1:
            raise InvalidValueError("alpha", "above 0, below 1", self.alpha)
        if not 0 <= self.beta <= 10:
            raise InvalidValueError("beta", "from 0 to 10", self.beta)
        if self.order not in ("sorted", "shuffled"):
            raise InvalidValueError("order", "sorted or shuffled", self.order)
        if self.swaps < 0:
            raise InvalidValueError("swaps", "at least 0", self.swaps)
        if self.switch_every < 0:
            raise InvalidValueError("switch_every", "at least 0", self.switch_every)
        if self.irregular and not self.switch_every:
            raise InvalidValueError("irregular", "false where ranks do not switch", self.irregular)

    @property
    def by_rank(self) -> NDArray[np.float64]:
        """Change probability per step of the pages of rank 1, 2, …: float64[n], falling."""
        return np.asarray(self.alpha / np.arange(1, self.pages + 1) ** self.beta, np.float64)

    @property
    def optimum(self) -> float:
        """Share of polls that find a change at the optimal split, one poll a step: `1 - Π(1 - p)`.

        Does not depend on order or switching.
        """
        return float(-np.expm1(np.log1p(-self.by_rank).sum()))

    def page_of_rank(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Returns the page of rank 1, 2, …: int64[n].

        A perturbation swaps "the updating probabilities of a randomly selected material and the material succeeding it
        in the ranking" ([A] 4.3.1): a random page swaps with its successor. The last page has none.
        """
        pages = rng.permutation(self.pages) if self.order == "shuffled" else np.arange(self.pages)
        if self.swaps:
            row = pages.tolist()
            for place in rng.integers(0, self.pages - 1, self.swaps).tolist():
                row[place], row[place + 1] = row[place + 1], row[place]
            pages = np.array(row)
        return np.asarray(pages, np.int64)
