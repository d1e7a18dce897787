"""Conditions held against the announced content, replayed as changedetection.io's gates are known to act."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pollerd.detection.selection.conditions.logic import Comparison
from tests.detection.selection.conditions.doubles import number, parsed

A, C = ({"text": name, "case": True} for name in "AC")
FORBID = {"absent": "blocked", "against": "announced"}
TRIGGER = {"present": [A, C], "against": "announced"}


def announced(document: object, contents: list[str]) -> list[str]:
    """The contents that matter, where the caller keeps the first one as announced until a change matters."""
    condition = parsed(document)
    last = kept = contents[0]
    found = []
    for content in contents[1:]:
        if content == last:
            continue
        if condition.evaluate(Comparison(before=last, after=content, announced=kept)).matters:
            found.append(content)
            kept = content
        last = content
    return found


@pytest.mark.parametrize(
    "document",
    [
        FORBID,
        TRIGGER,
        {"all": [TRIGGER, FORBID]},
        {"not": {"present": "blocked", "against": "announced"}},
        {"not": {"any": [{"present": "blocked", "against": "announced"}, {"absent": [A, C], "against": "announced"}]}},
        {"length": {"max": 3}, "against": "announced"},
    ],
)
@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (["start", "A", "blocked", "A"], ["A"]),
        (["A", "blocked", "A"], []),
        (["A", "blocked", "C"], ["C"]),
        (["A", "C", "blocked 1", "C", "blocked 2", "C"], ["C"]),
        (["A", "blocked", "C", "blocked", "A"], ["C", "A"]),
        (["blocked", "A", "blocked", "A"], ["A"]),
        (["A", "blocked 1", "blocked 2"], []),
    ],
)
def test_a_content_held_back_moves_no_baseline(document: object, contents: list[str], expected: list[str]) -> None:
    assert announced(document, contents) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"absent": "blocked"}, ["A", "A", "C", "C"]),
        ({"appears": A}, ["A", "A"]),
        ({"disappears": "blocked"}, ["A", "C"]),
    ],
)
def test_held_against_the_last_content_a_way_back_matters(document: object, expected: list[str]) -> None:
    assert announced(document, ["start", "A", "blocked", "A", "C", "blocked", "C"]) == expected


def test_the_announced_content_is_named_as_the_reason() -> None:
    verdict = parsed(FORBID).evaluate(Comparison(before="blocked", after="A", announced="A"))
    assert (verdict.matters, verdict.why) == (False, "the content is the one announced last")


def test_without_an_announced_content_the_old_one_stands_for_it() -> None:
    assert parsed(FORBID).evaluate(Comparison(before="blocked", after="A")).matters
    assert not parsed(FORBID).evaluate(Comparison(before="A", after="A")).matters


def test_a_level_of_a_value_is_held_against_the_announced_content_too() -> None:
    condition = parsed({"value": "price", "below": 5, "against": "announced"})
    values = {"price": number(4)}
    assert not condition.evaluate(Comparison(before="9", after="4", announced="4", values=values)).matters
    assert condition.evaluate(Comparison(before="9", after="4", announced="3", values=values)).matters


def test_one_percent_a_day_is_told_against_the_announced_value_only() -> None:
    prices = [100 - day for day in range(12)]
    found = {}
    for against in ("last", "announced"):
        condition = parsed({"value": "price", "changed_by": {"percent": -5}, "against": against})
        kept, days = prices[0], []
        for last, now in pairwise(prices):
            values, lasts, kepts = ({"price": number(price)} for price in (now, last, kept))
            given = Comparison(
                before=str(last), after=str(now), values=values, last_values=lasts, announced_values=kepts
            )
            if condition.evaluate(given).matters:
                kept = now
                days.append(now)
        found[against] = days
    assert found == {"last": [], "announced": [95, 90]}


def test_without_an_announced_value_the_last_one_stands_for_it() -> None:
    condition = parsed({"value": "price", "changed_by": {"amount": 1}, "against": "announced"})
    given = Comparison(before="", after="", values={"price": number(2)}, last_values={"price": number(1)})
    assert condition.evaluate(given).why == (
        "price rose by 1 from 1 to 2 since the announced one, at least the rise of 1"
    )
