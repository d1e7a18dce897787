"""Follows the redirects of one fetch: its progress, permissions, and the headers it carries.

Redirects are followed here and not by the client library, because each hop is recorded, may need permission, and must
not carry the site's own headers to another origin.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import hdrs

from pollerd.errors import InvalidValueError
from pollerd.fetching.body import discard_body
from pollerd.fetching.failures import RefusedError
from pollerd.fetching.network.egress import Route, Router
from pollerd.fetching.response import Response
from pollerd.model import OutcomeKind, Redirect
from pollerd.urls import join_url, origin_of

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
        self.endless = False
        self.sent = False
        self.posted = False
        self.awaiting = "no complete response within the deadline"


_KEEPING_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
Get = Callable[[FetchState, Mapping[str, str]], Awaitable[Response]]
"""Sends one request with these headers to the fetch's present URL. Raises `RefusedError`."""


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
    are followed. A request with a body is followed by GET, and not where it would be sent again. Raises `RefusedError`.
    """
    visited = {state.url}
    headers = own
    while response.status in REDIRECT_STATUSES:
        location = response.headers.get(hdrs.LOCATION)
        await discard_body(response)
        target = _target(state.url, response.status, location)
        if state.posted and response.status in _KEEPING_METHOD:
            why = f"redirect {response.status} of a POST, which is sent once only"
            raise RefusedError(OutcomeKind.PROTOCOL_ERROR, why)
        state.redirects.append(Redirect(response.status, target))
        _refuse_endless(state, visited, limit)
        if origin_of(target) != origin_of(state.url):
            headers = bare
        await _ask(state, may_follow, target)
        visited.add(target)
        state.url = target
        response = await get(state, headers)
    return response


def _target(base: str, status: int, location: str | None) -> str:
    if location is None:
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"redirect {status} without a Location")
    try:
        return join_url(base, location)
    except InvalidValueError as error:
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"redirect {status} refused: {error}") from error


def _refuse_endless(state: FetchState, visited: set[str], limit: int) -> None:
    target = state.redirects[-1].url
    if len(state.redirects) > limit:
        state.endless = True
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"more than {limit} redirects")
    if target in visited:
        state.endless = True
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, f"redirect loop at {target}")


async def _ask(state: FetchState, may_follow: MayFollow | None, target: str) -> None:
    """Raises `RefusedError` if the hop is not allowed."""
    if may_follow is None:
        return
    state.egress.check_literal(target)
    awaited, state.awaiting = state.awaiting, f"no permission to follow to {target} in time"
    allowed = await may_follow(target)
    state.awaiting = awaited
    if allowed:
        return
    # If the target's host may not be dialled its robots.txt could not be requested: then that is the reason.
    with contextlib.suppress(OSError):
        await state.egress.check(target)
    raise RefusedError(OutcomeKind.DENIED, f"redirect to {target} is not allowed")
