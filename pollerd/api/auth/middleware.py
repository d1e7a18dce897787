"""Middleware before every call: authorisation and body size. Refused bodies are not stored."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from http import HTTPStatus

import structlog
from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pollerd.api.auth.foreign_pages import foreign_page
from pollerd.api.auth.tokens import RevokedError, Tokens
from pollerd.api.auth.wrong_tokens import WrongTokens, counted_address
from pollerd.api.http.problems import ProblemResponse, problem
from pollerd.api.http.settings import ApiToken, Scope, digest_of

METRICS_PATH = "/metrics"
OPEN_PATHS = frozenset({"/healthz", "/readyz", METRICS_PATH})
OPEN_BELOW = "/unsubscribe/"
"""Paths below it are open: each is signed."""
LIST_PATHS = frozenset({"/api/v1/sites/import", "/api/v1/sites/diff"})
"""Paths that accept lists of up to `MAX_IMPORT_BYTES`."""
MAX_IMPORT_BYTES = 64 * 1024 * 1024
TRANSFER_PATH = "/api/v1/import"
MAX_TRANSFER_BYTES = 1024 * 1024 * 1024
MAX_BODY_BYTES = 1024 * 1024
KNOWN_CALLER = "pollerd.known_caller"
"""Scope key of metrics calls: whether a token was sent."""
PEER = "pollerd.peer"
"""Scope key: (address, port) of the connection's peer, whatever the headers say."""
_MAX_DRAINED_BYTES = 2 * MAX_IMPORT_BYTES
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_REALM = 'Bearer realm="pollerd"'
_LAST_WORD_SECONDS = 1.0
_EVENT_STREAM = b"text/event-stream"


class AuthMiddleware:
    """Admits calls with a token of the right scope; without tokens, calls from this machine but not from a page."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens
        self._wrong = WrongTokens()
        self._log = structlog.get_logger("pollerd.api")

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        shown = self._admitted(scope, headers)
        refusal = shown if isinstance(shown, ProblemResponse) else _refused_length(scope, headers)
        if refusal is not None:
            if "expect" not in headers:
                await _drain(receive)
            await refusal(scope, receive, send)
        elif _is_open(scope["path"]):
            await self._app(scope, _Limited(receive, MAX_BODY_BYTES), send)
        else:
            assert not isinstance(shown, ProblemResponse)
            await self._let_in(shown, scope, receive, send)

    async def _let_in(self, token: ApiToken | None, scope: Connection, receive: Receive, send: Send) -> None:
        """Runs the call while its token is in force; a write whose body is complete may finish."""
        limited = _Limited(receive, _most_bytes(scope), lambda: self._tokens.in_force(token))
        if scope["method"] not in _READING:
            await self._app(scope, limited, send)
            return
        answer = _Answer(send)
        try:
            async with self._tokens.while_in_force(token):
                await self._app(scope, limited, answer)
        except RevokedError:
            await answer.end(scope, receive)

    def _admitted(self, scope: Connection, headers: Headers) -> ApiToken | ProblemResponse | None:
        """Returns the token that admits the call, None if it needs none; or the refusal."""
        writes = scope["method"] not in _READING
        if _is_open(scope["path"]):
            if scope["path"] == METRICS_PATH:
                scope[KNOWN_CALLER] = self._tokens.needed and isinstance(self._holder(scope, headers), ApiToken)
            return None
        if not self._tokens.needed:
            reason = foreign_page(headers, writes=writes)
            return None if reason is None else problem(HTTPStatus.FORBIDDEN, reason)
        found = self._holder(scope, headers)
        needed = Scope.WRITE if writes else Scope.READ
        if isinstance(found, ApiToken) and needed not in found.scopes:
            challenge = {"WWW-Authenticate": f'{_REALM}, error="insufficient_scope", scope="{needed.value}"'}
            detail = f"the bearer token does not allow to {needed.value}"
            return problem(HTTPStatus.FORBIDDEN, detail, headers=challenge)
        return found

    def _holder(self, scope: Connection, headers: Headers) -> ApiToken | ProblemResponse:
        """Returns the token that was sent, or the refusal."""
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            challenge = {"WWW-Authenticate": _REALM}
            return problem(HTTPStatus.UNAUTHORIZED, "a bearer token is needed", headers=challenge)
        digest = digest_of(secret.strip())
        peer = scope.get(PEER) or scope.get("client") or ("", 0)
        address = counted_address(peer[0])
        wait = self._wrong.wait(address, digest)
        if wait > 0:
            return _too_many_wrong(wait)
        token = self._tokens.find(digest)
        if token is not None:
            self._wrong.right(address, digest)
            return token
        if not self._tokens.was_revoked(digest) and self._wrong.wrong(address):
            self._log.warning("wrong_tokens", address=address, instead="its tokens are looked at one a second")
        challenge = {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'}
        return problem(HTTPStatus.UNAUTHORIZED, "the bearer token is not known", headers=challenge)


def _too_many_wrong(wait: float) -> ProblemResponse:
    detail = "too many wrong tokens came from this address"
    headers = {"Retry-After": str(math.ceil(wait))}
    return problem(HTTPStatus.TOO_MANY_REQUESTS, detail, kind="too-many-wrong-tokens", headers=headers)


def _most_bytes(scope: Connection) -> int:
    if scope["path"] == TRANSFER_PATH:
        return MAX_TRANSFER_BYTES
    return MAX_IMPORT_BYTES if scope["path"] in LIST_PATHS else MAX_BODY_BYTES


def _refused_length(scope: Connection, headers: Headers) -> ProblemResponse | None:
    most = _most_bytes(scope)
    length = headers.get("content-length", "0")
    if not (length.isdecimal() and int(length[:20]) > most):
        return None
    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(most), headers={"Connection": "close"})


def _too_large(most: int) -> str:
    return f"the body may have at most {most} bytes"


async def _drain(receive: Receive) -> None:
    """Reads the rest of a body: closing the connection earlier may reset it, and lose the answer."""
    left = _MAX_DRAINED_BYTES
    while left > 0:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))


def _always() -> bool:
    return True


class _Limited:
    """Receives a body up to a limit: a chunked body does not announce its length.

    `allowed`: whether the sender is still authorised, called for every part.
    """

    def __init__(self, receive: Receive, most: int, allowed: Callable[[], bool] = _always) -> None:
        self._receive, self._most, self._allowed, self._got = receive, most, allowed, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        self._got += len(message.get("body", b""))
        if self._got > self._most:
            if message.get("more_body", False):
                await _drain(self._receive)
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(self._most), {"Connection": "close"})
        if not self._allowed():
            headers = {"WWW-Authenticate": f'{_REALM}, error="invalid_token"', "Connection": "close"}
            raise HTTPException(HTTPStatus.UNAUTHORIZED, "the bearer token was replaced meanwhile", headers)
        return message


class _Answer:
    """Forwards an answer, and can end it early."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._whole = False

    async def __call__(self, message: Message) -> None:
        """Forwards one message of the answer."""
        if message["type"] == "http.response.start":
            self._start = message
        await self._send(message)
        self._whole = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def end(self, scope: Connection, receive: Receive) -> None:
        """Ends the answer: an event stream regularly, others so that the client sees the truncation."""
        if self._start is None:
            await problem(HTTPStatus.UNAUTHORIZED, "the bearer token was replaced meanwhile")(
                scope, receive, self._send
            )
        elif not self._whole and any(_EVENT_STREAM in value for _, value in self._start["headers"]):
            # A client that does not read cannot be notified; the server drops it when the call is over.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _is_open(path: str) -> bool:
    """Returns whether the path is for everybody who reaches the API."""
    return path in OPEN_PATHS or path.startswith(OPEN_BELOW)
