"""A reader waits for a slow database, and not for one that does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from pollerd.api import problems
from pollerd.api.problems import DatabasePatience


class Database:
    """How long the application takes, and whether the database works."""

    def __init__(self) -> None:
        self.answers, self.called_off, self.reason, self.asked = asyncio.Event(), 0, "it is frozen", 0

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.called_off += 1
            raise
        await PlainTextResponse("found")(scope, receive, send)

    async def not_ready(self) -> str | None:
        self.asked += 1
        return self.reason or None


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "LOOK_SECONDS", 0.02)


def client(app: Callable[..., Any], database: Database) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(DatabasePatience(app, not_ready=database.not_ready))
    return httpx.AsyncClient(transport=transport, base_url="http://x")


async def test_a_frozen_database_is_said() -> None:
    database = Database()
    async with client(database.app, database) as session:
        answer = await session.get("/sites")
        assert (answer.status_code, answer.json()["detail"]) == (503, "it is frozen")
        assert answer.json()["type"] == "urn:pollerd:problem:database-unavailable"
        await asyncio.sleep(0.01)
        assert database.called_off == 1


async def test_a_slow_one_is_waited_for() -> None:
    database = Database()
    database.reason = ""
    async with client(database.app, database) as session:
        asking = asyncio.create_task(session.get("/sites"))
        while database.asked < 3:
            await asyncio.sleep(0.01)
        database.answers.set()
        assert (await asking).text == "found"


async def test_calls_that_change_something_are_waited_for() -> None:
    database = Database()
    async with client(database.app, database) as session:
        asking = asyncio.create_task(session.post("/sites"))
        await asyncio.sleep(0.1)
        database.answers.set()
        assert (await asking).text == "found"
    assert database.asked == 0


async def test_an_answer_that_has_begun_is_not_broken_off() -> None:
    database = Database()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(0.1)
        yield b"b"

    async with client(StreamingResponse(pieces()), database) as session:
        assert (await session.get("/events")).text == "ab"
    assert database.asked == 0


async def test_faults_are_raised() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    database = Database()
    async with client(broken, database) as session:
        with pytest.raises(ZeroDivisionError):
            await session.get("/sites")
