"""Reward of a request: equation (11) of [C]."""

from __future__ import annotations

from enum import Enum


class RequestOutcome(Enum):
    """Result of requesting a document."""

    FIRST = "first"
    """Retrieved for the first time."""
    MODIFIED = "modified"
    DELETED = "deleted"
    SAME = "same"


def reward(finding: RequestOutcome, before: float, after: float) -> float:
    """Returns the reward g of a request, equation (11): >= 0.

    before: the document's last relevance score r_k, after: that of this request, r_{k+1}; both >= 0. A document that is
    left has reward 0.
    """
    if finding is RequestOutcome.FIRST:
        return after
    if finding is RequestOutcome.MODIFIED:
        return max(before, after)
    return before if finding is RequestOutcome.DELETED else 0.0
