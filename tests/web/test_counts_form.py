"""What counts as rows of a form: what they show is what the settings say, and sending them back changes nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
import pytest

from pollerd.api.inputs import check_selections
from pollerd.detection.selection.conditions.condition import CONTENT_TESTS, VALUE_TESTS, parse_conditions
from pollerd.detection.selection.conditions.logic import Comparison
from pollerd.detection.selection.expressions.pattern import compile_pattern
from pollerd.web.counts_form import (
    AS_JSON,
    LINE_TESTS,
    NUMBER_TESTS,
    TEXT_TESTS,
    ConditionRow,
    CountsForm,
    PartRow,
    ValueRow,
    check_rows,
    condition_rows,
    conditions_of,
    form_of,
    ignoring_line,
    kind_of_line,
    pattern_of,
    settings_of_form,
    take_offer,
)
from pollerd.web.counts_words import selections_in_words

SHOP: dict[str, Any] = {
    "default": {
        "steps": [
            {"as": "html"},
            {"remove": {"css": "nav, .ads"}},
            {"keep": [{"css": "main"}, {"xpath": "//h1"}], "optional": True},
            {"lines": {"drop": ["last updated", {"re": "^Ad [0-9]+$"}, {"text": "Ad", "case": True}]}},
            {"case": "ignore"},
        ],
        "values": {
            "price": {"kind": "price", "from": {"css": "[itemprop=price]", "attribute": "content"}, "locale": "de-DE"},
            "seats": {"kind": "number", "from": {"re": "([0-9]+) left", "with": "\\1"}},
        },
        "least": {"chars": 3, "share": 0.01},
        "conditions": {
            "any": [
                {
                    "all": [
                        {"value": "price", "changed_by": {"percent": -5}, "against": "announced"},
                        {"appears": "sale"},
                    ]
                },
                {"not": {"present": ["sold out", {"text": "Gone", "case": True}]}},
            ]
        },
    },
    "reviews": {"steps": [{"keep": {"css": ".review"}}]},
}
CONDITIONS: list[Any] = [
    {"appears": {"text": "in stock"}},
    {"appears": {"re": "v[0-9]+"}, "in": "added"},
    {"disappears": {"text": "x"}, "in": "removed"},
    {"not": {"absent": {"text": "x"}, "against": "announced"}},
    {"only": "additions"},
    {"purely": "removals"},
    {"new_in": 20},
    {"new_in": "all"},
    {"length": {"min": 10}},
    {"length": {"max": 99}},
    {"size": {"chars": 20}},
    {"size": {"share": 0.01}},
    {"value": "price", "below": 1000},
    {"value": "price", "crosses_above": 9.5},
    {"value": "price", "equals": "sold"},
    {"value": "price", "changed_by": {"amount": 7}},
    {"value": "price", "changed_by": {"percent": -5}, "against": "announced"},
    {"any": [{"value": "price", "changed_by": {"percent": 5}}, {"value": "price", "changed_by": {"percent": -5}}]},
    {"value": "price", "appears": {"text": "EUR"}},
    {"only": "additions", "unless_left_below": 0.5},
    {"only": "removals"},
    {"purely": "additions"},
    {"appears": {"text": "X", "case": True}},
    {"disappears": {"text": "X", "case": True}, "in": "removed"},
    {"absent": {"text": "X", "case": True}, "against": "announced"},
    {"present": {"re": "x|y"}},
    {"length": {"max": 99}, "against": "announced"},
    {"size": {"share": 0.0123456789012}, "against": "announced"},
    {"value": "price", "above": 1234567890123456, "against": "announced"},
    {"value": "price", "crosses_below": -0.1},
    {"value": "price", "equals": 5},
    {"value": "price", "equals": "5", "against": "announced"},
    {"value": "price", "changed_by": {"amount": -0.5}},
    {"value": "price", "disappears": {"text": "EUR", "case": True}},
    {"value": "price", "present": {"text": "EUR", "case": True}, "against": "announced"},
    {"value": "price", "absent": {"re": "^x"}},
]
OTHERWISE_WRITTEN: list[tuple[Any, Any]] = [
    ({"appears": "x", "in": "content"}, {"appears": {"text": "x"}}),
    ({"present": {"text": "x", "case": False}, "against": "last"}, {"present": {"text": "x"}}),
    ({"disappears": "X", "in": "added"}, {"appears": {"text": "X"}, "in": "added"}),
    ({"appears": "X", "in": "removed"}, {"disappears": {"text": "X"}, "in": "removed"}),
    ({"value": "price", "below": "9.50"}, {"value": "price", "below": 9.5}),
    ({"value": "price", "changed_by": {"percent": "-5"}}, {"value": "price", "changed_by": {"percent": -5}}),
    ({"only": "additions", "unless_left_below": None}, {"only": "additions"}),
    ({"length": {"min": 1, "max": 9}}, {"all": [{"length": {"min": 1}}, {"length": {"max": 9}}]}),
    ({"length": {"min": 1, "max": None}}, {"length": {"min": 1}}),
    (
        {"not": {"size": {"chars": 5, "share": 0.5}, "against": "announced"}},
        {
            "any": [
                {"not": {"size": {"chars": 5}, "against": "announced"}},
                {"not": {"size": {"share": 0.5}, "against": "announced"}},
            ]
        },
    ),
    (
        {"value": "price", "absent": ["x", {"text": "Y", "case": True}]},
        {
            "all": [
                {"value": "price", "absent": {"text": "x"}},
                {"value": "price", "absent": {"text": "Y", "case": True}},
            ]
        },
    ),
]
"""Conditions that several rows, or other words, say."""
NOT_SHOWN: list[Any] = [
    {"appears": {"text": "/x/"}},
    {"appears": {"text": " x"}},
    {"value": "price", "below": "0.1234567890123456789"},
]
CONTENTS = ("", "x", "X y EUR", "X y EUR" * 20, "one\ntwo\nx\n", "one\ntwo\nX 5\n", "v7\nin stock\n/x/\n")


@dataclass(frozen=True)
class PriceRead:
    """A price that was read from a content: its length."""

    text: str
    problem: str = ""

    @property
    def number(self) -> Decimal:
        return Decimal(len(self.text))


def test_sending_a_form_back_changes_nothing() -> None:
    stored = check_selections(SHOP)
    for name in SHOP:
        assert settings_of_form(form_of(stored, name), stored) == orjson.loads(stored)
    assert settings_of_form(form_of(""), "") == {}


def test_the_rows_of_a_form() -> None:
    form = form_of(check_selections(SHOP))
    assert [(row.text, row.how) for row in form.keep] == [("main", "elements"), ("//h1", "elements")]
    assert [(row.text, row.how) for row in form.ignore] == [
        ("nav, .ads", "elements"),
        ("last updated", "lines"),
        ("/^Ad [0-9]+$/", "lines"),
        ("Ad", "cased lines"),
    ]
    assert form.optional
    assert [orjson.loads(step) for step in form.others] == [{"as": "html"}, {"case": "ignore"}]
    assert [row.name for row in form.values] == ["price"]
    assert form.hidden_values == ["seats"]
    assert (form.least_chars, form.least_percent) == ("3", "1")
    check_rows(form)
    assert form.is_right


def test_an_edited_part_leaves_the_others_as_they_are_written() -> None:
    stored = check_selections(SHOP)
    form = form_of(stored)
    form.conditions = [ConditionRow("price", "below", "1000")]
    edited = settings_of_form(form, stored)
    assert edited["default"]["conditions"] == {"value": "price", "below": 1000}
    assert edited["default"]["steps"] == SHOP["default"]["steps"]
    assert edited["default"]["values"] == SHOP["default"]["values"]
    form = form_of(stored)
    form.ignore.append(PartRow(".clock"))
    form.values.append(ValueRow("stock", "text", "#stock"))
    edited = settings_of_form(form, stored)
    assert [next(iter(step)) for step in edited["default"]["steps"]] == ["as", "remove", "keep", "lines", "case"]
    assert edited["default"]["values"]["price"] == SHOP["default"]["values"]["price"]
    assert edited["default"]["values"]["seats"] == SHOP["default"]["values"]["seats"]
    assert edited["default"]["values"]["stock"] == {"kind": "text", "from": {"css": "#stock"}}
    assert edited["reviews"] == SHOP["reviews"]
    check_selections(edited)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_is_one_row_without_json(condition: Any) -> None:
    (row,) = condition_rows(condition)
    assert row.test in {**TEXT_TESTS, **LINE_TESTS, **NUMBER_TESTS}
    assert conditions_of([row]) == condition


def test_every_test_of_conditions_has_a_row() -> None:
    """So that a new test of conditions gets its place in the form, and its line in these tables."""
    of_text = {key for condition in CONDITIONS if "value" not in condition for key in condition}
    of_values = {key for condition in CONDITIONS if "value" in condition for key in condition}
    assert set(CONTENT_TESTS) <= of_text
    assert set(VALUE_TESTS) <= of_values
    rows = [row for condition in CONDITIONS for row in condition_rows(condition)]
    assert {row.test for row in rows} == {*TEXT_TESTS, *LINE_TESTS, *NUMBER_TESTS}


@pytest.mark.parametrize(("condition", "said"), OTHERWISE_WRITTEN)
def test_a_condition_that_is_written_otherwise_says_the_same(condition: Any, said: Any) -> None:
    rows = condition_rows(condition)
    assert AS_JSON not in {row.test for row in rows}
    assert conditions_of(rows) == said
    again = condition_rows(said)
    assert [(row.test, row.argument, row.negated, row.join) for row in again] == [
        (row.test, row.argument, row.negated, row.join) for row in rows
    ]
    one, other = (
        parse_conditions("", document, values=["price"], compile_pattern=compile_pattern)
        for document in (condition, said)
    )
    assert one is not None
    assert other is not None
    for before, after, announced in itertools.product(CONTENTS, repeat=3):
        values = {"price": PriceRead(after)}
        comparison = Comparison(before, after, announced, values, {"price": PriceRead(before)})
        assert one.evaluate(comparison).matters == other.evaluate(comparison).matters


@pytest.mark.parametrize("condition", NOT_SHOWN)
def test_what_no_row_shows_stays_as_json(condition: Any) -> None:
    (row,) = condition_rows({"not": condition})
    assert row.test == AS_JSON
    assert row.negated
    assert conditions_of([row]) == {"not": condition}


def test_and_binds_more_closely_than_or() -> None:
    a, b, c = ({"appears": {"text": word}} for word in "abc")
    rows = condition_rows({"all": [a, {"any": [b, c]}]})
    assert [(row.argument, row.join) for row in rows] == [("a", "and"), ("b", "and"), ("a", "or"), ("c", "and")]
    assert conditions_of(rows) == {"any": [{"all": [a, b]}, {"all": [a, c]}]}
    (row_a, row_b) = condition_rows({"not": {"any": [a, b]}})
    assert (row_a.negated, row_b.negated, row_b.join) == (True, True, "and")
    many = {"all": [{"any": [{"appears": f"{n}{m}"} for m in range(4)]} for n in range(8)]}
    (row,) = condition_rows(many)
    assert (row.test, orjson.loads(row.argument)) == (AS_JSON, many)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (ConditionRow("price", "below", "cheap"), "a number"),
        (ConditionRow("", "below", "5"), "a test of a value"),
        (ConditionRow("price", "chars", "5"), "a test of the whole text"),
        (ConditionRow("prize", "below", "5"), "no value"),
        (ConditionRow("", "appears", "/(/"), "regular expression"),
        (ConditionRow("price", "falls_by", "-5 %"), "above 0"),
        (ConditionRow("", "sings", "x"), "one of the tests"),
        (ConditionRow("", "appears", "x", since_alert=True), "since the last check"),
    ],
)
def test_an_error_stands_in_its_row(row: ConditionRow, why: str) -> None:
    form = form_of(check_selections(SHOP))
    form.conditions = [ConditionRow("price", "below", "5"), row]
    check_rows(form)
    assert why in form.conditions[1].error
    assert form.conditions[0].error == ""
    assert not form.is_right


def test_errors_of_parts_and_values_stand_in_their_rows() -> None:
    form = form_of("")
    form.keep = [PartRow("main >"), PartRow("//p["), PartRow("$.["), PartRow("#ok")]
    form.ignore = [PartRow("$.a["), PartRow("/(/", "lines"), PartRow("fine", "lines")]
    form.values = [ValueRow("price", "price", "#p"), ValueRow("price", "price", "#q"), ValueRow("", "price", "#r")]
    check_rows(form)
    assert [bool(row.error) for row in form.keep] == [True, True, True, False]
    assert [bool(row.error) for row in form.ignore] == [True, True, False]
    assert [bool(row.error) for row in form.values] == [False, True, True]


@pytest.mark.parametrize(
    ("before", "after", "like", "unlike"),
    [
        ("Ad 542", "Ad 551", "Ad 7", "Add 7"),
        (
            "Updated 3 min ago by Anna",
            "Updated 5 min ago by Bob",
            "Updated 12 min ago by Carla D.",
            "Outdated 3 min ago",
        ),
        ("€ 1,199.00", "€ 999.00", "€ 5", "$ 5"),
        ("", "New: 3 items (2)", "New: 14 items (1)", "New: some items"),
        ("a.b*c/d 7 [x]", "a.b*c/d 8 [x]", "a.b*c/d 11 [x]", "aXb*c/d 8 [x]"),
        ("Operational", "Major outage", "Operational", "Minor outage"),
        ("12", "13", "99", "a 99"),
        ("x" * 900 + " 1", "x" * 900 + " 2", "x" * 900 + " 3", "y" * 900),
        ("one two " * 200 + "1", "one two " * 200 + "2", "one two " * 200 + "3", "two"),
    ],
)
def test_the_kind_of_a_line(before: str, after: str, like: str, unlike: str) -> None:
    pattern = compile_pattern("ignore", pattern_of(kind_of_line(before, after)))
    for line in (before, after, like):
        assert not line or pattern.search(line)
    assert not pattern.search(unlike)


def test_a_kind_is_ignored_once() -> None:
    form = form_of("")
    for _number in range(2):
        ignoring_line(form, "Ad 1", "Ad 2")
    ignoring_line(form, " ", "")
    assert [(row.text, row.how) for row in form.ignore] == [("/^Ad [0-9][0-9.,]*$/", "lines")]
    assert settings_of_form(form, "") == {"default": {"steps": [{"lines": {"drop": [{"re": "^Ad [0-9][0-9.,]*$"}]}}]}}


def test_offers_are_taken_once_and_a_second_value_has_a_name_of_its_own() -> None:
    form = CountsForm()
    offers = ("keep ul > li", "ignore .ad", "value price - #a b", "value price content #a b", "value date - $.at")
    for offer in (*offers, *offers, "keep ", "other x", ""):
        take_offer(form, offer)
    assert [row.text for row in form.keep] == ["ul > li"]
    assert [row.text for row in form.ignore] == [".ad"]
    assert [(row.name, row.kind, row.source, row.attribute) for row in form.values] == [
        ("price", "price", "#a b", ""),
        ("price 2", "price", "#a b", "content"),
        ("date", "date", "$.at", ""),
    ]
    check_rows(form)
    assert form.is_right


@pytest.mark.parametrize(
    ("before", "after", "later"),
    [
        ("1\tPost\t\tViews 2", "1\tPost\t\tViews 3", "1\tPost\t\tViews 7"),
        ('  "views": 2,', '  "views": 3,', '  "views": 7,'),
    ],
)
def test_the_kind_of_an_entry_and_of_a_line_of_json(before: str, after: str, later: str) -> None:
    pattern = compile_pattern("", pattern_of(kind_of_line(before, after)))
    assert all(pattern.search(line) for line in (before, after, later))


def test_a_selection_in_words() -> None:
    stored = check_selections(SHOP)
    said = selections_in_words(stored)
    assert said == [
        (
            "default",
            [
                ("Keep", ["main", "//h1", "A page without these parts is no failure, but a change"]),
                (
                    "Ignore",
                    [
                        "nav, .ads",
                        "lines with “last updated”",
                        "lines with /^Ad [0-9]+$/",
                        "lines with “Ad”, upper and lower case as typed",
                    ],
                ),
                ("Other steps", ["the page is read as html", "upper and lower case do not differ"]),
                ("Values", ["price: price from attribute content of [itemprop=price]", "seats"]),
                (
                    "Alert me only if",
                    [
                        "price falls by at least 5 %, since the last alert",
                        "and “sale” appears",
                        "or unless “sold out” is on the page",
                        "and unless “Gone” is on the page, upper and lower case as typed",
                    ],
                ),
                ("A difference is no change below", ["3 characters", "1 percent of the text"]),
            ],
        ),
        ("reviews", [("Keep", [".review"])]),
    ]
    assert selections_in_words("") == []


@pytest.mark.parametrize("condition", [*CONDITIONS, *NOT_SHOWN])
def test_each_condition_has_words_with_what_was_typed(condition: Any) -> None:
    stored = check_selections({"default": {"values": {"price": {"kind": "price"}}, "conditions": condition}})
    ((_name, paragraphs),) = selections_in_words(stored)
    (line,) = dict(paragraphs)["Alert me only if"]
    (row,) = condition_rows(condition)
    assert row.argument in line or row.argument == "all" or row.test == AS_JSON
    assert "…" not in line
    assert "(" not in line
    assert orjson.loads(line) == condition if row.test == AS_JSON else "{" not in line


STEPS: list[tuple[Any, str]] = [
    ({"space": "trim"}, "white space around lines does not count"),
    ({"unique": "all"}, "equal lines count once"),
    ({"as": "source"}, "the source text is compared, not what a reader sees"),
    ({"replace": {"re": "[0-9]+", "with": "N"}}, "/[0-9]+/ is replaced by “N”"),
    ({"replace": {"text": "a", "with": ""}}, "“a” is replaced by “”"),
    ({"find": {"re": "v[0-9]+"}}, "only what fits /v[0-9]+/ is kept, a line each"),
    ({"items": {"fields": ["title", "link"]}}, "of the items of a feed: title, link"),
    ({"text": {"links": "yes"}}, "the targets of links count"),
    ({"text": {"cells": "tab"}}, '{"text":{"cells":"tab"}}'),
    ({"keep": {"css": "a"}, "limit": 2}, '{"keep":{"css":"a"},"limit":2}'),
]


@pytest.mark.parametrize(("step", "said"), STEPS)
def test_a_step_without_fields_has_words_or_is_json(step: Any, said: str) -> None:
    ((_name, paragraphs),) = selections_in_words(check_selections({"default": {"steps": [step]}}))
    assert paragraphs == [("Other steps", [said])]
