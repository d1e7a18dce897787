from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.selection.conditions.change_size import (
    ChangeSize,
    change_size,
    line_changes,
    line_hashes,
    lines_of,
)

CONTENTS = st.lists(st.sampled_from(["a", "b", "c d", "c e", "", "x y z"]), max_size=8).map("\n".join)


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ("", "", 0, 0),
        ("a", "a\n", 0, 0),
        ("a\nb", "a", 1, 0),
        ("a", "a\n\n", 0, 1),
        ("12 items, 7 views", "13 items, 9 views", 2, 2),
        ("a\nmoved\nb\nc", "a\nb\nc\nmoved", 5, 5),
        ("the cat\nsat", "the dog\nsat", 3, 3),
        ("x\nsame", "y z\nsame", 1, 3),
        ("one two", "one\ntwo", 1, 0),
    ],
)
def test_size_of_a_change(before: str, after: str, removed: int, added: int) -> None:
    size = change_size(before, after)
    assert (size.removed, size.added, size.chars) == (removed, added, removed + added)


def test_share_is_of_the_larger_content() -> None:
    assert change_size("ab", "abcd").share == 0.5
    assert change_size("abcd", "ab").share == 0.5
    assert change_size("", "x").share == change_size("", "\n").share == 1.0
    assert change_size("x", "x").share == 0.0
    assert ChangeSize(0, 0, 0).share == 0.0


@given(CONTENTS, CONTENTS)
def test_a_size_is_zero_where_no_line_differs(before: str, after: str) -> None:
    size = change_size(before, after)
    assert (size.chars == 0) is (lines_of(before) == lines_of(after))
    assert 0 <= size.share <= 1


@given(CONTENTS, CONTENTS)
def test_added_and_removed_lines_are_what_the_contents_differ_by(before: str, after: str) -> None:
    changes = line_changes(before, after)
    old, new = (Counter(filter(str.strip, content.split("\n"))) for content in (before, after))
    assert old - Counter(changes.removed) + Counter(changes.added) == new
    assert not Counter(changes.added) & Counter(changes.removed)


def test_added_lines_are_in_the_order_of_the_content() -> None:
    assert line_changes("b", "c\nb\na\n \nb").added == ("c", "a", "b")
    assert line_changes("a\nb", "b\na") == line_changes("", "")


@given(CONTENTS)
def test_hashes_of_lines_leave_case_and_white_space_aside(content: str) -> None:
    assert line_hashes(content.upper() + "\n ") == line_hashes(content)
    assert line_hashes("\ud800")


def hostile() -> dict[str, tuple[str, str]]:
    lines = [f"line {n} of a text" for n in range(40_000)]
    half = "\n".join(line if n % 2 else line.replace("text", "word") for n, line in enumerate(lines))
    whole = "\n".join(lines)
    return {
        "reversed": (whole, "\n".join(reversed(lines))),
        "every other line": (whole, half),
        "one long line": (whole.replace("\n", " "), "x" + half.replace("\n", " ") + "y"),
        "two lines, repeated": ("a\nb\n" * 200_000, "b\na\n" * 200_000 + "a"),
        "white space": (" " * 5_000_000, " " * 4_999_990 + "x"),
        "no white space": ("x" * 5_000_000, "y" + "x" * 4_999_990 + "y"),
        "line feeds": ("\n" * 1_000_000, "\n" * 999_000 + "x"),
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_contents_take_a_bounded_time(name: str) -> None:
    """The suite's time limit is what a quadratic comparison would break."""
    before, after = hostile()[name]
    size = change_size(before, after)
    assert 0 < size.chars <= len(before) + len(after)
    assert len(line_changes(before, after).added) <= after.count("\n") + 1


def test_many_small_gaps_are_compared_by_word() -> None:
    before, after = hostile()["every other line"]
    assert change_size(before, after).chars == 20_000 * 8
