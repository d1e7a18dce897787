"""What every answer tells browsers, and who is told which program this is."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi import FastAPI
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry
from starlette.responses import HTMLResponse
from starlette.types import Message, Receive, Scope, Send

from pollerd.api.application import create_api
from pollerd.api.auth.middleware import MAX_BODY_BYTES
from pollerd.api.http import AnswerHeaders
from pollerd.api.settings import ApiSettings
from tests.api.conftest import Api, NewApi, Reply, served

TOKEN = {"headers": {"Authorization": "Bearer full-token"}}


def assert_inert(reply: Reply) -> None:
    assert reply.headers.getall("X-Content-Type-Options") == ["nosniff"]
    assert reply.headers.getall("Content-Security-Policy") == ["default-src 'none'"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/sites", 200),
        ("GET", "/sites/export", 200),
        ("GET", "/sites/export?format=text", 200),
        ("GET", "/changes.atom", 200),
        ("GET", "/allocation", 200),
        ("GET", "//openapi.json", 200),
        ("GET", "//metrics", 200),
        ("HEAD", "//metrics", 405),
        ("GET", "//readyz", 200),
        ("GET", "//nowhere", 404),
        ("GET", "/sites/7", 404),
        ("GET", "/sites?limit=0", 422),
        ("POST", "/sites", 415),
        ("PUT", "/sites", 405),
        ("OPTIONS", "/sites", 405),
    ],
)
async def test_every_answer_is_taken_for_what_it_says(api: Api, method: str, path: str, status: int) -> None:
    reply = await api(method, path)
    assert reply.status == status
    assert_inert(reply)


async def test_refusals_too(api: Api, new_api: NewApi) -> None:
    assert_inert(await api("GET", "//healthz"))
    foreign = await api("GET", "/sites", headers={"Host": "evil.example"})
    large = await api("POST", "/sites", data=b" " * (MAX_BODY_BYTES + 1))
    assert (foreign.status, large.status) == (403, 413)
    assert_inert(foreign)
    assert_inert(large)
    guarded = await new_api(ApiSettings.listening("127.0.0.1:0", token="full-token"))
    unknown = await guarded("GET", "/sites")
    assert unknown.status == 401
    assert_inert(unknown)


async def test_streams_too(api: Api) -> None:
    async with api.session.get(f"{api.root}/api/v1/events") as response:
        assert_inert(Reply(response.status, response.headers, b""))


@pytest.mark.filterwarnings("ignore")
async def test_faults_too(api: Api) -> None:
    class Nothing:
        def __getattr__(self, name: str) -> None:
            raise ZeroDivisionError(name)

    app = create_api(Nothing(), api.store, CollectorRegistry(), ApiSettings(), "1.2.3")  # type: ignore[arg-type]
    async with served(app) as root, api.session.get(f"{root}/api/v1/allocation") as response:
        assert response.status == 500
        assert_inert(Reply(response.status, response.headers, b""))


async def said(api: Api, *pieces: bytes) -> bytes:
    """All that the server says over one connection, until it closes it."""
    reader, writer = await asyncio.open_connection(*api.root.removeprefix("http://").split(":"))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /api/v1/sites HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
        b"GET /api/v1/sites HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n",
        b"POST /api/v1/sites HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /api/v1/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_like_all_else(api: Api, request_: bytes) -> None:
    head, _, body = (await said(api, request_)).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    assert all(": " in line for line in lines)
    pairs = (line.partition(": ") for line in lines)
    headers = CIMultiDict((name, value) for name, _, value in pairs)
    assert status == "HTTP/1.1 400 Bad Request"
    assert_inert(Reply(400, headers, body))
    assert (headers["Content-Type"], headers["Connection"]) == ("application/problem+json", "close")
    assert json.loads(body)["status"] == 400
    assert "Date" in headers


async def test_garbage_behind_an_answer_that_has_begun_ends_the_connection(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    stream = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader, writer = await asyncio.open_connection(*api.root.removeprefix("http://").split(":"))
    writer.write(stream)
    begun = await reader.readuntil(b"\r\n\r\n")
    assert begun.startswith(b"HTTP/1.1 200")
    writer.write(b"nonsense, no chunk\r\n")
    async with asyncio.timeout(60):
        assert b"HTTP/1.1" not in await reader.read()
    writer.close()
    assert "Traceback" not in caplog.text


async def test_nobody_is_led_to_another_protocol(api: Api) -> None:
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    answer = await said(api, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"nosniff" in answer


async def test_a_page_brings_a_policy_of_its_own() -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"Content-Security-Policy": "default-src 'self'"}
        await HTMLResponse("<p>hello", headers=headers)(scope, receive, send)

    sent = list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    await AnswerHeaders(page)({"type": "http", "method": "GET", "headers": []}, receive, send)
    headers = sent[0]["headers"]
    assert [v for k, v in headers if k == b"content-security-policy"] == [b"default-src 'self'"]
    assert [v for k, v in headers if k == b"x-content-type-options"] == [b"nosniff"]


def build_info(reply: Reply) -> bytes:
    return next(line for line in reply.body.splitlines() if line.startswith(b"pollerd_build_info{"))


@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text; version=1.0.0"])
async def test_the_version_is_for_who_shows_a_token(new_api: NewApi, kind: str) -> None:
    guarded = await new_api(ApiSettings.listening("127.0.0.1:0", token="full-token", read_token="reader"))
    for token, version in [(None, b""), ("wrong", b""), ("full-token", b"1.2.3"), ("reader", b"1.2.3")]:
        headers = {"Accept": kind, **({} if token is None else {"Authorization": f"Bearer {token}"})}
        reply = await guarded("GET", "//metrics", headers=headers)
        assert (reply.status, build_info(reply)) == (200, b'pollerd_build_info{version="' + version + b'"} 1.0')


async def test_without_tokens_nobody_is_known_unless_the_user_says_so(api: Api, new_api: NewApi) -> None:
    assert b'version=""' in build_info(await api("GET", "//metrics"))
    assert b'version=""' in build_info(await api("GET", "//metrics", **TOKEN))
    telling = await new_api(ApiSettings.listening("127.0.0.1:0", metrics_version=True))
    assert b'version="1.2.3"' in build_info(await telling("GET", "//metrics"))


def test_the_application_is_what_others_may_serve(api: Api) -> None:
    app = create_api(api.control, api.store, CollectorRegistry(), ApiSettings(), "1.2.3")
    assert isinstance(app, FastAPI)
