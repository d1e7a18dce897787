"""What calls have in common: parameters, callers, routes, answers.

Who makes a call, as the middleware found out; and tokens that show that a form is one of ours.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pollerd.api.parameters import known_query
from pollerd.storage.accounts import Role

CALLER = "pollerd.caller"
"""Scope key: the `SignedIn` of a call; None: nobody has to sign in, or the call is open to everybody."""
CSRF_HEADER = "X-CSRF-Token"
API_FORM = "api"
"""The form name whose token calls of REST send in `CSRF_HEADER`."""
_NOT_OURS = "the form was not made by this session: load the page again"


class By(StrEnum):
    """How a caller was recognised."""

    TOKEN = "token"
    SESSION = "session"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """A caller who was recognised."""

    by: By
    name: str
    """The user's, or the token's."""
    role: Role
    user_id: int | None = None
    """Of a user; None: it is a token."""
    of_settings: bool = False
    """Whether it is a token of the settings."""
    session_id: int | None = None
    token_digest: bytes | None = field(default=None, repr=False)
    seen_at: float | None = None
    """When the session was last noted as used, epoch s."""
    expires_at: float | None = None
    """When the session ends if it is not used again, epoch s."""
    secret: bytes = field(default=b"", repr=False)
    """What the tokens of forms are derived from; empty if browsers do not send what recognised the caller."""

    @property
    def may_write(self) -> bool:
        """Whether the caller may change things."""
        return self.role is Role.WRITE

    @property
    def may_read(self) -> bool:
        """Whether the caller may look."""
        return self.role is not Role.SIGNALS

    @property
    def may_report(self) -> bool:
        """Whether the caller may report changed pages."""
        return self.role in (Role.WRITE, Role.SIGNALS)

    @property
    def is_user(self) -> bool:
        """Whether it is a user, and not a token."""
        return self.user_id is not None


def caller_of(request: Request) -> SignedIn | None:
    """Returns who makes the call; None: nobody has to sign in, or the call is open and the caller unknown."""
    found: SignedIn | None = request.scope.get(CALLER)
    return found


def reader_of(request: Request) -> str:
    """Returns a name for what each reader has of their own; without users there is one reader, the empty name."""
    caller = caller_of(request)
    return f"user:{caller.user_id}" if caller is not None and caller.is_user else ""


def csrf_token(caller: SignedIn | None, form: str) -> str:
    """Returns the token that a form of this name must send; empty if it needs none."""
    if caller is None or not caller.secret:
        return ""
    digest = hmac.new(caller.secret, b"form:" + form.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def csrf_is_right(caller: SignedIn | None, form: str, given: str) -> bool:
    """Returns whether a sent token is that of the form, or none is needed."""
    expected = csrf_token(caller, form)
    return not expected or hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def check_csrf(request: Request, form: str, given: str) -> None:
    """Raises 403 unless the token that came with a form is right."""
    if not csrf_is_right(caller_of(request), form, given):
        raise HTTPException(HTTPStatus.FORBIDDEN, _NOT_OURS)


# Routers whose routes are whole when they are declared, so that an application takes them over as they are.
#
# FastAPI's `include_router` makes every route anew for each application, some 0.2 s for all of ours.

PREFIX = "/api/v1"


def api_router(prefix: str = "", *, tag: str | None = None) -> APIRouter:
    """Returns a router of the REST API: its paths begin with `PREFIX` and `prefix`, unknown parameters are refused."""
    return APIRouter(
        prefix=PREFIX + prefix,
        tags=None if tag is None else [tag],
        dependencies=[Depends(known_query)],
        generate_unique_id_function=operation_id,
    )


def operation_id(route: APIRoute) -> str:
    """Returns the name of a route in the OpenAPI document: its function's."""
    return route.name


def add_routers(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Adds the routes of routers to an application, in their order."""
    for router in routers:
        app.router.routes.extend(router.routes)


# Answers that are pictures: saved by a browser, never opened as a document of ours.

BYTES = "application/octet-stream"
"""What a picture is sent as where the call accepts that and not the picture's own type."""
_FILE = {"schema": {"type": "string", "format": "binary"}}


def picture_answers(media: str, example: str) -> dict[int | str, dict[str, Any]]:
    """Returns the OpenAPI of a picture. Generators of clients that know no pictures take it as bytes."""
    content = {one: {**_FILE, "example": example} for one in (media, BYTES)}
    return {200: {"description": "the picture", "content": content}}


def picture(body: bytes, media: str, name: str, accept: str) -> Response:
    """Returns the picture as a file of this name. accept: the call's header of that name.

    What it shows may be a stranger's: a browser saves it; an <img> of a page shows it all the same.
    """
    types = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept"}
    as_bytes = BYTES in types and not types & {media, "image/*"}
    return Response(body, media_type=BYTES if as_bytes else media, headers=headers)


# Security headers of every answer: browsers must respect its Content-Type, and run nothing in it.

HEADERS = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"default-src 'none'"))


class AnswerHeaders:
    """Sets `HEADERS` on every answer, including refusals and faults.

    An answer that sets one of them keeps its own: an HTML page has its own policy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message = {**message, "headers": given + [h for h in HEADERS if h[0] not in names]}
            await send(message)

        await self._app(scope, receive, with_headers)
