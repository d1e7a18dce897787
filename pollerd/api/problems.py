"""Errors as problem documents (RFC 9457)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pollerd.api import access
from pollerd.api.openapi import MEDIA_TYPE, methods_at
from pollerd.errors import (
    ConflictError,
    DatabaseInUseError,
    DatabaseUnavailableError,
    DuplicateError,
    HolderUnavailableError,
    InvalidValueError,
    NotFoundError,
    SchemaError,
    TooManyError,
    allowed_by,
    refusal,
    unknown_name,
)
from pollerd.masking import NOT_SHOWN, masked
from pollerd.texts import N_, _

RETRY_SECONDS = 1
_HOLDER_RETRY_SECONDS = 5
"""A handover takes some seconds; after a death it takes longer, and the caller comes again."""
_SHOWN = 200
_EXACT = 2**53
LOOK_SECONDS = 0.5
"""Time without an answer after which the database is asked whether it works at all."""


class ProblemResponse(JSONResponse):
    """A problem document."""

    media_type = MEDIA_TYPE


def problem(
    status: int, detail: str, *, kind: str | None = None, headers: Mapping[str, str] | None = None, **more: Any
) -> ProblemResponse:
    """Returns a problem document; `kind` names its type, `more` are additional members."""
    content = {
        "type": "about:blank" if kind is None else f"urn:pollerd:problem:{kind}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _printable(detail),
        **more,
    }
    return ProblemResponse(content, status_code=status, headers=dict(headers or {}))


def unavailable(detail: str) -> ProblemResponse:
    """Returns a 503: the database does not answer."""
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, kind="database-unavailable", headers=headers)


def stopping() -> ProblemResponse:
    """Returns a 503: the daemon stops, and the call was not carried out to its end."""
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, _("pollerd is stopping"), headers=headers)


def holder_unavailable(detail: str) -> ProblemResponse:
    """Returns a 503: no node holds the site at present, or the one that does gives no answer."""
    headers = {"Retry-After": str(_HOLDER_RETRY_SECONDS)}
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, kind="holder-unavailable", headers=headers)


def invalid(errors: Sequence[InvalidValueError]) -> ProblemResponse:
    """Returns a 422 that names each error's field, what is allowed, and what was given."""
    named = [
        {"field": _printable(masked(error.field)), "allowed": error.allowed, "given": _shown(error.given)}
        for error in errors
    ]
    detail = errors[0].of(str(named[0]["field"])).text
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, kind="invalid-value", errors=named)


def install(app: FastAPI) -> None:
    """Makes every error of the app a problem document."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(InvalidValueError, _on_invalid)
    app.add_exception_handler(NotFoundError, _on_not_found)
    app.add_exception_handler(DuplicateError, _on_duplicate)
    app.add_exception_handler(ConflictError, _on_conflict)
    app.add_exception_handler(TooManyError, _on_too_many)
    for kind in (DatabaseUnavailableError, DatabaseInUseError, SchemaError):
        app.add_exception_handler(kind, _on_unavailable)
    app.add_exception_handler(HolderUnavailableError, _on_holder_unavailable)
    app.add_exception_handler(Exception, _on_fault)


async def _on_too_many(_request: Request, error: Exception) -> ProblemResponse:
    assert isinstance(error, TooManyError)
    headers = {"Retry-After": str(math.ceil(error.seconds))}
    return problem(HTTPStatus.TOO_MANY_REQUESTS, str(error), kind="too-many", headers=headers)


async def _on_http(request: Request, error: Exception) -> ProblemResponse:
    assert isinstance(error, HTTPException)
    path = request.url.path
    details = {
        HTTPStatus.BAD_REQUEST: _("the body cannot be read as JSON"),
        HTTPStatus.NOT_FOUND: _("no such path: {path}", path=path),
        HTTPStatus.METHOD_NOT_ALLOWED: _("{method} is not defined for {path}", method=request.method, path=path),
    }
    detail = details.get(HTTPStatus(error.status_code), error.detail)
    return problem(error.status_code, detail, headers=_headers(request, error))


def _headers(request: Request, error: HTTPException) -> Mapping[str, str] | None:
    """Returns the error's headers; corrects Allow, as the router names only the first call's methods at a path."""
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return error.headers
    methods = methods_at(request.app.openapi(), request.url.path)
    return {"Allow": ", ".join(methods)} if methods else error.headers


async def _on_validation(request: Request, error: Exception) -> ProblemResponse:
    assert isinstance(error, RequestValidationError)
    entries = error.errors()
    if any(entry["loc"][0] == "path" for entry in entries):
        return problem(HTTPStatus.NOT_FOUND, _("no such path: {path}", path=request.url.path))
    return invalid([_entry(request, entry) for entry in entries])


async def _on_invalid(_request: Request, error: Exception) -> ProblemResponse:
    assert isinstance(error, InvalidValueError)
    return invalid([error])


async def _on_not_found(_request: Request, error: Exception) -> ProblemResponse:
    return problem(HTTPStatus.NOT_FOUND, str(error), kind="not-found")


async def _on_duplicate(_request: Request, error: Exception) -> ProblemResponse:
    assert isinstance(error, DuplicateError)
    return problem(HTTPStatus.CONFLICT, str(error), kind="duplicate", existing_id=error.existing_id)


async def _on_conflict(_request: Request, error: Exception) -> ProblemResponse:
    return problem(HTTPStatus.CONFLICT, str(error), kind="conflict")


async def _on_unavailable(_request: Request, error: Exception) -> ProblemResponse:
    return unavailable(str(error))


async def _on_holder_unavailable(_request: Request, error: Exception) -> ProblemResponse:
    return holder_unavailable(str(error))


async def _on_fault(_request: Request, error: Exception) -> ProblemResponse:
    # The cause goes to the log, through the server, not to the client.
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, _("a fault of the daemon; its log says more"))


def _entry(request: Request, entry: Mapping[str, Any]) -> InvalidValueError:
    """Converts one of pydantic's errors."""
    field = ".".join(str(part) for part in entry["loc"][1:]) or str(entry["loc"][0])
    value = NOT_SHOWN if entry["loc"] == ("body",) else access.shown(field, entry["input"])
    if entry["type"] == "extra_forbidden":
        return _unknown(request, field, entry["loc"], value)
    if entry["type"] == "missing":
        return refusal(field, _("is needed"))
    if entry["type"] == "json_invalid":
        return InvalidValueError("body", _("JSON ({error})", error=entry["ctx"]["error"]), NOT_SHOWN)
    return InvalidValueError(field, allowed_by(entry), value)


def _unknown(request: Request, field: str, place: Sequence[str | int], value: object) -> InvalidValueError:
    """Returns that a field is unknown, and, at the top level of the body, the nearest known one."""
    route = request.scope["route"]
    body = route.body_field.field_info.annotation if isinstance(route, APIRoute) and route.body_field else None
    if len(place) != len(("body", "field")) or not (isinstance(body, type) and issubclass(body, BaseModel)):
        return refusal(field, _("unknown field"), value)
    known = list(body.model_fields)
    return unknown_name(field, N_("field"), str(place[-1]), known, value)


def _shown(value: object) -> object:
    """Returns an external value that any JSON can contain: short, finite, without surrogates."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return _printable(masked(value if isinstance(value, str) else repr(value)))


def _printable(text: str) -> str:
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return cut.encode("utf-8", "replace").decode("utf-8")


class DatabasePatience:
    """Middleware: a GET that has no answer yet, while the database does not work, is answered by 503.

    A slow answer of a database that works is waited for.
    """

    def __init__(self, app: ASGIApp, *, not_ready: Callable[[], Awaitable[str | None]]) -> None:
        """not_ready: returns why the database does not work, soon; None: it does."""
        self._app, self._not_ready = app, not_ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        begun, given_up = asyncio.Event(), False

        async def send_noted(message: Message) -> None:
            begun.set()
            if not given_up:
                await send(message)

        async def answer() -> None:
            await self._app(scope, receive, send_noted)

        answering = asyncio.create_task(answer(), name="answer")
        beginning = asyncio.create_task(begun.wait(), name="answer-begins")
        try:
            while not (answering.done() or begun.is_set()):
                done, _unfinished = await asyncio.wait(
                    {answering, beginning}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                reason = None if done else await self._not_ready()
                if reason is not None and not (answering.done() or begun.is_set()):
                    given_up = True
                    await unavailable(reason)(scope, receive, send)
                    return
            await answering
        finally:
            beginning.cancel()
            # Not awaited: a connection that hangs takes seconds to be given up.
            answering.cancel()
