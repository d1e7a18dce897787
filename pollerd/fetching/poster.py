"""The poster: sends a body to a URL and returns the answer's status and its beginning, or why there was none.

Follows no redirect. The receiver is expected to know repeats: a body is written again where a kept connection proves
to be closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiohttp import hdrs
from msgspec import Struct
from msgspec.structs import replace

from pollerd.fetching.client import HttpMessage, Response, discard_body, read_beginning
from pollerd.fetching.egress import Router
from pollerd.fetching.failures import SITE_FAULTS, RefusedError, refusal
from pollerd.fetching.headers import http_date, retry_after_seconds
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind
from pollerd.texts import _


class Posted(Struct, frozen=True):
    """What came of a post."""

    status: int | None = None
    """None: there was no answer, or none that can be read."""
    kind: OutcomeKind | None = None
    """Why there was no answer."""
    detail: str = ""
    """In words; one line."""
    retry_after: float | None = None
    """Seconds that the receiver asked to wait."""
    beginning: bytes = b""
    """Of the answer's body."""
    location: str | None = None
    """Where the answer sends the poster, as written; followed by nobody here."""


class Poster:
    """Posts over pooled connections; created inside the running loop, and must be closed.

    The guard judges every address dialled; the daemon's proxy is used if it has one.
    """

    def __init__(self, settings: FetchSettings) -> None:
        """Raises `InvalidValueError` for a `ca_file` that cannot be loaded."""
        self._egress = Router(settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        await self._egress.close()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, now: float, seconds: float, most: int
    ) -> Posted:
        """Posts once. Never raises for the receiver's fault; `ValueError` for a header with a line break.

        url: as `normalise_url` returns it. now: epoch s, for a Retry-After date without a Date. seconds: the deadline
        of the whole. most: bytes of the answer's body that are read; a body that ends badly changes nothing.
        """
        fields = {**headers, hdrs.CONTENT_LENGTH: str(len(body))}
        answer = Posted(kind=OutcomeKind.TIMEOUT, detail=_("no answer within {seconds:g} s", seconds=seconds))
        try:
            async with asyncio.timeout(seconds):
                response = await self._send(url, HttpMessage(fields, body, repeatable=True))
                answer = _head(response, now)
                return replace(answer, beginning=await _beginning(response, most))
        except RefusedError as error:
            return Posted(kind=error.kind, detail=error.detail)
        except TimeoutError:
            return answer  # the status is known, or nothing is

    async def _send(self, url: str, message: HttpMessage) -> Response:
        way = self._egress.way(None)
        try:
            if way.proxy is not None:
                await self._egress.check(url)
            return await way.client.send(url, message, _not_counted, way.proxy)
        except SITE_FAULTS as error:
            if way.client.closed:
                raise
            raise refusal(error) from error


def _head(response: Response, now: float) -> Posted:
    headers = response.headers
    sent_at = http_date(headers.get(hdrs.DATE, ""))
    wait = retry_after_seconds(headers.get(hdrs.RETRY_AFTER), now if sent_at is None else sent_at)
    return Posted(response.status, retry_after=wait, location=headers.get(hdrs.LOCATION))


async def _beginning(response: Response, most: int) -> bytes:
    """Returns the beginning of the body; empty if it cannot be read. Keeps the connection where it may be."""
    try:
        beginning = await read_beginning(response, most)
        await discard_body(response)
    except RefusedError:
        return b""  # the status counts
    finally:
        response.close()
    return beginning[:most]


def _not_counted(_host: str) -> None:
    """A POST is no poll, and costs none of their budget."""
