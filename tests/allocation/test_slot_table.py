"""The roster's figures follow its rows, however they come and go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pollerd.allocation import slots
from pollerd.allocation.slots import SlotTable


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), plain=st.booleans())
def test_figures_are_those_of_the_rows_in_use(seed: int, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "ROWS_AT_A_TIME", 3)
    rng, table = np.random.default_rng(seed), SlotTable()
    for _ in range(12):
        free = np.flatnonzero(~table.used)
        some = rng.choice(free, rng.integers(0, 9), replace=False)
        cost = np.ones(len(some)) if plain else rng.uniform(0.1, 5.0, len(some))
        table.add(some, np.ones(len(some)), cost, None)
        used = np.flatnonzero(table.used)
        table.remove(rng.choice(used, rng.integers(0, len(used) + 1), replace=False))
        used = np.flatnonzero(table.used)
        assert (table.n, table.size) == (int(used.max(initial=-1)) + 1, len(used))
        assert table.total_cost == table.cost[used].sum()
