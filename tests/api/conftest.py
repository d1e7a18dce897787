"""Fixtures: the API served on a loopback port, over a real daemon that is not running and a real SQLite store."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from pollerd.api.application import create_api
from pollerd.api.auth.recognition import Tokens
from pollerd.api.events import Streams
from pollerd.api.http import Application
from pollerd.api.server import ApiServer
from pollerd.api.settings import ApiSettings
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.daemon.control.control import Control
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.telemetry import Instruments
from tests.support.stores import empty_database as empty_database
from tests.support.stores import statements_are_compiled_once as statements_are_compiled_once


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    """A socket on a loopback port of its own, for a server to listen on."""
    # Named as TCP, so that asyncio sends answers at once instead of waiting for acknowledgements (TCP_NODELAY).
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener


@contextlib.asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """The app on a loopback port of its own: its root URL."""
    with listening() as listener:
        async with served_at(app, listener) as root:
            yield root


@contextlib.asynccontextmanager
async def served_at(app: FastAPI, listener: socket.socket) -> AsyncIterator[str]:
    """The app on a socket that is bound: its root URL."""
    server = ApiServer(app, drain_seconds=5)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@dataclass(frozen=True)
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Api:
    """A running API and what stands behind it."""

    root: str
    store: Store
    control: Control
    session: aiohttp.ClientSession
    streams: Streams
    tokens: Tokens
    app: Application

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        """Calls `path` below /api/v1 (or from the root where it starts with //); `body` goes as JSON."""
        url = self.root + path[1:] if path.startswith("//") else f"{self.root}/api/v1{path}"
        if body is not None:
            options["json"] = body
        if isinstance(options.get("data"), bytes):
            options["data"] = io.BytesIO(options["data"])
        async with self.session.request(method, url, **options) as response:
            return Reply(response.status, response.headers, await response.read())

    async def add(self, url: str, **settings: Any) -> int:
        """Adds a site and returns its id."""
        reply = await self("POST", "/sites", {"url": url, **settings})
        assert reply.status == 201, reply.body
        site_id: int = reply.json["id"]
        return site_id


NewApi = Callable[..., Awaitable[Api]]


@pytest.fixture
async def store(tmp_path: Path, empty_database: Path) -> AsyncIterator[Store]:
    file = shutil.copy(empty_database, tmp_path / "poll.db")
    opened = await Store.open(f"sqlite+aiosqlite:///{file}", settings=StorageSettings(busy_timeout_seconds=0.2))
    yield opened
    await opened.close()


@pytest.fixture
async def new_api(store: Store) -> AsyncIterator[NewApi]:
    """`await new_api(settings)` serves the API over a daemon that is built but does not run."""
    async with AsyncExitStack() as stack:
        registry = CollectorRegistry()
        instruments, rng = Instruments(registry, "1.2.3"), np.random.default_rng(1)
        daemon = await stack.enter_async_context(live_daemon(store, LiveSettings(), instruments, rng))

        async def start(settings: ApiSettings | None = None) -> Api:
            app = create_api(daemon.control, store, registry, settings or ApiSettings(), "1.2.3")
            root = await stack.enter_async_context(served(app))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Api(root, store, daemon.control, session, app.state.streams, app.state.tokens, app)

        yield start


@pytest.fixture
async def api(new_api: NewApi) -> Api:
    return await new_api()
