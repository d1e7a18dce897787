"""Answers that break HTTP's rules: the tolerant parser reads what browsers and curl read, within the same limits."""

from __future__ import annotations

import asyncio
import gzip
from itertools import pairwise

import pytest
from aiohttp.http_exceptions import BadHttpMessage
from hypothesis import given
from hypothesis import strategies as st

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.request import Request
from pollerd.fetching.tolerant import MAX_HEAD_BYTES, MAX_HEAD_LINES, OddHosts, TolerantParser
from pollerd.model import OutcomeKind, Validators
from tests.fetching.conftest import Certificate, NewFetcher, Serve
from tests.fetching.sites import Seen, message, says_and_closes

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
SIZED = HEAD + b"Content-Length: 5\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ODD = {
    "no colon": SIZED + b"X-XSS-Protection=1;\r\n\r\nhello",
    "a name that is none": SIZED + b"X A: b\r\nX\xc3\xa9: c\r\n: d\r\n\r\nhello",
    "a space before the colon": SIZED + b"X-A : b\r\n\r\nhello",
    "continued before the first": b"HTTP/1.1 200 OK\r\n going on\r\nContent-Length: 5\r\n\r\nhello",
    "NUL": SIZED + b"X: a\0b\r\n\r\nhello",
    "CR inside": SIZED + b"X: a\rContent-Length: 9\r\n\r\nhello",
    "length twice": SIZED + b"Content-Length: 5\r\n\r\nhello",
    "length twice in a line": HEAD + b"Content-Length: 5, 5\r\n\r\nhello",
    "no length": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "empty length": HEAD + b"Content-Length:\r\n\r\nhello",
    "length beside chunks": SIZED + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
    "chunks beside length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "identity beside length": SIZED + b"Transfer-Encoding: identity\r\n\r\nhello",
    "more than the length": SIZED + b"Connection: close\r\n\r\nhello and more",
    "chunks with LF alone": CHUNKED + b"5\nhello\n0\n\n",
    "chunks side by side": CHUNKED + b"3\r\nhel2\r\nlo0\r\n\r\n",
    "a space before a size": CHUNKED + b" 5 ;x=y\r\nhello\r\n0\r\n\r\n",
    "more than the chunks": CHUNKED + b"5\r\nhello\r\n0\r\n\r\nand more",
    "HTTP/2": b"HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "small letters": b"http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1": b"HTTP/1 200\r\nContent-Length: 5\r\n\r\nhello",
    "no version": b"HTTP 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "two spaces": b"HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "reason beside the number": b"HTTP/1.1 200OK\r\nContent-Length: 5\r\n\r\nhello",
    "interim": b"HTTP/1.1 103 Early\r\nNo colon\r\n\r\n" + SIZED + b"\r\nhello",
    "large": SIZED + b"X: " + b"a" * 200_000 + b"\r\n\r\nhello",
    "many": SIZED + b"".join(b"X-%d: a\r\n" % number for number in range(4_000)) + b"\r\nhello",
}
UNREADABLE = {
    "two lengths": SIZED + b"Content-Length: 6\r\n\r\nhello",
    "four digits": b"HTTP/1.1 2000 OK\r\n\r\nhello",
    "no HTTP": b"SSH-2.0-OpenSSH_9.0\r\n\r\n",
    "no size": CHUNKED + b"5\r\nhello\r\nzz\r\n",
    "a size beyond all": CHUNKED + b"f" * 20 + b"\r\nhello",
    "too large": SIZED + b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\nhello",
    "too many": SIZED + b"x:\r\n" * MAX_HEAD_LINES + b"\r\nhello",
    "too many interim heads": b"HTTP/1.1 100 Continue\r\nno\r\n\r\n" * 12_000 + SIZED + b"\r\nhello",
    "too many empty lines": b"\r\n" * MAX_HEAD_BYTES + b"HTTP/2 200\r\n\r\nhello",
    "an endless size": HEAD + b"X=1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5;" + b"x" * 100_000 + b"\r\nhello",
}


@pytest.mark.parametrize("name", ODD)
async def test_what_browsers_read_is_read(serve: Serve, fetcher: Fetcher, hosts: list[str], name: str) -> None:
    site = await serve(says_and_closes(ODD[name]))
    for requests in (2, 3):  # the host is asked twice at first, then by the tolerant parser at once
        outcome = await fetcher.fetch(Request(site.url()))
        assert (outcome.kind, outcome.status, outcome.body) == (OutcomeKind.BODY, 200, b"hello"), outcome.detail
        assert len(site.seen) == len(hosts) == requests
    assert (site.connections, site.open_connections) == (3, 0)


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_nobody_reads_is_refused(serve: Serve, fetcher: Fetcher, name: str) -> None:
    site = await serve(says_and_closes(UNREADABLE[name]))
    for requests in (2, 3):
        outcome = await fetcher.fetch(Request(site.url()))
        assert outcome.kind is OutcomeKind.PROTOCOL_ERROR
        assert outcome.detail
        assert len(site.seen) == requests


CUT = {
    "sized": HEAD + b"X=1\r\nContent-Length: 9\r\n\r\nhello",
    "chunk": HEAD + b"X=1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
    "between chunks": HEAD + b"X=1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "head": HEAD + b"X=1\r\n",
}


@pytest.mark.parametrize("name", CUT)
async def test_what_breaks_off_is_no_page(serve: Serve, fetcher: Fetcher, name: str) -> None:
    site = await serve(says_and_closes(CUT[name]))
    for _ in range(2):
        assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.PROTOCOL_ERROR


@pytest.mark.parametrize("end", [b"0\r\n", b"0"])
async def test_the_line_break_behind_the_last_chunk_may_be_missing(serve: Serve, fetcher: Fetcher, end: bytes) -> None:
    site = await serve(says_and_closes(HEAD + b"X=1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + end))
    assert (await fetcher.fetch(Request(site.url()))).body == b"hello"


async def test_a_304_or_204_may_have_a_body(serve: Serve, fetcher: Fetcher) -> None:
    answers = {
        "/304": message("304 Not Modified", 'ETag: "b"', body=b"hello"),
        "/204": message("204 No Content", body=b"hello"),
    }

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(answers[seen.path])
        writer.close()

    site = await serve(answer)
    for _ in range(2):
        outcome = await fetcher.fetch(Request(site.url("/304"), Validators('"a"')))
        assert (outcome.kind, outcome.validators.etag) == (OutcomeKind.NOT_MODIFIED, '"b"')
        outcome = await fetcher.fetch(Request(site.url("/204")))
        assert (outcome.status, outcome.body, outcome.detail[:8]) == (204, None, "HTTP sta"), "no page, whatever comes"


async def test_a_fault_behind_the_head_is_read_within_the_poll(serve: Serve, fetcher: Fetcher) -> None:
    """The strict parser has passed the head on when it comes to what it refuses."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"3\r\nhel\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"2\nlo\n0\n\n")
        writer.close()

    site = await serve(answer)
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.body, len(site.seen)) == (OutcomeKind.BODY, b"hello", 2)


async def test_headers_mean_what_they_meant(serve: Serve, fetcher: Fetcher) -> None:
    odd = b'ETag : "a"\r\nContent-Encoding: gzip\r\nX-Robots-Tag: noindex,\r\n  nofollow\r\nX-Robots-Tag: all\r\n'
    site = await serve(says_and_closes(HEAD + odd + b"\r\n" + gzip.compress(b"hello")))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.body, outcome.content_type, outcome.validators.etag) == (b"hello", "text/plain", '"a"')
    assert outcome.robots_tags == ("noindex, nofollow", "all")


async def test_a_body_is_not_sent_twice(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says_and_closes(ODD["no colon"]))
    outcome = await fetcher.fetch(Request(site.url(), body=b"q=1"))
    assert (outcome.kind, len(site.seen)) == (OutcomeKind.PROTOCOL_ERROR, 1)
    outcome = await fetcher.fetch(Request(site.url(), body=b"q=1"))
    assert (outcome.body, len(site.seen)) == (b"hello", 2), "its host is known by now"


async def test_the_second_request_waits_for_the_host(serve: Serve, new_fetcher: NewFetcher) -> None:
    waits: list[tuple[str, int]] = []
    site = await serve(says_and_closes(ODD["no colon"]))

    async def wait(host: str) -> None:
        waits.append((host, len(site.seen)))

    fetcher = await new_fetcher(before_repeat=wait)
    await fetcher.fetch(Request(site.url()))
    assert waits == [(f"127.0.0.1:{site.port}", 1)]


async def test_redirects_and_robots_txt_too(serve: Serve, fetcher: Fetcher) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        moved = b"HTTP/2 302 Found\r\nLocation: /new\r\n\r\n"
        writer.write(moved if seen.path == "/" else ODD["HTTP/2"])
        writer.close()

    site = await serve(answer)
    assert (await fetcher.fetch(Request(site.url()))).body == b"hello"
    assert (await fetcher.fetch_robots(site.url("/robots.txt"))).body == b"hello"
    assert [seen.path for seen in site.seen] == ["/", "/", "/new", "/robots.txt"]


async def test_over_tls(serve: Serve, new_fetcher: NewFetcher, certificate: Certificate) -> None:
    site = await serve(says_and_closes(ODD["length beside chunks"]), certificate.server)
    fetcher = await new_fetcher(ca_file=str(certificate.pem))
    assert (await fetcher.fetch(Request(site.url()))).body == b"hello"


async def test_limits_and_deadline_hold(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def drip(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/2 200 OK\r\n" if seen.path == "/head" else b"HTTP/2 200 OK\r\n\r\n")
        while True:
            writer.write(b"X" if seen.path == "/head" else b"X" * 50_000 if seen.path == "/large" else b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    site = await serve(drip)
    fetcher = await new_fetcher(total_timeout_seconds=0.5, max_body_bytes=100_000)
    assert (await fetcher.fetch(Request(site.url("/large")))).kind is OutcomeKind.TOO_LARGE
    for path in ("/head", "/body"):
        assert (await fetcher.fetch(Request(site.url(path)))).kind is OutcomeKind.TIMEOUT


async def test_a_bomb_is_too_large(serve: Serve, new_fetcher: NewFetcher) -> None:
    bomb = gzip.compress(bytes(5_000_000))
    site = await serve(says_and_closes(b"HTTP/2 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb))
    fetcher = await new_fetcher(max_body_bytes=100_000)
    assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.TOO_LARGE


def test_a_host_is_remembered_for_a_day() -> None:
    hosts = OddHosts()
    hosts.add("a", 0.0)
    assert hosts == {"a": 86_400.0}
    for number in range(10_000):
        hosts.add(f"{number}", 1.0)
    assert "a" not in hosts, "the oldest gives way"
    assert hosts["0"] == 86_401.0


class Connection:
    """What the parser asks of a connection."""

    def __init__(self) -> None:
        self.paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self, resume_parser: bool = True) -> None:
        self.paused = False


async def parsed(answer: bytes, cuts: list[int]) -> tuple[int, dict[str, str], bytes] | str:
    parser = TolerantParser(Connection())  # type: ignore[arg-type]  # it is asked for no more
    places = sorted({0, len(answer), *(cut % (len(answer) + 1) for cut in cuts)})
    messages = []
    try:
        for start, end in pairwise(places):
            messages += parser.feed_data(answer[start:end])[0]
        parser.feed_eof()
    except BadHttpMessage as error:
        return error.message
    if not messages:
        return "nothing"
    ((message, content),) = messages
    return (
        message.code,
        dict(message.headers),
        b"" if content.is_eof() and not content.total_bytes else await content.read(),
    )


@given(st.sampled_from([*ODD.values(), *CUT.values()]), st.lists(st.integers(0, 2_000), max_size=6))
async def test_how_it_arrives_changes_nothing(answer: bytes, cuts: list[int]) -> None:
    assert await parsed(answer, cuts) == await parsed(answer, [])


@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=4))
async def test_any_bytes_are_read_the_same_however_they_arrive(rest: bytes, cuts: list[int]) -> None:
    for beginning in (b"", b"HTTP/1.1 200 OK\r\n", CHUNKED, SIZED + b"\r\n"):
        assert await parsed(beginning + rest, cuts) == await parsed(beginning + rest, [])


async def test_a_body_that_comes_too_fast_pauses_the_connection() -> None:
    connection = Connection()
    parser = TolerantParser(connection)  # type: ignore[arg-type]
    parser.feed_data(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000)
    assert connection.paused
