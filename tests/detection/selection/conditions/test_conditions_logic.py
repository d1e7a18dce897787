from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.selection.conditions.logic import Comparison
from tests.detection.selection.conditions.doubles import ReadValue, judged, number, parsed

VALUES = {"yes": number(1), "no": number(3), "unread": ReadValue(problem="two numbers")}
TRUTH: dict[str, bool | None] = {"yes": True, "no": False, "unread": None}
LEAVES = st.sampled_from(sorted(TRUTH)).map(lambda name: {"value": name, "below": 2})
TREES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda found: {"all": found}),
        st.lists(parts, min_size=1, max_size=3).map(lambda found: {"any": found}),
        parts.map(lambda found: {"not": found}),
    ),
    max_leaves=8,
)


def depth(tree: dict[str, Any]) -> int:
    if "not" in tree:
        return 1 + depth(tree["not"])
    return 1 + max((depth(part) for part in tree.get("all", tree.get("any", []))), default=0)


def kleene(tree: dict[str, Any]) -> bool | None:
    if "value" in tree:
        return TRUTH[tree["value"]]
    if "not" in tree:
        found = kleene(tree["not"])
        return None if found is None else not found
    parts = [kleene(part) for part in tree.get("all", tree.get("any", []))]
    decisive = "any" in tree
    return decisive if decisive in parts else None if None in parts else not decisive


@given(TREES.filter(lambda tree: depth(tree) <= 5))
def test_three_valued_logic_is_kleenes(tree: dict[str, Any]) -> None:
    verdict = parsed(tree, VALUES).evaluate(Comparison(before="a", after="b", values=VALUES))
    expected = kleene(tree)
    assert verdict.matters is (expected is not False)
    assert verdict.unknown == (("unread",) if expected is None else ())
    assert verdict.why.startswith("unread unreadable: two numbers") is (expected is None)
    assert "\n" not in verdict.why


@pytest.mark.parametrize(
    ("document", "matters", "why"),
    [
        ({"all": [{"appears": "x"}, {"value": "price", "below": 500}]}, False, "price 520 is not below 500"),
        ({"any": [{"appears": "x"}, {"value": "price", "below": 500}]}, True, '"x" appeared'),
        (
            {"any": [{"disappears": "x"}, {"value": "price", "below": 500}]},
            False,
            '"x" appeared and price 520 is not below 500',
        ),
        ({"not": {"value": "price", "below": 500}}, True, "price 520 is not below 500"),
        (
            {"all": [{"value": "price", "above": n} for n in range(5)]},
            True,
            "price 520 is above 0 and price 520 is above 1 and price 520 is above 2 and 2 more",
        ),
        ({"any": [{"value": "availability", "below": 1}, {"appears": "x"}]}, True, '"x" appeared'),
        ({"all": [{"value": "availability", "below": 1}, {"disappears": "x"}]}, False, '"x" appeared'),
    ],
)
def test_the_leaf_that_decided_is_named(document: object, matters: bool, why: str) -> None:
    verdict = judged(document, "a", "x", values={"price": number(520)})
    assert (verdict.matters, verdict.why, verdict.unknown) == (matters, why, ())


def test_what_is_undecided_matters_and_names_its_values() -> None:
    leaves = [{"value": "price", "below": 5}, {"value": "availability", "present": "in"}, {"present": "x"}]
    verdict = judged({"all": leaves}, "a", "x", values={"price": ReadValue(problem="two\nnumbers")})
    assert verdict.matters
    assert verdict.why == "price unreadable: two numbers and availability unreadable: no value was read"
    assert verdict.unknown == ("price", "availability")
