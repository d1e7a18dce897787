"""Steps taken on a rendered page, and its HTML and picture, read within limits.

The HTML is read from a world that the page's scripts do not reach.
"""

from __future__ import annotations

import asyncio
import html as markup
from contextlib import suppress
from typing import Any, cast

from playwright.async_api import CDPSession, Error, Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from pollerd.model import Box, OutcomeKind
from pollerd.rendering.outcome import PageRefusedError, browser_fault, browser_gone
from pollerd.rendering.plan import RenderStep, StepAction
from pollerd.texts import _

MAX_SCREENSHOT_BYTES = 4 * 1024 * 1024
MAX_SCREENSHOT_PIXELS_HIGH = 10_000
_TRIES = 3
_AGAIN_SECONDS = 0.3
_READ = """(() => {
  const root = document.documentElement, type = document.doctype;
  if (root === null) return "";
  const html = (type === null ? "" : new XMLSerializer().serializeToString(type)) + root.outerHTML;
  return html.length > %d ? html.length : html;
})()"""
_HIDDEN = "***"
_MOST_ELEMENTS = 20_000
_BOXES = """(() => {
  const boxes = [], waiting = document.body === null ? [] : [[document.body, "body"]];
  for (let at = 0; at < waiting.length && at < %d; at++) {
    const [element, path] = waiting[at], of = new Map();
    const { left, top, width, height } = element.getBoundingClientRect();
    const box = [left + scrollX, top + scrollY, width, height].map(Math.round);
    if (box[2] > 0 && box[3] > 0) boxes.push([path, ...box]);
    for (const child of element.children) {
      const tag = child.localName, n = (of.get(tag) ?? 0) + 1;
      of.set(tag, n);
      waiting.push([child, `${path} > ${tag}:nth-of-type(${n})`]);
    }
  }
  return boxes;
})()"""


async def read_html(session: CDPSession, most_bytes: int, secrets: tuple[str, ...]) -> bytes:
    """Returns the page's HTML as it is now, in UTF-8, without the secrets that were typed into it.

    Raises `PageRefusedError` where it is larger, and Playwright's errors.
    """
    html = await _evaluated(session, _READ % most_bytes)
    if not isinstance(html, str):
        raise _too_large(most_bytes)
    for secret in secrets:
        html = html.replace(secret, _HIDDEN).replace(markup.escape(secret), _HIDDEN)
    body = html.encode("utf-8", "replace")
    if len(body) > most_bytes:
        raise _too_large(most_bytes)
    return body


async def read_boxes(session: CDPSession) -> dict[str, Box]:
    """Returns where the elements of the page are, by their paths; of its first 20,000. Raises as `read_html`."""
    boxes = await _evaluated(session, _BOXES % _MOST_ELEMENTS)
    return {path: (left, top, width, height) for path, left, top, width, height in cast("list[Any]", boxes)}


async def screenshot(page: Page, width: int, seconds: float) -> bytes | None:
    """Returns a PNG of the whole page, its first 10,000 pixels at most; None where that is too large or fails."""
    try:
        picture = await page.screenshot(
            full_page=True,
            clip={"x": 0, "y": 0, "width": width, "height": MAX_SCREENSHOT_PIXELS_HIGH},
            animations="disabled",
            timeout=seconds * 1000,
        )
    except Error:
        return None
    return picture if len(picture) <= MAX_SCREENSHOT_BYTES else None


async def _evaluated(session: CDPSession, expression: str) -> object:
    """Evaluates in an isolated world of the main frame; again where the page navigates meanwhile."""
    for tried in range(1, _TRIES + 1):
        try:
            frame = (await session.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
            world = await session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "pollerd"})
            parameters = {"expression": expression, "contextId": world["executionContextId"], "returnByValue": True}
            answer = await session.send("Runtime.evaluate", parameters)
        except Error:
            if tried == _TRIES:
                raise
        else:
            if "exceptionDetails" not in answer:
                value: object = answer["result"].get("value")
                return value
        await asyncio.sleep(_AGAIN_SECONDS)
    raise PageRefusedError(OutcomeKind.PROTOCOL_ERROR, _("the page cannot be read"))


def _too_large(most: int) -> PageRefusedError:
    return PageRefusedError(OutcomeKind.TOO_LARGE, _("rendered page of more than {most} bytes", most=most))


# Steps of a plan, taken on a page. No failure shows a step's value, nor Playwright's message, which has it.

_LATE_SECONDS = 5.0
_TO_BOTTOM = "() => window.scrollTo(0, document.documentElement.scrollHeight)"
_DOWN = "pixels => window.scrollBy(0, pixels)"
_REMOVE = "elements => elements.forEach(element => element.remove())"


async def take_step(page: Page, position: int, step: RenderStep) -> None:
    """Takes one step; `position` is counted from 0. Raises `PageRefusedError`."""
    name = f"step {position + 1} ({step.action})"
    try:
        async with asyncio.timeout(_most_seconds(step)):
            await _take(page, step)
    except (PlaywrightTimeoutError, TimeoutError):
        detail = _("{name} was not possible within {timeout:g} s", name=name, timeout=step.timeout)
        raise PageRefusedError(OutcomeKind.TIMEOUT, detail) from None
    except Error as error:
        if browser_gone(error.message):
            raise browser_fault(_("it ended while it rendered")) from None
        raise PageRefusedError(OutcomeKind.PROTOCOL_ERROR, _("{name} was not possible", name=name)) from None


def _most_seconds(step: RenderStep) -> float:
    """Returns how long the step may take."""
    match step.action:
        case StepAction.WAIT:
            return step.timeout + step.number
        case StepAction.CLICK_IF_EXISTS:  # Playwright ends it, which is no failure; a busy machine hears of it late
            return step.timeout + _LATE_SECONDS
        case _:
            return step.timeout


async def _take(page: Page, step: RenderStep) -> None:
    match step.action:
        case StepAction.WAIT:
            await asyncio.sleep(step.number)
        case StepAction.WAIT_FOR_TEXT:
            await page.get_by_text(step.value).first.wait_for(state="visible", timeout=0)
        case StepAction.SCROLL:
            await (page.evaluate(_DOWN, step.number) if step.number else page.evaluate(_TO_BOTTOM))
        case StepAction.PRESS if not step.selector:
            await page.keyboard.press(step.value)
        case StepAction.CLICK_IF_EXISTS:
            with suppress(PlaywrightTimeoutError):
                await _first(page, step).click(timeout=step.timeout * 1000)
        case StepAction.REMOVE:
            await page.locator(f"css={step.selector}").evaluate_all(_REMOVE)
        case _:
            await _on_element(_first(page, step), step)


async def _on_element(element: Locator, step: RenderStep) -> None:
    match step.action:
        case StepAction.CLICK:
            await element.click(timeout=0)
        case StepAction.TYPE:
            await element.fill(step.value, timeout=0)
        case StepAction.PRESS:
            await element.press(step.value, timeout=0)
        case StepAction.CHECK:
            await element.check(timeout=0)
        case StepAction.SELECT:
            await element.select_option(step.value, timeout=0)
        case StepAction.WAIT_FOR:
            await element.wait_for(state="visible", timeout=0)
        case StepAction.SCROLL_TO:
            await element.scroll_into_view_if_needed(timeout=0)
        case _:
            raise AssertionError(f"no step with an element: {step.action}")


def _first(page: Page, step: RenderStep) -> Locator:
    return page.locator(f"css={step.selector}").first
