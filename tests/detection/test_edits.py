"""Comparing lines: every block is right, whatever the texts, and the work is bounded."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.detection.edits import Block, Gap, StepBudget, compare, gaps, hunks, marks, unmatched

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "longer"]), max_size=30)


def check(left: list[str], right: list[str], budget_left: StepBudget | None = None) -> tuple[Block, ...]:
    """The blocks, after checking that they are true and cover both texts."""
    blocks = compare(left, right, budget_left or StepBudget()).blocks
    i = j = 0
    for block in blocks:
        assert (block.left[0], block.right[0]) == (i, j)
        i, j = block.left[1], block.right[1]
        ours, theirs = left[slice(*block.left)], right[slice(*block.right)]
        kind = "equal" if ours == theirs else "replace" if ours and theirs else "delete" if ours else "insert"
        assert (block.kind, bool(ours or theirs)) == (kind, True)
    assert (i, j) == (len(left), len(right))
    return blocks


@settings(deadline=None)
@given(LINES, LINES)
def test_blocks_cover_both_texts_and_say_what_is_so(left: list[str], right: list[str]) -> None:
    blocks = check(left, right)
    assert all((a.kind == "equal") != (b.kind == "equal") for a, b in pairwise(blocks))


@settings(deadline=None)
@given(LINES, LINES)
def test_without_work_to_spend_the_blocks_are_coarse_but_true(left: list[str], right: list[str]) -> None:
    replaced = [block for block in check(left, right, StepBudget(0)) if block.kind == "replace"]
    common = [set(left[slice(*block.left)]) & set(right[slice(*block.right)]) for block in replaced]
    assert compare(left, right, StepBudget(0)).coarse == any(common)


@settings(deadline=None)
@given(LINES, LINES, st.integers(0, 4))
def test_hunks_hold_all_that_differs_with_its_context(left: list[str], right: list[str], context: int) -> None:
    blocks = check(left, right)
    groups = list(hunks(blocks, context))
    different = [block for block in blocks if block.kind != "equal"]
    assert [block for group in groups for block in group if block.kind != "equal"] == different
    for group in groups:
        for block, following in pairwise(group):
            assert (block.left[1], block.right[1]) == (following.left[0], following.right[0])
        for edge in (group[0], group[-1]):
            assert edge.kind != "equal" or 0 < edge.left[1] - edge.left[0] <= context


def test_one_line_among_equal_ones() -> None:
    left = ["same"] * 5 + ["old"] + ["same"] * 5
    right = ["same"] * 5 + ["new"] + ["same"] * 5
    assert check(left, right) == (
        Block("equal", (0, 5), (0, 5)),
        Block("replace", (5, 6), (5, 6)),
        Block("equal", (6, 11), (6, 11)),
    )


def test_a_moved_part_does_not_spoil_the_rest() -> None:
    left = [f"line {n}" for n in range(100)]
    right = left[50:60] + left[:50] + left[60:]
    assert [block.kind for block in check(left, right)] == ["insert", "equal", "delete", "equal"]


def test_texts_without_a_line_of_their_own_are_given_up() -> None:
    left, right = ["a", "b"] * 20_000, ["b", "b", "a"] * 15_000
    assert compare(left, right, StepBudget()).coarse
    check(left, right)


def test_the_parts_of_a_line_that_differ() -> None:
    left, right = "price: 12.50 euro", "price: 9.50 euro today"
    at_left, at_right = marks(left, right, StepBudget())
    assert [left[slice(*span)] for span in at_left] == ["12"]
    assert [right[slice(*span)] for span in at_right] == ["9", " today"]
    assert marks("x " * 5_000, "y", StepBudget()) == ([], [])
    assert marks("a b", "a c", StepBudget(0)) == ([], [])


@given(LINES, LINES)
def test_what_has_no_partner_is_the_difference_of_multisets(left: list[str], right: list[str]) -> None:
    assert Counter(left[n] for n in unmatched(left, right)) == Counter(left) - Counter(right)
    assert list(unmatched("abab", "ba")) == [2, 3], "of equal items the last have none"


@given(LINES, LINES)
def test_what_is_between_gaps_is_equal(left: list[str], right: list[str]) -> None:
    i = j = 0
    for gap in [*gaps(left, right), Gap(len(left), len(left), len(right), len(right))]:
        assert left[i : gap.a_start] == right[j : gap.b_start]
        i, j = gap.a_end, gap.b_end
    assert all(gaps(left, right)), "none is empty"
