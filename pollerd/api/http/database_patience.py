"""Answers readers soon if the database does not: a server that hangs would let them wait for minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pollerd.api.http.problems import unavailable

LOOK_SECONDS = 0.5
"""Time without an answer after which the database is asked whether it works at all."""


class DatabasePatience:
    """Middleware: a GET that has no answer yet, while the database does not work, is answered by 503.

    A slow answer of a database that works is waited for.
    """

    def __init__(self, app: ASGIApp, *, not_ready: Callable[[], Awaitable[str | None]]) -> None:
        """not_ready: returns why the database does not work, soon; None: it does."""
        self._app, self._not_ready = app, not_ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        begun, given_up = asyncio.Event(), False

        async def send_noted(message: Message) -> None:
            begun.set()
            if not given_up:
                await send(message)

        async def answer() -> None:
            await self._app(scope, receive, send_noted)

        answering = asyncio.create_task(answer(), name="answer")
        beginning = asyncio.create_task(begun.wait(), name="answer-begins")
        try:
            while not (answering.done() or begun.is_set()):
                done, _ = await asyncio.wait(
                    {answering, beginning}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                reason = None if done else await self._not_ready()
                if reason is not None and not (answering.done() or begun.is_set()):
                    given_up = True
                    await unavailable(reason)(scope, receive, send)
                    return
            await answering
        finally:
            beginning.cancel()
            # Not awaited: a connection that hangs takes seconds to be given up.
            answering.cancel()
