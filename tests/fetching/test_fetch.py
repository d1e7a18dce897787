"""Pages: what a response means, whatever it looks like."""

import asyncio
import gzip
import random
from collections.abc import Callable

import brotli
import pytest

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.request import Request
from pollerd.model import OutcomeKind, Validators
from tests.fetching.conftest import NewFetcher, Serve
from tests.fetching.sites import Seen, by_path, message, says, says_and_closes

PACKED = gzip.compress(b"hello", mtime=0)
IN_2041 = "Wed, 06 Nov 2041 08:49:37 GMT"


async def test_a_page_comes_back_whole(serve: Serve, new_fetcher: NewFetcher) -> None:
    headers = ("Content-Type: text/html", 'ETag: W/"v1"', f"Last-Modified: {IN_2041}", "Date: " + IN_2041)
    site = await serve(says(message("200 OK", *headers, body=b"<p>hi")))
    fetcher = await new_fetcher(clock=lambda: 1000.0, contact="ops@example.org")
    outcome = await fetcher.fetch(Request(site.url("/a?b=%2F")))
    assert (outcome.kind, outcome.status, outcome.body, outcome.bytes) == (OutcomeKind.BODY, 200, b"<p>hi", 5)
    assert outcome.content_type == "text/html"
    assert outcome.validators == Validators('W/"v1"', IN_2041)
    assert outcome.server_date == 2_267_340_577.0
    assert outcome.started_at == 1000.0
    assert outcome.duration > 0
    assert site.seen[0].path == "/a?b=%2F"
    sent = site.seen[0].headers
    assert sent["user-agent"].startswith("pollerd/")
    assert sent["user-agent"].endswith("(+ops@example.org)")
    assert sent["accept-encoding"] == "gzip, deflate, br"
    assert "if-none-match" not in sent
    assert "if-modified-since" not in sent
    assert "cookie" not in sent


@pytest.mark.parametrize("etag", ['"strong"', 'W/"weak"', "bare", '"a, b"', '"é"'])
async def test_validators_are_echoed_verbatim(serve: Serve, fetcher: Fetcher, etag: str) -> None:
    site = await serve(says(message("304 Not Modified", length=False)))
    outcome = await fetcher.fetch(Request(site.url(), Validators(etag, IN_2041)))
    assert outcome.kind is OutcomeKind.NOT_MODIFIED
    assert outcome.validators == Validators(etag, IN_2041)
    assert site.seen[0].headers["if-none-match"] == etag
    assert site.seen[0].headers["if-modified-since"] == IN_2041


async def test_what_headers_ask_of_robots_is_kept(serve: Serve, fetcher: Fetcher) -> None:
    tags = ["noindex", "otherbot: none", "x" * 600, *["nofollow"] * 20]
    site = await serve(says(message("200 OK", *(f"X-Robots-Tag: {tag}" for tag in tags), body=b"hi")))
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.robots_tags[:3] == ("noindex", "otherbot: none", "x" * 512)
    assert len(outcome.robots_tags) == 16


async def test_etag_alone_sends_no_date(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("304 Not Modified", length=False)))
    await fetcher.fetch(Request(site.url(), Validators('"a"')))
    assert "if-modified-since" not in site.seen[0].headers


async def test_304_may_renew_a_validator(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("304 Not Modified", 'ETag: "new"', length=False)))
    outcome = await fetcher.fetch(Request(site.url(), Validators('"old"', IN_2041)))
    assert outcome.validators == Validators('"new"', IN_2041)


async def test_304_without_validators_is_a_fault(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("304 Not Modified", length=False)))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.status) == (OutcomeKind.PROTOCOL_ERROR, 304)


@pytest.mark.parametrize(
    ("response", "kind", "retry_after"),
    [
        (message("404 Not Found", body=b"no"), OutcomeKind.NOT_FOUND, None),
        (message("410 Gone"), OutcomeKind.GONE, None),
        (message("429 Too Many Requests", "Retry-After: 120"), OutcomeKind.THROTTLED, 120.0),
        (message("429 Too Many Requests", "Retry-After: -1"), OutcomeKind.THROTTLED, None),
        (message("429 Too Many Requests", "Retry-After: \xff\xfe"), OutcomeKind.THROTTLED, None),
        (message("503 Unavailable", "Retry-After: 1e9"), OutcomeKind.THROTTLED, 1e9),
        (
            message("503 Unavailable", f"Date: {IN_2041}", "Retry-After: Wed, 06 Nov 2041 08:50:37 GMT"),
            OutcomeKind.THROTTLED,
            60.0,
        ),
        (
            message("503 Unavailable", "Retry-After: Thu, 01 Jan 1970 00:20:00 GMT"),
            OutcomeKind.THROTTLED,
            200.0,
        ),
        (message("503 Unavailable", "Retry-After: soon"), OutcomeKind.SERVER_ERROR, None),
        (message("503 Unavailable"), OutcomeKind.SERVER_ERROR, None),
        (message("500 Oops"), OutcomeKind.SERVER_ERROR, None),
        (message("403 Forbidden"), OutcomeKind.CLIENT_ERROR, None),
        (message("418 Teapot"), OutcomeKind.CLIENT_ERROR, None),
        (message("300 Choices"), OutcomeKind.PROTOCOL_ERROR, None),
        (message("101 Switching", "Upgrade: x", "Connection: upgrade"), OutcomeKind.PROTOCOL_ERROR, None),
        (message("999 Go Away"), OutcomeKind.PROTOCOL_ERROR, None),
    ],
)
async def test_statuses(
    serve: Serve, new_fetcher: NewFetcher, response: bytes, kind: OutcomeKind, retry_after: float | None
) -> None:
    site = await serve(says(response))
    fetcher = await new_fetcher(clock=lambda: 1000.0)
    outcome = await fetcher.fetch(Request(site.url(), Validators('"a"')))
    assert (outcome.kind, outcome.retry_after) == (kind, retry_after)
    assert outcome.status == int(response[9:12])
    assert outcome.detail == f"HTTP status {outcome.status}"


@pytest.mark.parametrize(
    "response",
    [
        message("204 No Content", length=False),
        message("205 Reset", body=b"x"),
        message("201 Created", body=b"x"),
        message("202 Accepted", body=b"challenge"),
        message("206 Partial Content", body=b"x"),
    ],
)
async def test_other_statuses_than_200_and_203_come_without_a_page(
    serve: Serve, fetcher: Fetcher, response: bytes
) -> None:
    site = await serve(says(response))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.body) == (OutcomeKind.PROTOCOL_ERROR, None)
    assert outcome.detail.endswith("which comes without a page")


async def test_one_connection_serves_many_polls(serve: Serve, fetcher: Fetcher) -> None:
    answers = [
        message("200 OK", body=b"page"),
        message("304 Not Modified", length=False),
        message("404 Not Found", body=b"x" * 20_000),
        message("302 Found", "Location: /next", body=b"moved"),
        message("200 OK", "Content-Encoding: gzip", body=gzip.compress(b"page", mtime=0)),
        message("503 Unavailable"),
    ]

    async def in_turn(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(answers[len(site.seen) - 1])

    site = await serve(in_turn)
    kinds = [(await fetcher.fetch(Request(site.url(), Validators('"a"')))).kind for _ in range(5)]
    assert kinds == [
        OutcomeKind.BODY,
        OutcomeKind.NOT_MODIFIED,
        OutcomeKind.NOT_FOUND,
        OutcomeKind.BODY,
        OutcomeKind.SERVER_ERROR,
    ]
    assert site.connections == 1


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("br", brotli.compress)])
async def test_cap_counts_after_decompression(
    serve: Serve, new_fetcher: NewFetcher, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    fetcher = await new_fetcher(max_body_bytes=100_000)
    header = f"Content-Encoding: {encoding}"
    fits = await serve(says(message("200 OK", header, body=pack(bytes(100_000)))))
    outcome = await fetcher.fetch(Request(fits.url()))
    assert (outcome.kind, outcome.bytes) == (OutcomeKind.BODY, 100_000)
    bomb = await serve(says(message("200 OK", header, body=pack(bytes(30_000_000)))))
    outcome = await fetcher.fetch(Request(bomb.url()))
    assert (outcome.kind, outcome.body, outcome.status) == (OutcomeKind.TOO_LARGE, None, 200)


async def test_large_compressed_body(serve: Serve, fetcher: Fetcher) -> None:
    page = bytes(range(256)) * 2000
    packed = gzip.compress(page, compresslevel=0, mtime=0)
    site = await serve(says(message("200 OK", "Content-Encoding: gzip", body=packed)))
    assert (await fetcher.fetch(Request(site.url()))).body == page


async def test_announced_too_large_is_not_read(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n"))
    fetcher = await new_fetcher(max_body_bytes=1_000_000)
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.kind is OutcomeKind.TOO_LARGE


async def test_endless_body_is_cut_off(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            await writer.drain()

    site = await serve(endless)
    fetcher = await new_fetcher(max_body_bytes=1_000_000)
    assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.TOO_LARGE
    async with asyncio.timeout(60):
        while site.open_connections:
            await asyncio.sleep(0.01)


async def test_endless_error_page_is_cut_off(serve: Serve, fetcher: Fetcher) -> None:
    async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        while True:
            writer.write(bytes(0x10000))
            await writer.drain()

    site = await serve(endless)
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.kind is OutcomeKind.NOT_FOUND


@pytest.mark.parametrize("status", ["404 Not Found", "302 Found"])
async def test_a_broken_body_nobody_wants_is_no_matter(serve: Serve, fetcher: Fetcher, status: str) -> None:
    async def half(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.path == "/there":
            writer.write(message("404 Not Found"))
        else:
            writer.write(f"HTTP/1.1 {status}\r\nLocation: /there\r\nContent-Length: 99\r\n\r\nhalf".encode())
        writer.close()

    site = await serve(half)
    assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.NOT_FOUND


async def test_slow_drip_meets_the_total_deadline(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def drip(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b".")
            await asyncio.sleep(0.05)

    site = await serve(drip)
    fetcher = await new_fetcher(total_timeout_seconds=1.0)
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.status) == (OutcomeKind.TIMEOUT, 200)
    assert outcome.duration >= 1.0


async def test_silence_meets_the_total_deadline(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    site = await serve(silent)
    fetcher = await new_fetcher(total_timeout_seconds=0.3)
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.status) == (OutcomeKind.TIMEOUT, None)


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.0\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(6000)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Encoding: gzip\r\n\r\njunk",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Encoding: zstd\r\n\r\njunk",
        b"HTTP/1.1 200 OK\r\n",
        b"",
    ],
)
async def test_broken_http_is_a_protocol_error(serve: Serve, fetcher: Fetcher, response: bytes) -> None:
    site = await serve(says_and_closes(response))
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR
    assert outcome.detail.isprintable()
    assert 0 < len(outcome.detail) <= 300


async def test_gzip_cut_short_is_no_page(serve: Serve, fetcher: Fetcher) -> None:
    packed = gzip.compress(b"page " * 1000, mtime=0)
    site = await serve(says(message("200 OK", "Content-Encoding: gzip", body=packed[: len(packed) // 2])))
    assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.PROTOCOL_ERROR


async def test_two_content_encoding_lines(serve: Serve, fetcher: Fetcher) -> None:
    packed = brotli.compress(gzip.compress(b"page", mtime=0))
    site = await serve(says(message("200 OK", "Content-Encoding: gzip", "Content-Encoding: br", body=packed)))
    assert (await fetcher.fetch(Request(site.url()))).body == b"page"


async def test_junk_bytes_in_headers_are_harmless(serve: Serve, fetcher: Fetcher) -> None:
    junk = ("ETag: \xff\xfe", "Last-Modified: \x80", "Content-Type: text/\xe9", "Date: \xff", "Set-Cookie: \xff=;;=")
    site = await serve(says(message("200 OK", *junk, body=b"page")))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.body) == (OutcomeKind.BODY, b"page")
    assert (outcome.validators, outcome.server_date) == (Validators(), None)
    assert outcome.content_type == "text/?"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_resets_in_every_phase(serve: Serve, fetcher: Fetcher, said: bytes) -> None:
    async def reset(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await asyncio.sleep(0.02)
        writer.transport.abort()

    site = await serve(reset)
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR


async def test_own_headers_are_sent(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("200 OK")))
    await fetcher.fetch(Request(site.url(), headers=(("Authorization", "Bearer x"), ("Accept", "text/plain"))))
    assert site.seen[0].headers["authorization"] == "Bearer x"
    assert site.seen[0].headers["accept"] == "text/plain"


async def test_cookies_are_not_kept(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("200 OK", "Set-Cookie: a=b")))
    for _ in range(2):
        await fetcher.fetch(Request(site.url()))
    assert "cookie" not in site.seen[1].headers


async def test_cancellation_passes_through_and_closes(serve: Serve, fetcher: Fetcher) -> None:
    asked = asyncio.Event()

    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        asked.set()

    site = await serve(silent)
    poll = asyncio.create_task(fetcher.fetch(Request(site.url())))
    await asked.wait()
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    async with asyncio.timeout(60):
        while site.open_connections:
            await asyncio.sleep(0.01)


async def test_no_bytes_make_it_raise(serve: Serve, new_fetcher: NewFetcher) -> None:
    """Valid responses, damaged in a few places each: every one ends as an outcome."""
    rng = random.Random(1994)
    packed = gzip.compress(b"page " * 200, mtime=0)
    valid = [
        message("200 OK", 'ETag: "a"', "Content-Type: text/html", body=b"page"),
        message("200 OK", "Content-Encoding: gzip", body=packed),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n",
        message("302 Found", "Location: http://127.0.0.1:1/a?b#c"),
        message("304 Not Modified", 'ETag: "a"', length=False),
        message("429 Slow", "Retry-After: 120", "Date: Sun, 06 Nov 1994 08:49:37 GMT"),
    ]

    async def damaged(seen: Seen, writer: asyncio.StreamWriter) -> None:
        response = bytearray(rng.choice(valid))
        for _ in range(rng.randint(0, 4)):
            at = rng.randrange(len(response))
            response[at : at + rng.randint(0, 2)] = rng.choice([b"", b"\r\n", rng.randbytes(2)])
        writer.write(response)
        await writer.drain()
        writer.close()

    site = await serve(damaged)
    fetcher = await new_fetcher(total_timeout_seconds=2.0)
    outcomes = [await fetcher.fetch(Request(site.url(), Validators('"a"'))) for _ in range(400)]
    assert len({outcome.kind for outcome in outcomes}) > 4
    for outcome in outcomes:
        (outcome.detail + (outcome.content_type or "") + (outcome.validators.etag or "")).encode()


async def test_closed_fetcher_is_our_fault(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(says(message("200 OK")))
    fetcher = await new_fetcher()
    await fetcher.__aexit__(None, None, None)
    with pytest.raises(RuntimeError):
        await fetcher.fetch(Request(site.url()))


async def drips_429(_: Seen, writer: asyncio.StreamWriter) -> None:
    """Sends the head at once, and a byte of the body now and then, for ever."""
    writer.write(message("429 Slow Down", "Retry-After: 77", "Content-Length: 1000", length=False))
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def test_a_refusal_is_one_by_its_head_even_if_its_body_outlasts_the_deadline(
    serve: Serve, new_fetcher: NewFetcher
) -> None:
    site = await serve(drips_429)
    fetcher = await new_fetcher(total_timeout_seconds=0.5)
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.status, outcome.retry_after) == (OutcomeKind.THROTTLED, 429, 77.0)
    robots = await fetcher.fetch_robots(site.url("/robots.txt"))
    assert (robots.failure, robots.status, robots.retry_after) == (OutcomeKind.THROTTLED, 429, 77.0)


async def test_compressed_data_that_end_too_early_are_taken_the_second_time(serve: Serve, fetcher: Fetcher) -> None:
    """All that was announced came: the server always sends it so, or it failed once."""
    cut, whole = (message("200 OK", "Content-Encoding: gzip", body=body) for body in (PACKED[:-8], PACKED))
    answers = iter([cut, whole, cut, cut, cut])

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers))
        await writer.drain()

    site = await serve(answer)
    outcomes = [await fetcher.fetch(Request(site.url())) for _ in range(5)]
    failed, body = OutcomeKind.PROTOCOL_ERROR, OutcomeKind.BODY
    assert [outcome.kind for outcome in outcomes] == [failed, body, failed, body, body]
    assert [outcome.body for outcome in outcomes if outcome.body is not None] == [b"hello"] * 3
    assert [outcome.detail for outcome in outcomes[1:4]] == [
        "",
        "gzip body is cut short",
        "gzip body is cut short: what can be read of it was taken",
    ]


@pytest.mark.parametrize("compressed", [PACKED, gzip.compress(PACKED)])
async def test_text_that_is_gzip_without_a_word_is_unpacked(serve: Serve, fetcher: Fetcher, compressed: bytes) -> None:
    encoding = () if compressed == PACKED else ("Content-Encoding: gzip",)
    site = await serve(says(message("200 OK", "Content-Type: text/html", *encoding, body=compressed)))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.body, outcome.bytes, outcome.unpacked) == (b"hello", 5, True)
    assert (await fetcher.fetch_robots(site.url("/robots.txt"))).body == b"hello"


async def test_limits_hold_for_gzip_without_a_word(serve: Serve, new_fetcher: NewFetcher) -> None:
    bomb, odd = gzip.compress(bytes(5_000_000)), b"\x1f\x8b\x08 is how it begins"
    bodies = {"/": bomb, "/odd": odd}
    site = await serve(
        by_path({path: message("200 OK", "Content-Type: text/html", body=body) for path, body in bodies.items()})
    )
    fetcher = await new_fetcher(max_body_bytes=100_000)
    assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.TOO_LARGE
    assert (await fetcher.fetch(Request(site.url("/odd")))).body == odd
