"""Middleware before every call: authorisation and body size. Refused bodies are not stored."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import re
import time
from collections.abc import Callable, Collection, Sequence
from http import HTTPStatus
from itertools import repeat

import structlog
from fastapi import HTTPException, Request, Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pollerd.api.auth.limits import (
    HUB_PATHS,
    INDEXNOW_PATH,
    OPEN_BURST,
    OPEN_PER_SECOND,
    WrongTokens,
)
from pollerd.api.auth.policies import READING, RoutePolicies, RoutePolicy
from pollerd.api.auth.recognition import CallerRecognition, RevokedError, clear_cookie, secret_in
from pollerd.api.http import API_FORM, CALLER, CSRF_HEADER, By, SignedIn, csrf_is_right
from pollerd.api.problems import ProblemResponse, problem, unavailable
from pollerd.api.settings import digest_of, is_loopback
from pollerd.errors import DatabaseUnavailableError
from pollerd.limits import LeakyBuckets
from pollerd.texts import N_, _

# Detects calls by pages of other sites in a browser, as opposed to programs and users.
#
# A page can post to a daemon on loopback (then Origin, Referer or Sec-Fetch-Site identify the page), or read from it
# under a name of its own (DNS rebinding: then Host does). Daemons that let everybody in need all of this. Where callers
# must sign in, no page knows a token and no foreign name has a cookie: only pages that use the browser's cookie remain,
# such as those of another port of this machine, which are the same site to a browser.

_HOST = re.compile(r"(?P<name>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\\\s]+)", re.IGNORECASE)
_REFERER = re.compile(_ORIGIN.pattern + r"(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_OWN_FETCHES = frozenset({"same-origin", "none"})
"""Excludes `same-site`: to a browser all ports of this machine are one site, including other servers."""


def foreign_page(headers: Headers, *, writes: bool, allowed: Collection[str] = ()) -> str | None:
    """Returns why a call is refused as possibly coming from another site's page; None if it is accepted.

    Refuses a Host that is neither a loopback address nor among `allowed`, an Origin that is neither the Host nor among
    `allowed`, and either if it is repeated. `writes`: the call changes something; only then Referer and Sec-Fetch-Site
    are checked, since a user may follow a link from any page.
    """
    hosts = headers.getlist("host")
    for host in hosts:
        if len(hosts) > 1 or not (_names_loopback(host) or _is_named(host, allowed)):
            return _("without a token the API answers to loopback names, and to those of allowed_host, only")
    if not _origin_is_ours(headers, allowed, referer=writes):
        return _("without a token the API takes no calls from other sites' pages")
    if writes and not _OWN_FETCHES.issuperset(headers.getlist("sec-fetch-site")):
        return _("without a token the API takes changes from its own pages and from programs only")
    return None


def foreign_origin(headers: Headers, *, writes: bool, allowed: Collection[str] = ()) -> str | None:
    """Returns why a call that a browser may make by itself is refused; None if no header says that it is foreign.

    As `foreign_page`, but under any Host, and without Referer: a browser that sends neither Origin nor Sec-Fetch-Site
    is too old to tell.
    """
    if not _origin_is_ours(headers, allowed, referer=False):
        return _("the call came from another site's page")
    if writes and not _OWN_FETCHES.issuperset(headers.getlist("sec-fetch-site")):
        return _("the call came from another site's page")
    return None


def _origin_is_ours(headers: Headers, allowed: Collection[str], *, referer: bool) -> bool:
    own = headers.get("host", "").lower()
    named = [*zip(repeat(_ORIGIN), headers.getlist("origin"))]
    if referer:
        named += zip(repeat(_REFERER), headers.getlist("referer"))
    return all(_is_of(own, allowed, shape, value) for shape, value in named)


def _names_loopback(host: str) -> bool:
    """Returns whether a Host header is a loopback name or address, optionally with a port, and nothing else."""
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(match["name"].strip("[]"))


def _is_named(host: str, allowed: Collection[str]) -> bool:
    """Returns whether a host is allowed by name and port, or by name with any port."""
    match = _HOST.fullmatch(host)
    return match is not None and (host.lower() in allowed or match["name"].lower() in allowed)


def _is_of(own: str, allowed: Collection[str], shape: re.Pattern[str], value: str) -> bool:
    match = shape.fullmatch(value)
    return match is not None and (match["host"].lower() == own or _is_named(match["host"], allowed))


METRICS_PATH = "/metrics"
LIST_PATHS = frozenset({"/api/v1/sites/import", "/api/v1/sites/diff", "/sites/import"})
"""Paths that accept lists of up to `MAX_IMPORT_BYTES`."""
MAX_IMPORT_BYTES = 64 * 1024 * 1024
TRANSFER_PATH = "/api/v1/import"
MAX_TRANSFER_BYTES = 1024 * 1024 * 1024
MAX_HUB_BYTES = 10 * 1024 * 1024
"""Of what a WebSub hub sends: as of a page that is fetched, by default."""
MAX_INDEXNOW_BYTES = 2 * 1024 * 1024
MAX_BODY_BYTES = 1024 * 1024
KNOWN_CALLER = "pollerd.known_caller"
"""Scope key of metrics calls: whether a token was sent."""
PEER = "pollerd.peer"
"""Scope key: (address, port) of the connection's peer, whatever the headers say."""
ADDRESS = "pollerd.address"
"""Scope key: the caller's address, as the limits count it."""
ShowRefusal = Callable[[Request, ProblemResponse], Response]
"""Shows a refusal to somebody at a browser; `app.state.refused_page` may have one."""
_MAX_DRAINED_BYTES = 2 * MAX_IMPORT_BYTES
_REALM = 'Bearer realm="pollerd"'
_API = ("/api/", "/openapi.json")
_ENDED = N_("the bearer token was replaced, or the session ended, meanwhile")
_UNKNOWN_TOKEN = N_(
    "the bearer token is not known: send the token that the daemon was started with (token, POLLERD_TOKEN), or make "
    "one with `pollerd tokens add NAME`"
)
_OVER = N_("the session is over: sign in again")
_LAST_WORD_SECONDS = 1.0
_EVENT_STREAM = b"text/event-stream"


class AuthMiddleware:
    """Admits calls by their route's policy: who they come from, and that no page of another site makes them.

    Callers are recognised by a bearer token, by a trusted proxy, or by a session's cookie. If there are neither tokens
    nor users, all callers from this machine are admitted that are no page.
    """

    def __init__(self, app: ASGIApp, recognition: CallerRecognition, policies: RoutePolicies) -> None:
        self._app, self._recognition, self._policies = app, recognition, policies
        self._wrong, self._open_calls = WrongTokens(), LeakyBuckets(OPEN_BURST, OPEN_PER_SECOND)
        self._log = structlog.get_logger("pollerd.api")

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scope[ADDRESS] = counted_address(self._address(scope))
        policy = self._policies.of(scope["method"], scope["path"])
        try:
            shown = await self._admitted(policy, scope, headers)
        except DatabaseUnavailableError as error:
            shown = unavailable(str(error))
        refusal: Response | None = shown if isinstance(shown, ProblemResponse) else _refused_length(scope, headers)
        if refusal is not None:
            if "expect" not in headers:
                await _drain(receive)
            await _as_page(scope, refusal)(scope, receive, send)
            return
        assert not isinstance(shown, ProblemResponse)
        scope[CALLER] = shown
        if policy in (RoutePolicy.OPEN, RoutePolicy.VISITOR):
            await self._app(scope, _Limited(receive, _most_bytes(scope)), send)
        else:
            await self._run_authorised(shown, scope, receive, send)

    async def _run_authorised(self, caller: SignedIn | None, scope: Connection, receive: Receive, send: Send) -> None:
        """Runs the call while what admitted it is in force; a write whose body is complete may finish."""
        recognition = self._recognition
        limited = _Limited(receive, _most_bytes(scope), lambda: recognition.may_go_on(caller))
        if scope["method"] not in READING:
            with recognition.held(caller):
                await self._app(scope, limited, send)
            return
        answer = _Answer(send)
        try:
            async with recognition.while_in_force(caller):
                await self._app(scope, limited, answer)
        except RevokedError:
            await answer.end(scope, receive)

    async def _admitted(
        self, policy: RoutePolicy, scope: Connection, headers: Headers
    ) -> SignedIn | ProblemResponse | None:
        """Returns who is admitted, None if the call needs nobody; or the refusal."""
        settings, writes = self._recognition.tokens.settings, scope["method"] not in READING
        if policy is RoutePolicy.OPEN:
            if scope["path"].startswith((HUB_PATHS, INDEXNOW_PATH)):
                wait = self._open_calls.take(time.monotonic(), scope[ADDRESS])
                if wait > 0:
                    return _too_many_calls(wait)
            if scope["path"] == METRICS_PATH:
                scope[KNOWN_CALLER] = await self._shows_a_token(scope, headers)
            return None
        allowed = settings.entrance.allowed_hosts
        if not await self._recognition.needed():
            reason = foreign_page(headers, writes=writes, allowed=allowed)
            return None if reason is None else problem(HTTPStatus.FORBIDDEN, reason)
        caller = await self._caller(scope, headers)
        if policy is RoutePolicy.VISITOR:
            reason = foreign_origin(headers, writes=writes, allowed=allowed)
            if reason is not None:
                return problem(HTTPStatus.FORBIDDEN, reason, kind="foreign-page")
            return caller if isinstance(caller, SignedIn) else None
        if isinstance(caller, SignedIn):
            return _refused_page(caller, headers, scope, allowed) or _refused_role(caller, policy) or caller
        return caller

    async def _shows_a_token(self, scope: Connection, headers: Headers) -> bool:
        """Returns whether a caller of the metrics sends a right token."""
        if "authorization" not in headers or not await self._recognition.needed():
            return False
        holder = await self._holder(scope, headers)
        return isinstance(holder, SignedIn) and holder.may_read

    async def _caller(self, scope: Connection, headers: Headers) -> SignedIn | ProblemResponse:
        """Returns who calls, or the refusal."""
        if _bearer(headers) is not None:
            return await self._holder(scope, headers)
        entrance = self._recognition.tokens.settings.entrance
        if entrance.user_header is not None and entrance.trusts(_peer(scope)):
            names = headers.getlist(entrance.user_header)
            if names:
                return await self._named(names)
        secret = secret_in(scope, headers)
        if secret is None:
            return problem(HTTPStatus.UNAUTHORIZED, _("a bearer token is needed"), headers={"WWW-Authenticate": _REALM})
        signed_in = await self._recognition.by_session(secret)
        if signed_in is None:
            over = problem(HTTPStatus.UNAUTHORIZED, _(_OVER), kind="session-over", headers={"WWW-Authenticate": _REALM})
            clear_cookie(over, scope)
            return over
        await self._recognition.seen(signed_in)
        return signed_in

    async def _named(self, names: Sequence[str]) -> SignedIn | ProblemResponse:
        """Returns the user whom a trusted proxy names, or the refusal."""
        signed_in = await self._recognition.by_proxy(names[0]) if len(names) == 1 else None
        if signed_in is None:
            detail = _("the proxy names a user who is not known here: add the user with `pollerd users add`")
            return problem(HTTPStatus.FORBIDDEN, detail, kind="unknown-user")
        return signed_in

    async def _holder(self, scope: Connection, headers: Headers) -> SignedIn | ProblemResponse:
        """Returns who has the token that was sent, or the refusal."""
        digest = digest_of(_bearer(headers) or "")
        address = scope[ADDRESS]
        wait = self._wrong.wait(address, digest)
        if wait > 0:
            return _too_many_wrong(wait)
        token = await self._recognition.by_token(digest)
        if token is not None:
            self._wrong.right(address, digest)
            return token
        if not self._recognition.tokens.was_revoked(digest) and self._wrong.wrong(address):
            self._log.warning("wrong_tokens", address=address, effect="one of its tokens is checked per second")
        challenge = {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'}
        return problem(HTTPStatus.UNAUTHORIZED, _(_UNKNOWN_TOKEN), headers=challenge)

    def _address(self, scope: Connection) -> str:
        """Returns the caller's address: the peer's, or as a trusted proxy has it."""
        peer = _peer(scope)
        if self._recognition.tokens.settings.entrance.trusts(peer):
            return str((scope.get("client") or (peer, 0))[0])
        return peer


_IPV6_PREFIX = 64
"""Prefix assigned to one customer, who has all of its addresses."""


def counted_address(peer: str) -> str:
    """Returns the counted form of a peer's address: IPv4, or the /64 of an IPv6 address."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return ""  # a Unix socket, or a server that does not report it
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_PREFIX), strict=False))


def _peer(scope: Connection) -> str:
    peer = scope.get(PEER) or scope.get("client") or ("", 0)
    return str(peer[0])


def _bearer(headers: Headers) -> str | None:
    """Returns the bearer token that was sent; None: none was."""
    kind, _space, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" and secret.strip() else None


def _refused_page(
    caller: SignedIn, headers: Headers, scope: Connection, allowed: Collection[str]
) -> ProblemResponse | None:
    """Returns the refusal of a call that another site's page may have made in the caller's name, or None.

    Only calls whose credentials a browser sends by itself can be such. A change over REST must come from a page of
    ours, or show the session's token; a form shows its own, which its page checks.
    """
    if not caller.secret:
        return None
    writes = scope["method"] not in READING
    if writes and csrf_is_right(caller, API_FORM, headers.get(CSRF_HEADER, "")):
        return None
    reason = foreign_origin(headers, writes=writes, allowed=allowed)
    if reason is None and writes and "origin" not in headers and scope["path"].startswith(_API):
        reason = _(
            "a change with a session's cookie needs the daemon's Origin, or the header {csrf_header}",
            csrf_header=CSRF_HEADER,
        )
    return None if reason is None else problem(HTTPStatus.FORBIDDEN, reason, kind="foreign-page")


def _refused_role(caller: SignedIn, policy: RoutePolicy) -> ProblemResponse | None:
    may = {
        RoutePolicy.READ: caller.may_read,
        RoutePolicy.WRITE: caller.may_write,
        RoutePolicy.SIGNALS: caller.may_report,
    }
    if may.get(policy, True):
        return None
    if caller.by is not By.TOKEN:
        return problem(HTTPStatus.FORBIDDEN, _("you have read-only access"), kind="read-only")
    challenge = {"WWW-Authenticate": f'{_REALM}, error="insufficient_scope", scope="{policy.value}"'}
    what = _("report signals and reads") if policy is RoutePolicy.SIGNALS else policy.value
    return problem(HTTPStatus.FORBIDDEN, _("the bearer token does not allow to {what}", what=what), headers=challenge)


def _as_page(scope: Connection, refusal: Response) -> Response:
    """Returns the refusal as a page, if one was asked for and there are pages."""
    show: ShowRefusal | None = getattr(scope["app"].state, "refused_page", None)
    if show is None or scope["path"].startswith(_API) or not isinstance(refusal, ProblemResponse):
        return refusal
    if "text/html" not in Headers(scope=scope).get("accept", ""):
        return refusal
    return show(Request(scope), refusal)


def _too_many_wrong(wait: float) -> ProblemResponse:
    detail = _("too many wrong tokens came from this address")
    headers = {"Retry-After": str(math.ceil(wait))}
    return problem(HTTPStatus.TOO_MANY_REQUESTS, detail, kind="too-many-wrong-tokens", headers=headers)


def _too_many_calls(wait: float) -> ProblemResponse:
    headers = {"Retry-After": str(math.ceil(wait))}
    return problem(
        HTTPStatus.TOO_MANY_REQUESTS, _("too many calls from this address"), kind="too-many", headers=headers
    )


def _most_bytes(scope: Connection) -> int:
    if scope["path"].startswith(HUB_PATHS):
        return MAX_HUB_BYTES
    if scope["path"] == INDEXNOW_PATH:
        return MAX_INDEXNOW_BYTES
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
    return _("the body may have at most {most} bytes", most=most)


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
            raise HTTPException(HTTPStatus.UNAUTHORIZED, _(_ENDED), headers)
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
            await problem(HTTPStatus.UNAUTHORIZED, _(_ENDED))(scope, receive, self._send)
        elif not self._whole and any(_EVENT_STREAM in value for _name, value in self._start["headers"]):
            # A client that does not read cannot be notified; the server drops it when the call is over.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
