"""How a page is made: a template, what it shows, and what all pages have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment

from pollerd.api.http.caller import SignedIn, caller_of, csrf_token, reader_of
from pollerd.api.http.context import ApiPorts
from pollerd.web.http.assets import Assets
from pollerd.web.http.headers import PAGE_HEADERS

PAGE_FORM = "page"
"""Name of the forms of pages: one token serves all forms of a session."""
_FRAGMENT = "x-fragment"
_MEDIA = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the pages share."""

    assets: Assets
    environment: Environment
    version: str
    settings: Mapping[str, tuple[str, str]]
    """Each setting as it may be shown, and where it comes from."""
    log_lines: Callable[[str], Sequence[str]]
    """Returns the last lines of the log, of a level or above."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What a page keeps between readers, by name."""


@dataclass(frozen=True, slots=True)
class Page:
    """One request for a page, and the ports to read from."""

    request: Request
    ports: ApiPorts
    newest_change: int
    """Id of the newest change when it was asked for, before anything was read: events after it are news to it."""

    @classmethod
    def of(cls, request: Request) -> Page:
        """Returns the page that a request asks for."""
        ports: ApiPorts = request.app.state.ports
        return cls(request, ports, ports.store.history.newest_change)

    @property
    def caller(self) -> SignedIn | None:
        """Who is signed in; None: nobody has to be."""
        return caller_of(self.request)

    @property
    def now(self) -> float:
        """The time, epoch s."""
        return time.time()  # noqa: TID251 (this is where pages get it)

    @property
    def is_fragment(self) -> bool:
        """Whether a script asks for a part, to put it into the page that it runs in."""
        return _FRAGMENT in self.request.headers

    @property
    def reader(self) -> str:
        """Names who reads, for what was seen; without users there is one reader."""
        return reader_of(self.request)

    @property
    def web(self) -> PageParts:
        """What the pages share."""
        web: PageParts = self.request.app.state.web
        return web

    def show(self, template: str, *, status: int = HTTPStatus.OK, **values: Any) -> Response:
        """Returns the page of a template."""
        text = self.web.environment.get_template(template).render(frame=self._frame(), **values)
        headers = {**PAGE_HEADERS, "Vary": "X-Fragment, Cookie"}
        if self.is_fragment:
            headers["X-Fragment"] = "1"
        return Response(text.encode("utf-8", "replace"), status, headers, _MEDIA)

    def go(self, path: str) -> Response:
        """Returns the way to another page after a form was taken."""
        return RedirectResponse(path, HTTPStatus.SEE_OTHER, PAGE_HEADERS)

    def _frame(self) -> dict[str, Any]:
        """Returns what the header and footer of all pages show."""
        status, caller = self.ports.control.health.status(), caller_of(self.request)
        return {
            "path": self.request.url.path,
            "status": status,
            "version": self.web.version,
            "fragment": self.is_fragment,
            "csrf": csrf_token(caller, PAGE_FORM),
            "caller": caller,
            "may_write": caller is None or caller.may_write,
            "newest_change": self.newest_change,
        }


async def _page(request: Request) -> Page:
    return Page.of(request)


Shown = Annotated[Page, Depends(_page)]
