import asyncio
import gzip

import pytest

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.outcomes import RobotsKind
from pollerd.fetching.settings import FetchSettings
from tests.fetching.conftest import NewFetcher, Serve
from tests.fetching.sites import Seen, by_path, message, says, says_and_closes

RULES = b"User-agent: *\nDisallow: /private\n"


def moved(location: str) -> bytes:
    return message("301 Moved", f"Location: {location}")


async def test_found(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("200 OK", "Content-Encoding: gzip", body=gzip.compress(RULES, mtime=0))))
    robots = await fetcher.fetch_robots(site.url("/robots.txt"))
    assert (robots.kind, robots.body, robots.status) == (RobotsKind.FOUND, RULES, 200)
    assert site.seen[0].path == "/robots.txt"
    assert site.seen[0].headers["user-agent"].startswith("pollerd/")


async def test_empty_is_found(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("204 No Content", length=False)))
    robots = await fetcher.fetch_robots(site.url())
    assert (robots.kind, robots.body) == (RobotsKind.FOUND, b"")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
async def test_4xx_means_no_rules(serve: Serve, fetcher: Fetcher, status: int) -> None:
    site = await serve(says(message(f"{status} No")))
    robots = await fetcher.fetch_robots(site.url())
    assert (robots.kind, robots.body, robots.status) == (RobotsKind.ABSENT, None, status)


@pytest.mark.parametrize("status", [304, 429, 500, 503, 999])
async def test_the_rest_means_unreachable(serve: Serve, fetcher: Fetcher, status: int) -> None:
    site = await serve(says(message(f"{status} No", "Retry-After: 30", length=status != 304)))
    robots = await fetcher.fetch_robots(site.url())
    assert (robots.kind, robots.body, robots.retry_after) == (RobotsKind.UNREACHABLE, None, 30.0)
    assert robots.detail == f"HTTP status {status}"


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"rubbish\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nUser-agent: *",
        message("200 OK", "Content-Encoding: gzip", body=b"junk"),
        message("302 Found"),
        moved("file:///etc/passwd"),
        moved("http://nowhere.invalid/robots.txt"),
        moved("http://169.254.169.254/robots.txt"),
    ],
)
async def test_broken_means_unreachable(serve: Serve, fetcher: Fetcher, response: bytes) -> None:
    site = await serve(says_and_closes(response))
    robots = await fetcher.fetch_robots(site.url())
    assert robots.kind is RobotsKind.UNREACHABLE
    assert robots.detail


async def test_time_out_means_unreachable(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    site = await serve(silent)
    fetcher = await new_fetcher(total_timeout_seconds=0.3)
    assert (await fetcher.fetch_robots(site.url())).kind is RobotsKind.UNREACHABLE


async def test_blocked_means_unreachable(serve: Serve) -> None:
    site = await serve(says(message("200 OK", body=RULES)))
    async with Fetcher(FetchSettings()) as fetcher:
        robots = await fetcher.fetch_robots(site.url())
    assert robots.kind is RobotsKind.UNREACHABLE
    assert "loopback" in robots.detail


@pytest.mark.parametrize(("hops", "kind"), [(1, RobotsKind.FOUND), (5, RobotsKind.FOUND), (6, RobotsKind.ABSENT)])
async def test_up_to_five_redirects(serve: Serve, fetcher: Fetcher, hops: int, kind: RobotsKind) -> None:
    async def hop(seen: Seen, writer: asyncio.StreamWriter) -> None:
        left = int(seen.path[1:])
        writer.write(moved(f"/{left - 1}") if left else message("200 OK", body=RULES))

    site = await serve(hop)
    assert (await fetcher.fetch_robots(site.url(f"/{hops}"))).kind is kind


async def test_a_loop_means_no_rules(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(by_path({"/a": moved("/b"), "/b": moved("/a")}))
    assert (await fetcher.fetch_robots(site.url("/a"))).kind is RobotsKind.ABSENT


async def test_redirect_to_another_host(serve: Serve, fetcher: Fetcher) -> None:
    target = await serve(says(message("200 OK", body=RULES)))
    site = await serve(says(moved(target.url("/robots.txt"))))
    assert (await fetcher.fetch_robots(site.url("/robots.txt"))).body == RULES


@pytest.mark.parametrize("packed", [False, True])
async def test_what_is_too_long_is_cut(serve: Serve, new_fetcher: NewFetcher, packed: bool) -> None:
    long = RULES + b"# padding\n" * 200_000
    headers = ("Content-Encoding: gzip",) if packed else ()
    site = await serve(says(message("200 OK", *headers, body=gzip.compress(long, mtime=0) if packed else long)))
    fetcher = await new_fetcher(robots_max_bytes=1000)
    robots = await fetcher.fetch_robots(site.url())
    assert (robots.kind, robots.body) == (RobotsKind.FOUND, long[:1000])


async def test_endless_is_cut(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + RULES)
        while True:
            writer.write(b"# padding\n" * 1000)
            await writer.drain()

    site = await serve(endless)
    fetcher = await new_fetcher(robots_max_bytes=len(RULES))
    assert (await fetcher.fetch_robots(site.url())).body == RULES
