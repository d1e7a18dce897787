"""The experiment on `gpoks` where pages change places: its sweep, its scores, its claims."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from pollerd.lab.experiments.experiment import RunOutcome, Size
from pollerd.lab.experiments.gpoks.switching import (
    FLAT,
    FORGETTING,
    GROUPED,
    MIN_GROUPED,
    POLICIES,
    WEBS,
    GpoksSwitching,
)
from pollerd.lab.experiments.results import Results

ASKED = GpoksSwitching()
QUICK = "2 pages, .90/.10, switching"


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_policy_meets_every_web_of_the_size(size: Size) -> None:
    cells = ASKED.cells(size)
    assert len({cell.key for cell in cells}) == len(cells)
    webs = [web for web, place in WEBS.items() if place.ends(size)]
    assert {cell["web"] for cell in cells} == set(webs)
    for web in webs:
        names = {cell["entrant"] for cell in cells if cell["web"] == web}
        assert names == (set(POLICIES) if WEBS[web].zipf.pages >= MIN_GROUPED else set(POLICIES) - {GROUPED})
    assert {bool(WEBS[web].zipf.switch_every) for web in webs} == {True, False}


def test_a_quick_run_has_a_share_of_each_interval() -> None:
    wanted = [cell for cell in ASKED.cells("quick") if cell["web"] == QUICK]
    found = {cell: [ASKED.run(cell, np.random.SeedSequence(run), "quick") for run in (1, 2)] for cell in wanted}
    results = Results(ASKED, "quick", found)
    assert results.columns == ["0-10", "10-40"]
    assert all(0.3 < each.value < 1.3 for each in results.estimates.values())


def told(shares: Mapping[str, tuple[float, float]]) -> dict[str, bool]:
    """Whether each claim of the quick size holds, if policies had these shares in two runs; others .9 in all."""
    outcomes = {
        cell: [
            RunOutcome({"0-10": 0.9, "10-40": share} if WEBS[cell["web"]].quick > 10 else {"0-10": share})
            for share in shares.get(cell["entrant"], (0.9, 0.9))
        ]
        for cell in ASKED.cells("quick")
    }
    return {claim.text: claim.holds for claim in ASKED.claims(Results(ASKED, "quick", outcomes))}


def test_claims_compare_beyond_the_errors() -> None:
    ahead = told({FORGETTING: (0.95, 0.95), GROUPED: (0.95, 0.95)})
    assert all(ahead.values())
    level = told({})
    assert {text for text, holds in level.items() if not holds} == {text for text in level if "finds more" in text}
    assert not any(told({FORGETTING: (0.8, 0.8), FLAT: (0.9, 0.9), GROUPED: (0.7, 0.7)}).values())
    in_doubt = told({FORGETTING: (0.80, 0.98), GROUPED: (0.7, 0.7)})
    assert {text for text, holds in in_doubt.items() if holds} == {
        text for text in in_doubt if "forgetting does" in text
    }
