"""Sites that change always: held to the uniform share; whose changes have to be proven."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.scheduling.min_yield import NoiseCap
from pollerd.scheduling.sites import SiteTable

NOW, PERIOD = 1_000_000.0, 100.0


def table(sites: int = 3) -> SiteTable:
    site_table = SiteTable()
    site_table.add(range(1, sites + 1))
    site_table.last_poll[:sites] = NOW - 1
    for slot in range(sites - 1):
        for _ in range(8):
            site_table.note_history(np.array([slot]), np.array([True]))
    return site_table


def test_only_sites_that_change_always_are_held() -> None:
    assert NoiseCap(table()).floors(PERIOD).tolist() == [PERIOD, PERIOD, 0.0]


def test_a_page_that_is_the_same_at_its_proof_is_let_go() -> None:
    site_table = table()
    site_table.note_proof(0, NOW, same=True)
    assert NoiseCap(site_table).floors(PERIOD).tolist() == [0.0, PERIOD, 0.0]


def test_what_is_not_known_is_proven_until_three_proofs_in_a_row_explain_nothing() -> None:
    site_table = table()
    cap = NoiseCap(site_table)
    for number in range(5):
        assert cap.wants_proof(2, NOW + number, lambda: PERIOD, proven=False) is (number < 3)
        site_table.note_proof(2, NOW + number, same=False)
    assert not cap.wants_proof(2, NOW + 4 + 7.9 * PERIOD, lambda: PERIOD, proven=False)
    assert cap.wants_proof(2, NOW + 4 + 8 * PERIOD, lambda: PERIOD, proven=False)


@pytest.mark.parametrize(
    ("slot", "failed", "since", "wants"),
    [(0, 1, 8.0, True), (0, 1, 7.9, False), (0, 0, 0.0, True), (2, 0, 1e6, False), (2, 1, 1e6, False)],
)
def test_what_is_known_is_proven_again_only_where_a_page_keeps_changing(
    slot: int, failed: int, since: float, wants: bool
) -> None:
    """At once, but not before eight periods after a proof that left a difference."""
    site_table = table()
    site_table.proof_failures[slot] = failed
    site_table.proof_at[slot] = NOW - since * PERIOD
    assert NoiseCap(site_table).wants_proof(slot, NOW, lambda: PERIOD, proven=True) is wants


def test_after_a_proof_that_decides_nothing_the_next_one_waits() -> None:
    site_table = table()
    cap = NoiseCap(site_table)
    assert cap.wants_proof(0, NOW, lambda: PERIOD, proven=True)
    site_table.note_undecided_proof(0, NOW)
    assert not cap.wants_proof(0, NOW + 1.0, lambda: PERIOD, proven=True)
    assert cap.wants_proof(0, NOW + 8 * PERIOD, lambda: PERIOD, proven=True)
    site_table.proof_failures[0] = 3
    site_table.note_undecided_proof(0, NOW)
    assert site_table.proof_failures[0] == 3
