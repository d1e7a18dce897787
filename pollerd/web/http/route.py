"""Routes of pages: their errors are pages, too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from pollerd.api.http.caller import caller_of, check_csrf, csrf_token
from pollerd.api.http.problems import allowed_by
from pollerd.errors import (
    DatabaseInUseError,
    DatabaseUnavailableError,
    DuplicateError,
    InvalidValueError,
    NotFoundError,
    SchemaError,
)
from pollerd.web.http.forms import posted_form
from pollerd.web.http.page import PAGE_FORM, Page

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_ANSWERED = (
    HTTPException,
    RequestValidationError,
    ValidationError,
    InvalidValueError,
    NotFoundError,
    DuplicateError,
    DatabaseUnavailableError,
    DatabaseInUseError,
    SchemaError,
)


class PageRoute(APIRoute):
    """A route whose known errors are shown as pages; a fault goes on to the server's log."""

    def get_route_handler(self) -> Handler:
        """Returns the handler of a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                if request.method == "POST":
                    await _check_form(request)
                return await handle(request)
            except _ANSWERED as error:
                return error_page(request, error)

        return answer


async def _check_form(request: Request) -> None:
    """Raises 403 unless the form was made by this session, where there is one."""
    if csrf_token(caller_of(request), PAGE_FORM):
        form = await posted_form(request)
        check_csrf(request, PAGE_FORM, form.text("csrf"))


def page_router(prefix: str = "") -> APIRouter:
    """Returns a router whose routes are pages."""
    return APIRouter(prefix=prefix, route_class=PageRoute, include_in_schema=False)


def wants_page(request: Request) -> bool:
    """Returns whether somebody reads the answer in a browser, and not a program of the API."""
    of_pages = not request.url.path.startswith("/api/")
    return of_pages and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, error: Exception) -> Response:
    """Returns a known error as a page."""
    status, heading, detail = _described(request, error)
    page = Page.of(request)
    existing = error.existing_id if isinstance(error, DuplicateError) and error.what == "site" else None
    return page.show("error.html", status=status, heading=heading, detail=detail, existing=existing)


def _described(request: Request, error: Exception) -> tuple[int, str, str]:
    """Returns status, heading and explanation of an error."""
    if isinstance(error, HTTPException):
        details = {HTTPStatus.NOT_FOUND: "There is no such page."}
        return (
            error.status_code,
            HTTPStatus(error.status_code).phrase,
            details.get(HTTPStatus(error.status_code), str(error.detail)),
        )
    if isinstance(error, RequestValidationError | ValidationError):
        first = error.errors()[0]
        place = first["loc"][1:] if isinstance(error, RequestValidationError) else first["loc"]
        if first["loc"][0] == "path":
            return HTTPStatus.NOT_FOUND, "Not found", "There is no such page."
        field = ".".join(map(str, place))
        return HTTPStatus.UNPROCESSABLE_ENTITY, "That cannot be used", f"{field}: must be {allowed_by(first)}"
    if isinstance(error, InvalidValueError):
        return HTTPStatus.UNPROCESSABLE_ENTITY, "That cannot be used", f"{error.field}: must be {error.allowed}"
    if isinstance(error, NotFoundError):
        return HTTPStatus.NOT_FOUND, "Not found", f"{error}."
    if isinstance(error, DuplicateError):
        heading = "Watched already" if error.what == "site" else "There is one already"
        return HTTPStatus.CONFLICT, heading, f"{error}."
    why = f"The database does not answer: {error}. Polling goes on for what is known."
    return HTTPStatus.SERVICE_UNAVAILABLE, "The database does not answer", why
