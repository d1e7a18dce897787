"""What a request brings: equation (11) of [C]."""

from __future__ import annotations

from enum import Enum


class Finding(Enum):
    """What a request of a document came to."""

    FIRST = "first"
    """Retrieved for the first time."""
    MODIFIED = "modified"
    DELETED = "deleted"
    SAME = "same"


def reward(finding: Finding, before: float, after: float) -> float:
    """The reward g of a request, equation (11): >= 0.

    before: the document's last relevance score r_k, after: that of this request, r_{k+1}; both >= 0. A document that is
    left alone brings 0.
    """
    if finding is Finding.FIRST:
        return after
    if finding is Finding.MODIFIED:
        return max(before, after)
    return before if finding is Finding.DELETED else 0.0
