"""What a plan promises is what is learned of in time, where allocators poll at its budget."""

from __future__ import annotations

import numpy as np
import planned
import pytest


@pytest.mark.parametrize("world", planned.WORLDS)
def test_with_known_rates_the_share_comes_out_within_2_hundredths(world: str) -> None:
    found = planned.surplus(world, 0.8, 0.4, 1, learned=False, pages=80)
    assert abs(found) < 0.02


@pytest.mark.parametrize("world", planned.WORLDS)
def test_with_rates_learned_from_20_polls_a_page_within_4(world: str) -> None:
    found = np.mean([planned.surplus(world, 0.8, 0.4, seed, learned=True, pages=80) for seed in (1, 2)])
    assert abs(found) < 0.04


def test_the_objective_decides_the_split_and_the_promise_holds_with_known_rates() -> None:
    runs = [planned.surplus("lognormal", 0.7, 0.5, seed, learned=False, objective="freshness") for seed in (1, 2, 3)]
    assert abs(np.mean(runs)) < 0.02
