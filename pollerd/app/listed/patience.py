"""Waits for the database where a call must not be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from pollerd.errors import DatabaseUnavailableError

_RETRY_SECONDS = 2.0
T = TypeVar("T")


async def patiently(call: Callable[[], Awaitable[T]], log: structlog.stdlib.BoundLogger) -> T:
    """Retries until the database is available: lines already read must not be lost, since a pipe is read once."""
    waited = False
    while True:
        try:
            return await call()
        except DatabaseUnavailableError as error:
            if not waited:
                log.warning("list_waits", reason=str(error))
            waited = True
            await asyncio.sleep(_RETRY_SECONDS)
