"""Converts stored rows of frontier pages to the columns that their value is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.crawling.control.frontier_value import FrontierRows, discovered
from pollerd.storage import PageRow


def frontier_rows(rows: Sequence[PageRow]) -> FrontierRows:
    """Returns the rows, at least one, as columns."""
    columns: Any = PageRow._make(zip(*rows, strict=True))
    return FrontierRows(
        urls=columns.url,
        parents=_numbers(columns.parents),
        parents_sum=_numbers(columns.parents_sum),
        parents_best=_numbers(columns.parents_best),
        anchors=_numbers(columns.anchors),
        anchor_sum=_numbers(columns.anchor_sum),
        same_host=np.array([here == there for here, there in zip(columns.host_id, columns.parent_host, strict=True)]),
        child_count=_numbers(columns.child_count),
        children_retrieved=_numbers(columns.children_retrieved),
        children_relevance=_numbers(columns.children_relevance),
    )


def when_discovered(row: PageRow) -> FrontierRows:
    """Returns one row as it was when the page was discovered."""
    known = row.parent_id is not None
    relevance = row.parent_relevance or 0.0
    return discovered(
        [row.url], relevance, np.array([row.anchor]), np.array([row.host_id == row.parent_host]), known=known
    )


def _numbers(values: Any) -> NDArray[np.float64]:
    """Returns a column; missing values become 0."""
    return np.array([value or 0.0 for value in values], np.float64)
