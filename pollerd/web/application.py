"""Puts the pages beside the REST API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from pollerd.api.http import Application, add_routers
from pollerd.web.http import PAGE_ROUTES

if TYPE_CHECKING:
    from jinja2 import Environment

    from pollerd.web.page import Assets, Examples


def add_pages(
    app: Application,
    settings: Mapping[str, tuple[str, str]] | None = None,
    log_lines: Callable[[str], Sequence[str]] | None = None,
    examples: Examples | None = None,
) -> None:
    """Adds the pages and their files to an API made by `create_api`.

    settings: each setting as it may be shown, and where it comes from; log_lines: returns the last lines of the log of
    a level or above; examples: example sites, if this process can serve them.
    """
    problem = app.exception_handlers[HTTPException]

    async def missing(request: Request, error: Exception) -> Response:
        """Shows a page to readers who asked for an address that nothing has."""
        from pollerd.web.page import error_page, wants_page

        if wants_page(request):
            return error_page(request, error)
        answer: Response = await problem(request, error)  # type: ignore[misc]
        return answer

    app.add_exception_handler(HTTPException, missing)

    def add() -> None:
        from pollerd.web import (
            accounts,
            alerts,
            budget,
            changes,
            channels,
            collection,
            counts,
            first_steps,
            lists,
            overview,
            page,
            rules,
            site,
            sites,
            system,
            when,
        )

        files, templates = _loaded()
        app.state.web = page.PageParts(files, templates, app.version, settings or {}, log_lines or _no_lines, examples)
        app.state.refused_page = accounts.refused_page
        app.state.live_state.build = files.build
        parts = (
            page,
            accounts,
            when,
            overview,
            budget,
            sites,
            lists,
            site,
            counts,
            first_steps,
            changes,
            alerts,
            rules,
            channels,
            collection,
            system,
            when,
        )
        add_routers(app, (router for part in parts for router in part.ROUTERS))

    app.state.policies.declare(PAGE_ROUTES)
    app.add_later(add)


@cache
def _loaded() -> tuple[Assets, Environment]:
    from pollerd.web.page import Assets, environment

    files = Assets()
    return files, environment(files.url)


def _no_lines(level: str) -> Sequence[str]:
    return ()
