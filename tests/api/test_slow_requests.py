"""Requests that never arrive, and too many connections: the server takes neither time nor descriptors for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from fastapi import FastAPI, Request

from pollerd.api import server as protocol
from pollerd.api.server import Admission, ApiServer
from tests.api.conftest import listening
from tests.support.origin import until


@contextlib.asynccontextmanager
async def server(most: int = 100, refused: list[int] | None = None) -> AsyncIterator[int]:
    """Serves an echo; yields its port."""
    app = FastAPI()
    app.state.streams = SimpleNamespace(end=lambda: None)
    app.state.tokens = SimpleNamespace(settings=SimpleNamespace(entrance=SimpleNamespace(trusted_proxies=())))

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    noted: list[int] = [] if refused is None else refused
    with listening() as listener:
        running = ApiServer(app, 1, Admission(most, lambda: noted.append(1)))
        serving = asyncio.create_task(running.serve(sockets=[listener]))
        await until(lambda: running.started)
        try:
            yield listener.getsockname()[1]
        finally:
            running.should_exit = True
            await serving


async def said(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """Returns what the server answers to the parts, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


POST = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
CLOSE = b"Connection: close\r\n\r\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.3)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ((b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Long: ",), b"the head of the request did not arrive in time"),
        ((POST % 10 + b"\r\n", b"12345"), b"the body of the request did not arrive in time"),
        ((POST % 2 + b"\r\n12", POST % 10 + b"\r\n"), b"the body of the request did not arrive in time"),
    ],
)
async def test_a_request_that_never_arrives_is_refused(parts: tuple[bytes, ...], what: bytes) -> None:
    async with server() as port:
        answer = await said(port, *parts)
    assert b"HTTP/1.1 408 Request Timeout" in answer
    assert what in answer
    assert (b"HTTP/1.1 200" in answer) == parts[0].endswith(b"12")


@pytest.mark.usefixtures("impatient")
async def test_a_connection_made_in_advance_is_closed_without_a_word() -> None:
    async with server() as port:
        assert await said(port) == b""


@pytest.mark.usefixtures("impatient")
async def test_a_long_body_has_time_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BODY_RATE", 2)
    async with server() as port:
        answer = await said(port, POST % 40 + CLOSE, *[b"12345"] * 8, pause=0.1)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"40")


async def test_connections_beyond_the_most_are_refused_until_others_end() -> None:
    refused: list[int] = []
    async with server(2, refused) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _ in range(3):
            answer = await said(port)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"there are 2 connections already" in answer
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(30):
            while not (await said(port, POST % 1 + CLOSE + b"1")).startswith(b"HTTP/1.1 200"):
                await asyncio.sleep(0.01)
    assert len(refused) >= 3
