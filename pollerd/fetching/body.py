"""Reads response bodies up to a limit, and drains unwanted ones so that their connections can be reused."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import StreamReader, hdrs

from pollerd.fetching.decoding import DecodingError, TooLargeError, decode
from pollerd.fetching.failures import SITE_FAULTS, RefusedError, refusal
from pollerd.fetching.response import Response
from pollerd.model import OutcomeKind

_MAX_DISCARDED_BYTES = 64 * 1024
_DISCARDING_SECONDS = 2.0
"""Longest time spent on draining a body to keep its connection."""
_DECODED_ELSEWHERE_BYTES = 64 * 1024
_DECODED_HERE_BYTES = 512 * 1024
"""Encoded and decoded sizes from which decompression runs in a thread."""


async def read_body(response: Response, limit: int) -> bytes:
    """Returns the whole body, content-decoded, at most `limit` bytes before and after.

    Raises `RefusedError`: too large, cut short, wrongly encoded, or too late. A body that is too large is not drained.
    """
    length = response.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    body, whole = await _read(response.content, limit)
    if not whole:
        raise _too_large(limit)
    if hdrs.CONTENT_ENCODING not in response.headers:
        return body
    return await _decoded(body, _encoding(response), limit, partial=False)


async def read_beginning(response: Response, limit: int) -> bytes:
    """Returns the first `limit` bytes of the body, content-decoded; the rest is ignored.

    Raises `RefusedError` if the connection breaks earlier, or the encoding is wrong.
    """
    body, _ = await _read(response.content, limit)
    return await _decoded(body, _encoding(response), limit, partial=True)


async def discard_body(response: Response) -> int:
    """Drains an unwanted body so that its connection can be reused; closes the connection if it is long, slow or
    broken.

    Returns the bytes read, as sent.
    """
    size = 0
    try:
        async with asyncio.timeout(_DISCARDING_SECONDS):
            while size <= _MAX_DISCARDED_BYTES and (chunk := await response.content.readany()):
                size += len(chunk)
    except SITE_FAULTS:
        return size
    finally:
        response.close()
    return size


async def _read(content: StreamReader, limit: int) -> tuple[bytes, bool]:
    """Returns the body, and whether it is complete; stops soon after `limit` bytes."""
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := await content.readany():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                break
    except SITE_FAULTS as error:
        raise refusal(error) from error
    return (chunks[0] if len(chunks) == 1 else b"".join(chunks)), size <= limit


def _encoding(response: Response) -> str:
    return ",".join(response.headers.getall(hdrs.CONTENT_ENCODING, ()))


async def _decoded(body: bytes, encoding: str, limit: int, partial: bool) -> bytes:
    try:
        if len(body) < _DECODED_ELSEWHERE_BYTES:
            if partial or limit <= _DECODED_HERE_BYTES:
                return decode(body, encoding, limit, partial=partial)
            with contextlib.suppress(TooLargeError):  # a large result goes to the thread
                return decode(body, encoding, _DECODED_HERE_BYTES)
        return await asyncio.to_thread(decode, body, encoding, limit, partial=partial)
    except TooLargeError as error:
        raise _too_large(limit) from error
    except DecodingError as error:
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, str(error)) from error


def _too_large(limit: int) -> RefusedError:
    return RefusedError(OutcomeKind.TOO_LARGE, f"body of more than {limit} bytes")
