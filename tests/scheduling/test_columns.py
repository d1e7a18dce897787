"""Columns grow in place where nobody looks at them, and never move under one who does."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from pollerd.allocation.whittle.belief import Belief
from pollerd.allocation.whittle.priors import LearningSettings
from pollerd.columns import lengthen
from pollerd.scheduling.sites import SiteTable


def test_rows_are_kept_and_new_ones_hold_the_value() -> None:
    columns = {"rows": np.arange(6, dtype=np.float16).reshape(3, 2)}
    lengthen(columns, "rows", 2, 9)
    assert columns["rows"].dtype == np.float16
    assert columns["rows"].tolist() == [[0, 1], [2, 3], [4, 5], [9, 9], [9, 9]]


@pytest.fixture
def nobody_looks() -> Iterator[None]:
    """A tracer (that of coverage) looks at all that a function holds."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


@pytest.mark.usefixtures("nobody_looks")
def test_tables_that_nobody_looks_at_grow_without_a_second_copy() -> None:
    sites, belief = SiteTable(), Belief(100.0, LearningSettings())
    belief.grow(10)
    before = id(sites.site_id), id(sites.last_poll), id(belief.likelihood)
    sites.grow(1_000_000)
    belief.grow(100_000)
    assert (id(sites.site_id), id(sites.last_poll), id(belief.likelihood)) == before


def test_who_looks_at_rows_that_grow_sees_them_as_they_were() -> None:
    columns = {"rows": np.arange(1_000)}
    seen = columns["rows"][10:20]
    lengthen(columns, "rows", 1_000_000, -1)
    assert seen.tolist() == list(range(10, 20))
    assert columns["rows"][:1_000].tolist() == list(range(1_000))
    assert columns["rows"][-1] == -1


def test_without_room_nothing_is_lost() -> None:
    columns = {"rows": np.arange(1_000)}
    with pytest.raises(MemoryError):
        lengthen(columns, "rows", 10**17, 0)
    assert columns["rows"].tolist() == list(range(1_000))


def test_a_table_that_grows_under_a_view_keeps_all_rows() -> None:
    sites = SiteTable()
    sites.add(np.arange(1, 51))
    looked_at = sites.site_id[:50]
    sites.put("weight", 3, 2.5)
    sites.add(np.arange(51, 200_001))
    assert looked_at.tolist() == list(range(1, 51))
    assert sites.site_id[:200_000].tolist() == list(range(1, 200_001))
    assert sites.weight[3] == 2.5
    assert (sites.weight[4:200_000] == 1.0).all()
    assert sites.is_default("cost")
