"""Reads a rendered page within limits: its HTML from a world that its scripts do not reach, and its picture."""

from __future__ import annotations

import asyncio
import html as markup

from playwright.async_api import CDPSession, Error, Page

from pollerd.model import OutcomeKind
from pollerd.rendering.failures import PageRefusedError

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


async def read_html(session: CDPSession, most_bytes: int, secrets: tuple[str, ...]) -> bytes:
    """Returns the page's HTML as it is now, in UTF-8, without the secrets that were typed into it.

    Raises `PageRefusedError` where it is larger, and Playwright's errors.
    """
    found = await _evaluated(session, _READ % most_bytes)
    if not isinstance(found, str):
        raise _too_large(most_bytes)
    for secret in secrets:
        found = found.replace(secret, _HIDDEN).replace(markup.escape(secret), _HIDDEN)
    body = found.encode("utf-8", "replace")
    if len(body) > most_bytes:
        raise _too_large(most_bytes)
    return body


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
            given = {"expression": expression, "contextId": world["executionContextId"], "returnByValue": True}
            answer = await session.send("Runtime.evaluate", given)
        except Error:
            if tried == _TRIES:
                raise
        else:
            if "exceptionDetails" not in answer:
                value: object = answer["result"].get("value")
                return value
        await asyncio.sleep(_AGAIN_SECONDS)
    raise PageRefusedError(OutcomeKind.PROTOCOL_ERROR, "the page cannot be read")


def _too_large(most: int) -> PageRefusedError:
    return PageRefusedError(OutcomeKind.TOO_LARGE, f"rendered page of more than {most} bytes")
