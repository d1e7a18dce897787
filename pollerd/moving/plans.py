"""Spells what happens in a browser, and when a site may be polled, as sites have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pollerd.texts import _

PIXELS_MOST = 100_000


def plan_of(browser: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the render plan of what importers note under `browser`, and what of it a plan cannot say."""
    plan: dict[str, Any] = {}
    lost: list[str] = []
    wait: dict[str, Any] = {}
    if browser.get("wait_for"):
        wait["selector"] = browser["wait_for"]
    if browser.get("wait_seconds"):
        wait["seconds"] = browser["wait_seconds"]
    if browser.get("wait_until") == "idle":
        wait["idle"] = True
    if wait:
        plan["wait"] = wait
    if browser.get("block"):
        plan["block"] = browser["block"]
    steps = []
    for step in browser.get("steps", ()):
        made = _step(step)
        if made is None:
            lost.append(_("the step {next}: a plan names elements by CSS only", next=next(iter(step))))
        else:
            steps.append(made)
    if steps:
        plan["steps"] = steps
    return plan, lost


def windows_as_sites_have_them(windows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns windows, which importers note with a zone each, as one table: all of a site are in one zone."""
    opened = [{name: value for name, value in window.items() if name != "zone"} for window in windows]
    return {"zone": windows[0]["zone"], "open": opened}


def _step(step: Mapping[str, Any]) -> dict[str, Any] | None:
    action, argument = next(iter(step.items()))
    match action, argument:
        case "click", str():
            return {"click_if_exists" if step.get("optional") else "click": argument}
        case "type", {"into": into, "text": text}:
            return {"type": into, "secret": text}  # it may be a password
        case "select", {"in": where, "label": label}:
            return {"select": where, "value": label}
        case "scroll", _:
            pixels = int(argument) if str(argument).isdecimal() else 0
            return {"scroll": min(pixels, PIXELS_MOST) or "bottom"}
        case "wait", {"text": text}:
            return {"wait_for_text": text}
        case (("wait" | "press" | "remove"), _):
            return {action: argument}
    return None
