"""The client: what goes over the wire, and which connection it takes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import contains
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind, Validators
from tests.fetching.conftest import Certificate, NewFetcher, Serve
from tests.fetching.sites import Handler, Seen, by_path, message, says

PAGE = message("200 OK", body=b"page")
Loop = Callable[[], asyncio.AbstractEventLoop]


async def _raw_request(fetcher: Fetcher, request: Request) -> list[str]:
    """The lines of the request as they came in."""
    lines: list[str] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.extend((await reader.readuntil(b"\r\n\r\n")).decode("utf-8", "surrogateescape").split("\r\n"))
        writer.write(PAGE)
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = request.url.replace("PORT", str(port))
        outcome = await fetcher.fetch(Request(url, request.validators, request.headers))
    assert outcome.body == b"page"
    return [line.replace(str(port), "PORT") for line in lines]


async def test_what_is_sent(new_fetcher: NewFetcher) -> None:
    fetcher = await new_fetcher(contact="mailto:me@example.org")
    validators = Validators('"\udce9tag"', "Sun, 22 Nov 2026 10:00:00 GMT")
    line, *headers, end, _ = await _raw_request(fetcher, Request("http://127.0.0.1:PORT/a%20b?c=d", validators))
    assert (line, end) == ("GET /a%20b?c=d HTTP/1.1", "")
    names = [header.partition(":")[0] for header in headers]
    assert names == ["Host", "User-Agent", "Accept", "Accept-Encoding", "If-None-Match", "If-Modified-Since"]
    assert headers[0] == "Host: 127.0.0.1:PORT"
    assert "mailto:me@example.org" in headers[1]
    assert headers[4:] == ['If-None-Match: "\udce9tag"', "If-Modified-Since: Sun, 22 Nov 2026 10:00:00 GMT"]


@pytest.mark.parametrize("name", ["Accept", "accept", "USER-AGENT", "accept-encoding"])
async def test_a_sites_own_header_stands_in_for_the_usual_one(fetcher: Fetcher, name: str) -> None:
    lines = await _raw_request(fetcher, Request("http://127.0.0.1:PORT/", headers=((name, "own"), ("X-Other", "o"))))
    found = [line for line in lines if line.lower().startswith(f"{name.lower()}:")]
    assert [line.partition(": ")[2] for line in found] == ["own"]
    assert "X-Other: o" in lines


@pytest.mark.parametrize("header", [("X", "a\r\nInjected: b"), ("X\nInjected", "b"), ("X", "a\0b")])
async def test_a_line_break_is_never_sent(serve: Serve, fetcher: Fetcher, header: tuple[str, str]) -> None:
    site = await serve(says(PAGE))
    with pytest.raises(ValueError, match="line break in the header"):
        await fetcher.fetch(Request(site.url(), headers=(header,)))
    assert site.connections == 0


def _hangs_up_on(path: str) -> Handler:
    """Answers, but for one path: there it takes the request and closes."""

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.path == path:
            writer.close()
        else:
            await asyncio.sleep(0.05)
            writer.write(PAGE)

    return handler


async def test_a_new_connection_is_asked_once(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(_hangs_up_on("/bad"))
    outcome = await fetcher.fetch(Request(site.url("/bad")))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR
    assert (site.connections, [seen.path for seen in site.seen]) == (1, ["/bad"])


async def test_all_kept_connections_may_have_been_closed_meanwhile(
    serve: Serve, fetcher: Fetcher, hosts: list[str]
) -> None:
    """That is no fault of the site: the request goes over a new one."""
    closing = asyncio.Event()

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if closing.is_set() and site.connections <= 3:
            writer.close()
        else:
            await asyncio.sleep(0.05)
            writer.write(PAGE)

    site = await serve(handler)
    await asyncio.gather(*(fetcher.fetch(Request(site.url())) for _ in range(3)))
    assert site.connections == 3
    closing.set()
    hosts.clear()
    outcome = await fetcher.fetch(Request(site.url("/last")))
    assert (outcome.kind, outcome.body, site.connections) == (OutcomeKind.BODY, b"page", 4)
    assert len(hosts) == len([seen for seen in site.seen if seen.path == "/last"]) > 1, "each attempt was sent"


async def test_a_request_waits_before_it_is_written_again(serve: Serve, new_fetcher: NewFetcher) -> None:
    """That counts neither for the deadline nor as its duration, and the poll starts with the one that is answered."""
    closing = asyncio.Event()

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if closing.is_set() and site.connections == 1:
            writer.close()
        else:
            writer.write(PAGE)

    site = await serve(handler)
    waited: list[str] = []
    sent: list[float] = []

    async def wait(host: str) -> None:
        waited.append(host)
        await asyncio.sleep(2.5)

    fetcher = await new_fetcher(
        total_timeout_seconds=2.0, before_repeat=wait, on_sent=lambda _host, at: sent.append(at)
    )
    await fetcher.fetch(Request(site.url()))
    closing.set()
    outcome = await fetcher.fetch(Request(site.url("/last")))
    assert (outcome.kind, waited) == (OutcomeKind.BODY, [site.url("").removeprefix("http://")])
    assert len(sent) == 3
    assert outcome.started_at == pytest.approx(sent[2], abs=1.0)
    assert sent[2] - sent[1] >= 2.5
    assert outcome.duration < 2.0
    robots = await fetcher.fetch_robots(site.url("/robots.txt"))
    assert (robots.kind.value, len(waited)) == ("found", 1)


async def test_what_comes_before_the_response_is_passed_over(serve: Serve, fetcher: Fetcher) -> None:
    hints = message("103 Early Hints", "Link: </style.css>; rel=preload", length=False)
    site = await serve(says(message("100 Continue", length=False), hints, PAGE))
    for _ in range(2):
        assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    assert site.connections == 1


async def test_another_protocol_is_not_spoken(serve: Serve, fetcher: Fetcher) -> None:
    switching = message("101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", length=False)
    site = await serve(says(switching, b"\x81\x05hello"))
    for _ in range(2):
        assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.PROTOCOL_ERROR
    assert site.connections == 2


async def test_an_error_page_that_drips_is_given_up(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def drip(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.05)

    site = await serve(drip)
    fetcher = await new_fetcher(total_timeout_seconds=30.0)
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.status) == (OutcomeKind.NOT_FOUND, 404)
    assert outcome.duration < 10
    async with asyncio.timeout(30):
        while site.open_connections:
            await asyncio.sleep(0.01)


async def test_a_response_that_is_read_gives_its_connection_back(serve: Serve, fetcher: Fetcher) -> None:
    answers = iter([PAGE, message("304 Not Modified", length=False), message("404 Not Found", body=b"none"), PAGE])

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers))

    site = await serve(handler)
    kinds = [(await fetcher.fetch(Request(site.url(), Validators('"e"')))).kind for _ in range(4)]
    assert kinds == [OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED, OutcomeKind.NOT_FOUND, OutcomeKind.BODY]
    assert site.connections == 1


async def _until(there: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not there():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("head", ["200 OK", "304 Not Modified"])
async def test_what_a_site_says_unasked_is_no_answer(
    serve: Serve, fetcher: Fetcher, hosts: list[str], head: str
) -> None:
    """A server that repeats itself would be one answer behind from then on, with pages under each other's URLs."""
    said: list[str] = []

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(message(head, f'ETag: "{seen.path}"', length=head.startswith("200")))
        await asyncio.sleep(0.05)
        writer.write(message("200 OK", 'ETag: "unasked"', body=b"unasked"))
        await writer.drain()
        said.append(seen.path)

    site = await serve(handler)
    for path in ("/a", "/b", "/c"):
        outcome = await fetcher.fetch(Request(site.url(path), Validators('"e"')))
        assert (outcome.validators.etag, outcome.body) == (f'"{path}"', b"" if head.startswith("200") else None)
        await _until(partial(contains, said, path))
        await asyncio.sleep(0.05)
    assert [seen.path for seen in site.seen] == ["/a", "/b", "/c"]
    assert len(hosts) == site.connections == 3


async def test_a_site_that_talks_to_itself_fills_no_memory(serve: Serve, fetcher: Fetcher) -> None:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(PAGE)
        await asyncio.sleep(0.05)
        for _ in range(20):
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n" * 1000)
            await asyncio.sleep(0.01)
        done.set()
        await asyncio.sleep(60)

    done = asyncio.Event()
    site = await serve(handler)
    assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    await done.wait()
    connections = [each for each in gc.get_objects() if type(each) is ResponseHandler and each.is_connected()]
    assert len(connections) == 1
    assert len(connections[0]) == 0, "responses to nobody"


async def test_a_deadline_that_connecting_swallows_holds(
    serve: Serve, new_fetcher: NewFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiohappyeyeballs does so, for a moment, where a host has two addresses."""
    connect = aiohttp.TCPConnector.connect

    async def swallowing(self: aiohttp.TCPConnector, *args: Any, **kwargs: Any) -> Connection:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return await connect(self, *args, **kwargs)

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    site = await serve(handler)
    fetcher = await new_fetcher(total_timeout_seconds=0.1)
    monkeypatch.setattr(aiohttp.TCPConnector, "connect", swallowing)
    polling = asyncio.create_task(fetcher.fetch(Request(site.url())))
    async with asyncio.timeout(30):
        outcome = await polling
    assert outcome.kind is OutcomeKind.TIMEOUT
    polling = asyncio.create_task(fetcher.fetch(Request(site.url())))
    await asyncio.sleep(0.01)
    polling.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await polling
    assert site.seen == []
    await _until(lambda: site.open_connections == 0)


async def test_who_was_asked_is_told_of_each_request(serve: Serve, fetcher: Fetcher, hosts: list[str]) -> None:
    there = await serve(says(PAGE))
    site = await serve(by_path({"/": message("302 Found", f"Location: {there.url()}"), "/robots.txt": PAGE}))
    await fetcher.fetch(Request(site.url()))
    await fetcher.fetch_robots(site.url("/robots.txt"))
    own, other = f"127.0.0.1:{site.port}", f"127.0.0.1:{there.port}"
    assert hosts == [own, other, own]


async def test_who_could_not_be_asked_is_not_told_of(fetcher: Fetcher, hosts: list[str]) -> None:
    outcome = await fetcher.fetch(Request("http://127.0.0.1:1/"))
    assert (outcome.kind, hosts) == (OutcomeKind.CONNECT_ERROR, [])


async def test_a_request_that_is_given_up_was_sent(serve: Serve, fetcher: Fetcher, hosts: list[str]) -> None:
    site = await serve(says())
    polling = asyncio.create_task(fetcher.fetch(Request(site.url())))
    async with asyncio.timeout(30):
        while not site.seen:
            await asyncio.sleep(0.01)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    assert hosts == [f"127.0.0.1:{site.port}"]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_is_told_of_as_sent_needs_no_turn_of_the_loop(certificate: Certificate, scheme: str, loop: Loop) -> None:
    """However long the loop is busy from then on, the request is on its way."""
    arrived = threading.Event()

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        if scheme == "https":
            connection = certificate.server.wrap_socket(connection, server_side=True)
        with connection:
            connection.recv(65_536)
            arrived.set()
            connection.sendall(PAGE)

    async def fetched(port: int) -> tuple[OutcomeKind, list[bool]]:
        there: list[bool] = []
        settings = FetchSettings(allow_private=True, ca_file=str(certificate.pem), total_timeout_seconds=30.0)
        async with Fetcher(settings, on_sent=lambda _host, _at: there.append(arrived.wait(10))) as fetcher:
            outcome = await fetcher.fetch(Request(f"{scheme}://127.0.0.1:{port}/"))
        return outcome.kind, there

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer, listener)
        with asyncio.Runner(loop_factory=loop) as runner:
            assert runner.run(fetched(listener.getsockname()[1])) == (OutcomeKind.BODY, [True])
        answering.result()


@pytest.mark.parametrize("url", ["rubbish", "http://", "/path", "http://[::1/", "http://a:99999/"])
async def test_an_url_that_is_none_is_no_fault_of_ours(fetcher: Fetcher, url: str) -> None:
    assert (await fetcher.fetch(Request(url))).kind is OutcomeKind.PROTOCOL_ERROR
