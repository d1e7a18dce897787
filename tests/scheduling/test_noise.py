"""Sites that change always: held to the uniform share, fetched twice, and let go when they hold still."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.scheduling import NoiseCap, SiteTable

NOW, PERIOD = 1_000_000.0, 100.0


def table(sites: int = 3) -> SiteTable:
    site_table = SiteTable()
    site_table.add(range(1, sites + 1))
    site_table.last_poll[:sites] = NOW - 1
    for slot in range(sites - 1):
        for _ in range(8):
            site_table.note_history(np.array([slot]), np.array([True]))
    return site_table


def asked(cap: NoiseCap, held: NDArray[np.int64], polls: int) -> list[int]:
    """The site fetched again after so many polls."""
    cap.earn(polls)
    slots: list[int] = cap.repeat(held, NOW, PERIOD).tolist()
    return slots


def test_only_sites_that_change_always_are_held() -> None:
    assert NoiseCap(table()).floors(PERIOD).tolist() == [PERIOD, PERIOD, 0.0]


def test_after_a_twin_the_wait_is_doubled() -> None:
    site_table = table()
    site_table.last_gap[0] = 1.0
    assert NoiseCap(site_table).floors(PERIOD).tolist() == [2 * PERIOD, PERIOD, 0.0]


def test_twins_are_at_most_one_in_fifty_polls_and_rotate() -> None:
    cap, held = NoiseCap(table()), np.array([0, 1])
    repeats = [slot for _ in range(100) for slot in asked(cap, held, 1)]
    assert repeats == [0, 1]


@pytest.mark.parametrize(("last_poll", "held"), [(NOW - 50, [0, 1]), (NOW - 1, [])])
def test_no_twin_long_after_the_poll_nor_where_nobody_may_be_asked(last_poll: float, held: list[int]) -> None:
    site_table = table()
    site_table.last_poll[:3] = last_poll
    cap = NoiseCap(site_table)
    assert not any(asked(cap, np.array(held, np.int64), 50) for _ in range(5))


def test_a_page_that_holds_still_between_twins_is_let_go() -> None:
    site_table = table()
    cap = NoiseCap(site_table)
    (slot,) = asked(cap, np.array([0, 1]), 50)
    site_table.note_history(np.array([slot]), np.array([True]))
    assert site_table.changes_always()[slot]
    site_table.note_history(np.array([slot]), np.array([False]))
    assert not site_table.changes_always()[slot]
