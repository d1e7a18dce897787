"""Render plans: how a page is rendered, checked and compiled from the settings document of a site or tag."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from pollerd.errors import InvalidValueError, kind_of, refusal
from pollerd.ranges import RENDER_PLAN
from pollerd.texts import N_, _, n_


class StepAction(StrEnum):
    """What a step does to the page before it is read."""

    CLICK = "click"
    CLICK_IF_EXISTS = "click_if_exists"
    TYPE = "type"
    PRESS = "press"
    CHECK = "check"
    SELECT = "select"
    WAIT_FOR = "wait_for"
    WAIT_FOR_TEXT = "wait_for_text"
    WAIT = "wait"
    SCROLL = "scroll"
    SCROLL_TO = "scroll_to"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class RenderStep:
    """One step. Its value may be a secret: neither `repr` nor an error shows it."""

    action: StepAction
    selector: str = ""
    """CSS; empty where the action has none."""
    value: str = field(default="", repr=False)
    """What is typed, pressed, selected, or looked for."""
    number: float = 0.0
    """Seconds of `wait`; pixels of `scroll`, 0: to the bottom."""
    timeout: float = 10.0
    """Seconds."""
    secret: bool = False
    """Whether `value` is a secret, to be sealed in the database."""


@dataclass(frozen=True, slots=True)
class RenderWait:
    """What is waited for before the steps, in this order."""

    idle: bool = True
    """Until the network is idle for half a second, at most ten seconds: some pages never rest."""
    selector: str | None = None
    """Until an element of this CSS selector is there; none in time is a failure."""
    seconds: float = 0.0
    """For so long."""


@dataclass(frozen=True, slots=True)
class RenderPlan:
    """How a page is rendered."""

    wait: RenderWait = RenderWait()
    block: frozenset[str] = frozenset({"image", "media", "font"})
    """Types of resources that are not loaded."""
    steps: tuple[RenderStep, ...] = ()
    screenshot: bool = False
    """Whether a PNG is taken of it; no part of the document, but what the site's `keep_screenshots` says."""
    boxes: bool = False
    """Whether the boxes of its elements are read."""
    timeout: float | None = None
    """Seconds for the whole poll, at most the daemon's deadline; None: that."""
    width: int = 1280
    height: int = 720
    """The viewport, in CSS pixels."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of its steps."""
        return tuple(step.value for step in self.steps if step.secret)


# The check of CSS selectors before a browser has to: an impossible one is refused, with the position of the fault.

MAX_SELECTOR_LENGTH = 1_000
_OPEN, _CLOSE = "([", ")]"
_ALLOWED = N_("a CSS selector")


def checked_selector(field: str, value: object) -> str:
    """Returns a CSS selector. Raises `InvalidValueError` naming field and character, counted from 1."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidValueError(field, _(_ALLOWED), value)
    if len(value) > MAX_SELECTOR_LENGTH:
        raise InvalidValueError(
            field,
            _(
                "{allowed} of at most {max_selector_length} characters",
                allowed=_(_ALLOWED),
                max_selector_length=MAX_SELECTOR_LENGTH,
            ),
            value,
        )
    fault = _fault(value)
    if fault is not None:
        position, reason = fault
        raise InvalidValueError(
            _("{field}, character {position}", field=field, position=position + 1), f"{_(_ALLOWED)}: {reason}", value
        )
    if not _readable(value):
        raise InvalidValueError(field, _(_ALLOWED), value)
    return value.strip()


def _fault(text: str) -> tuple[int, str] | None:
    """Returns where brackets, quotes or combinators cannot be, and why."""
    opened: list[int] = []
    quote_at: int | None = None
    at = 0
    while at < len(text):
        c = text[at]
        if c < " " or c == "\x7f":
            return at, _("it holds a control character")
        if c == "\\":
            at += 2
            continue
        if quote_at is not None:
            quote_at = None if c == text[quote_at] else quote_at
        elif c in "\"'":
            quote_at = at
        elif (fault := _bracket_fault(text, at, opened)) is not None:
            return at, fault
        at += 1
    if quote_at is not None:
        return quote_at, _("this quote is never closed")
    return (opened[-1], _("this {text} is never closed", text=text[opened[-1]])) if opened else None


def _bracket_fault(text: str, at: int, opened: list[int]) -> str | None:
    """Keeps track of open brackets; returns why the character cannot be there."""
    c = text[at]
    if c in _OPEN:
        opened.append(at)
    elif c in _CLOSE:
        if not opened or _OPEN.index(text[opened[-1]]) != _CLOSE.index(c):
            return _("this {c} closes nothing", c=c)
        opened.pop()
    elif c in "{}<;@":
        return _("{c} stands for nothing in one", c=c)
    elif c == ">" and text[at + 1 : at + 2] == ">":
        return _(">> stands for nothing in one")
    return None


def _readable(text: str) -> bool:
    """Whether a parser takes it. Browsers know pseudo-classes that it does not: those pass."""
    try:
        LexborHTMLParser("<p></p>").css(text)
    except SelectolaxError:
        plain = re.sub(r"::?[a-zA-Z-]+(\([^()]*(\([^()]*\)[^()]*)*\))?", "", text)
        if plain == text or not plain.strip():
            return plain != text
        try:
            LexborHTMLParser("<p></p>").css(plain)
        except SelectolaxError:
            return False
    return True


# Checks of single values. Each function raises `InvalidValueError` naming the field.


def checked_object(field: str, value: object, known: frozenset[str]) -> Mapping[str, Any]:
    """Returns an object that has only known keys."""
    allowed = _("an object with keys of {known}", known=", ".join(sorted(known)))
    if not isinstance(value, Mapping):
        raise InvalidValueError(field, allowed, kind_of(value))
    unknown = [key for key in value if key not in known]
    if unknown:
        raise refusal(
            f"{field}.{str(unknown[0])[:40]}", _("unknown field; {field} is {allowed}", field=field, allowed=allowed)
        )
    return value


def checked_number(field: str, value: object, name: str, *, whole: bool = False) -> float:
    """Returns a number in the range that is called `name`."""
    allowed = RENDER_PLAN[name]
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not allowed.holds(value):
        raise InvalidValueError(field, allowed.allowed, value)
    return value


def checked_flag(field: str, value: object) -> bool:
    """Returns true or false."""
    if not isinstance(value, bool):
        raise InvalidValueError(field, _("true or false"), value)
    return value


def checked_text(field: str, value: object, most: int, *, secret: bool = False) -> str:
    """Returns a text of 1 to `most` characters; a secret is not shown in the error."""
    if not isinstance(value, str) or not 0 < len(value) <= most or "\0" in value:
        shown = "(not shown)" if secret else value
        raise InvalidValueError(field, _("a text of 1 to {most:,} characters", most=most), shown)
    return value


# Steps of a render plan.
#
# A step is an object with one action, the fields that the action needs, and perhaps its own `timeout` in seconds:
#
#     {"click": CSS}   {"click_if_exists": CSS}   {"check": CSS}   {"remove": CSS}
#     {"type": CSS, "text": TEXT}   {"type": CSS, "secret": TEXT}   {"select": CSS, "value": TEXT}
#     {"press": KEY, "on": CSS}     {"press": KEY}
#     {"wait_for": CSS}   {"wait_for_text": TEXT}   {"wait": SECONDS}
#     {"scroll": "bottom"}   {"scroll": PIXELS}   {"scroll_to": CSS}

MAX_STEPS = 50
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


def compile_steps(field: str, value: object) -> tuple[RenderStep, ...]:
    """Returns the steps. Raises `InvalidValueError` naming the step's position, from 0, and its key."""
    if not isinstance(value, list | tuple) or len(value) > MAX_STEPS:
        shown = n_("{count} step", "{count} steps", len(value)) if isinstance(value, list | tuple) else kind_of(value)
        raise InvalidValueError(field, _("a list of at most {max_steps} steps", max_steps=MAX_STEPS), shown)
    return tuple(_step(f"{field}[{position}]", step) for position, step in enumerate(value))


def _step(field: str, value: object) -> RenderStep:
    if not isinstance(value, Mapping):
        raise InvalidValueError(field, _("an object with one of {actions}", actions=_ACTIONS), kind_of(value))
    actions = [action for action in StepAction if action in value]
    if len(actions) != 1:
        shown = _("none of them") if not actions else " and ".join(actions)
        raise InvalidValueError(field, _("an object with exactly one of {actions}", actions=_ACTIONS), shown)
    action = actions[0]
    beside = _BESIDE.get(action, frozenset())
    unknown = [str(key)[:40] for key in value if key not in beside | {action, "timeout"}]
    if unknown:
        also = ", ".join(sorted(beside | {"timeout"}))
        raise refusal(
            f"{field}.{unknown[0]}", _("unknown field; {action} can be combined with {also}", action=action, also=also)
        )
    usual = _IF_EXISTS_SECONDS if action is StepAction.CLICK_IF_EXISTS else _STEP_SECONDS
    timeout = checked_number(f"{field}.timeout", value.get("timeout", usual), "timeout")
    return _COMPILERS.get(action, _by_selector)(f"{field}.{action}", field, action, value, timeout)


def _by_selector(place: str, _field: str, action: StepAction, fields: Mapping[str, Any], timeout: float) -> RenderStep:
    return RenderStep(action, checked_selector(place, fields[action]), timeout=timeout)


def _typing(place: str, field: str, action: StepAction, fields: Mapping[str, Any], timeout: float) -> RenderStep:
    selector = checked_selector(place, fields[action])
    if ("text" in fields) == ("secret" in fields):
        raise InvalidValueError(field, _("type with either text or secret"), "both" if "text" in fields else "neither")
    key = "secret" if "secret" in fields else "text"
    value = checked_text(f"{field}.{key}", fields[key], MAX_TYPED_LENGTH, secret=True)
    return RenderStep(action, selector, value, timeout=timeout, secret=key == "secret")


def _selecting(place: str, field: str, action: StepAction, fields: Mapping[str, Any], timeout: float) -> RenderStep:
    selector = checked_selector(place, fields[action])
    value = checked_text(f"{field}.value", fields.get("value"), MAX_TYPED_LENGTH)
    return RenderStep(action, selector, value, timeout=timeout)


def _pressing(place: str, field: str, action: StepAction, fields: Mapping[str, Any], timeout: float) -> RenderStep:
    key = fields[action]
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidValueError(place, _("a key, like Enter, Tab, a or Control+a"), key)
    selector = checked_selector(f"{field}.on", fields["on"]) if "on" in fields else ""
    return RenderStep(action, selector, key, timeout=timeout)


def _looking(place: str, _field: str, action: StepAction, fields: Mapping[str, Any], timeout: float) -> RenderStep:
    return RenderStep(action, value=checked_text(place, fields[action], 1_000), timeout=timeout)


def _waiting(place: str, _field: str, action: StepAction, fields: Mapping[str, Any], timeout: float) -> RenderStep:
    return RenderStep(action, number=checked_number(place, fields[action], "seconds"), timeout=timeout)


def _scrolling(place: str, _field: str, action: StepAction, fields: Mapping[str, Any], timeout: float) -> RenderStep:
    if fields[action] == "bottom":
        return RenderStep(action, timeout=timeout)
    if isinstance(fields[action], str):
        raise InvalidValueError(place, _("bottom, or a number of pixels"), fields[action])
    return RenderStep(action, number=checked_number(place, fields[action], "scroll", whole=True), timeout=timeout)


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


# The whole document:
#
#     {"wait": {"selector": CSS, "idle": true, "seconds": 2}, "block": ["image", "media", "font"], "steps": [...],
#      "timeout": 30, "viewport": {"width": 1280, "height": 720}}
#
# Every key may be absent. With its own `wait`, only the conditions that it names are waited for.

RESOURCE_TYPES: Final = ("image", "media", "font", "stylesheet", "script", "xhr", "fetch", "websocket", "eventsource")
"""What may be blocked; the names are Playwright's."""
_KEYS = frozenset({"wait", "block", "steps", "timeout", "viewport"})

DEFAULT_PLAN: Final = RenderPlan()


def compile_plan(field: str, document: object) -> RenderPlan:
    """Returns the plan; `document`: as decoded from JSON, None or empty: the default plan.

    `field` is the name of the whole in errors. Raises `InvalidValueError` naming the field with its position, what is
    allowed and what was given; no value of a `type` step is ever shown.
    """
    if document is None:
        return DEFAULT_PLAN
    fields = checked_object(field, document, _KEYS)
    viewport = checked_object(f"{field}.viewport", fields.get("viewport", {}), frozenset({"width", "height"}))
    sizes = {
        name: int(checked_number(f"{field}.viewport.{name}", viewport.get(name, usual), name, whole=True))
        for name, usual in (("width", DEFAULT_PLAN.width), ("height", DEFAULT_PLAN.height))
    }
    timeout = fields.get("timeout")
    return RenderPlan(
        wait=_wait(f"{field}.wait", fields["wait"]) if "wait" in fields else DEFAULT_PLAN.wait,
        block=_block(f"{field}.block", fields["block"]) if "block" in fields else DEFAULT_PLAN.block,
        steps=compile_steps(f"{field}.steps", fields.get("steps", ())),
        timeout=None if timeout is None else checked_number(f"{field}.timeout", timeout, "timeout"),
        width=sizes["width"],
        height=sizes["height"],
    )


def _wait(field: str, document: object) -> RenderWait:
    fields = checked_object(field, document, frozenset({"selector", "idle", "seconds"}))
    return RenderWait(
        idle=checked_flag(f"{field}.idle", fields.get("idle", False)),
        selector=checked_selector(f"{field}.selector", fields["selector"]) if "selector" in fields else None,
        seconds=checked_number(f"{field}.seconds", fields.get("seconds", 0), "seconds"),
    )


def _block(field: str, value: object) -> frozenset[str]:
    allowed = _("a list of {resource_types}", resource_types=", ".join(RESOURCE_TYPES))
    if not isinstance(value, list | tuple):
        raise InvalidValueError(field, allowed, kind_of(value))
    for position, resource_type in enumerate(value):
        if resource_type not in RESOURCE_TYPES:
            raise InvalidValueError(
                f"{field}[{position}]",
                _("one of {resource_types}", resource_types=", ".join(RESOURCE_TYPES)),
                resource_type,
            )
    return frozenset(value)


# Secrets of a plan's document: taken out of it, so that they are sealed apart from it and shown to nobody.

SEALED = "(sealed)"
"""Stands in a document in the place of a secret."""


def secret_positions(document: object) -> tuple[int, ...]:
    """Returns the positions of steps that hold a secret, from 0."""
    steps = document.get("steps", ()) if isinstance(document, Mapping) else ()
    if not isinstance(steps, list | tuple):
        return ()
    return tuple(at for at, step in enumerate(steps) if isinstance(step, Mapping) and "secret" in step)


def split_secrets(document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns a document that `compile_plan` took, with `SEALED` for each secret, and the secrets in order."""
    positions = secret_positions(document)
    if not positions:
        return dict(document), ()
    steps = [dict(step) for step in document["steps"]]
    secrets = tuple(str(steps[at]["secret"]) for at in positions)
    for at in positions:
        steps[at]["secret"] = SEALED
    return {**document, "steps": steps}, secrets


def join_secrets(document: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    """Returns the document with its secrets again, as `split_secrets` took them out. Raises `ValueError` if they are
    not as many.
    """
    positions = secret_positions(document)
    if len(positions) != len(secrets):
        raise ValueError(_("{places} places for {secrets} secrets", places=len(positions), secrets=len(secrets)))
    if not positions:
        return dict(document)
    steps = [dict(step) for step in document["steps"]]
    for at, secret in zip(positions, secrets, strict=True):
        steps[at]["secret"] = secret
    return {**document, "steps": steps}
