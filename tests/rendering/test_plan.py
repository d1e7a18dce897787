"""What may be said of how a page is rendered, and what is refused, with its position."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.errors import InvalidValueError
from pollerd.rendering.plan import DEFAULT_PLAN, StepAction, compile_plan, join_secrets, secret_positions, split_secrets

SIGN_IN = {
    "wait": {"selector": "main", "idle": True, "seconds": 1},
    "block": ["image"],
    "steps": [
        {"click_if_exists": "#accept", "timeout": 1},
        {"type": "input[name=user]", "text": "jo"},
        {"type": "input[name=password]", "secret": "hunter2"},
        {"press": "Enter", "on": "input[name=password]"},
        {"wait_for_text": "Welcome"},
        {"scroll": "bottom"},
    ],
    "timeout": 20,
    "viewport": {"width": 800},
}


def test_nothing_said_is_the_default() -> None:
    assert compile_plan("render", None) == compile_plan("render", {}) == DEFAULT_PLAN
    assert DEFAULT_PLAN.block == {"image", "media", "font"}
    assert DEFAULT_PLAN.wait.idle


def test_a_whole_plan() -> None:
    plan = compile_plan("render", SIGN_IN)
    assert [step.action for step in plan.steps] == [
        StepAction.CLICK_IF_EXISTS,
        StepAction.TYPE,
        StepAction.TYPE,
        StepAction.PRESS,
        StepAction.WAIT_FOR_TEXT,
        StepAction.SCROLL,
    ]
    assert [step.secret for step in plan.steps] == [False, False, True, False, False, False]
    assert plan.secrets == ("hunter2",)
    assert (plan.width, plan.height, plan.timeout) == (800, DEFAULT_PLAN.height, 20)
    assert "hunter2" not in repr(plan)


def test_what_is_waited_for_is_only_what_is_said() -> None:
    wait = compile_plan("render", {"wait": {"selector": "main"}}).wait
    assert (wait.selector, wait.idle, wait.seconds) == ("main", False, 0)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "render"),
        ({"wat": 1}, "render.wat"),
        ({"wait": {"idle": 1}}, "render.wait.idle"),
        ({"wait": {"seconds": 61}}, "render.wait.seconds"),
        ({"wait": {"seconds": float("nan")}}, "render.wait.seconds"),
        ({"wait": {"selector": "a["}}, "render.wait.selector, character 2"),
        ({"wait": {"selector": "a >> b"}}, "render.wait.selector, character 3"),
        ({"wait": {"selector": "p:not(.a"}}, "render.wait.selector, character 6"),
        ({"wait": {"selector": "a[b='c]"}}, "render.wait.selector, character 5"),
        ({"wait": {"selector": "a)"}}, "render.wait.selector, character 2"),
        ({"wait": {"selector": "!!"}}, "render.wait.selector"),
        ({"wait": {"selector": ""}}, "render.wait.selector"),
        ({"wait": {"selector": "a" * 2_000}}, "render.wait.selector"),
        ({"block": "image"}, "render.block"),
        ({"block": ["image", "document"]}, "render.block[1]"),
        ({"screenshot": True}, "render.screenshot"),
        ({"timeout": 0}, "render.timeout"),
        ({"timeout": True}, "render.timeout"),
        ({"viewport": {"width": 10}}, "render.viewport.width"),
        ({"viewport": {"height": 99.5}}, "render.viewport.height"),
        ({"steps": {}}, "render.steps"),
        ({"steps": [{"click": "a"}] * 51}, "render.steps"),
        ({"steps": ["click"]}, "render.steps[0]"),
        ({"steps": [{"click": "a"}, {}]}, "render.steps[1]"),
        ({"steps": [{"click": "a", "check": "b"}]}, "render.steps[0]"),
        ({"steps": [{"click": "a", "text": "b"}]}, "render.steps[0].text"),
        ({"steps": [{"click": "a("}]}, "render.steps[0].click, character 2"),
        ({"steps": [{"type": "a"}]}, "render.steps[0]"),
        ({"steps": [{"type": "a", "text": "x", "secret": "y"}]}, "render.steps[0]"),
        ({"steps": [{"type": "a", "secret": 5}]}, "render.steps[0].secret"),
        ({"steps": [{"select": "a"}]}, "render.steps[0].value"),
        ({"steps": [{"press": "do it"}]}, "render.steps[0].press"),
        ({"steps": [{"press": "Enter", "on": ""}]}, "render.steps[0].on"),
        ({"steps": [{"wait": -1}]}, "render.steps[0].wait"),
        ({"steps": [{"wait_for_text": ""}]}, "render.steps[0].wait_for_text"),
        ({"steps": [{"scroll": "top"}]}, "render.steps[0].scroll"),
        ({"steps": [{"scroll": 0}]}, "render.steps[0].scroll"),
        ({"steps": [{"click": "a", "timeout": 601}]}, "render.steps[0].timeout"),
    ],
)
def test_what_cannot_be_is_refused_with_its_position(document: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        compile_plan("render", document)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "selector",
    [
        "main",
        "#a .b > c + d ~ e, f",
        "a[href^='https://x.example/(']",
        'a[title="]"]',
        r"#\31 23",
        "li:nth-child(2n + 1 of .a)",
        "div:has(> img)",
        "::part(x)",
        "dialog:popover-open button",
        "p:not(:is(.a, .b))",
    ],
)
def test_selectors_that_browsers_know(selector: str) -> None:
    assert compile_plan("render", {"wait": {"selector": selector}}).wait.selector == selector


def test_secrets_are_taken_out_and_put_back() -> None:
    document, secrets = split_secrets(SIGN_IN)
    assert secrets == ("hunter2",)
    assert secret_positions(document) == (2,)
    assert "hunter2" not in str(document)
    assert join_secrets(document, secrets) == SIGN_IN
    assert split_secrets({"timeout": 5}) == ({"timeout": 5}, ())
    with pytest.raises(ValueError, match="1 places for 0 secrets"):
        join_secrets(document, ())


@pytest.mark.parametrize("key", ["text", "secret"])
@pytest.mark.parametrize("value", ["s3cr3t\0", "s3cr3t" * 1_000, ["s3cr3t"]])
def test_no_error_shows_what_is_typed(key: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as refused:
        compile_plan("render", {"steps": [{"type": "input", key: value}]})
    assert "s3cr3t" not in str(refused.value)


KEYS = st.sampled_from(
    ["wait", "block", "steps", "timeout", "viewport", "selector", "idle", "seconds", "width", *StepAction]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
)


def refused_at(document: Any) -> str | None:
    """The field that is refused; None: none is."""
    try:
        compile_plan("render", document)
    except InvalidValueError as error:
        return error.field
    return None


@given(document=JSON)
def test_any_document_is_a_plan_or_refused(document: Any) -> None:
    assert (refused_at(document) or "render").startswith("render")


@given(text=st.text(alphabet="ab#.[]()'\"\\:>+~*,= ", min_size=1, max_size=30))
def test_any_selector_is_taken_or_refused(text: str) -> None:
    document = {"wait": {"selector": text}}
    field = refused_at(document)
    if field is None:
        assert compile_plan("render", document).wait.selector == text.strip()
    else:
        assert field.startswith("render.wait.selector")
