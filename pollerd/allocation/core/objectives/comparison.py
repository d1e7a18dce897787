"""How soon changes are found at given periods, under the present belief: for objectives that are about that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.delays import typical_rates
from pollerd.allocation.core.objectives.timeliness import deadline_value, delay_value

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ComparedPolicies:
    """One figure for polling as scheduled, round robin, and the best split; None: none of them is known."""

    as_scheduled: float | None
    uniform: float | None
    best: float | None


@dataclass(frozen=True, slots=True)
class ExpectedTimeliness:
    """Over all expected changes, by the weights of their sites."""

    delay: ComparedPolicies
    """Mean s from a change to its detection; None where a site that changes is never polled."""
    in_time: ComparedPolicies
    """Share that is found within the sites' deadlines."""
    changes: float
    """Weighted changes per second, over which the figures are means."""


def timeliness(
    belief: tuple[Array, Array], weight: Array, deadline: Array, periods: tuple[Array, Array, Array]
) -> ExpectedTimeliness | None:
    """Returns the figures at three sets of periods float64[k] s, as in `ComparedPolicies`; None without changes.

    belief: of `Allocator.belief_of`; weight, deadline (s): float64[k]. A site's changes are counted by the median of
    its rate, as in plans.
    """
    changes = weight * np.nan_to_num(typical_rates(belief))
    total = float(changes.sum())
    if not total > 0:
        return None
    never = [bool(np.isinf(every[changes > 0]).any()) for every in periods]
    delays = [float(-delay_value(every, changes).sum()) / total for every in periods]
    shares = [float(deadline_value(every, changes, deadline).sum()) / total for every in periods]
    delay = (None if is_never else value for is_never, value in zip(never, delays, strict=True))
    return ExpectedTimeliness(ComparedPolicies(*delay), ComparedPolicies(*shares), total)
