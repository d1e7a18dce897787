"""`gpoks` in two levels: groups of sites with like rates, and the sites within a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.gpoks import gpoks
from pollerd.allocation.gpoks.rate_groups import COLUMNS, RateGroups
from pollerd.allocation.learned_state import pack, unpack
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError

NOW = 1.75e9
STEP = 10.0


def made(n: int, groups: str = "rates", **parameters: Any) -> Allocator:
    allocator = create("gpoks", budget=1 / STEP, rng=np.random.default_rng(1), groups=groups, **parameters)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    return allocator


def frequencies(allocator: Allocator, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Polls per second of slots."""
    found = allocator.shares(slots)
    assert found is not None
    return found


def drive(allocator: Allocator, n: int, steps: int, begin: float = NOW) -> list[int]:
    """One poll a step, of the pages returned; each third page changes three times in a cycle, the others hardly."""
    polled = []
    rng, last = np.random.default_rng(7), np.full(n, begin)
    rate = np.where(np.arange(n) % 3 == 0, 3.0, 0.05) / (n * STEP)
    for step in range(1, steps + 1):
        now = begin + STEP * step
        chosen = allocator.select(now - last, now, np.ones(n, np.bool_), 1)
        gap = now - last[chosen]
        allocator.observe(chosen, gap, EvidenceBatch(rng.random(1) < -np.expm1(-rate[chosen] * gap)), now)
        last[chosen] = now
        polled += chosen.tolist()
    return polled


def test_the_whole_budget_is_split_and_goes_to_who_changes() -> None:
    n = 30
    allocator = made(n)
    for polls in (5, 20, 40, 120):
        drive(allocator, n, polls)
        assert frequencies(allocator, np.arange(n)).sum() == pytest.approx(1 / STEP)
    often = frequencies(allocator, np.arange(n))
    assert often[::3].mean() > 1.5 * np.delete(often, np.arange(0, n, 3)).mean()


def test_pages_without_polls_are_alike() -> None:
    allocator = made(12)
    allocator.observe(np.arange(4), np.full(4, 120.0), EvidenceBatch(np.arange(4) < 1), NOW)
    often = frequencies(allocator, np.arange(12))
    assert len(np.unique(often[4:])) == 1
    assert often[4] > often[1:4].max()


def test_choices_go_on_after_a_restart() -> None:
    """In the middle of a division, with pages that have no polls, and with a page that was removed."""
    n = 40
    for polls in (7, 41, 90):
        allocator, back = made(n), made(n)
        drive(allocator, n, polls)
        slots = np.arange(n)
        back.restore(slots, allocator.site_state(slots), allocator.shared_state())
        for each in (allocator, back):
            drive(each, n, 30, NOW + 1e6)
        np.testing.assert_array_equal(back.site_state(slots), allocator.site_state(slots))
        assert back.shared_state() == allocator.shared_state()


def test_sites_may_come_and_go() -> None:
    n = 20
    allocator = made(n)
    drive(allocator, n, 100)
    allocator.remove(np.array([0, 5]))
    left = np.setdiff1d(np.arange(n), [0, 5])
    assert frequencies(allocator, left).sum() == pytest.approx(1 / STEP)
    allocator.add(np.array([5, 20]), np.ones(2), np.ones(2))
    everyone = np.append(left, [5, 20])
    assert frequencies(allocator, everyone).sum() == pytest.approx(1 / STEP)
    allocator.observe(everyone, np.full(20, 200.0), EvidenceBatch(everyone == 5), NOW)
    assert frequencies(allocator, everyone).sum() == pytest.approx(1 / STEP)
    allocator.budget = 3 / STEP
    assert frequencies(allocator, everyone).sum() == pytest.approx(3 / STEP)


@pytest.mark.parametrize(
    ("column", "bad"), [(0, -1.0), (0, 0.5), (0, 1e15), (0, np.nan), (1, 0.0), (1, -0.1), (1, 1.5), (2, 2.0)]
)
def test_a_damaged_group_is_refused(column: int, bad: float) -> None:
    n = 10
    allocator, slots = made(n), np.arange(n)
    drive(allocator, n, 50)
    frequencies(allocator, slots)
    rows = allocator.site_state(slots).copy()
    rows.view("<f8")[3, column - COLUMNS] = bad
    with pytest.raises(InvalidValueError, match="group number"):
        made(n).restore(slots, rows, allocator.shared_state())


def test_a_state_without_groups_is_refused() -> None:
    flat = made(3, "none")
    with pytest.raises(InvalidValueError):
        made(3).restore(np.arange(3), flat.site_state(np.arange(3)), flat.shared_state())
    shared = pack("gpoks", 3, unpack("gpoks", 3, flat.shared_state()))
    with pytest.raises(InvalidValueError):
        made(3).restore(np.arange(3), flat.site_state(np.arange(3)), shared)


@pytest.mark.parametrize("enough", [False, True])
def test_by_default_enough_sites_are_in_groups(monkeypatch: pytest.MonkeyPatch, enough: bool) -> None:
    n = 24
    monkeypatch.setattr(gpoks, "GROUPED_FROM", n if enough else n + 1)
    by_default, apart, grouped = (drive(made(n, groups), n, 80) for groups in ("auto", "none", "rates"))
    assert by_default == (grouped if enough else apart)
    assert apart != grouped, "else this shows nothing"


def test_groups_end_and_begin_anew_with_the_number_of_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 24
    monkeypatch.setattr(gpoks, "GROUPED_FROM", n)
    one, other = made(n, "auto"), made(n, "rates")
    for allocator in (one, other):
        drive(allocator, n, 60)
        allocator.remove(np.array([7]))
    ones = np.ones(1)
    one_row, other_row = (a.site_state(np.array([3])).view("<f8")[0, -COLUMNS:] for a in (one, other))
    assert not one_row.any()
    assert other_row.any()
    slots = np.setdiff1d(np.arange(n), [7])
    assert frequencies(one, slots).sum() == pytest.approx(1 / STEP)
    one.add(np.array([7]), ones, ones)
    assert frequencies(one, np.arange(n)).sum() == pytest.approx(1 / STEP)
    assert one.site_state(np.arange(n)).view("<f8")[:, -COLUMNS].all(), "all are in groups again"
    back = made(n, "auto")
    back.restore(np.arange(n), one.site_state(np.arange(n)), one.shared_state())
    assert drive(back, n, 30, NOW + 1e6) == drive(one, n, 30, NOW + 1e6)


def grouped(values: NDArray[np.float64], rates: NDArray[np.float64], steps: NDArray[np.float64]) -> NDArray[np.float64]:
    groups, n = RateGroups(), len(rates)
    groups.set_rows(np.zeros((n, COLUMNS)))
    return groups.amounts(np.arange(n), rates, lambda slots: values[slots], steps)


def test_like_sites_in_groups_get_what_one_knapsack_gives_them() -> None:
    """Four sites with one falling function, four with half its values: the marginal values of all are alike."""
    steps = np.linspace(0.02, 0.4, 39)
    values = np.outer(np.repeat([1.0, 0.5], 4), np.exp(-8 * steps))
    amounts = grouped(values, np.repeat([8.0, 1.0], 4), steps)
    assert amounts.sum() == pytest.approx(1.0)
    marginal = np.repeat([1.0, 0.5], 4) * np.exp(-8 * amounts)
    assert marginal.max() / marginal.min() == pytest.approx(1.0, rel=0.09)  # a step of .01 is a factor of e^.08


def test_no_site_gets_more_than_it_may_take() -> None:
    """The fast four may take no more than .1 each; the rest goes to the others."""
    steps = np.linspace(0.02, 0.4, 39)
    values = np.outer(np.repeat([1.0, 0.2], 4), np.exp(-8 * steps))
    values[:4, steps > 0.1001] = -1.0
    amounts = grouped(values, np.repeat([8.0, 1.0], 4), steps)
    np.testing.assert_allclose(amounts[:4], 0.1)
    np.testing.assert_allclose(amounts[4:], 0.15, atol=0.011)
