"""Outcomes of fetches, built from a response read within limits or from a failure, and the redirects of a fetch."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from aiohttp import CookieJar, hdrs
from yarl import URL

from pollerd.errors import InvalidValueError
from pollerd.fetching.client import Response, discard_body, read_beginning, read_body
from pollerd.fetching.egress import Route, Router
from pollerd.fetching.failures import RefusedError, kind_of_status
from pollerd.fetching.headers import (
    CutShortError,
    clean_content_type,
    fresh_seconds,
    http_date,
    hub_links_of,
    retry_after_seconds,
    robots_tags_of,
    validators_of,
)
from pollerd.fetching.request import NO_VALIDATORS
from pollerd.model import Detail, Outcome, OutcomeKind, Redirect, Validators
from pollerd.partitions import registrable_domain
from pollerd.texts import _
from pollerd.urls import host_of, normalise_url, origin_of, resolved, spelling_of

# Redirects of one fetch: its progress, permissions, and the headers it carries.
#
# Redirects are followed here and not by the client library, because each hop is recorded, may need permission, and must
# not carry the site's own headers to another origin.

_DOMAIN = re.compile(r";\s*domain\s*=\s*([^;]*[^;\s])", re.IGNORECASE)
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})

MayFollow = Callable[[str], Awaitable[bool]]
"""Called with the absolute URL before a redirect is followed, also to the same origin: robots.txt may deny it."""


class FetchState:
    """Progress of one fetch; also known when it fails."""

    __slots__ = (
        "awaiting",
        "deadline",
        "egress",
        "endless",
        "headers",
        "posted",
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
        self.headers: Mapping[str, str] = {}
        """Of the last request."""
        self.endless = False
        self.sent = False
        self.posted = False
        self.awaiting: str | None = None
        """What had not come when time was up; None: the response. No text is made for each fetch."""


_KEEPING_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
Get = Callable[[FetchState, Mapping[str, str]], Awaitable[Response]]
"""Sends one request with these headers to the fetch's present URL. Raises `RefusedError`."""


class FetchCookies:
    """The cookies that the redirects of one fetch set: sent back within it by the rules of browsers, then forgotten."""

    def __init__(self) -> None:
        self._jar: CookieJar | None = None

    async def take(self, url: str, lines: Sequence[str]) -> None:
        """Takes the `Set-Cookie` headers of an answer from this URL; not those for a domain of several owners."""
        if not lines:
            return
        host, own = host_of(url), ""
        if any(_DOMAIN.search(line) for line in lines):  # the list of public suffixes is read from a file once
            own = await asyncio.to_thread(registrable_domain, host)
        usable = [line for line in lines if (domain := _DOMAIN.search(line)) is None or _within(domain[1], own)]
        self._jar = self._jar or CookieJar(unsafe=True, quote_cookie=False)
        self._jar.update_cookies_from_headers(usable, URL(url, encoded=True))

    def added_to(self, headers: Mapping[str, str], url: str) -> Mapping[str, str]:
        """Returns the headers of a request for the URL with its cookies; the site's own give way to those."""
        if self._jar is None:
            return headers
        cookies = {name: cookie.value for name, cookie in self._jar.filter_cookies(URL(url, encoded=True)).items()}
        if not cookies:
            return headers
        others = {name: value for name, value in headers.items() if name.lower() != "cookie"}
        pairs = ";".join(value for name, value in headers.items() if name.lower() == "cookie").split(";")
        kept = [pair.strip() for pair in pairs if pair.strip() and pair.partition("=")[0].strip() not in cookies]
        return {**others, hdrs.COOKIE: "; ".join([*kept, *(f"{name}={value}" for name, value in cookies.items())])}


def _within(domain: str, own: str) -> bool:
    return f".{domain.strip().lower().strip('.')}".endswith(f".{own}")


async def follow(
    state: FetchState,
    response: Response,
    *,
    own: Mapping[str, str],
    bare: Mapping[str, str],
    limit: int,
    may_follow: MayFollow | None,
    get: Get,
) -> Response:
    """Returns the first response that is no redirect. `own` headers go to the same origin, `bare` ones anywhere.

    Both include the validators, which belong to the final page and mean nothing to others. `limit`: most redirects that
    are followed. A request with a body is followed by GET, and not where it would be sent again. Cookies that are set
    on the way are sent back. Raises `RefusedError`.
    """
    cookies, headers = FetchCookies(), own
    visited = {(state.url, own.get(hdrs.COOKIE))}
    while response.status in REDIRECT_STATUSES:
        location = response.headers.get(hdrs.LOCATION)
        await cookies.take(state.url, response.headers.getall(hdrs.SET_COOKIE, ()))
        await discard_body(response)
        target, sent_url = _target(state.url, response.status, location)
        if state.posted and response.status in _KEEPING_METHOD:
            why = _("redirect {status} of a POST, which is sent once only", status=response.status)
            raise RefusedError(OutcomeKind.PROTOCOL_ERROR, why)
        state.redirects.append(Redirect(response.status, target))
        if origin_of(target) != origin_of(state.url):
            headers = bare
        sent = cookies.added_to(headers, target)
        visit = sent_url, sent.get(hdrs.COOKIE)
        _refuse_endless(state, visit in visited, limit)
        await _ask(state, may_follow, target)
        visited.add(visit)
        state.url = sent_url
        response = await get(state, sent)
    return response


def _target(base: str, status: int, location: str | None) -> tuple[str, str]:
    """Returns the URL that a redirect leads to, and the same as it is sent."""
    if location is None:
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, _("redirect {status} without a Location", status=status))
    try:
        target_url = resolved(base, location)
        target = normalise_url(target_url)
    except InvalidValueError as error:
        raise RefusedError(
            OutcomeKind.PROTOCOL_ERROR, _("redirect {status} refused: {error}", status=status, error=error)
        ) from error
    return target, spelling_of(target_url, target) or target


def _refuse_endless(state: FetchState, visited: bool, limit: int) -> None:
    target = state.redirects[-1].url
    if len(state.redirects) > limit:
        state.endless = True
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, _("more than {limit} redirects", limit=limit))
    if visited:
        state.endless = True
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, _(Detail.REDIRECT_LOOP, target=target))


async def _ask(state: FetchState, may_follow: MayFollow | None, target: str) -> None:
    """Raises `RefusedError` if the hop is not allowed."""
    if may_follow is None:
        return
    state.egress.check_literal(target)
    awaited, state.awaiting = state.awaiting, _("no permission to follow to {target} in time", target=target)
    allowed = await may_follow(target)
    state.awaiting = awaited
    if allowed:
        return
    # If the target's host may not be dialled its robots.txt could not be requested: then that is the reason.
    with contextlib.suppress(OSError):
        await state.egress.check(target)
    raise RefusedError(OutcomeKind.DENIED, _("redirect to {target} is not allowed", target=target))


# Results of robots.txt requests (RFC 9309, section 2.3.1). Other packages parse the rules.

MAX_ROBOTS_REDIRECTS = 5


class RobotsKind(StrEnum):
    """Meaning of the response: its rules apply, everything is allowed, or nothing is for now."""

    FOUND = "found"
    ABSENT = "absent"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class RobotsResponse:
    """The result of a robots.txt request."""

    kind: RobotsKind
    duration: float
    """Seconds."""
    body: bytes | None = None
    """At most `robots_max_bytes`; present exactly when `kind` is FOUND."""
    status: int | None = None
    """Of the last response; None if there was none."""
    retry_after: float | None = None
    """Seconds the server asked us to wait, as sent, unclamped."""
    detail: str = ""
    """Why it was not found, one line for the user."""
    failure: OutcomeKind | None = None
    """Outcome kind of a poll with the same failure; present exactly when `kind` is UNREACHABLE."""


def robots_kind(status: int) -> RobotsKind:
    """Returns the meaning of a final status: 4xx except 429 means no rules; others except 2xx mean unreachable."""
    if 200 <= status < 300:
        return RobotsKind.FOUND
    if 400 <= status < 500 and status != 429:
        return RobotsKind.ABSENT
    return RobotsKind.UNREACHABLE


_MAX_CUT_SHORT = 4_096
PAGE_STATUSES = frozenset({200, 203})
"""What comes with a page. Others of 2xx say that something was done, is yet to be done, or is a part: 202 is how
firewalls send a challenge, 204 how some servers fail."""


class OutcomeBuilder:
    """Builds outcomes. `clock` returns UTC epoch seconds, `mono` monotonic seconds for durations."""

    def __init__(self, clock: Callable[[], float], mono: Callable[[], float]) -> None:
        self._clock, self._mono = clock, mono
        self._cut_short: dict[str, None] = {}
        """URLs whose last body was compressed data that end too early, the latest last."""

    async def of_response(self, state: FetchState, response: Response, sent: Validators, most: int) -> Outcome:
        """Returns the outcome of a response that is no redirect; leaves its connection reusable or closed.

        sent: the validators of the request. most: largest body in bytes. Raises `RefusedError`.
        """
        try:
            status = response.status
            if status == 304:
                return self._not_modified(state, response, sent)
            if status in PAGE_STATUSES:
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
        unpacked: bool = False,
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
            unpacked=unpacked,
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
                detail=_(Detail.STATUS, status=response.status),
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
            raise RefusedError(OutcomeKind.PROTOCOL_ERROR, _("304 to a request without validators"))
        return self.build(
            state,
            OutcomeKind.NOT_MODIFIED,
            validators=_renewed(response, sent),
            server_date=_date(response),
            fresh_for=self._fresh_for(response),
        )

    async def _body(self, state: FetchState, response: Response, most: int) -> Outcome:
        detail = ""
        try:
            body = await read_body(response, most)
            self._cut_short.pop(state.url, None)
        except CutShortError as error:
            body, detail = self._readable(state.url, error), _("{error}: what can be read of it was taken", error=error)
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
            detail=detail,
            unpacked=response.unpacked,
        )

    def _readable(self, url: str, error: CutShortError) -> bytes:
        """Returns what can be read of a body that is cut short for the second time in a row: it may always be.

        Raises `RefusedError` at the first time, and if that is nothing.
        """
        again = url in self._cut_short
        self._cut_short.pop(url, None)
        self._cut_short[url] = None
        if len(self._cut_short) > _MAX_CUT_SHORT:
            del self._cut_short[next(iter(self._cut_short))]
        if not (again and error.readable):
            raise RefusedError(OutcomeKind.PROTOCOL_ERROR, str(error)) from error
        return error.readable

    async def _failure(self, state: FetchState, response: Response) -> Outcome:
        size = await _drained(state, response)
        retry_after = self._retry_after(response)
        kind = kind_of_status(response.status, retry_after)
        without_page = 200 <= response.status < 300
        detail = _(Detail.STATUS_WITHOUT_PAGE if without_page else Detail.STATUS, status=response.status)
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
