"""The server that the API runs on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI


class ApiServer(uvicorn.Server):
    """uvicorn without hands on the signals, which are the daemon's. When it stops, event streams end first.

    drain_seconds: how long other requests under way may hold up the end.
    """

    def __init__(self, app: FastAPI, drain_seconds: int) -> None:
        self._streams = app.state.streams
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=drain_seconds
        )
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the handlers as they are."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends what would never end by itself, then waits for the rest."""
        self._streams.end()
        await super().shutdown(sockets)
