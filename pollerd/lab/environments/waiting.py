"""How long every change of a simulated web waited for the poll that found it, and the best that known rates allow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.objectives import TimelySites
from pollerd.lab.environments.changes import Changes
from pollerd.lab.environments.driving import Record


@dataclass(frozen=True)
class Waits:
    """All changes of a run: `at` float64[m], when it happened, `found` float64[m], when a poll came, inf: none.

    In steps. `end`: the last step. Changes that one poll found together count each.
    """

    at: NDArray[np.float64]
    found: NDArray[np.float64]
    end: float

    def pending(self, edges: Sequence[int]) -> NDArray[np.float64]:
        """Returns the mean number of changes that waited, in each interval that ends at `edges`, float64[k].

        By Little's law, divided by the changes per step, it is the mean delay in steps.
        """
        ends = np.concatenate([[0.0], np.asarray(edges, np.float64)])
        return np.array(
            [
                np.clip(np.minimum(self.found, high) - np.maximum(self.at, low), 0, None).sum() / (high - low)
                for low, high in itertools.pairwise(ends)
            ]
        )

    def in_time(self, edges: Sequence[int], deadline: float) -> NDArray[np.float64]:
        """Returns the share of the changes in each interval that were found within `deadline` steps, float64[k].

        Changes in the last `deadline` steps are left out: it is not known yet. nan where there are none.
        """
        ends = np.concatenate([[0.0], np.asarray(edges, np.float64)])
        known = self.at + deadline <= self.end
        each = np.searchsorted(ends, self.at, "left") - 1
        good = self.found - self.at <= deadline
        total = np.bincount(each[known], minlength=len(edges)).astype(np.float64)
        in_time = np.bincount(each[known & good], minlength=len(edges))
        return np.asarray(np.divide(in_time, total, out=np.full(len(edges), np.nan), where=total > 0))


def waits(record: Record, changes: Changes) -> Waits:
    """Returns the waits of all changes of a web that nobody polled yet, had it been polled as recorded."""
    end = float(len(record.page))
    page, at = changes.every(end)
    order = np.argsort(record.page, kind="stable")
    polled, when = record.page[order].astype(np.int64), order + 1.0
    # pages one after the other on one axis: exact, as there are fewer than 2^53 / 2^20 pages and steps together
    place = np.searchsorted(polled * (end + 1.0) + when, page * (end + 1.0) + at, "left")
    inside = place < len(order)
    place = np.minimum(place, len(order) - 1)
    same = inside & (polled[place] == page)
    return Waits(at, np.where(same, when[place], np.inf), end)


def expected_pending(record: Record, rates: NDArray[np.float64], edges: Sequence[int]) -> NDArray[np.float64]:
    """Returns the expected `Waits.pending` given the polls alone, for constant rates float64[n] per step.

    It excludes the randomness of changes: a page that was polled s steps ago has λ s changes that wait.
    """
    at, steps = np.arange(1.0, len(record.page) + 1.0), float(len(record.page))
    last = np.zeros(len(rates))
    np.maximum.at(last, record.page, at)
    rate = np.concatenate([rates[record.page], rates])
    begin, end = np.concatenate([at - record.gap, last]), np.concatenate([at, np.full(len(rates), steps)])
    ends = np.concatenate([[0.0], np.asarray(edges, np.float64)])
    out = []
    for low, high in itertools.pairwise(ends):
        first, second = np.clip(low - begin, 0.0, end - begin), np.clip(high - begin, 0.0, end - begin)
        out.append(float((rate * (second**2 - first**2) / 2).sum()) / (high - low))
    return np.array(out)


def least_pending(rates: NDArray[np.float64]) -> float:
    """Returns the smallest mean number of waiting changes that one poll a step allows; rates float64[n] per step.

    No policy that does not know when pages change does better: of all gaps with one mean, even ones have the smallest
    mean square.
    """
    return -_best(rates, None)


def most_in_time(rates: NDArray[np.float64], deadline: float) -> float:
    """Returns the largest share of changes that one poll a step finds within `deadline` steps.

    A bound for every policy that does not know when pages change: a poll covers at most the deadline before it.
    """
    return _best(rates, np.full(len(rates), deadline)) / float(rates.sum())


def _best(rates: NDArray[np.float64], deadline: NDArray[np.float64] | None) -> float:
    sites = TimelySites(rates, np.ones(len(rates)), np.zeros(len(rates)), deadline)
    return sites.value(sites.split(1.0)[1])
