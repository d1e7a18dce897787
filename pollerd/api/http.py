"""What calls have in common: who makes them, what they are given, their parameters, routes and answers."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import hmac
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from operator import itemgetter
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator, Field
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pollerd import texts
from pollerd.api.access import NO_NUL, shown
from pollerd.daemon.control.control import Control
from pollerd.errors import InvalidValueError, unknown_name
from pollerd.model import Role
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.storage.store import Store
from pollerd.texts import N_, _
from pollerd.timestamps import parse_moment

# Parameters, and the refusal of unknown ones.

MAX_ID = 2**63 - 1
_MAX_LIMIT = 1000


class IdConvertor(Convertor[str]):
    """An id in a path: digits only, so that `/sites/import` is not taken for a site."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> str:
        """Returns the text: the range is checked with all other parameters."""
        return value

    def to_string(self, value: str) -> str:
        """Returns the text."""
        return value


register_url_convertor("id", IdConvertor())


def _storable(text: str) -> str:
    """Refuses NUL: databases do not store it, so it matches nothing."""
    if "\0" in text:
        raise ValueError(_("free of NUL"))
    return text


SiteId = Annotated[int, Path(ge=1, le=MAX_ID, description="the site's id")]
ChangeId = Annotated[int, Path(ge=1, le=MAX_ID, description="the change's id")]
ContentId = Annotated[int, Path(ge=1, le=MAX_ID, description="the content's id, as a change names it")]
Limit = Annotated[int, Query(ge=1, le=_MAX_LIMIT, description="most items to return")]
Cursor = Annotated[str | None, Query(max_length=100, description="next_cursor of the page before")]
GivenOrder = Annotated[
    Order | None,
    Query(
        alias="order",
        description="by the time when it was recorded; default: the cursor's order, without a cursor newest first",
    ),
]
_NUMBER = r"^[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2})?$"
_SINCE = {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "string", "pattern": _NUMBER}]}
Since = Annotated[str | None, Query(description="RFC 3339 or epoch seconds", max_length=100, json_schema_extra=_SINCE)]
Words = Annotated[str, AfterValidator(_storable), Field(json_schema_extra={"pattern": NO_NUL})]


Matters = Literal["true", "false", "all"]
_MATTERS = "whether the conditions of the selection let the change matter; all: either"


async def _filter(
    since: Since = None,
    site: Annotated[int | None, Query(ge=1, le=MAX_ID, description="a site's id")] = None,
    tag: Annotated[Words | None, Query(description="of sites with this tag", max_length=100)] = None,
    selection: Annotated[Words | None, Query(description="found in this selection", max_length=100)] = None,
) -> ChangeFilter:
    moment = None if since is None else parse_moment("since", since)
    return ChangeFilter(moment, site, tag, selection=selection)


_Filter = Annotated[ChangeFilter, Depends(_filter)]


async def _wanted(
    change_filter: _Filter, matters: Annotated[Matters, Query(description=_MATTERS)] = "all"
) -> ChangeFilter:
    return _mattering(change_filter, matters)


async def _announced(
    change_filter: _Filter, matters: Annotated[Matters, Query(description=_MATTERS)] = "true"
) -> ChangeFilter:
    return _mattering(change_filter, matters)


def _mattering(change_filter: ChangeFilter, matters: Matters) -> ChangeFilter:
    return change_filter if matters == "all" else replace(change_filter, matters=matters == "true")


Wanted = Annotated[ChangeFilter, Depends(_wanted)]
"""Filter on changes: query parameters since, site, tag, selection and matters, all by default."""
Announced = Annotated[ChangeFilter, Depends(_announced)]
"""As `Wanted`; by default only changes that matter."""


async def known_query(request: Request) -> None:
    """Refuses unknown and repeated query parameters: a misspelt filter must not be ignored."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = list(_query_names(route.dependant))
    for name, value in request.query_params.items():
        if name not in known:
            raise unknown_name(name, N_("parameter"), name, known, shown(name, value))
        if len(request.query_params.getlist(name)) > 1:
            raise InvalidValueError(name, _("given once"), _("more than once"))


def _query_names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        yield parameter.alias
    for part in dependant.dependencies:
        yield from _query_names(part)


def media_type(content_type: str) -> str:
    """Returns the media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


async def json_body(request: Request) -> None:
    """Refuses bodies whose Content-Type is not JSON."""
    media = media_type(request.headers.get("content-type", ""))
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _("the body must be application/json"))


# Who makes a call, as the middleware found out; and tokens that show that a form is one of ours.

CALLER = "pollerd.caller"
"""Scope key: the `SignedIn` of a call; None: nobody has to sign in, or the call is open to everybody."""
CSRF_HEADER = "X-CSRF-Token"
API_FORM = "api"
"""The form name whose token calls of REST send in `CSRF_HEADER`."""
_NOT_OURS = N_("the form was not made by this session: load the page again")


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
    caller: SignedIn | None = request.scope.get(CALLER)
    return caller


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


def csrf_is_right(caller: SignedIn | None, form: str, token: str) -> bool:
    """Returns whether a sent token is that of the form, or none is needed."""
    expected = csrf_token(caller, form)
    return not expected or hmac.compare_digest(expected.encode(), token.encode("utf-8", "replace"))


def check_csrf(request: Request, form: str, token: str) -> None:
    """Raises 403 unless the token that came with a form is right."""
    if not csrf_is_right(caller_of(request), form, token):
        raise HTTPException(HTTPStatus.FORBIDDEN, _(_NOT_OURS))


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
    content = {media_type: {**_FILE, "example": example} for media_type in (media, BYTES)}
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
    """Sets `HEADERS` on every answer, including refusals and faults, and answers in the reader's language.

    An answer that sets one of them keeps its own: an HTML page has its own policy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                names = {*map(bytes.lower, map(itemgetter(0), headers))}
                message = {**message, "headers": headers + [own for own in HEADERS if own[0] not in names]}
            await send(message)

        asked = await _language_of(scope)
        with nullcontext() if asked is None else texts.speaking(asked):
            await self._app(scope, receive, with_headers)


async def _language_of(scope: Scope) -> texts.TextLanguage | None:
    """Returns the language that a request asks for; None if it asks for none, or for none that there is."""
    accepted = next((value for name, value in scope.get("headers", ()) if name == b"accept-language"), b"")
    code = texts.code_of_header(accepted.decode("latin-1")) if accepted else None
    if code is None:
        return None
    return texts.LOADED[code] if code in texts.LOADED else await asyncio.to_thread(texts.language, code)


# What calls are given: the daemon, the store, the caller.


@dataclass(frozen=True, slots=True)
class ApiPorts:
    """The control and the store that calls use, and a lock."""

    control: Control
    store: Store
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by calls that read a site and then write a dependent value: none may run in between."""


async def _ports(request: Request) -> ApiPorts:
    ports: ApiPorts = request.app.state.ports
    return ports


async def _caller(request: Request) -> str:
    """Returns a description of the caller of a write, as far as known: how it was authorised."""
    caller = caller_of(request)
    if caller is None:
        return "a user of this machine"
    if caller.is_user:
        return f"user {caller.name}"
    return "a token of scope write" if caller.of_settings else f"token {caller.name}"


Daemon = Annotated[ApiPorts, Depends(_ports)]
Caller = Annotated[str, Depends(_caller)]


# The application.


class Application(FastAPI):
    """FastAPI with headers for every answer, added outside of all middleware, where answers to faults are sent.

    What was given to `add_later` is added at the first request that the routes before cannot answer: to import them all
    takes a third of the start's CPU time and 20 MB, and many a daemon is asked for its health and metrics only.
    """

    def __init__(self, **settings: Any) -> None:
        self._to_add = list[Callable[[], None]]()
        self._adding = threading.Lock()
        super().__init__(**settings)

    def add_later(self, add: Callable[[], None]) -> None:
        """Has `add` add routes to this application, in a thread, before they are needed."""
        self._to_add.append(add)

    def add_now(self) -> None:
        """Adds what was to be added later. Does nothing the second time."""
        with self._adding:
            if not self._to_add:
                return
            while self._to_add:
                self._to_add[0]()
                del self._to_add[0]
            gc.freeze()  # as the daemon does with all that is loaded at its start

    @property
    def routes(self) -> list[BaseRoute]:
        """All routes."""
        self.add_now()
        return super().routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if self._to_add and scope["type"] == "http" and not self._has(scope["path"]):
            await asyncio.to_thread(self.add_now)
        await super().__call__(scope, receive, send)

    def _has(self, path: str) -> bool:
        return any(path == getattr(route, "path", None) for route in self.router.routes)

    def build_middleware_stack(self) -> ASGIApp:
        """Returns FastAPI's stack, wrapped by `AnswerHeaders`."""
        return AnswerHeaders(super().build_middleware_stack())
