from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.selection.conditions.condition import parse_conditions
from pollerd.detection.selection.conditions.logic import Comparison, parse_least
from pollerd.errors import InvalidValueError
from tests.detection.selection.conditions.doubles import compile_pattern, judged, parsed

LEAF: dict[str, Any] = {"present": "x"}


def nested(levels: int) -> dict[str, Any]:
    found = LEAF
    for _ in range(levels):
        found = {"all": [found]}
    return found


def test_an_absent_document_is_no_condition() -> None:
    assert parse_conditions("conditions", None, values=(), compile_pattern=compile_pattern) is None


def test_the_largest_that_is_allowed() -> None:
    assert parsed(nested(4)).evaluate(Comparison(before="", after="x")).matters
    assert parsed({"all": [LEAF] * 50}).evaluate(Comparison(before="", after="x")).matters


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        ([], "conditions", "a condition"),
        ({}, "conditions", "an empty table"),
        ("x", "conditions", "a condition"),
        ({1: 2}, "conditions", "keys are texts"),
        ({"all": []}, "conditions.all", "a list of 1 to 50 conditions"),
        ({"all": LEAF}, "conditions.all", "a list of 1 to 50 conditions"),
        ({"all": [LEAF, None]}, "conditions.all[1]", "a condition"),
        ({"all": [LEAF], "any": [LEAF]}, "conditions", "all and nothing else"),
        ({"not": LEAF, "present": "x"}, "conditions", "not and nothing else"),
        ({"not": [LEAF]}, "conditions.not", "a condition"),
        (nested(5), "conditions" + ".all[0]" * 5, "nested at most 5 deep"),
        (nested(3000), "conditions" + ".all[0]" * 5, "nested at most 5 deep"),
        ({"any": [{"all": [LEAF] * 40}, {"all": [LEAF] * 40}]}, "conditions.any[1].all[10]", "at most 50 leaves"),
        ({"all": [{"value": "prize", "below": 1}]}, "conditions.all[0].value", 'no value "prize"; there are: price'),
        ({"value": 5, "below": 1}, "conditions.value", "there are: price"),
        ({"value": "price"}, "conditions", "a condition with exactly one test"),
        ({"value": "price", "above": 1, "below": 1}, "conditions", "given: 'above, below'"),
        ({"value": "price", "belwo": 1}, "conditions.belwo", "unknown test; did you mean below"),
        ({"presnet": "x"}, "conditions.presnet", "unknown test; did you mean present"),
        ({"present": "x", "absent": "y"}, "conditions", "given: 'present, absent'"),
        ({"present": "x", "colour": 1}, "conditions.colour", "present takes against"),
        ({"purely": "additions", "against": "last"}, "conditions.against", "purely takes no options"),
        ({"appears": "x", "against": "announced"}, "conditions.against", "appears takes in"),
        ({"only": "additions", "against": "last"}, "conditions.against", "only takes"),
        ({"new_in": 1, "against": "last"}, "conditions.against", "new_in takes"),
        ({"value": "price", "crosses_above": 1, "against": "last"}, "conditions.against", " takes "),
        ({"value": "price", "appears": "x", "in": "added"}, "conditions.in", " takes "),
        ({"present": "x", "against": "first"}, "conditions.against", "last or announced"),
        ({"appears": "x", "in": "all"}, "conditions.in", "content or added or removed"),
        ({"appears": ["x"]}, "conditions.appears", "a text, or a table"),
        ({"appears": ""}, "conditions.appears", "a text that is not empty"),
        ({"appears": {"re": ""}}, "conditions.appears.re", "a text that is not empty"),
        ({"present": ["x", {"txt": "y"}]}, "conditions.present[1].txt", "text, case or re"),
        ({"present": ["x"] * 201}, "conditions.present", "a list of 1 to 200 patterns"),
        ({"all": [{"present": ["x"] * 150}] * 2}, "conditions.all[1].present[50]", "at most 200 patterns"),
        ({"only": "changes"}, "conditions.only", "additions or removals"),
        ({"only": "additions", "unless_left_below": 2}, "conditions.unless_left_below", "a number from 0 to 1"),
        ({"only": "removals", "unless_left_below": 0.1}, "conditions.unless_left_below", "it goes with additions"),
        ({"purely": 1}, "conditions.purely", "additions or removals"),
        ({"new_in": 0}, "conditions.new_in", "1 to 10,000"),
        ({"new_in": "some"}, "conditions.new_in", '"all"'),
        ({"new_in": True}, "conditions.new_in", "1 to 10,000"),
        ({"length": {}}, "conditions.length", "min, max, or both"),
        ({"length": {"min": None}}, "conditions.length", "neither"),
        ({"length": {"min": 3, "max": 2}}, "conditions.length.max", "at least min (3)"),
        ({"length": {"mni": 3}}, "conditions.length", "unknown: mni"),
        ({"size": {"chars": -1}}, "conditions.size.chars", "a whole number from 0"),
        ({"size": None}, "conditions.size", "chars, share, or both"),
        ({"size": {"share": float("nan")}}, "conditions.size.share", "a number from 0 to 1"),
        ({"value": "price", "below": float("inf")}, "conditions.below", "a finite number"),
        ({"value": "price", "below": "1e5"}, "conditions.below", "a finite number"),
        ({"value": "price", "below": 10**5000}, "conditions.below", "a finite number"),
        ({"value": "price", "below": True}, "conditions.below", "a finite number"),
        ({"value": "price", "equals": ""}, "conditions.equals", "a number, or a text"),
        ({"value": "price", "equals": [1]}, "conditions.equals", "a finite number"),
        ({"value": "price", "changed_by": 5}, "conditions.changed_by", "amount or percent"),
        ({"value": "price", "changed_by": {"amount": 1, "percent": 1}}, "conditions.changed_by", "both"),
        ({"value": "price", "changed_by": {"percents": 1}}, "conditions.changed_by", "unknown: percents"),
        ({"value": "price", "changed_by": {"percent": float("nan")}}, "conditions.changed_by.percent", "finite"),
        ({"value": "price", "changed_by": {"percent": 0}}, "conditions.changed_by.percent", "other than 0"),
    ],
)
def test_what_cannot_be_is_refused_with_its_position(document: object, field: str, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_conditions("conditions", document, values=("price",), compile_pattern=compile_pattern)
    assert caught.value.field == field
    assert message in str(caught.value)
    assert len(str(caught.value)) < 800


def test_a_selection_without_values_says_so() -> None:
    with pytest.raises(InvalidValueError, match='no value "price"; the selection has none'):
        parse_conditions("c", {"value": "price", "below": 1}, values=(), compile_pattern=compile_pattern)


def test_what_a_condition_needs() -> None:
    assert parsed(LEAF).needs.announced_content is False
    assert (parsed(LEAF).needs.versions, parsed(LEAF).needs.values) == (0, frozenset())
    needs = parsed(
        {
            "all": [
                {"any": [{"new_in": 3}, {"new_in": 20}]},
                {"value": "price", "below": 1},
                {"value": "availability", "changed_by": {"amount": 1}, "against": "announced"},
            ]
        }
    ).needs
    assert (needs.versions, sorted(needs.values)) == (20, ["availability", "price"])
    assert (sorted(needs.announced_values), needs.announced_content) == (["availability"], False)
    assert parsed({"all": [{"new_in": "all"}, {"new_in": 3}]}).needs.versions == "all"
    assert parsed({"not": {"absent": "x", "against": "announced"}}).needs.announced_content
    assert parsed({"size": {"chars": 1}, "against": "announced"}).needs.announced_content


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(st.sampled_from(["all", "any", "not", "value", "present", "only", "new_in", "x"]), parts)
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_document_is_refused_or_a_condition(document: object) -> None:
    try:
        condition = parse_conditions("conditions", document, values=("price",), compile_pattern=compile_pattern)
    except InvalidValueError as error:
        field, condition = error.field, None
    else:
        field = "conditions"
    assert field.startswith("conditions")
    assert condition is None or condition.evaluate(Comparison(before="a", after="b")).why


def test_page_text_in_a_reason_is_short_and_plain() -> None:
    line = "\u202eevil\x1b[31m\x00 " + "é" * 10_000
    why = judged({"only": "additions"}, "", line).why
    assert why == 'the line "evil[31m ' + "é" * 50 + '…" was added'
    assert judged({"only": "additions"}, "", "a\u2028b\tc").why == 'the line "a b c" was added'


def test_least() -> None:
    least = parse_least("least", {"chars": 3, "share": 0.5})
    assert least.reached("", "abc")
    assert not least.reached("a", "abc")
    assert not least.reached("a" * 10, "a" * 10 + "bcd")
    assert parse_least("least", None).reached("a", "a\n\nb")
    assert not parse_least("least", None).reached("a", "a")
    assert not parse_least("least", {"chars": 0}).reached("a", "a")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "least"),
        (5, "least"),
        ({"char": 1}, "least"),
        ({"chars": 1.5}, "least.chars"),
        ({"chars": -1}, "least.chars"),
        ({"share": 1.1}, "least.share"),
        ({"share": "1"}, "least.share"),
    ],
)
def test_a_least_size_that_cannot_be(document: object, field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_least("least", document)
    assert caught.value.field == field
