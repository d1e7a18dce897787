"""A server that ends answers the calls that it calls off, and reports no fault of the application."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import aiohttp
import pytest
from fastapi import FastAPI

from pollerd.api.server import ApiServer
from tests.api.conftest import listening


async def test_a_call_that_is_under_way_when_the_server_ends_is_answered(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()
    app = FastAPI()
    app.state.streams = SimpleNamespace(end=lambda: None)
    app.state.tokens = SimpleNamespace(settings=SimpleNamespace(entrance=SimpleNamespace(trusted_proxies=())))

    @app.get("/long")
    async def long() -> None:
        begun.set()
        await asyncio.sleep(3600)

    with listening() as listener:
        server = ApiServer(app, drain_seconds=1)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with aiohttp.ClientSession() as session:
            asked = asyncio.create_task(session.get(f"http://127.0.0.1:{listener.getsockname()[1]}/long"))
            await begun.wait()
            server.should_exit = True
            answer = await asked
            body = await answer.json(content_type=None)
        await serving
    assert (answer.status, body["detail"]) == (503, "pollerd is stopping")
    assert int(answer.headers["Retry-After"]) > 0
    assert "request_cancelled" in capsys.readouterr().out
    assert not [record for record in caplog.records if record.exc_info]
