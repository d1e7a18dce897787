"""Fixtures: one Chromium for all tests of a module, in the module's event loop, and a web server on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from pollerd.fetching.settings import FetchSettings
from pollerd.rendering.renderer import Renderer
from pollerd.rendering.settings import RenderingSettings
from tests.support.chromium import chromium_path
from tests.support.origin import Origin


@pytest.fixture(scope="session")
def chromium() -> str:
    return chromium_path()


@pytest.fixture(scope="module")
def settings(chromium: str) -> RenderingSettings:
    return RenderingSettings(browser=chromium, browser_no_sandbox=True, browser_deadline_seconds=30.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def renderer(settings: RenderingSettings) -> AsyncIterator[Renderer]:
    """May dial loopback."""
    async with Renderer(settings, FetchSettings(allow_private=True, contact="https://example.org/bot")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as server:
        yield server
