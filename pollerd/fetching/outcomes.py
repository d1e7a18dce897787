"""Builds the outcomes of fetches: from a response read within limits, or from the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import hdrs

from pollerd.fetching.body import discard_body, read_beginning, read_body
from pollerd.fetching.failures import RefusedError, kind_of_status
from pollerd.fetching.headers import (
    clean_content_type,
    fresh_seconds,
    http_date,
    hub_links_of,
    retry_after_seconds,
    robots_tags_of,
    validators_of,
)
from pollerd.fetching.redirects import FetchState
from pollerd.fetching.request import NO_VALIDATORS
from pollerd.fetching.response import Response
from pollerd.fetching.robots import RobotsKind, RobotsResponse, robots_kind
from pollerd.model import Outcome, OutcomeKind, Validators

_EMPTY_STATUSES = frozenset({204, 205})


class OutcomeBuilder:
    """Builds outcomes. `clock` returns UTC epoch seconds, `mono` monotonic seconds for durations."""

    def __init__(self, clock: Callable[[], float], mono: Callable[[], float]) -> None:
        self._clock, self._mono = clock, mono

    async def of_response(self, state: FetchState, response: Response, sent: Validators, most: int) -> Outcome:
        """Returns the outcome of a response that is no redirect; leaves its connection reusable or closed.

        sent: the validators of the request. most: largest body in bytes. Raises `RefusedError`.
        """
        try:
            status = response.status
            if status == 304:
                return self._not_modified(state, response, sent)
            if 200 <= status < 300:
                return await self._body(state, response, most)
            return await self._failure(state, response)
        finally:
            response.close()

    def build(  # noqa: PLR0913 (the fields of an outcome)
        self,
        state: FetchState,
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
        hub_links: tuple[str, ...] = (),
    ) -> Outcome:
        """Returns the outcome as of now, with the state of the fetch."""
        return Outcome(
            kind,
            state.started_at,
            self._mono() - state.started_mono,
            state.status,
            size,
            body,
            content_type,
            validators,
            server_date,
            retry_after,
            tuple(state.redirects),
            detail,
            robots_tags,
            fresh_for,
            hub_links=hub_links,
        )

    async def of_robots(self, state: FetchState, response: Response, most: int) -> RobotsResponse:
        """Returns the result of a robots.txt response. most: bytes that are read of it."""
        try:
            kind = robots_kind(response.status)
            if kind is RobotsKind.FOUND:
                body = await read_beginning(response, most)
                return RobotsResponse(kind, self._since(state), body, response.status)
            await _drained(state, response)
            retry_after = self._retry_after(response)
            return RobotsResponse(
                kind,
                self._since(state),
                status=response.status,
                retry_after=retry_after,
                detail=f"HTTP status {response.status}",
                failure=kind_of_status(response.status, retry_after) if kind is RobotsKind.UNREACHABLE else None,
            )
        finally:
            response.close()

    def of_robots_refusal(self, state: FetchState, refused: RefusedError) -> RobotsResponse:
        """Returns the result of a robots.txt without a usable response. An endless redirect chain means: no rules."""
        kind = RobotsKind.ABSENT if state.endless else RobotsKind.UNREACHABLE
        return RobotsResponse(
            kind,
            self._since(state),
            status=state.status,
            detail=refused.detail,
            failure=None if state.endless else refused.kind,
        )

    def _not_modified(self, state: FetchState, response: Response, sent: Validators) -> Outcome:
        if not sent:
            raise RefusedError(OutcomeKind.PROTOCOL_ERROR, "304 to a request without validators")
        return self.build(
            state,
            OutcomeKind.NOT_MODIFIED,
            validators=_renewed(response, sent),
            server_date=_date(response),
            fresh_for=self._fresh_for(response),
        )

    async def _body(self, state: FetchState, response: Response, most: int) -> Outcome:
        if response.status in _EMPTY_STATUSES:
            await discard_body(response)
            body = b""
        else:
            body = await read_body(response, most)
        headers = response.headers
        return self.build(
            state,
            OutcomeKind.BODY,
            size=len(body),
            body=body,
            content_type=clean_content_type(headers.get(hdrs.CONTENT_TYPE)),
            validators=validators_of(headers.get(hdrs.ETAG), headers.get(hdrs.LAST_MODIFIED)),
            server_date=_date(response),
            robots_tags=robots_tags_of(headers.getall("X-Robots-Tag", ())),
            fresh_for=self._fresh_for(response),
            hub_links=hub_links_of(headers.getall(hdrs.LINK, ())),
        )

    async def _failure(self, state: FetchState, response: Response) -> Outcome:
        size = await _drained(state, response)
        retry_after = self._retry_after(response)
        kind = kind_of_status(response.status, retry_after)
        detail = f"HTTP status {response.status}"
        date = _date(response)
        return self.build(state, kind, size=size, retry_after=retry_after, server_date=date, detail=detail)

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

    def _since(self, state: FetchState) -> float:
        return self._mono() - state.started_mono


async def _drained(state: FetchState, response: Response) -> int:
    """Drains the body of an answer that its head decides: however slow it is, a 429 stays one, with its Retry-After."""
    state.deadline.reschedule(None)  # `discard_body` has a bound of its own
    return await discard_body(response)


def _renewed(response: Response, sent: Validators) -> Validators:
    """Returns the validators after a 304: those sent, each replaced if the response has a new one."""
    etag, last_modified = response.headers.get(hdrs.ETAG), response.headers.get(hdrs.LAST_MODIFIED)
    if etag in (None, sent.etag) and last_modified in (None, sent.last_modified):
        return sent
    new = validators_of(etag, last_modified)
    return Validators(new.etag or sent.etag, new.last_modified or sent.last_modified)


def _date(response: Response) -> float | None:
    text = response.headers.get(hdrs.DATE)
    return None if text is None else http_date(text)
