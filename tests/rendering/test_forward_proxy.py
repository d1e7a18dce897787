"""The forward proxy, as any client sees it: who may use it, whom it dials, and how much."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from pollerd.fetching import guard
from pollerd.fetching.settings import FetchSettings, normalise_proxy
from pollerd.model import OutcomeKind
from pollerd.rendering.dialling import Dialler, HostConnections
from pollerd.rendering.outcome import PageRefusedError
from pollerd.rendering.proxy import ForwardProxy, ProxySession
from tests.support.nameserver import look_up, name_server
from tests.support.origin import Origin, Page, until
from tests.support.proxy import proxied

PUBLIC = "127.0.0.1"


WRITERS: list[asyncio.StreamWriter] = []


@pytest.fixture(autouse=True)
async def closed_in_the_end() -> AsyncIterator[None]:
    yield
    while WRITERS:
        WRITERS.pop().close()


class Client:
    """A page's side of the proxy."""

    def __init__(self, proxy: ForwardProxy, most_bytes: int = 1_000_000, upstream: str | None = None) -> None:
        self.refusals: list[PageRefusedError] = []
        self.proxy = proxy
        self.session: ProxySession = proxy.begin(
            upstream=upstream, most_bytes=most_bytes, seconds=60.0, on_exhausted=self.refusals.append
        )

    async def open(
        self, head: str, authorization: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = int(self.proxy.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        WRITERS.append(writer)
        shown = self.session.authorization if authorization is None else authorization
        writer.write(f"{head}\r\nProxy-Authorization: {shown}\r\n\r\n".encode())
        return reader, writer

    async def get(self, url: str, authorization: str | None = None) -> bytes:
        reader, writer = await self.open(f"GET {url} HTTP/1.1\r\nHost: x", authorization)
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def tunnel(self, target: str) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.open(f"CONNECT {target} HTTP/1.1\r\nHost: {target}")
        return await reader.readuntil(b"\r\n\r\n"), reader, writer


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as server:
        server.pages["/"] = Page("hello")
        yield server


@pytest.fixture
async def proxy() -> AsyncIterator[ForwardProxy]:
    """May dial loopback."""
    async with ForwardProxy(Dialler(FetchSettings(allow_private=True))) as opened:
        yield opened


async def test_a_request_in_absolute_form(origin: Origin, proxy: ForwardProxy) -> None:
    client = Client(proxy)
    answer = await client.get(origin.url("/"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\nhello")
    hit = origin.log[0]
    assert not [name for name in hit.headers if name.lower().startswith("proxy")]
    assert client.session.requests == 1
    assert client.session.bytes > len(answer)


async def test_a_tunnel(origin: Origin, proxy: ForwardProxy) -> None:
    head, reader, writer = await Client(proxy).tunnel(f"127.0.0.1:{origin.port}")
    assert head.startswith(b"HTTP/1.1 200")
    writer.write(b"GET / HTTP/1.1\r\nHost: inside\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"hello")
    assert origin.log[0].host == "inside"
    writer.close()


@pytest.mark.parametrize("shown", ["", "Basic eDp5", "Bearer x"])
async def test_strangers_are_refused(origin: Origin, proxy: ForwardProxy, shown: str) -> None:
    answer = await Client(proxy).get(origin.url("/"), shown)
    assert answer.startswith(b"HTTP/1.1 407 ")
    assert b'Proxy-Authenticate: Basic realm="pollerd"' in answer
    assert not origin.log


async def test_credentials_end_with_their_page(origin: Origin, proxy: ForwardProxy) -> None:
    client = Client(proxy)
    head, reader, _ = await client.tunnel(f"127.0.0.1:{origin.port}")
    assert b" 200 " in head
    await proxy.end(client.session)
    assert await reader.read() == b"", "its connections, too"
    assert b" 407 " in await client.get(origin.url("/"))


async def test_a_session_ends_by_itself(origin: Origin, proxy: ForwardProxy) -> None:
    session = proxy.begin(upstream=None, most_bytes=1, seconds=0.05, on_exhausted=lambda _: None)
    await until(lambda: session.ended)


@pytest.mark.parametrize(
    "target",
    ["127.0.0.2", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1"],
)
async def test_denied_addresses_are_not_dialled(origin: Origin, target: str) -> None:
    async with ForwardProxy(Dialler(FetchSettings())) as proxy:
        client = Client(proxy)
        assert await client.get(f"http://{target}:{origin.port}/") == b""
        head, _, _ = await client.tunnel(f"{target}:{origin.port}")
        assert head.startswith(b"HTTP/1.1 403 ")
        assert client.session.refused == 2
    assert not origin.log


async def test_names_are_judged_at_each_connection(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    real = guard.denial
    monkeypatch.setattr(guard, "denial", lambda address, *rest: None if address == PUBLIC else real(address, *rest))
    async with name_server({}) as server, ForwardProxy(Dialler(FetchSettings())) as proxy:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", look_up(server, loop.getaddrinfo))
        server.names["turning.example"] = [[PUBLIC], ["127.0.0.2"], [PUBLIC], ["169.254.169.254", PUBLIC]]
        client = Client(proxy)
        url = f"http://turning.example:{origin.port}/"
        answers = [await client.get(url) for _ in range(4)]
        assert [b"hello" in answer for answer in answers] == [True, False, True, False]
        failure = client.session.failure_of(f"turning.example:{origin.port}")
        assert failure is not None
        assert failure.kind is OutcomeKind.BLOCKED_ADDRESS
        await client.get(f"http://unknown.example:{origin.port}/")
        failure = client.session.failure_of(f"unknown.example:{origin.port}")
        assert failure is not None
        assert failure.kind is OutcomeKind.DNS_ERROR


async def test_paused_hosts_are_not_dialled(origin: Origin) -> None:
    paused = f"127.0.0.1:{origin.port}"
    reasons = {paused: "paused by hand"}
    async with ForwardProxy(Dialler(FetchSettings(allow_private=True)), may_connect=reasons.get) as proxy:
        client = Client(proxy)
        assert await client.get(origin.url("/", 0)) == b""
        assert b"hello" in await client.get(origin.url("/", 2))
        failure = client.session.failure_of(paused)
    assert failure is not None
    assert (failure.kind, failure.detail) == (OutcomeKind.DENIED, "paused by hand")


async def test_a_page_has_its_share_of_bytes(origin: Origin, proxy: ForwardProxy) -> None:
    origin.pages["/"] = Page("x" * 100_000)
    client = Client(proxy, most_bytes=50_000)
    assert len(await client.get(origin.url("/"))) < 100_000
    assert [refusal.kind for refusal in client.refusals] == [OutcomeKind.TOO_LARGE]
    await until(lambda: proxy.hosts.most_seen == 1)


@pytest.mark.parametrize("bad", ["GET / HTTP/1.1", "GET ftp://x/ HTTP/1.1", "x", "GET http://u:p@x/ HTTP/1.1"])
async def test_what_is_no_request_of_a_page(proxy: ForwardProxy, bad: str) -> None:
    reader, _ = await Client(proxy).open(f"{bad}\r\nHost: x")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


async def test_a_head_without_end(proxy: ForwardProxy) -> None:
    reader, _ = await Client(proxy).open("GET http://x/ HTTP/1.1\r\nX: " + "x" * 300_000)
    with contextlib.suppress(ConnectionResetError):  # what was not read of it
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


async def test_a_body_goes_through_both_ways(origin: Origin, proxy: ForwardProxy) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    origin.pages["/echo"] = Page(handler=echo)
    client = Client(proxy)
    body = b"y" * 200_000
    reader, writer = await client.open(f"POST {origin.url('/echo')} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}")
    writer.write(body)
    assert (await reader.read()).endswith(body)
    writer.close()


async def test_the_seventh_connection_waits(origin: Origin, proxy: ForwardProxy) -> None:
    client = Client(proxy)
    target = f"127.0.0.1:{origin.port}"
    opened = [await client.tunnel(target) for _ in range(6)]
    seventh = asyncio.create_task(client.tunnel(target))
    done, _ = await asyncio.wait({seventh}, timeout=0.3)
    assert not done
    assert b" 200 " in (await client.tunnel(f"127.0.0.2:{origin.port}"))[0], "another host"
    opened[0][2].close()
    assert b" 200 " in (await seventh)[0]
    assert proxy.hosts.most_seen == 6


async def test_no_page_keeps_a_host_from_another(origin: Origin, proxy: ForwardProxy) -> None:
    greedy, other = Client(proxy), Client(proxy)
    target = f"127.0.0.1:{origin.port}"
    opened = [await greedy.tunnel(target) for _ in range(6)]
    assert b" 200 " in (await asyncio.wait_for(other.tunnel(target), 30))[0]
    reads = [asyncio.create_task(reader.read(1)) for _, reader, _ in opened]
    await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    await asyncio.sleep(0.1)
    assert [read.result() for read in reads if read.done()] == [b""], "one was ended for it"
    for read in reads:
        read.cancel()
    assert proxy.hosts.most_seen == 6


async def test_places_that_are_let_go_are_forgotten() -> None:
    hosts = HostConnections(1)
    held = [await hosts.hold(f"h{n}:80", self) for n, self in enumerate("abc")]
    waiting = asyncio.create_task(hosts.hold("h0:80", "d"))
    await asyncio.sleep(0)
    for one in held:
        hosts.let_go(one)
    assert (await waiting).owner == "d"


async def test_through_the_daemons_proxy_and_a_sites_own(origin: Origin) -> None:
    async with AsyncExitStack() as stack:
        usual, own = [await stack.enter_async_context(proxied(authorization="Basic dTpw")) for _ in range(2)]
        settings = FetchSettings(allow_private=True, proxy=usual.url("u:p"))
        proxy = await stack.enter_async_context(ForwardProxy(Dialler(settings)))
        target = f"127.0.0.1:{origin.port}"
        for client, through in (
            (Client(proxy), usual),
            (Client(proxy, upstream=normalise_proxy(own.url("u:p"))), own),
        ):
            assert b"hello" in await client.get(origin.url("/"))
            assert b" 200 " in (await client.tunnel(target))[0]
            assert [asked.method for asked in through.asked] == ["GET", "CONNECT"]
            assert {asked.headers["proxy-authorization"] for asked in through.asked} == {"Basic dTpw"}


async def test_a_proxy_is_asked_for_no_denied_address(origin: Origin) -> None:
    async with proxied() as usual, ForwardProxy(Dialler(FetchSettings(proxy=usual.url()))) as proxy:
        client = Client(proxy)
        assert await client.get(origin.url("/")) == b""
        assert b" 403 " in (await client.tunnel("169.254.169.254:80"))[0]
        assert not usual.asked


async def test_a_sites_own_proxy_passes_the_guard(origin: Origin) -> None:
    async with proxied() as own, ForwardProxy(Dialler(FetchSettings())) as proxy:
        client = Client(proxy, upstream=normalise_proxy(own.url()))
        assert b" 403 " in (await client.tunnel("93.184.216.34:443"))[0]
        assert not own.asked


async def test_a_proxy_that_refuses(origin: Origin) -> None:
    async with AsyncExitStack() as stack:
        usual = await stack.enter_async_context(proxied(authorization="Basic x"))
        dialler = Dialler(FetchSettings(allow_private=True, proxy=usual.url()))
        client = Client(await stack.enter_async_context(ForwardProxy(dialler)))
        assert b" 502 " in (await client.tunnel(f"127.0.0.1:{origin.port}"))[0]
        assert await client.get(origin.url("/")) == b""
        failure = client.session.failure_of(f"127.0.0.2:{origin.port}")
    assert failure is not None
    assert (failure.kind, failure.detail) == (OutcomeKind.CONNECT_ERROR, "the proxy refuses: HTTP status 407")


async def test_where_nobody_listens(proxy: ForwardProxy) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = Client(proxy)
        head, _, _ = await client.tunnel(f"127.0.0.1:{taken.getsockname()[1]}")
    assert head.startswith(b"HTTP/1.1 502 ")
