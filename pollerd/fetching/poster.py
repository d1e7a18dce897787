"""Posts to a URL that the operator named, through the guard: no redirects, no repeats, every failure a value."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from pollerd.fetching.client import posting
from pollerd.fetching.egress import Router
from pollerd.fetching.failures import SITE_FAULTS, RefusedError, one_line, refusal
from pollerd.fetching.headers import retry_after_seconds
from pollerd.fetching.response import Response
from pollerd.fetching.settings import FetchSettings

MOST_ANSWER_BYTES = 2_048
"""How much of an answer is read; where there is more, the connection is closed."""


class PostAnswer(Struct, frozen=True, gc=False):
    """What came of a POST."""

    status: int | None = None
    """None: there was no answer."""
    detail: str = ""
    """The beginning of the answer, or why there was none, in one line."""
    retry_after: float | None = None
    """Seconds that the server asked us to wait, as sent."""


class Poster:
    """Pooled connections for POSTs; created inside the running loop, and must be closed."""

    def __init__(self, settings: FetchSettings) -> None:
        """Raises `InvalidValueError` for a `ca_file` that cannot be loaded."""
        self._router = Router(settings)

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, seconds: float, now: float
    ) -> PostAnswer:
        """Sends the body once and reads the beginning of the answer.

        url: as `normalise_url` returns it; seconds: deadline of all of it; now: epoch s, for dates in the answer.
        Raises `ValueError` for a header with a line break.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._post(url, headers, body, now)
        except RefusedError as error:
            return PostAnswer(detail=error.detail)
        except TimeoutError:
            return PostAnswer(detail=f"no complete answer within {seconds:g} s")

    async def close(self) -> None:
        """Closes every connection."""
        await self._router.close()

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes, now: float) -> PostAnswer:
        way = self._router.way(None)
        try:
            if way.proxy is not None:
                await self._router.check(url)
            response = await way.client.send(url, posting(headers, body), _count_nothing, way.proxy)
        except SITE_FAULTS as error:
            if isinstance(error, TimeoutError):
                raise
            raise refusal(error) from error
        wait = retry_after_seconds(response.headers.get("Retry-After"), now)
        try:
            beginning = await _beginning(response)
        except SITE_FAULTS:  # the status says enough
            beginning = b""
        finally:
            response.close()
        return PostAnswer(response.status, one_line(beginning.decode("utf-8", "replace")), wait)


async def _beginning(response: Response) -> bytes:
    """Reads the beginning of the answer; all of a short one, so that its connection can be used again."""
    read = b""
    while len(read) < MOST_ANSWER_BYTES:
        piece = await response.content.read(MOST_ANSWER_BYTES - len(read))
        if not piece:
            break
        read += piece
    return read


def _count_nothing(_: str) -> None:
    """Posts are no polls."""
