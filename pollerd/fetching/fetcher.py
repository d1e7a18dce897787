"""The fetcher: a request goes in, what the site made of it comes out as a value.

Redirects are followed here and not by the client library, because each hop is recorded, may need permission, and
must not carry the site's own headers to another origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

from aiohttp import hdrs

from pollerd.errors import InvalidValueError
from pollerd.fetching.body import discard_body, read_beginning, read_body
from pollerd.fetching.client import Repeat, Send, Sent, Write
from pollerd.fetching.egress import Route, Router
from pollerd.fetching.failures import SITE_FAULTS, RefusedError, kind_of_status, proxy_refusal, refusal
from pollerd.fetching.headers import (
    clean_content_type,
    fresh_seconds,
    http_date,
    retry_after_seconds,
    robots_tags_of,
    validators_of,
)
from pollerd.fetching.request import NO_VALIDATORS, Request
from pollerd.fetching.response import Response
from pollerd.fetching.robots import MAX_ROBOTS_REDIRECTS, RobotsKind, RobotsResponse, robots_kind
from pollerd.fetching.settings import FetchSettings
from pollerd.model import Outcome, OutcomeKind, Redirect, Validators
from pollerd.urls import join_url, origin_of

MayFollow = Callable[[str], Awaitable[bool]]
"""Asked with the absolute URL before a redirect is followed, to the same origin too: robots.txt may deny it."""

T = TypeVar("T")
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_EMPTY_STATUSES = frozenset({204, 205})


class FetchState:
    """Where one fetch has come to; known also when it fails on the way."""

    __slots__ = (
        "awaiting",
        "deadline",
        "egress",
        "endless",
        "redirects",
        "sent",
        "started_at",
        "started_mono",
        "status",
        "url",
        "way",
    )

    def __init__(
        self, url: str, egress: Router, way: Route, started_at: float, started_mono: float, deadline: asyncio.Timeout
    ) -> None:
        self.url = url
        self.deadline = deadline
        self.egress = egress
        self.way = way
        self.started_at = started_at
        self.started_mono = started_mono
        self.status: int | None = None
        self.redirects: list[Redirect] = []
        self.endless = False
        self.sent = False
        self.awaiting = "no complete response within the deadline"


class Fetcher:
    """The daemon's way to the web; an asynchronous context manager, used inside one event loop.

    `clock` gives UTC epoch seconds; it dates outcomes and stands in for a missing Date header. `on_sent` is called with
    the host of each request, of pages, robots.txt and redirects alike; `before_repeat` is awaited before a request is
    written again because the server dropped the kept connection that it went over.
    """

    def __init__(
        self,
        settings: FetchSettings,
        *,
        clock: Callable[[], float] = time.time,
        on_sent: Sent | None = None,
        before_repeat: Repeat | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_sent: Sent = on_sent or _count_nothing
        self._before_repeat: Repeat = before_repeat or _wait_for_nothing
        self._egress: Router
        self._retired: set[Router] = set()
        self._mono: Callable[[], float]

    async def __aenter__(self) -> Self:
        """Open the client. Raises `InvalidValueError` for a `ca_file` that cannot be loaded."""
        self._mono = asyncio.get_running_loop().time
        self._egress = Router(self._settings)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for egress in (self._egress, *self._retired):
            await egress.close()

    @property
    def settings(self) -> FetchSettings:
        """What is in force."""
        return self._settings

    @contextlib.contextmanager
    def prepared(self, settings: FetchSettings) -> Iterator[Callable[[], None]]:
        """`take_over()` within the block puts other settings in force; what is under way ends by the old ones.

        Raises `InvalidValueError` for a `ca_file` that cannot be loaded, before anything has changed.
        """
        fresh, before = Router(settings), self._egress

        def take_over() -> None:
            self._egress, self._settings = fresh, settings

        try:
            yield take_over
        finally:
            left = before if self._egress is fresh else fresh
            self._retired.add(left)
            left.retire(self._retired.discard)

    async def fetch(self, request: Request, may_follow: MayFollow | None = None, send: Send | None = None) -> Outcome:
        """Get a page, conditionally where the request has validators. Never raises for a site's fault.

        `send`: decides when the request is written, but not those that its redirects ask for; None: at once. The time
        that it takes counts neither for the deadline nor as `duration`; `started_at` is when the request was written,
        or when the fetch began where none was.
        Cancellation and what `may_follow` raises pass through; `RuntimeError` where the fetcher is closed. A
        redirect that `may_follow` refuses ends as DENIED, or as BLOCKED_ADDRESS where the guard would refuse it, too.
        `redirects` ends with the hop that failed, if one did. Of a 304, the validators are those sent, as far as the
        response did not renew them. `bytes` is the body's size: decoded for BODY, else what was read and thrown away.
        """
        headers = _conditional(request.validators)
        own = {**headers, **dict(request.headers)} if request.headers else headers
        with self._egress as egress:
            journey = self._journey(egress, request.url, request.proxy)
            try:
                async with journey.deadline:
                    first = None if send is None else partial(self._in_turn, journey, send)
                    response = await self._get(journey, own, first)
                    if response.status in _REDIRECT_STATUSES:
                        limit = self._settings.max_redirects
                        response = await self._follow(journey, response, own, headers, limit, may_follow)
                    return await self._judge(journey, response, request.validators)
            except (RefusedError, TimeoutError) as error:
                refused = _refused(error, journey)
                return self._outcome(journey, refused.kind, detail=refused.detail)

    async def fetch_robots(
        self, url: str, proxy: str | None = None, may_follow: MayFollow | None = None
    ) -> RobotsResponse:
        """Get a robots.txt, across up to five redirects to wherever they lead. Never raises for a site's fault.

        `proxy`: as `Request` has it; `may_follow`: asked before each redirect, as by `fetch`. A chain that is longer
        counts as absent (RFC 9309, section 2.3.1.2); a broken one, 429, 5xx, time-outs and network errors as
        unreachable; any other 4xx as absent.
        """
        with self._egress as egress:
            journey = self._journey(egress, url, proxy)
            try:
                async with journey.deadline:
                    response = await self._get(journey, {})
                    if response.status in _REDIRECT_STATUSES:
                        response = await self._follow(journey, response, {}, {}, MAX_ROBOTS_REDIRECTS, may_follow)
                    return await self._judge_robots(journey, response)
            except (RefusedError, TimeoutError) as error:
                refused = _refused(error, journey)
                kind = RobotsKind.ABSENT if journey.endless else RobotsKind.UNREACHABLE
                return RobotsResponse(
                    kind,
                    self._since(journey),
                    status=journey.status,
                    detail=refused.detail,
                    failure=None if journey.endless else refused.kind,
                )

    def _journey(self, egress: Router, url: str, proxy: str | None) -> FetchState:
        now = self._mono()
        deadline = asyncio.timeout_at(now + self._settings.total_timeout_seconds)
        return FetchState(url, egress, egress.way(proxy), self._clock(), now, deadline)

    def _in_turn(self, journey: FetchState, send: Send, write: Write) -> bool | Awaitable[bool]:
        written = send(write)
        return written if isinstance(written, bool) else self._waited(journey, written)

    async def _repeat(self, journey: FetchState, host: str) -> None:
        if not journey.redirects:
            journey.sent = False  # the one that is answered counts as the poll's start
        await self._waited(journey, self._before_repeat(host))

    async def _waited(self, journey: FetchState, turn: Awaitable[T]) -> T:
        """Waiting for our own budget, or for a host's interval, is no time of the server's."""
        deadline = journey.deadline
        began, ends = self._mono(), deadline.when()
        assert ends is not None
        deadline.reschedule(None)
        try:
            return await turn
        finally:
            waited = self._mono() - began
            journey.started_mono += waited
            deadline.reschedule(ends + waited)

    def _sent(self, journey: FetchState, host: str) -> None:
        self._on_sent(host)
        if not journey.sent:
            journey.sent, journey.started_at = True, self._clock()

    async def _get(self, journey: FetchState, headers: Mapping[str, str], send: Send | None = None) -> Response:
        """One request, without redirects. Raises `RefusedError`."""
        journey.status = None
        way = journey.way
        try:
            if way.proxy is not None:
                await journey.egress.check(journey.url)
            sent, repeat = partial(self._sent, journey), partial(self._repeat, journey)
            response = await way.client.get(journey.url, headers, sent, way.proxy, send, repeat)
        except SITE_FAULTS as error:
            if way.client.closed:
                raise
            raise refusal(error) from error
        if way.proxy is not None and response.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            response.close()
            raise RefusedError(OutcomeKind.CONNECT_ERROR, proxy_refusal(response.status))
        journey.status = response.status
        return response

    async def _follow(
        self,
        journey: FetchState,
        response: Response,
        own: Mapping[str, str],
        bare: Mapping[str, str],
        limit: int,
        may_follow: MayFollow | None,
    ) -> Response:
        """The first response that is no redirect. `own` headers go to the same origin, `bare` ones anywhere.

        Validators are among both: they belong to the final page, and mean nothing to the others. Raises
        `RefusedError`.
        """
        visited = {journey.url}
        headers = own
        while response.status in _REDIRECT_STATUSES:
            location = response.headers.get(hdrs.LOCATION)
            await discard_body(response)
            target = _target(journey.url, response.status, location)
            journey.redirects.append(Redirect(response.status, target))
            _refuse_endless(journey, visited, limit)
            if origin_of(target) != origin_of(journey.url):
                headers = bare
            await _ask(journey, may_follow, target)
            visited.add(target)
            journey.url = target
            response = await self._get(journey, headers)
        return response

    async def _judge(self, journey: FetchState, response: Response, sent: Validators) -> Outcome:
        """The outcome of a response that is no redirect; leaves its connection reusable or closed."""
        try:
            status = response.status
            if status == 304:
                return self._not_modified(journey, response, sent)
            if 200 <= status < 300:
                return await self._body(journey, response)
            return await self._failure(journey, response)
        finally:
            response.close()

    def _not_modified(self, journey: FetchState, response: Response, sent: Validators) -> Outcome:
        if not sent:
            raise RefusedError(OutcomeKind.PROTOCOL_ERROR, "304 to a request without validators")
        return self._outcome(
            journey,
            OutcomeKind.NOT_MODIFIED,
            validators=_renewed(response, sent),
            server_date=_date(response),
            fresh_for=self._fresh_for(response),
        )

    async def _body(self, journey: FetchState, response: Response) -> Outcome:
        if response.status in _EMPTY_STATUSES:
            await discard_body(response)
            body = b""
        else:
            body = await read_body(response, self._settings.max_body_bytes)
        headers = response.headers
        return self._outcome(
            journey,
            OutcomeKind.BODY,
            size=len(body),
            body=body,
            content_type=clean_content_type(headers.get(hdrs.CONTENT_TYPE)),
            validators=validators_of(headers.get(hdrs.ETAG), headers.get(hdrs.LAST_MODIFIED)),
            server_date=_date(response),
            robots_tags=robots_tags_of(headers.getall("X-Robots-Tag", ())),
            fresh_for=self._fresh_for(response),
        )

    async def _failure(self, journey: FetchState, response: Response) -> Outcome:
        size = await discard_body(response)
        retry_after = self._retry_after(response)
        kind = kind_of_status(response.status, retry_after)
        detail = f"HTTP status {response.status}"
        date = _date(response)
        return self._outcome(journey, kind, size=size, retry_after=retry_after, server_date=date, detail=detail)

    async def _judge_robots(self, journey: FetchState, response: Response) -> RobotsResponse:
        try:
            kind = robots_kind(response.status)
            if kind is RobotsKind.FOUND:
                body = await read_beginning(response, self._settings.robots_max_bytes)
                return RobotsResponse(kind, self._since(journey), body, response.status)
            await discard_body(response)
            retry_after = self._retry_after(response)
            return RobotsResponse(
                kind,
                self._since(journey),
                status=response.status,
                retry_after=retry_after,
                detail=f"HTTP status {response.status}",
                failure=kind_of_status(response.status, retry_after) if kind is RobotsKind.UNREACHABLE else None,
            )
        finally:
            response.close()

    def _retry_after(self, response: Response) -> float | None:
        text = response.headers.get(hdrs.RETRY_AFTER)
        if text is None:
            return None
        date = _date(response)
        return retry_after_seconds(text, self._clock() if date is None else date)

    def _fresh_for(self, response: Response) -> float | None:
        headers = response.headers
        control, expires = headers.get(hdrs.CACHE_CONTROL), headers.get(hdrs.EXPIRES)
        if control is None and expires is None:
            return None
        date = _date(response)
        return fresh_seconds(control, expires, headers.get(hdrs.AGE), self._clock() if date is None else date)

    def _since(self, journey: FetchState) -> float:
        return self._mono() - journey.started_mono

    def _outcome(  # noqa: PLR0913 (the fields of an outcome)
        self,
        journey: FetchState,
        kind: OutcomeKind,
        *,
        size: int = 0,
        body: bytes | None = None,
        content_type: str | None = None,
        validators: Validators = NO_VALIDATORS,
        server_date: float | None = None,
        retry_after: float | None = None,
        detail: str = "",
        robots_tags: tuple[str, ...] = (),
        fresh_for: float | None = None,
    ) -> Outcome:
        return Outcome(
            kind,
            journey.started_at,
            self._mono() - journey.started_mono,
            journey.status,
            size,
            body,
            content_type,
            validators,
            server_date,
            retry_after,
            tuple(journey.redirects),
            detail,
            robots_tags,
            fresh_for,
        )


def _count_nothing(_: str) -> None:
    """Before the daemon is there, nobody spaces requests."""


async def _wait_for_nothing(_: str) -> None:
    """Nor repeats them apart."""


def _refused(error: RefusedError | TimeoutError, journey: FetchState) -> RefusedError:
    """What has ended a fetch; raises a `TimeoutError` that is not of its deadline."""
    if isinstance(error, RefusedError):
        return error
    if not journey.deadline.expired():
        raise error
    return RefusedError(OutcomeKind.TIMEOUT, journey.awaiting)


def _conditional(validators: Validators) -> dict[str, str]:
    headers: dict[str, str] = {}
    if validators.etag is not None:
        headers[hdrs.IF_NONE_MATCH] = validators.etag
    if validators.last_modified is not None:
        headers[hdrs.IF_MODIFIED_SINCE] = validators.last_modified
    return headers


def _renewed(response: Response, sent: Validators) -> Validators:
    """The validators after a 304: those sent, each replaced where the response brings another."""
    etag, last_modified = response.headers.get(hdrs.ETAG), response.headers.get(hdrs.LAST_MODIFIED)
    if etag in (None, sent.etag) and last_modified in (None, sent.last_modified):
        return sent
    new = validators_of(etag, last_modified)
    return Validators(new.etag or sent.etag, new.last_modified or sent.last_modified)


def _date(response: Response) -> float | None:
    text = response.headers.get(hdrs.DATE)
    return None if text is None else http_date(text)


def _target(base: str, status: int, location: str | None) -> str:
    if location is None:
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"redirect {status} without a Location")
    try:
        return join_url(base, location)
    except InvalidValueError as error:
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"redirect {status} refused: {error}") from error


def _refuse_endless(journey: FetchState, visited: set[str], limit: int) -> None:
    target = journey.redirects[-1].url
    if len(journey.redirects) > limit:
        journey.endless = True
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"more than {limit} redirects")
    if target in visited:
        journey.endless = True
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"redirect loop at {target}")


async def _ask(journey: FetchState, may_follow: MayFollow | None, target: str) -> None:
    """Raises `RefusedError` where the hop is not allowed."""
    if may_follow is None:
        return
    journey.egress.check_literal(target)
    awaited, journey.awaiting = journey.awaiting, f"no permission to follow to {target} in time"
    allowed = await may_follow(target)
    journey.awaiting = awaited
    if allowed:
        return
    # The target's host could not be asked for its robots.txt if it may not be dialled: that is the reason then.
    with contextlib.suppress(OSError):
        await journey.egress.check(target)
    raise RefusedError(OutcomeKind.DENIED, f"redirect to {target} is not allowed")
