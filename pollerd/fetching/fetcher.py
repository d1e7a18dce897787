"""The fetcher: fetches requests and returns their outcomes as values."""

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

from pollerd.fetching.client import HttpMessage, Repeat, Response, Send, Write, posting
from pollerd.fetching.egress import Router
from pollerd.fetching.failures import SITE_FAULTS, RefusedError, UnreadableError, proxy_refusal, refusal
from pollerd.fetching.outcomes import (
    MAX_ROBOTS_REDIRECTS,
    REDIRECT_STATUSES,
    FetchState,
    MayFollow,
    OutcomeBuilder,
    RobotsResponse,
    follow,
)
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import Outcome, OutcomeKind, Validators
from pollerd.texts import _
from pollerd.urls import host_of

T = TypeVar("T")
OnSent = Callable[[str, float], None]
"""Called with the host of a request that was written, and the time, epoch s."""


class Fetcher:
    """Fetches pages and robots.txt; an asynchronous context manager, used inside one event loop.

    `clock` returns UTC epoch seconds; it dates outcomes and replaces a missing Date header. `on_sent` is called with
    the host of each request and its time: pages, robots.txt and redirects; `before_repeat` is awaited before a request
    is rewritten because the server dropped its kept connection. `may_write` is asked with the host right before each
    request is written; if it says no, the fetch is cancelled.
    """

    def __init__(
        self,
        settings: FetchSettings,
        *,
        clock: Callable[[], float] = time.time,
        on_sent: OnSent | None = None,
        before_repeat: Repeat | None = None,
        may_write: Callable[[str], bool] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_sent: OnSent = on_sent or _count_nothing
        self._before_repeat: Repeat = before_repeat or _wait_for_nothing
        self._may_write = may_write
        self._egress: Router
        self._retired: set[Router] = set()
        self._mono: Callable[[], float]
        self._outcomes: OutcomeBuilder

    async def __aenter__(self) -> Self:
        """Opens the client. Raises `InvalidValueError` for a `ca_file` that cannot be loaded."""
        self._mono = asyncio.get_running_loop().time
        self._egress = Router(self._settings)
        self._outcomes = OutcomeBuilder(self._clock, self._mono)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for egress in (self._egress, *self._retired):
            await egress.close()

    @property
    def settings(self) -> FetchSettings:
        """The settings in force."""
        return self._settings

    @contextlib.contextmanager
    def prepared(self, settings: FetchSettings) -> Iterator[Callable[[], None]]:
        """Prepares new settings: calling `take_over()` within the block applies them; fetches in flight keep the old
        ones.

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
        """Fetches a page, conditionally if the request has validators. Never raises for a site's fault.

        `send`: decides when the request is written, but not those of its redirects; None: at once. Its wait counts
        neither for the deadline nor as `duration`; `started_at` is when the request was written, or when the fetch
        began if none was.

        Cancellation and exceptions of `may_follow` pass through; `RuntimeError` if the fetcher is closed. A redirect
        that `may_follow` refuses ends as DENIED, or as BLOCKED_ADDRESS if the guard would also refuse it. `redirects`
        ends with the hop that failed, if one did. For a 304, the validators are those sent, except those that the
        response renewed. `bytes` is the body's size: decoded for BODY, else what was read and discarded.
        """
        headers = _conditional(request.validators)
        own = {**headers, **dict(request.headers)} if request.headers else headers
        with self._egress as egress:
            state = self._begin(egress, request.url, request.proxy)
            state.posted = request.body is not None
            try:
                async with state.deadline:
                    first = None if send is None else partial(self._in_turn, state, send)
                    response = await self._get(state, own, first, request.body)
                    if response.status in REDIRECT_STATUSES:
                        response = await follow(
                            state,
                            response,
                            own=own,
                            bare=headers,
                            limit=self._settings.max_redirects,
                            may_follow=may_follow,
                            get=self._get,
                        )
                    most = self._settings.max_body_bytes if request.most_bytes is None else request.most_bytes
                    try:
                        return await self._outcomes.of_response(state, response, request.validators, most)
                    except UnreadableError:  # its host is asked by the tolerant parser from now on
                        if state.posted:
                            raise
                        await self._repeat(state, host_of(state.url))
                        response = await self._get(state, state.headers)
                        return await self._outcomes.of_response(state, response, request.validators, most)
            except (RefusedError, TimeoutError) as error:
                refused = _refused(error, state)
                return self._outcomes.build(state, refused.kind, detail=refused.detail)

    async def fetch_robots(
        self, url: str, proxy: str | None = None, may_follow: MayFollow | None = None
    ) -> RobotsResponse:
        """Fetches a robots.txt, across up to five redirects to any origin. Never raises for a site's fault.

        `proxy`: as in `Request`; `may_follow`: called before each redirect, as in `fetch`. A longer chain counts as
        absent (RFC 9309, section 2.3.1.2); a broken one, 429, 5xx, timeouts and network errors as unreachable; any
        other 4xx as absent.
        """
        with self._egress as egress:
            state = self._begin(egress, url, proxy)
            try:
                async with state.deadline:
                    response = await self._get(state, {})
                    if response.status in REDIRECT_STATUSES:
                        response = await follow(
                            state,
                            response,
                            own={},
                            bare={},
                            limit=MAX_ROBOTS_REDIRECTS,
                            may_follow=may_follow,
                            get=self._get,
                        )
                    return await self._outcomes.of_robots(state, response, self._settings.robots_max_bytes)
            except (RefusedError, TimeoutError) as error:
                return self._outcomes.of_robots_refusal(state, _refused(error, state))

    async def denial_of(self, url: str) -> str | None:
        """Returns why the guard refuses the host of the URL; None: it does not, as far as the name is known."""
        with self._egress as egress:
            try:
                await egress.check(url)
            except RefusedError as error:
                return error.detail
            except TimeoutError:
                return None
        return None

    def _begin(self, egress: Router, url: str, proxy: str | None) -> FetchState:
        now = self._mono()
        deadline = asyncio.timeout_at(now + self._settings.total_timeout_seconds)
        return FetchState(url, egress, egress.way(proxy), self._clock(), now, deadline)

    def _in_turn(self, state: FetchState, send: Send, write: Write) -> bool | Awaitable[bool]:
        written = send(write if self._may_write is None else partial(self._if_allowed, host_of(state.url), write))
        return written if isinstance(written, bool) else self._waited(state, written)

    def _if_allowed(self, host: str, write: Write) -> bool:
        """Writes a request, unless its host may not be asked any more."""
        if self._may_write is not None and not self._may_write(host):
            raise asyncio.CancelledError
        return write()

    async def _repeat(self, state: FetchState, host: str) -> None:
        if not state.redirects:
            state.sent = False  # the answered request counts as the poll's start
        await self._waited(state, self._before_repeat(host))

    async def _waited(self, state: FetchState, turn: Awaitable[T]) -> T:
        """Excludes a wait for our own budget, or for a host's interval, from deadline and duration."""
        deadline = state.deadline
        began, ends = self._mono(), deadline.when()
        assert ends is not None
        deadline.reschedule(None)
        try:
            return await turn
        finally:
            waited = self._mono() - began
            state.started_mono += waited
            deadline.reschedule(ends + waited)

    def _sent(self, state: FetchState, host: str) -> None:
        self._on_sent(host, self._clock())
        if not state.sent:
            state.sent, state.started_at = True, self._clock()

    async def _get(
        self, state: FetchState, headers: Mapping[str, str], send: Send | None = None, body: bytes | None = None
    ) -> Response:
        """Sends one request, without following redirects. Raises `RefusedError`."""
        state.status, state.headers = None, headers
        way = state.way
        if send is None and self._may_write is not None:
            send = partial(self._if_allowed, host_of(state.url))
        try:
            if way.proxy is not None:
                await state.egress.check(state.url)
            sent, repeat = partial(self._sent, state), partial(self._repeat, state)
            message = HttpMessage(headers) if body is None else posting(headers, body)
            response = await way.client.send(state.url, message, sent, way.proxy, send, repeat)
        except SITE_FAULTS as error:
            if way.client.closed:
                raise
            raise refusal(error) from error
        if way.proxy is not None and response.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            response.close()
            raise RefusedError(OutcomeKind.CONNECT_ERROR, proxy_refusal(response.status))
        state.status = response.status
        return response


def _count_nothing(_host: str, _now: float) -> None:
    """Default of `on_sent`: does nothing."""


async def _wait_for_nothing(_: str) -> None:
    """Default of `before_repeat`: does not wait."""


def _refused(error: RefusedError | TimeoutError, state: FetchState) -> RefusedError:
    """Returns the refusal that ended a fetch; reraises a `TimeoutError` not caused by its deadline."""
    if isinstance(error, RefusedError):
        return error
    if not state.deadline.expired():
        raise error
    return RefusedError(OutcomeKind.TIMEOUT, state.awaiting or _("no complete response within the deadline"))


def _conditional(validators: Validators) -> dict[str, str]:
    headers: dict[str, str] = {}
    if validators.etag is not None:
        headers[hdrs.IF_NONE_MATCH] = validators.etag
    if validators.last_modified is not None:
        headers[hdrs.IF_MODIFIED_SINCE] = validators.last_modified
    return headers
