"""What stands before every call: who may do this, and how much may be sent. Refusals keep no body."""

from __future__ import annotations

import hmac
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pollerd.api.problems import ProblemResponse, problem
from pollerd.api.settings import ApiSettings, Scope, Token, digest_of, is_loopback

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
IMPORT_PATH = "/api/v1/sites/import"
MAX_IMPORT_BYTES = 64 * 1024 * 1024
MAX_BODY_BYTES = 1024 * 1024
_MAX_DRAINED_BYTES = 2 * MAX_IMPORT_BYTES
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Gatekeeper:
    """Lets in who has a token of the right scope; without tokens, who asks from this machine and not from a page.

    A page that a browser shows could otherwise post to a daemon on loopback (another Origin), or read from it under a
    name of its own (DNS rebinding: another Host).
    """

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app, self._tokens = app, settings.tokens

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            if "expect" not in headers:
                await _drain(receive)
            await refusal(scope, receive, send)
            return
        await self._app(scope, _Limited(receive, _most_bytes(scope)), send)

    def _refusal(self, scope: Connection, headers: Headers) -> ProblemResponse | None:
        if scope["path"] not in OPEN_PATHS:
            needed = Scope.READ if scope["method"] in _READING else Scope.WRITE
            refusal = self._stranger(headers, needed) if self._tokens else _foreign_page(headers)
            if refusal is not None:
                return refusal
        most = _most_bytes(scope)
        length = headers.get("content-length", "0")
        return _refused_size(most) if length.isdecimal() and int(length[:20]) > most else None

    def _stranger(self, headers: Headers, needed: Scope) -> ProblemResponse | None:
        realm = 'Bearer realm="pollerd"'
        challenge = {"WWW-Authenticate": realm}
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            return problem(HTTPStatus.UNAUTHORIZED, "a bearer token is needed", headers=challenge)
        token = self._token(secret.strip())
        if token is None:
            challenge = {"WWW-Authenticate": f'{realm}, error="invalid_token"'}
            return problem(HTTPStatus.UNAUTHORIZED, "the bearer token is not known", headers=challenge)
        if needed not in token.scopes:
            challenge = {"WWW-Authenticate": f'{realm}, error="insufficient_scope", scope="{needed.value}"'}
            return problem(
                HTTPStatus.FORBIDDEN, f"the bearer token does not allow to {needed.value}", headers=challenge
            )
        return None

    def _token(self, secret: str) -> Token | None:
        given, found = digest_of(secret), None
        # Every token is compared, and each in constant time: the time taken tells nothing.
        for token in self._tokens:
            if hmac.compare_digest(token.digest, given):
                found = token
        return found


def _most_bytes(scope: Connection) -> int:
    return MAX_IMPORT_BYTES if scope["path"] == IMPORT_PATH else MAX_BODY_BYTES


def _foreign_page(headers: Headers) -> ProblemResponse | None:
    host = headers.get("host")
    if host is not None and not _names_loopback(f"//{host}"):
        return problem(HTTPStatus.FORBIDDEN, "without a token the API answers to loopback names only")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != (host or "").lower():
        return problem(HTTPStatus.FORBIDDEN, "without a token the API takes no calls from other sites' pages")
    return None


def _names_loopback(address: str) -> bool:
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False


def _refused_size(most: int) -> ProblemResponse:
    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(most), headers={"Connection": "close"})


def _too_large(most: int) -> str:
    return f"the body may have at most {most} bytes"


async def _drain(receive: Receive) -> None:
    """Reads away what is still being sent: a connection closed before may reset, and the answer would be lost."""
    left = _MAX_DRAINED_BYTES
    while left > 0:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))


class _Limited:
    """Receives a body up to a limit: one sent in chunks does not tell its length first."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._got = receive, most, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._got += len(message.get("body", b""))
        if self._got > self._most:
            if message.get("more_body", False):
                await _drain(self._receive)
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(self._most), {"Connection": "close"})
        return message
