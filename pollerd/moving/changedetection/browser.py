"""How a watch is fetched: with a browser, its waits and its steps. What is typed may be a secret, and is not told."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.moving.changedetection.instance import Item, table
from pollerd.moving.changedetection.settings import Settings
from pollerd.moving.draft import Draft
from pollerd.texts import _

Made = tuple[Item | None, str]
_PLAIN = frozenset({"system", "html_requests", ""})


def apply(draft: Draft, fields: Item, settings: Settings) -> None:
    """Sets render and what happens in the browser."""
    backend = str(fields.pop("fetch_backend", "") or "")
    browser: Item = {}
    rendered = backend not in _PLAIN or (backend in ("system", "") and settings.browser)
    if rendered:
        draft.fields["render"] = "browser"
    if backend.startswith("extra_browser_"):
        draft.report.approximated("fetch_backend", _("in the one browser that --browser names"))
    elif rendered:
        draft.report.carried("fetch_backend")
    elif backend == "system" and not settings.known:
        draft.report.approximated(
            "fetch_backend", _("the settings' default is not readable: fetched without a browser")
        )
    else:
        draft.report.nothing_said("fetch_backend")
    _apply_delay(draft, fields.pop("webdriver_delay", None), browser, rendered=rendered)
    _apply_steps(draft, fields.pop("browser_steps", None), browser, rendered=rendered)
    if browser:
        draft.fields["browser"] = browser
    script = fields.pop("webdriver_js_execute_code", None)
    if script:
        draft.report.not_carried("webdriver_js_execute_code", _("its scripts are not carried over"))
    else:
        draft.report.nothing_said("webdriver_js_execute_code")


def _apply_delay(draft: Draft, value: object, browser: Item, *, rendered: bool) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value:
        draft.report.nothing_said("webdriver_delay")
    elif rendered:
        browser["wait_seconds"] = value
        draft.report.carried("webdriver_delay")
    else:
        draft.report.nothing_said("webdriver_delay", _("it only counts in a browser"))


def _apply_steps(draft: Draft, value: object, browser: Item, *, rendered: bool) -> None:
    steps = [table(entry) for entry in value] if isinstance(value, list) else []
    steps = [entry for entry in steps if entry.get("operation") not in (None, "", "Choose one")]
    if not steps or not rendered:
        draft.report.nothing_said("browser_steps", _("they only count in a browser") if steps else "")
        return
    made = list[Item]()
    for number, entry in enumerate(steps):
        place, operation = f"browser_steps[{number}]", str(entry.get("operation"))
        step, why = _step(operation, str(entry.get("selector") or ""), str(entry.get("optional_value") or ""))
        if step is None:
            draft.report.not_carried(place, f"{operation[:60]}: {why}")
            continue
        made += [step] if step else []
        draft.report.approximated(place, why) if why else draft.report.carried(place)
    if made:
        browser["steps"] = made
    draft.report.carried("browser_steps")


def _step(operation: str, selector: str, value: str) -> Made:
    """Returns the step (empty: none is needed) and how it differs; None with the reason where none fits."""
    make = _STEPS.get(operation)
    if make is None:
        return None, _("has no counterpart")
    if selector.lstrip().startswith(("/", "xpath=")):
        return None, _("elements are named by CSS here, not by XPath")
    return make(selector, value)


def _click(selector: str, value: str) -> Made:
    return {"click": selector}, ""


def _click_if(selector: str, value: str) -> Made:
    return {"click": selector, "optional": True}, ""


def _click_text(selector: str, value: str) -> Made:
    return {"click": {"text": value}}, ""


def _click_text_if(selector: str, value: str) -> Made:
    return {"click": {"text": value}, "optional": True}, ""


def _wait(selector: str, value: str) -> Made:
    seconds = value.strip()
    return ({"wait": float(seconds)}, "") if seconds.isdecimal() and len(seconds) < 5 else (None, _("says no seconds"))


def _scroll(selector: str, value: str) -> Made:
    return {"scroll": value.strip() or "end"}, ""


def _nothing(selector: str, value: str) -> Made:
    return {}, ""


_STEPS: dict[str, Callable[[str, str], Made]] = {
    "Goto site": _nothing,
    "Click element": _click,
    "Click element if exists": _click_if,
    "Click element containing text": _click_text,
    "Click element containing text if exists": _click_text_if,
    "Enter text in field": lambda selector, value: ({"type": {"into": selector, "text": value}}, ""),
    "Press Enter": lambda selector, value: ({"press": "Enter"}, ""),
    "Check checkbox": _click,
    "Uncheck checkbox": _click,
    "Select by label": lambda selector, value: ({"select": {"in": selector, "label": value}}, ""),
    "<select> by option text": lambda selector, value: ({"select": {"in": selector, "label": value}}, ""),
    "Scroll down": _scroll,
    "Wait for seconds": _wait,
    "Wait for text": lambda selector, value: ({"wait": {"text": value}}, ""),
    "Wait for text in element": lambda selector, value: ({"wait": {"text": value, "in": selector}}, ""),
    "Remove elements": lambda selector, value: ({"remove": selector}, ""),
}
