"""Compiles the steps of a render plan.

A step is an object with one action, what the action needs beside it, and perhaps a `timeout` of its own in seconds:

    {"click": CSS}   {"click_if_exists": CSS}   {"check": CSS}   {"remove": CSS}
    {"type": CSS, "text": TEXT}   {"type": CSS, "secret": TEXT}   {"select": CSS, "value": TEXT}
    {"press": KEY, "on": CSS}     {"press": KEY}
    {"wait_for": CSS}   {"wait_for_text": TEXT}   {"wait": SECONDS}
    {"scroll": "bottom"}   {"scroll": PIXELS}   {"scroll_to": CSS}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pollerd.errors import InvalidValueError
from pollerd.rendering.plan.plan import RenderStep, StepAction
from pollerd.rendering.plan.selectors import checked_selector
from pollerd.rendering.plan.values import checked_number, checked_text

MOST_STEPS = 50
MAX_TYPED_LENGTH = 4_096
_STEP_SECONDS = 10.0
_IF_EXISTS_SECONDS = 2.0
_KEY = re.compile(r"((Control|Shift|Alt|Meta|ControlOrMeta)\+){0,3}([A-Za-z0-9]{1,20}|[!-/:-@\[-`{-~])")
_BESIDE: Mapping[StepAction, frozenset[str]] = {
    StepAction.TYPE: frozenset({"text", "secret"}),
    StepAction.SELECT: frozenset({"value"}),
    StepAction.PRESS: frozenset({"on"}),
}
_ACTIONS = ", ".join(StepAction)


def compile_steps(field: str, given: object) -> tuple[RenderStep, ...]:
    """Returns the steps. Raises `InvalidValueError` naming the step's position, from 0, and its key."""
    if not isinstance(given, list | tuple) or len(given) > MOST_STEPS:
        shown = f"{len(given)} steps" if isinstance(given, list | tuple) else type(given).__name__
        raise InvalidValueError(field, f"a list of at most {MOST_STEPS} steps", shown)
    return tuple(_step(f"{field}[{position}]", one) for position, one in enumerate(given))


def _step(field: str, given: object) -> RenderStep:
    if not isinstance(given, Mapping):
        raise InvalidValueError(field, f"an object with one of {_ACTIONS}", type(given).__name__)
    actions = [action for action in StepAction if action in given]
    if len(actions) != 1:
        shown = "none of them" if not actions else " and ".join(actions)
        raise InvalidValueError(field, f"an object with exactly one of {_ACTIONS}", shown)
    action = actions[0]
    beside = _BESIDE.get(action, frozenset())
    unknown = [str(key)[:40] for key in given if key not in beside | {action, "timeout"}]
    if unknown:
        also = ", ".join(sorted(beside | {"timeout"}))
        raise InvalidValueError(f"{field}.{unknown[0]}", f"absent: beside {action} there may be {also}", "(not shown)")
    usual = _IF_EXISTS_SECONDS if action is StepAction.CLICK_IF_EXISTS else _STEP_SECONDS
    timeout = checked_number(f"{field}.timeout", given.get("timeout", usual), "timeout")
    return _COMPILERS.get(action, _by_selector)(f"{field}.{action}", field, action, given, timeout)


def _by_selector(place: str, _: str, action: StepAction, given: Mapping[str, Any], timeout: float) -> RenderStep:
    return RenderStep(action, checked_selector(place, given[action]), timeout=timeout)


def _typing(place: str, field: str, action: StepAction, given: Mapping[str, Any], timeout: float) -> RenderStep:
    selector = checked_selector(place, given[action])
    if ("text" in given) == ("secret" in given):
        raise InvalidValueError(field, "type with either text or secret", "both" if "text" in given else "neither")
    key = "secret" if "secret" in given else "text"
    value = checked_text(f"{field}.{key}", given[key], MAX_TYPED_LENGTH, secret=True)
    return RenderStep(action, selector, value, timeout=timeout, secret=key == "secret")


def _selecting(place: str, field: str, action: StepAction, given: Mapping[str, Any], timeout: float) -> RenderStep:
    selector = checked_selector(place, given[action])
    value = checked_text(f"{field}.value", given.get("value"), MAX_TYPED_LENGTH)
    return RenderStep(action, selector, value, timeout=timeout)


def _pressing(place: str, field: str, action: StepAction, given: Mapping[str, Any], timeout: float) -> RenderStep:
    key = given[action]
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidValueError(place, "a key, like Enter, Tab, a or Control+a", key)
    selector = checked_selector(f"{field}.on", given["on"]) if "on" in given else ""
    return RenderStep(action, selector, key, timeout=timeout)


def _looking(place: str, _: str, action: StepAction, given: Mapping[str, Any], timeout: float) -> RenderStep:
    return RenderStep(action, value=checked_text(place, given[action], 1_000), timeout=timeout)


def _waiting(place: str, _: str, action: StepAction, given: Mapping[str, Any], timeout: float) -> RenderStep:
    return RenderStep(action, number=checked_number(place, given[action], "seconds"), timeout=timeout)


def _scrolling(place: str, _: str, action: StepAction, given: Mapping[str, Any], timeout: float) -> RenderStep:
    if given[action] == "bottom":
        return RenderStep(action, timeout=timeout)
    if isinstance(given[action], str):
        raise InvalidValueError(place, "bottom, or a number of pixels", given[action])
    return RenderStep(action, number=checked_number(place, given[action], "scroll", whole=True), timeout=timeout)


_Compile = Callable[[str, str, StepAction, Mapping[str, Any], float], RenderStep]
_COMPILERS: Mapping[StepAction, _Compile] = {
    StepAction.TYPE: _typing,
    StepAction.SELECT: _selecting,
    StepAction.PRESS: _pressing,
    StepAction.WAIT_FOR_TEXT: _looking,
    StepAction.WAIT: _waiting,
    StepAction.SCROLL: _scrolling,
}
"""Of actions that need more than a selector."""
