"""Evidence from polls, as arrays, and the learned quality of a source of signals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.shown import SHOWN, Known


@dataclass(frozen=True)
class EvidenceBatch:
    """Evidence from k polls of k sites. The strongest evidence given is used: count, then age, then changed.

    changed : bool[k], something changed over the gap since the last informative poll.
    age : float64[k] s since the last change, >= 0, nan where unknown; None: all nan.
    count : int64[k] number of new items, -1 where unknown; None: all -1.
    at_least : int64[k] number of new items that a feed showed, -1 where unknown; None: all -1. Where `count` is unknown
        all that it showed were new, and more may have come. A policy may ignore it.
    span : float64[k] s in which the `at_least` items came, by their dates, > 0; nan: in the gap; None: all nan. At a
        first poll both are evidence, too.
    """

    changed: NDArray[np.bool_]
    age: NDArray[np.float64] = None  # type: ignore[assignment]
    count: NDArray[np.int64] = None  # type: ignore[assignment]
    at_least: NDArray[np.int64] = None  # type: ignore[assignment]
    span: NDArray[np.float64] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        changed = np.asarray(self.changed, np.bool_)
        given_age: NDArray[np.float64] | None = self.age
        given_count: NDArray[np.int64] | None = self.count
        if changed.ndim != 1:
            raise InvalidValueError("changed", "one-dimensional", changed.shape)
        k = len(changed)
        age = np.full(k, np.nan) if given_age is None else np.asarray(given_age, np.float64)
        count = np.full(k, -1, np.int64) if given_count is None else np.asarray(given_count, np.int64)
        if age.shape != (k,) or (age < 0).any():
            raise InvalidValueError("age", f"{k} values >= 0 s or nan", self.age)
        if count.shape != (k,) or (count < -1).any():
            raise InvalidValueError("count", f"{k} values >= 0, or -1", self.count)
        given_least: NDArray[np.int64] | None = self.at_least
        given_span: NDArray[np.float64] | None = self.span
        at_least = np.full(k, -1, np.int64) if given_least is None else np.asarray(given_least, np.int64)
        span = np.full(k, np.nan) if given_span is None else np.asarray(given_span, np.float64)
        if at_least.shape != (k,) or (at_least < -1).any():
            raise InvalidValueError("at_least", f"{k} values >= 0, or -1", given_least)
        if span.shape != (k,) or (span <= 0).any():
            raise InvalidValueError("span", f"{k} values > 0 s or nan", given_span)
        object.__setattr__(self, "at_least", at_least)
        object.__setattr__(self, "span", span)
        object.__setattr__(self, "changed", changed)
        object.__setattr__(self, "age", age)
        object.__setattr__(self, "count", count)

    def __len__(self) -> int:
        return len(self.changed)

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether each poll found a change, bool[k]."""
        return np.where(self.count >= 0, self.count > 0, self.changed)

    def take(self, rows: NDArray[np.int64] | slice) -> EvidenceBatch:
        """Selects rows, in the given order."""
        if isinstance(rows, slice) and len(self.changed[rows]) == len(self):
            return self
        return EvidenceBatch(self.changed[rows], self.age[rows], self.count[rows], self.at_least[rows], self.span[rows])

    def without_items(self, rows: NDArray[np.bool_]) -> EvidenceBatch:
        """Returns the evidence without `at_least` and `span` where `rows`, bool[k], is True."""
        if not (rows & (self.at_least >= 0)).any():
            return self
        return EvidenceBatch(
            self.changed, self.age, self.count, np.where(rows, -1, self.at_least), np.where(rows, np.nan, self.span)
        )


PUSHED, ELSEWHERE = -1, -2
"""In place of the slot whose polls read a source: it speaks by itself; others read it."""


@dataclass(frozen=True, slots=True)
class SourceQuality:
    """What the allocator learned of a source of signals from the polls of its pages."""

    __pydantic_config__ = SHOWN
    recall: float
    """Share of the changes that it signals."""
    precision: float
    """Share of its signals behind which a change stands."""
    false_rate: float
    """False signals per second and page."""
    delay: Known
    """Seconds from a change to its signal; nan, in REST null: not known."""
    say: float
    """How far it is trusted, 0 (not at all) to 1."""
    polls: float
    """Polls of its pages from which this was learned, with forgetting."""
