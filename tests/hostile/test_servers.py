"""Hostile and broken servers before the whole daemon: each gets its verdict, the good ones their pace."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import ssl
import zlib
from collections.abc import AsyncIterator

import brotli
import pytest
import zstandard

from pollerd.daemon import transition
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind, SiteState
from tests.daemon.conftest import Running, Start
from tests.fetching.conftest import Certificate, certificate
from tests.fetching.sites import Handler, Seen, Site, message, served
from tests.support.origin import Origin, Page, until

__all__ = ["certificate"]
IMPATIENT = FetchSettings(
    allow_private=True, total_timeout_seconds=5.0, connect_timeout_seconds=5.0, max_body_bytes=1024 * 1024
)
NONE = message("404 Not Found")


def after_robots(handler: Handler) -> Handler:
    """No robots.txt, then whatever the handler does."""

    async def answering(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.path == "/robots.txt":
            writer.write(NONE)
            await writer.drain()
        else:
            await handler(seen, writer)

    return answering


def saying(*parts: bytes, then_close: bool = False) -> Handler:
    async def handler(_: Seen, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if then_close:
            writer.close()

    return handler


async def endless_body(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while True:
        writer.write(b"<p>more</p>" * 1_000)
        await writer.drain()


async def endless_headers(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for start in itertools.count(0, 1_000):
        writer.write(b"".join(b"X-%d: y\r\n" % n for n in range(start, start + 1_000)))
        await writer.drain()


async def one_endless_header(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"y" * 1_000)
        await writer.drain()


async def drip(_: Seen, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, of headers and body alike."""
    for n in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1_000:
        writer.write(bytes([n]))
        await writer.drain()
        await asyncio.sleep(10)


def resetting(after: bytes) -> Handler:
    async def handler(_: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(after)
        await writer.drain()
        writer.transport.abort()

    return handler


def bomb(encoding: str) -> bytes:
    """300 MB of zeros, squeezed."""
    if encoding == "zstd":
        work = zstandard.ZstdCompressor().compressobj()
        return b"".join([*(work.compress(bytes(10**7)) for _ in range(30)), work.flush()])
    if encoding == "br":
        squeeze = brotli.Compressor(quality=1)
        return b"".join([*(squeeze.process(bytes(10**7)) for _ in range(30)), squeeze.finish()])
    deflate = zlib.compressobj(wbits=31)
    return b"".join([*(deflate.compress(bytes(10**7)) for _ in range(30)), deflate.flush()])


def bombing(encoding: str) -> Handler:
    return saying(message("200 OK", f"Content-Encoding: {encoding}", body=bomb(encoding)))


JUNK = (
    b"HTTP/1.1 200 OK\r\nETag: \xff\xfe\x01\r\nLast-Modified: \x80\r\nContent-Type: \xe9/\xff\r\n"
    b"Content-Length: 4\r\n\r\nbody"
)

CASES: dict[str, tuple[Handler, OutcomeKind, str]] = {
    "gzip bomb": (bombing("gzip"), OutcomeKind.TOO_LARGE, "more than 1048576 bytes"),
    "brotli bomb": (bombing("br"), OutcomeKind.TOO_LARGE, "more than 1048576 bytes"),
    "zstd bomb": (bombing("zstd"), OutcomeKind.PROTOCOL_ERROR, "not asked for: zstd"),
    "bomb in a bomb": (
        saying(message("200 OK", "Content-Encoding: gzip, gzip", body=gzip.compress(bomb("gzip")))),
        OutcomeKind.TOO_LARGE,
        "more than 1048576 bytes",
    ),
    "endless body": (endless_body, OutcomeKind.TOO_LARGE, "more than 1048576 bytes"),
    "endless headers": (endless_headers, OutcomeKind.PROTOCOL_ERROR, ""),
    "one endless header": (one_endless_header, OutcomeKind.PROTOCOL_ERROR, ""),
    "drip": (drip, OutcomeKind.TIMEOUT, ""),
    "reset at once": (resetting(b""), OutcomeKind.PROTOCOL_ERROR, ""),
    "reset in headers": (resetting(b"HTTP/1.1 200 OK\r\nContent-"), OutcomeKind.PROTOCOL_ERROR, ""),
    "reset in the body": (
        resetting(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nha"),
        OutcomeKind.PROTOCOL_ERROR,
        "",
    ),
    "reset in a chunk": (
        resetting(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nha"),
        OutcomeKind.PROTOCOL_ERROR,
        "",
    ),
    "junk in headers": (saying(JUNK), OutcomeKind.FIRST, ""),
}


async def assert_good_go_on(origin: Origin, running: Running) -> None:
    seen = len(origin.hits("/good"))
    await until(lambda: len(origin.hits("/good")) > seen + 3)
    assert not running.task.done()


@pytest.mark.parametrize("case", CASES)
async def test_each_gets_its_verdict(origin: Origin, start: Start, case: str) -> None:
    handler, kind, detail = CASES[case]
    origin.pages["/good"] = Page()
    async with served(after_robots(handler), None) as site, start(fetching=IMPATIENT) as running:
        bad, _ = await running.add(site.url("/x"), origin.url("/good", host=1))
        (poll, *_) = await running.polled(bad, 1, 60)
        assert poll.outcome is kind, poll.detail
        assert detail in poll.detail
        assert (await running.site(bad)).state is (
            SiteState.ACTIVE if kind is OutcomeKind.FIRST else SiteState.BACKING_OFF
        )
        await assert_good_go_on(origin, running)


@contextlib.asynccontextmanager
async def silent(tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """Accepts, reads, and says nothing: not even in TLS, where it is asked for."""
    site = Site(scheme="https" if tls else "http")
    held: list[asyncio.StreamWriter] = []

    async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site.connections += 1
        held.append(writer)

    server = await asyncio.start_server(connected, "0.0.0.0", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for writer in held:
            writer.transport.abort()
        await server.wait_closed()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_as_many_silent_hosts_as_there_are_slots(origin: Origin, start: Start, scheme: str) -> None:
    """They hold what they got until the deadline, and not for ever: good sites get through."""
    origin.pages["/good"] = Page()
    slots = 6
    fetching = FetchSettings(allow_private=True, total_timeout_seconds=1.0, connect_timeout_seconds=1.0)
    async with silent() as site, start(fetching=fetching, max_inflight=slots) as running:
        (good,) = await running.add(origin.url("/good", host=1))
        await running.polled(good, 1)
        silent_ids = []
        for n in range(slots):
            silent_ids += await running.add(f"{scheme}://127.9.0.{n + 1}:{site.port}/")
            await asyncio.sleep(0.2)  # hosts that fail all at the same moment look like an outage of ours
        for site_id in silent_ids:
            (poll, *_) = await running.polled(site_id, 1, 60)
            assert poll.outcome is OutcomeKind.TIMEOUT, poll.detail
        assert site.connections >= slots
        await assert_good_go_on(origin, running)
        assert running.control.health.alive()


async def test_tls_that_stalls_after_the_handshake(origin: Origin, start: Start, certificate: Certificate) -> None:
    async def nothing(_: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3_600)

    origin.pages["/good"] = Page()
    fetching = FetchSettings(allow_private=True, total_timeout_seconds=1.0, ca_file=str(certificate.pem))
    async with served(after_robots(nothing), certificate.server) as site, start(fetching=fetching) as running:
        bad, _ = await running.add(site.url("/"), origin.url("/good", host=1))
        (poll, *_) = await running.polled(bad, 1, 60)
        assert poll.outcome is OutcomeKind.TIMEOUT
        await assert_good_go_on(origin, running)


PAGES: dict[str, tuple[str, bytes]] = {
    "a charset that is not": ("text/html; charset=utf-16", "<p>grüße</p>".encode("cp1252")),
    "a charset unheard of": ("text/html; charset=klingon", b"<p>\xff\xfe\xfd</p>"),
    "malformed HTML": ("text/html", b"<p><b>x</i><table><tr>" * 230_000),
    "JSON nested deep": ("application/json", b"[" * 10_000 + b"]" * 10_000),
    "JSON nested deep, cut short": ("application/json", b'{"a":' * 10_000),
    "billion laughs": (
        "application/rss+xml",
        b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "ha">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(20))
        + b"]><rss version='2.0'><channel><title>&u;</title><item><title>&u;</title></item></channel></rss>",
    ),
    "external entity": (
        "application/rss+xml",
        b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
        b"<rss version='2.0'><channel><title>t</title><item><title>&x;</title></item></channel></rss>",
    ),
}


@pytest.mark.parametrize("case", PAGES)
async def test_pages_that_are_hard_to_read(start: Start, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are read as, a second look at the same is no change, and a change is one."""
    monkeypatch.setattr(transition, "WORKER_SHARE", 1.0)  # else the page rests for 50 times what reading it takes
    content_type, body = PAGES[case]
    answer = [body]

    async def handler(_: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(message("200 OK", f"Content-Type: {content_type}", body=answer[0]))
        await writer.drain()

    fetching = FetchSettings(allow_private=True)
    async with served(after_robots(handler), None) as site, start(fetching=fetching, budget=10.0) as running:
        (site_id,) = await running.add(site.url("/x"))
        polls = await running.polled(site_id, 2, 60)
        assert [poll.outcome for poll in polls[:2]] == [OutcomeKind.FIRST, OutcomeKind.UNCHANGED]
        answer[0] = b"<html><p>something else</p></html>"
        await until(lambda: running.control.health.status().changes == 1)
        (change,) = await running.changes()
        assert change.before_content_id is not None
        before = (await running.store.contents.get(change.before_content_id)).body
        assert len(before) < 2 * len(body) + 100, "nothing was blown up"
        assert b"root:" not in before, "nothing of this machine got in"
