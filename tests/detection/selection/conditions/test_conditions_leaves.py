from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.selection.conditions.change_size import line_hashes
from tests.detection.selection.conditions.doubles import ReadValue, judged, number

IN_STOCK = {"text": "in stock"}


@pytest.mark.parametrize(
    ("leaf", "before", "after", "matters", "why"),
    [
        ({"appears": IN_STOCK}, "sold", "In Stock", True, '"in stock" appeared'),
        ({"appears": "in stock"}, "2 in stock", "1 in stock", False, '"in stock" is there as before'),
        ({"appears": "in stock"}, "in stock", "sold", False, '"in stock" disappeared'),
        ({"appears": {"text": "S", "case": True}}, "a", "s", False, '"S" is not there, as before'),
        ({"appears": {"re": "v[0-9]"}}, "a", "v1", True, "/v[0-9]/ appeared"),
        ({"disappears": IN_STOCK}, "in stock", "sold", True, '"in stock" disappeared'),
        ({"disappears": IN_STOCK}, "sold", "in stock", False, '"in stock" appeared'),
        (
            {"appears": "stock", "in": "added"},
            "2 in stock",
            "1 in stock",
            True,
            '"stock" is in the added line "1 in stock"',
        ),
        ({"appears": {"re": "^b"}, "in": "added"}, "a", "a\nb", True, '/^b/ is in the added line "b"'),
        ({"appears": "a", "in": "added"}, "a\nb", "b\na", False, '"a" is in no added line'),
        ({"disappears": "a", "in": "removed"}, "a1\na", "a", True, '"a" is in the removed line "a1"'),
        ({"appears": "a", "in": "removed"}, "b", "a", False, '"a" is in no removed line'),
        ({"disappears": "a", "in": "added"}, "b", "a", True, '"a" is in the added line "a"'),
        ({"present": ["x", "b"]}, "a", "b", True, '"b" is there'),
        ({"present": ["x", "y"]}, "a", "b", False, 'none of "x" and "y" is there'),
        ({"present": "b"}, "b", "a", False, '"b" is not there'),
        ({"absent": ["x", "b"]}, "a", "b", False, '"b" is there'),
        ({"absent": ["x", "y"]}, "a", "b", True, 'none of "x" and "y" is there'),
        ({"not": {"absent": "b"}}, "a", "b", True, '"b" is there'),
        ({"only": "additions"}, "a\nb", "a", False, "no line was added"),
        ({"only": "additions"}, "a\nb", "a\nc", True, 'the line "c" was added'),
        ({"only": "additions"}, "a", "a\nb\nc", True, '2 lines were added, first "b"'),
        ({"only": "additions"}, "a\nb", "b\na\n\n \n", False, "no line was added"),
        ({"only": "additions"}, "a\na", "a\na\na", True, 'the line "a" was added'),
        ({"only": "removals"}, "a\nb", "a", True, 'the line "b" was removed'),
        ({"only": "removals"}, "a", "a\nb", False, "no line was removed"),
        ({"only": "additions", "unless_left_below": 0.25}, "abcd\nefg", "", True, "0 of 8 characters are left"),
        (
            {"only": "additions", "unless_left_below": 0.25},
            "abcdef\n1",
            "1",
            True,
            "1 of 8 characters are left",
        ),
        ({"only": "additions", "unless_left_below": 0.25}, "abcdef\n123", "123", False, "no line was added"),
        ({"only": "additions", "unless_left_below": 0.25}, "", "a", True, 'the line "a" was added'),
        ({"purely": "additions"}, "a", "a\nb", True, 'the line "b" was added, no line was removed'),
        ({"purely": "additions"}, "a", "b\nc", False, 'the line "a" was removed'),
        ({"purely": "additions"}, "a\nb", "b\na", False, "no line was added"),
        ({"purely": "removals"}, "a\nb", "a", True, 'the line "b" was removed, no line was added'),
        ({"purely": "removals"}, "a\nb", "c", False, 'the line "c" was added'),
        ({"length": {"min": 2}}, "", "a", False, "the content has 1 character, fewer than 2"),
        ({"length": {"max": 2}}, "", "abc", False, "the content has 3 characters, more than 2"),
        ({"length": {"min": 1, "max": 3}}, "", "abc", True, "the content has 3 characters"),
        ({"size": {"chars": 3}}, "the cat sat", "the dog sat", True, "6 characters differ, 27.3 % of the content"),
        ({"size": {"chars": 7}}, "the cat sat", "the dog sat", False, "6 characters differ, 27.3 % of the content"),
        ({"size": {"share": 0.5}}, "a", "ab", True, "1 character differs, 50.0 % of the content"),
        ({"size": {"chars": 2, "share": 0.5}}, "a", "ab", False, "1 character differs, 50.0 % of the content"),
    ],
)
def test_leaves_of_the_content(leaf: object, before: str, after: str, matters: bool, why: str) -> None:
    verdict = judged(leaf, before, after)
    assert (verdict.matters, verdict.why, verdict.unknown) == (matters, why, ())


def test_size_against_the_announced_content() -> None:
    leaf = {"size": {"chars": 3}, "against": "announced"}
    verdict = judged(leaf, "a b c", "a b c d", announced="a")
    assert (verdict.matters, verdict.why) == (
        True,
        "6 characters differ since the announced content, 85.7 % of the content",
    )
    assert judged(leaf, "b", "a", announced="a").why == "nothing differs since the announced content"
    assert judged(leaf, "b", "a", announced="a").matters is False
    assert judged(leaf, "1234567", "a").matters


@pytest.mark.parametrize(
    ("new_in", "earlier", "matters", "why"),
    [
        (2, ["a", "b"], True, 'the line "C" is not in the last 2 versions'),
        (1, ["a", " c "], True, 'the line "C" is not in the last 1 version'),
        (2, ["a", " c "], False, "no line is new in the last 2 versions"),
        ("all", ["a", "b", "c"], False, "no line is new"),
        ("all", ["a", "b"], True, 'the line "C" is not in any version'),
        (9, [], True, 'the line "C" is not in the last 9 versions'),
    ],
)
def test_new_in(new_in: object, earlier: list[str], matters: bool, why: str) -> None:
    verdict = judged({"new_in": new_in}, "a", "a\nC", versions=[line_hashes(content) for content in earlier])
    assert (verdict.matters, verdict.why) == (matters, why)


def test_new_in_counts_and_looks_at_the_old_content_too() -> None:
    assert judged({"new_in": 3}, "a", "b\nc").why == '2 lines are not in the last 3 versions, first "b"'
    assert judged({"new_in": 3}, "a\nb", "a\nb\n A ").matters is False


@pytest.mark.parametrize(
    ("test", "last", "now", "matters", "why"),
    [
        ({"below": 500}, 520, 479, True, "price 479 is below 500"),
        ({"below": 500}, 1, 500, False, "price 500 is not below 500"),
        ({"above": "0.1"}, 1, "0.2", True, "price 0.2 is above 0.1"),
        ({"above": 0.3}, 1, "0.3", False, "price 0.3 is not above 0.3"),
        ({"equals": 5}, 1, "5.00", True, "price 5 is equal to 5"),
        ({"equals": 5}, 1, 6, False, "price 6 is not equal to 5"),
        ({"crosses_below": 500}, 500, 479, True, "price 479 crossed 500, it was 500"),
        ({"crosses_below": 500}, 499, 479, False, "price 479 is below 500 as 499 was"),
        ({"crosses_below": 500}, None, 500, False, "price 500 is not below 500"),
        ({"crosses_above": 500}, 500, 501, True, "price 501 crossed 500, it was 500"),
        ({"crosses_above": 500}, 499, 500, False, "price 500 is not above 500"),
        ({"changed_by": {"percent": -5}}, 100, 95, True, "price fell by 5 % from 100 to 95, at least the fall of 5 %"),
        (
            {"changed_by": {"percent": -5}},
            100,
            "95.0001",
            False,
            "price fell by 4.99 % from 100 to 95.0001, not the fall of 5 %",
        ),
        ({"changed_by": {"percent": -5}}, 100, 200, False, "price rose by 100 % from 100 to 200, not the fall of 5 %"),
        (
            {"changed_by": {"percent": 10}},
            -10,
            -9,
            True,
            "price rose by 10 % from -10 to -9, at least the rise of 10 %",
        ),
        ({"changed_by": {"percent": 5}}, 0, 0, False, "price 0 is as before"),
        (
            {"changed_by": {"amount": 2.5}},
            10,
            "12.5",
            True,
            "price rose by 2.5 from 10 to 12.5, at least the rise of 2.5",
        ),
        ({"changed_by": {"amount": -2}}, 10, 9, False, "price fell by 1 from 10 to 9, not the fall of 2"),
        (
            {"changed_by": {"percent": 1}},
            "0.0000001",
            1000,
            True,
            "price rose by over 1000000 % from 0.0000001 to 1000, at least the rise of 1 %",
        ),
        (
            {"changed_by": {"percent": 1}},
            10**6,
            10**6 + 1,
            False,
            "price rose by under 0.01 % from 1000000 to 1000001, not the rise of 1 %",
        ),
    ],
)
def test_leaves_of_numbers(test: dict[str, Any], last: object, now: object, matters: bool, why: str) -> None:
    earlier = {} if last is None else {"price": number(last)}
    verdict = judged({"value": "price", **test}, values={"price": number(now)}, last_values=earlier)
    assert (verdict.matters, verdict.why, verdict.unknown) == (matters, why, ())


STATE = "availability"


@pytest.mark.parametrize(
    ("test", "last", "now", "matters", "why"),
    [
        (
            {"appears": {"re": "(?i)instock"}},
            "SoldOut",
            "InStock",
            True,
            '/(?i)instock/ in availability "InStock" appeared',
        ),
        (
            {"appears": "instock"},
            "InStock",
            "InStock!",
            False,
            '"instock" in availability "InStock!" is there as before',
        ),
        ({"appears": "instock"}, None, "SoldOut", False, '"instock" in availability "SoldOut" is not there'),
        ({"disappears": "instock"}, "InStock", "SoldOut", True, '"instock" in availability "SoldOut" disappeared'),
        ({"disappears": "instock"}, None, "InStock", False, '"instock" in availability "InStock" is there'),
        ({"present": ["pre", "in"]}, None, "InStock", True, '"in" is in availability "InStock"'),
        ({"present": "pre"}, None, "InStock", False, '"pre" is not in availability "InStock"'),
        ({"absent": ["pre", "sold"]}, None, "InStock", True, 'none of "pre" and "sold" is in availability "InStock"'),
        ({"equals": "instock"}, None, " InStock", True, 'availability "InStock" is "instock"'),
        ({"equals": "x"}, None, "InStock", False, 'availability "InStock" is not "x"'),
    ],
)
def test_leaves_of_texts(test: dict[str, Any], last: str | None, now: str, matters: bool, why: str) -> None:
    earlier = {} if last is None else {STATE: ReadValue(text=last)}
    verdict = judged({"value": STATE, **test}, values={STATE: ReadValue(text=now)}, last_values=earlier)
    assert (verdict.matters, verdict.why, verdict.unknown) == (matters, why, ())


TWO = ReadValue(problem="two numbers: 1 and 2")


@pytest.mark.parametrize(
    ("test", "last", "now", "why"),
    [
        ({"below": 1}, None, TWO, "price unreadable: two numbers: 1 and 2"),
        ({"crosses_below": 1}, number(1), TWO, "price unreadable: two numbers: 1 and 2"),
        ({"crosses_below": 1}, None, number(0), "price: no earlier number to compare with"),
        ({"changed_by": {"percent": 1}}, number(1), None, "price unreadable: no value was read"),
        ({"changed_by": {"amount": 1}}, TWO, number(1), "price: no earlier number to compare with"),
        ({"changed_by": {"percent": 1}}, number(0), number(1), "price 1: no percent of 0"),
        ({"above": 1}, None, ReadValue(text="x"), "price unreadable: it is no number"),
        ({"above": 1}, None, ReadValue(Decimal("NaN")), "price unreadable: it is no number"),
        ({"above": 1}, None, ReadValue(Decimal("Infinity")), "price unreadable: it is no number"),
        (
            {"changed_by": {"amount": 1}},
            number(1),
            ReadValue(Decimal("1E+999999")),
            "price unreadable: it is no number",
        ),
        ({"equals": "x"}, None, TWO, "price unreadable: two numbers: 1 and 2"),
        ({"appears": "x"}, None, TWO, "price unreadable: two numbers: 1 and 2"),
        ({"appears": "x"}, TWO, ReadValue(text="x"), "price: no earlier text to compare with"),
        ({"absent": "x"}, None, TWO, "price unreadable: two numbers: 1 and 2"),
    ],
)
def test_what_cannot_be_read_is_unknown(
    test: dict[str, Any], last: ReadValue | None, now: ReadValue | None, why: str
) -> None:
    values, earlier = ({} if value is None else {"price": value} for value in (now, last))
    for document in ({"value": "price", **test}, {"not": {"value": "price", **test}}):
        verdict = judged(document, "a", "b", values=values, last_values=earlier)
        assert (verdict.matters, verdict.why, verdict.unknown) == (True, why, ("price",))


NUMBERS = st.decimals(min_value=-(10**15), max_value=10**15, allow_nan=False, places=15)
STEPS = st.decimals(min_value=-100, max_value=100, allow_nan=False, places=4).filter(bool)


@given(NUMBERS.filter(bool), STEPS)
def test_percent_are_exact(old: Decimal, step: Decimal) -> None:
    exact = Context(prec=200)
    change = exact.divide(exact.multiply(old.copy_abs(), step), Decimal(100))
    a_little = Decimal("1E-40").copy_sign(step)
    leaf = {"value": "price", "changed_by": {"percent": str(step)}}
    for now, reached in ((exact.add(old, change), True), (exact.subtract(exact.add(old, change), a_little), False)):
        verdict = judged(leaf, values={"price": ReadValue(now)}, last_values={"price": ReadValue(old)})
        assert verdict.matters is reached
