"""How `gpoks` forgets: not at all, or as fast as predicts best what polls find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.gpoks.gpoks import KEPT, Forgetting, GapCounts, rounds
from pollerd.allocation.learned_state import unpack
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError

NOW = 1.75e9
GAP = 40.0
SLOTS = np.arange(2)


def made(n: int = 2, **parameters: Any) -> Allocator:
    allocator = create("gpoks", budget=0.1, rng=np.random.default_rng(1), **parameters)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    return allocator


def teach(allocator: Allocator, found: NDArray[np.bool_]) -> None:
    """Polls of all slots at one gap; found bool[polls, n]."""
    slots = np.arange(found.shape[1])
    for row in found:
        allocator.observe(slots, np.full(len(slots), GAP), EvidenceBatch(row), NOW)


def lead_of_none(allocator: Allocator) -> float:
    """Log evidence of forgetting nothing, over the best of the others."""
    log_evidence = unpack("gpoks", 3, allocator.shared_state())["forgetting"]
    return float(log_evidence[0] - log_evidence[1:].max())


def test_of_pages_whose_rates_stay_nothing_is_forgotten() -> None:
    """In 200 polls of each at chances of .8 and .2; the share kept is the first candidate, 1."""
    allocator = made()
    teach(allocator, np.random.default_rng(3).random((200, 2)) < np.array([0.8, 0.2]))
    assert lead_of_none(allocator) > 0


def test_after_pages_change_places_earlier_polls_fade() -> None:
    """They change places every 40 polls: what is expected follows the newest ones, which are half of those kept."""
    chances = np.where((np.arange(200) // 40 % 2 == 0)[:, None], [0.95, 0.05], [0.05, 0.95])
    found = np.random.default_rng(3).random((200, 2)) < chances
    learned, none = made(), made(forgetting="none")
    for allocator in (learned, none):
        teach(allocator, found)
    assert lead_of_none(learned) < 0
    gaps = np.full(2, GAP)
    assert learned.change_probability(SLOTS, gaps)[0] > 0.8
    assert none.change_probability(SLOTS, gaps)[0] < 0.75


def test_what_was_learned_of_forgetting_outlives_a_restart() -> None:
    chances = np.where((np.arange(100) // 20 % 2 == 0)[:, None], [0.95, 0.05], [0.05, 0.95])
    allocator, back = made(), made()
    teach(allocator, np.random.default_rng(3).random((100, 2)) < chances)
    back.restore(SLOTS, allocator.site_state(SLOTS), allocator.shared_state())
    assert lead_of_none(back) == lead_of_none(allocator)
    again = np.random.default_rng(4).random((30, 2)) < 0.5
    for each in (allocator, back):
        teach(each, again)
    assert back.shared_state() == allocator.shared_state()
    np.testing.assert_array_equal(back.site_state(SLOTS), allocator.site_state(SLOTS))


@pytest.mark.parametrize(("stored", "taken"), [("none", "learned"), ("learned", "none")])
def test_a_state_of_another_setting_is_refused(stored: str, taken: str) -> None:
    allocator, other = made(forgetting=stored), made(forgetting=taken)
    with pytest.raises(InvalidValueError):
        other.restore(SLOTS, allocator.site_state(SLOTS), allocator.shared_state())


def test_many_polls_at_once_teach_what_they_teach_one_by_one() -> None:
    found = np.random.default_rng(5).random((60, 2)) < np.array([0.9, 0.3])
    one_by_one, at_once = made(variant="gpr"), made(variant="gpr")
    teach(one_by_one, found)
    slots = np.tile(SLOTS, len(found))
    at_once.observe(slots, np.full(len(slots), GAP), EvidenceBatch(found.ravel()), NOW)
    assert lead_of_none(at_once) == pytest.approx(lead_of_none(one_by_one), abs=0.3)  # the prior's mean moves between
    width = GapCounts(73, KEPT["learned"]).width
    counts = [each.site_state(SLOTS).view("<f8")[:, 6 : 6 + width] for each in (one_by_one, at_once)]
    np.testing.assert_allclose(counts[0], counts[1])


def test_a_poll_counts_less_with_every_poll_after_it() -> None:
    """Under the shares 1 and .5: four polls count 4 and 1 + .5 + .25 + .125, the first changed alone."""
    counts = GapCounts(3, (1.0, 0.5))
    counts.set_rows(np.zeros((2, counts.width)))
    for changed in (True, False, False, False):
        counts.note(np.array([1]), np.array([2]), np.array([changed]))
    assert [counts.of(np.array([1]), share)[0][0, 2] for share in (0, 1)] == [4.0, 1.875]
    assert [counts.of(np.array([1]), share)[1][0, 2] for share in (0, 1)] == [1.0, 0.125]
    assert not counts.of(np.array([0]), 1)[0].any()


def test_the_candidate_that_expected_what_came_is_chosen_and_can_be_overtaken() -> None:
    forgetting = Forgetting("learned")
    assert forgetting.chosen == 0
    expected = np.array([[0.5, 0.9, 0.5]])
    for _ in range(1000):
        forgetting.score(expected, np.array([True]))
    assert forgetting.chosen == 1
    for _ in range(20):
        forgetting.score(np.array([[0.9, 0.1, 0.5]]), np.array([True]))
    assert forgetting.chosen == 0


def test_rounds_hold_each_slot_once_and_in_order() -> None:
    slots = np.array([4, 2, 4, 4, 2, 7])
    assert [rows.tolist() for rows in rounds(slots)] == [[0, 1, 5], [2, 4], [3]]
    assert not list(rounds(np.zeros(0, np.int64)))
