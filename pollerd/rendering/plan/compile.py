"""Compiles a render plan from the settings document of a site or tag.

    {"wait": {"selector": CSS, "idle": true, "seconds": 2}, "block": ["image", "media", "font"], "steps": [...],
     "timeout": 30, "viewport": {"width": 1280, "height": 720}}

Every key may be absent. With a `wait` of its own, only what it names is waited for.
"""

from __future__ import annotations

from typing import Final

from pollerd.errors import InvalidValueError
from pollerd.rendering.plan.plan import RenderPlan, RenderWait
from pollerd.rendering.plan.selectors import checked_selector
from pollerd.rendering.plan.steps import compile_steps
from pollerd.rendering.plan.values import checked_flag, checked_number, checked_object

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
    given = checked_object(field, document, _KEYS)
    viewport = checked_object(f"{field}.viewport", given.get("viewport", {}), frozenset({"width", "height"}))
    sizes = {
        name: int(checked_number(f"{field}.viewport.{name}", viewport.get(name, usual), name, whole=True))
        for name, usual in (("width", DEFAULT_PLAN.width), ("height", DEFAULT_PLAN.height))
    }
    timeout = given.get("timeout")
    return RenderPlan(
        wait=_wait(f"{field}.wait", given["wait"]) if "wait" in given else DEFAULT_PLAN.wait,
        block=_block(f"{field}.block", given["block"]) if "block" in given else DEFAULT_PLAN.block,
        steps=compile_steps(f"{field}.steps", given.get("steps", ())),
        timeout=None if timeout is None else checked_number(f"{field}.timeout", timeout, "timeout"),
        width=sizes["width"],
        height=sizes["height"],
    )


def _wait(field: str, document: object) -> RenderWait:
    given = checked_object(field, document, frozenset({"selector", "idle", "seconds"}))
    return RenderWait(
        idle=checked_flag(f"{field}.idle", given.get("idle", False)),
        selector=checked_selector(f"{field}.selector", given["selector"]) if "selector" in given else None,
        seconds=checked_number(f"{field}.seconds", given.get("seconds", 0), "seconds"),
    )


def _block(field: str, given: object) -> frozenset[str]:
    allowed = f"a list of {', '.join(RESOURCE_TYPES)}"
    if not isinstance(given, list | tuple):
        raise InvalidValueError(field, allowed, type(given).__name__)
    for position, one in enumerate(given):
        if one not in RESOURCE_TYPES:
            raise InvalidValueError(f"{field}[{position}]", f"one of {', '.join(RESOURCE_TYPES)}", one)
    return frozenset(given)
