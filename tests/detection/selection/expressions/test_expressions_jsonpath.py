"""JSONPath: dialects refused with the way out, values as RFC 9535 has them, bounded work."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.selection.expressions import jsonpath_engine
from pollerd.detection.selection.expressions.jsonpath import compile_jsonpath
from pollerd.detection.selection.expressions.refusal import Refusal
from pollerd.errors import InvalidValueError, SelectionLimitError

VALUE: Any = json.loads('{"a": [{"n": 1, "z": "xay"}, {"n": null}], "b": {"c": [1, [2]]}, "t": [true], "o": [1]}')

REFUSED = [
    ("items[0]", 1, 'starts with "$"; did you mean "$.items[0]"?'),
    ("[0]", 1, 'did you mean "$[0]"?'),
    ("$.a[?price>10]", 6, '"?@.price'),
    ("$.a[?(@.x>1 & @.y=='z')]", 13, '"&&"'),
    ("$.a[?(@.n =~ 'x.*')]", 11, "search(@.name"),
    ("$.a.`len`", 5, "jsonpath-ng"),
    ("$.a[/x]", 4, "step sort"),
    ("$.a[", 4, "unbalanced brackets"),
    (r"$.a[?search(@.z, '\\d')]", 19, "I-Regexp"),
    ("$.a[?foo(@)]", 6, "not defined"),
    ("$" + "[?(" * 8 + "@", 25, "15 brackets"),
    ("$[?" + "@&&" * 61 + "@]", 185, "60 comparisons"),
    ("$[?@ == 1e999]", None, "cannot be read"),
]


@pytest.mark.parametrize(("path", "character", "reason"), REFUSED, ids=[row[0][:14] for row in REFUSED])
def test_refused_when_set(path: str, character: int | None, reason: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        compile_jsonpath("steps[1].keep.jsonpath", path)
    assert reason in refused.value.allowed
    at = f", character {character}" if character else ""
    assert refused.value.field == f"steps[1].keep.jsonpath{at}"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.a[*].n", [1, None]),
        ("$..n", [1, None]),
        ("$.missing", []),
        ("$.a[1].n", [None]),
        ("$[?@ == $.t]", [[True]]),
        ("$[?@ != $.t]", [VALUE["a"], VALUE["b"], [1]]),
        ("$.a[?@.n == 1.0].z", ["xay"]),
        ("$.a[?@.n == null]", [{"n": None}]),
        ("$.a[?search(@.z, '^x.')].z", ["xay"]),
        ("$.a[?match(@.z, 'x.')].z", []),
        ("$.a[?match(@.z, 'x.y')].z", ["xay"]),
        ("$..[?@ == 'xay']", ["xay"]),
        ("$.b.c[::-1]", [[2], 1]),
        ("$['a'][?length(@.z) == 3 && count(@.*) == 2].n", [1]),
    ],
)
def test_values(path: str, found: list[Any]) -> None:
    assert compile_jsonpath("f", path).find(VALUE) == found


def test_descends_in_the_documents_order() -> None:
    assert compile_jsonpath("f", "$..*").find([[1, [2]], {"a": 3}]) == [[1, [2]], {"a": 3}, 1, [2], 2, 3]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_bounded_without_recursion() -> None:
    assert len(compile_jsonpath("f", "$..*").find(nested(499))) == 499
    with pytest.raises(SelectionLimitError, match="500 levels"):
        compile_jsonpath("f", "$..*").find(nested(100_000))
    assert compile_jsonpath("f", "$" + ".a" * 400).find({}) == []


@pytest.mark.parametrize(
    "path", ["$..*..*", "$.l[?$.s == $.t]", "$.l[?search($.w, 'b')]", "$.l[?$.w == $.v]", "$.l[?$..[?@ == 9]]"]
)
def test_work_is_bounded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that grows with the square of the document meets the limit."""
    monkeypatch.setattr(jsonpath_engine, "MAX_NODES", 20_000)
    numbers = list(range(1_000))
    value = {"l": numbers, "s": numbers, "t": list(numbers), "w": "a" * 100_000, "v": "a" * 99_999 + "a"}
    if path == "$..*..*":
        value = {"l": nested(300)}
    with pytest.raises(SelectionLimitError, match="20,000 values"):
        compile_jsonpath("f", path).find(value)
    assert compile_jsonpath("f", "$.l[*]").find(value) == value["l"]


def test_work_grows_linearly() -> None:
    engine = jsonpath_engine.BoundedEnvironment(Refusal("f", "a path", "$..n"))
    query, used = engine.query("$..n"), []
    for length in (100, 200, 400):
        engine.values(query, [{"n": 1}] * length)
        used.append(engine.budget.used)
    assert used[2] - used[1] == 2 * (used[1] - used[0])


def test_patterns_that_backtrack_end() -> None:
    path = compile_jsonpath("f", "$[?match(@, '(a|aa)+c')]")
    assert path.find(["a" * 50_000, "aac"]) == ["aac"]


@given(path=st.text(alphabet="ab.*[]?@()&|!=<>'\"1-:, \\$searchmtlng", max_size=25))
def test_any_text_is_a_path_or_refused(path: str) -> None:
    try:
        compiled = compile_jsonpath("f", f"${path}")
    except InvalidValueError:
        return
    assert isinstance(compiled.find(VALUE), list)
