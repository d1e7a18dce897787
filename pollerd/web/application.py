"""Puts the pages beside the REST API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from fastapi import FastAPI, Request, Response
from jinja2 import Environment
from starlette.exceptions import HTTPException

from pollerd.api.http import add_routers
from pollerd.web import accounts, changes, collection, lists, overview, page, rules, site, sites, system
from pollerd.web.http import PAGE_ROUTES
from pollerd.web.page import Assets, PageParts, environment, error_page, wants_page


async def add_pages(
    app: FastAPI,
    settings: Mapping[str, tuple[str, str]] | None = None,
    log_lines: Callable[[str], Sequence[str]] | None = None,
) -> None:
    """Adds the pages and their files to an API made by `create_api`.

    settings: each setting as it may be shown, and where it comes from; log_lines: returns the last lines of the log of
    a level or above.
    """
    files, templates = await asyncio.to_thread(_loaded)
    app.state.web = PageParts(files, templates, app.version, settings or {}, log_lines or _no_lines)
    problem = app.exception_handlers[HTTPException]

    async def missing(request: Request, error: Exception) -> Response:
        """Shows a page to readers who asked for an address that nothing has."""
        if wants_page(request):
            return error_page(request, error)
        answer: Response = await problem(request, error)  # type: ignore[misc]
        return answer

    app.add_exception_handler(HTTPException, missing)
    app.state.policies.declare(PAGE_ROUTES)
    app.state.refused_page = accounts.refused_page
    app.state.live_state.build = files.build
    parts = (page, accounts, overview, sites, lists, site, changes, rules, collection, system)
    add_routers(app, (router for part in parts for router in part.ROUTERS))


@cache
def _loaded() -> tuple[Assets, Environment]:
    files = Assets()
    return files, environment(files.url)


def _no_lines(level: str) -> Sequence[str]:
    return ()
