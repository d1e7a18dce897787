"""The server that the API runs on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI
from starlette.types import Message


class ApiServer(uvicorn.Server):
    """uvicorn without hands on the signals, which are the daemon's. When it stops, event streams end first.

    drain_seconds: how long other requests under way may hold up the end.
    """

    def __init__(self, app: FastAPI, drain_seconds: int) -> None:
        self._app, self._streams = app, app.state.streams
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=drain_seconds
        )
        super().__init__(config)

    async def warm_up(self) -> None:
        """Gets the application ready for its first request, which takes FastAPI 60 ms, before sites are polled."""
        scope = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": "/", "headers": []}

        async def nothing() -> Message:
            return {"type": "http.disconnect"}

        async def unheard(message: Message) -> None:
            """The answer is that there is nothing at this path."""

        await self._app({**scope, "raw_path": b"/", "query_string": b""}, nothing, unheard)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the handlers as they are."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends what would never end by itself, then waits for the rest."""
        self._streams.end()
        await super().shutdown(sockets)
