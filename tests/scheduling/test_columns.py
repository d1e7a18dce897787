"""Columns grow in place where nobody looks at them, and never move under one who does."""

from __future__ import annotations

import numpy as np

from pollerd.columns import lengthened
from pollerd.scheduling.sites import SiteTable


def test_rows_are_kept_and_new_ones_hold_the_value() -> None:
    rows = lengthened(np.arange(6, dtype=np.float16).reshape(3, 2), 2, 9)
    assert rows.dtype == np.float16
    assert rows.tolist() == [[0, 1], [2, 3], [4, 5], [9, 9], [9, 9]]


def test_what_nobody_looks_at_grows_without_a_second_copy() -> None:
    columns = {"rows": np.ones(1_000)}
    same = id(columns["rows"])
    columns["rows"] = lengthened(columns.pop("rows"), 1_000_000, 0.0)
    assert id(columns["rows"]) == same


def test_who_looks_at_rows_that_grow_sees_them_as_they_were() -> None:
    columns = {"rows": np.arange(1_000)}
    seen = columns["rows"][10:20]
    columns["rows"] = lengthened(columns.pop("rows"), 1_000_000, -1)
    assert seen.tolist() == list(range(10, 20))
    assert columns["rows"][:1_000].tolist() == list(range(1_000))
    assert columns["rows"][-1] == -1


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
    assert sites.is_as_ever("cost")
