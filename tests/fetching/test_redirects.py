"""Redirects: followed by hand, hop by hop."""

import asyncio

import pytest

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.outcomes import FetchCookies
from pollerd.fetching.request import Request
from pollerd.model import OutcomeKind, Redirect, Validators
from tests.fetching.conftest import NewFetcher, Serve
from tests.fetching.sites import Seen, by_path, message, says


def moved(location: str, status: str = "302 Found") -> bytes:
    return message(status, f"Location: {location}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_followed_and_recorded(serve: Serve, fetcher: Fetcher, status: int) -> None:
    site = await serve(
        by_path({"/a/b": moved("c?x=1#part", f"{status} Moved"), "/a/c?x=1": message("200 OK", body=b"here")})
    )
    outcome = await fetcher.fetch(Request(site.url("/a/b")))
    assert (outcome.kind, outcome.body) == (OutcomeKind.BODY, b"here")
    assert outcome.redirects == (Redirect(status, site.url("/a/c?x=1")),)


async def test_304_of_the_last_hop(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(by_path({"/": moved("/new"), "/new": message("304 Not Modified", length=False)}))
    outcome = await fetcher.fetch(Request(site.url(), Validators('"a"')))
    assert outcome.kind is OutcomeKind.NOT_MODIFIED
    assert [seen.headers["if-none-match"] for seen in site.seen] == ['"a"', '"a"']


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "data:text/html,hi",
        "ftp://127.0.0.1/",
        "javascript:alert(1)",
        "http://user:secret@127.0.0.1/",
        "http://[",
        "http://127.0.0.1:99999/",
        "/a\\b",
        "/" + "a" * 3000,
    ],
)
async def test_bad_targets(serve: Serve, fetcher: Fetcher, location: str) -> None:
    site = await serve(says(moved(location)))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.status) == (OutcomeKind.PROTOCOL_ERROR, 302)
    assert outcome.detail.startswith("redirect 302 refused")
    assert "secret" not in outcome.detail
    assert len(site.seen) == 1


async def test_without_location(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("302 Found")))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.PROTOCOL_ERROR, "redirect 302 without a Location")


async def test_sloppy_location_is_encoded(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(by_path({"/": moved("/a b\xe9"), "/a%20b%E9": message("200 OK", body=b"here")}))
    assert (await fetcher.fetch(Request(site.url()))).body == b"here"


async def test_loop(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(by_path({"/": moved("/b"), "/b": moved("/")}))
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR
    assert outcome.detail.startswith("redirect loop")
    assert len(site.seen) == 2


async def _onward(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(moved(f"/{int(seen.path[1:]) + 1}"))


async def test_too_many(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(_onward)
    fetcher = await new_fetcher(max_redirects=3)
    outcome = await fetcher.fetch(Request(site.url("/0")))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.PROTOCOL_ERROR, "more than 3 redirects")
    assert len(site.seen) == 4


async def test_one_deadline_for_all_hops(serve: Serve, new_fetcher: NewFetcher) -> None:
    async def slowly(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        await _onward(seen, writer)

    site = await serve(slowly)
    fetcher = await new_fetcher(total_timeout_seconds=0.5)
    outcome = await fetcher.fetch(Request(site.url("/0")))
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert len(outcome.redirects) <= 4


async def test_every_hop_is_asked_for(serve: Serve, fetcher: Fetcher) -> None:
    target = await serve(says(message("200 OK", body=b"there")))
    site = await serve(by_path({"/": moved("/same"), "/same": moved(target.url("/x"))}))
    asked = []

    async def may_follow(url: str) -> bool:
        asked.append(url)
        return True

    assert (await fetcher.fetch(Request(site.url()), may_follow)).body == b"there"
    assert asked == [site.url("/same"), target.url("/x")]


async def test_another_origin_refused(serve: Serve, fetcher: Fetcher) -> None:
    target = await serve(says(message("200 OK")))
    site = await serve(says(moved(target.url("/x"))))

    async def may_follow(url: str) -> bool:
        return False

    outcome = await fetcher.fetch(Request(site.url()), may_follow)
    assert outcome.kind is OutcomeKind.DENIED
    assert target.url("/x") in outcome.detail
    assert target.seen == []


async def test_permission_counts_against_the_deadline(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(says(moved("http://127.0.0.1:1/")))
    fetcher = await new_fetcher(total_timeout_seconds=0.3)

    async def may_follow(url: str) -> bool:
        await asyncio.Event().wait()
        return True

    assert (await fetcher.fetch(Request(site.url()), may_follow)).kind is OutcomeKind.TIMEOUT


@pytest.mark.parametrize("error", [OSError("ours"), TimeoutError("ours"), RuntimeError("ours")])
async def test_errors_of_permission_are_not_the_sites(serve: Serve, fetcher: Fetcher, error: Exception) -> None:
    site = await serve(says(moved("http://127.0.0.1:1/")))

    async def may_follow(url: str) -> bool:
        raise error

    with pytest.raises(type(error), match="ours"):
        await fetcher.fetch(Request(site.url()), may_follow)


async def test_own_headers_stay_at_home(serve: Serve, fetcher: Fetcher) -> None:
    target = await serve(says(message("200 OK")))
    site = await serve(by_path({"/": moved("/same"), "/same": moved(target.url())}))
    await fetcher.fetch(Request(site.url(), Validators('"a"'), (("Authorization", "Bearer x"),)))
    assert [seen.headers.get("authorization") for seen in site.seen] == ["Bearer x", "Bearer x"]
    assert "authorization" not in target.seen[0].headers
    assert target.seen[0].headers["if-none-match"] == '"a"'


async def test_failure_after_a_redirect_keeps_the_trail(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(moved("http://nowhere.invalid/")))
    outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.status) == (OutcomeKind.DNS_ERROR, None)
    assert outcome.redirects == (Redirect(302, "http://nowhere.invalid/"),)


def cookies(seen: Seen) -> set[str]:
    return {one.strip() for one in seen.headers.get("cookie", "").split(";") if one.strip()}


async def test_cookies_are_sent_back_within_the_poll_and_then_forgotten(serve: Serve, fetcher: Fetcher) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        page = message("200 OK", "Set-Cookie: late=1", body=b"here")
        writer.write(page if "seen=1" in cookies(seen) else message("302 Found", "Location: /", "Set-Cookie: seen=1"))
        await writer.drain()

    site = await serve(answer)
    for _ in range(2):
        assert (await fetcher.fetch(Request(site.url()))).body == b"here"
    assert [cookies(seen) for seen in site.seen] == [set(), {"seen=1"}] * 2


async def test_a_cookie_that_is_never_taken_is_a_loop(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("302 Found", "Location: /", "Set-Cookie: seen=1")))
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.detail.startswith("redirect loop")
    assert len(site.seen) == 2


async def test_cookies_go_where_a_browser_sends_them(serve: Serve, fetcher: Fetcher) -> None:
    """By host, path, Secure and expiry; the site's own cookies stay with its origin, and give way to new ones."""
    other = await serve(by_path({"/": message("200 OK", body=b"here")}))
    set_cookies = [
        "Set-Cookie: here=1",
        "Set-Cookie: path=1; Path=/elsewhere",
        "Set-Cookie: safe=1; Secure",
        "Set-Cookie: gone=1; Max-Age=0",
        "Set-Cookie: foreign=1; Domain=example.org",
        "Set-Cookie: public=1; Domain=0.0.1",
        "Set-Cookie: mine=new",
    ]
    first = message("302 Found", "Location: /second", *set_cookies)
    second = message("302 Found", f"Location: http://localhost:{other.port}/")
    site = await serve(by_path({"/": first, "/second": second}))
    own = (("Cookie", "mine=old; kept=1"),)
    assert (await fetcher.fetch(Request(site.url(), headers=own))).body == b"here"
    assert [cookies(seen) for seen in site.seen] == [{"mine=old", "kept=1"}, {"here=1", "mine=new", "kept=1"}]
    assert [cookies(seen) for seen in other.seen] == [set()]


async def test_a_cookie_for_all_of_a_public_suffix_is_not_taken() -> None:
    cookies = FetchCookies()
    await cookies.take("http://x.a.co.uk/", ["wide=1; Domain=co.uk", "own=1; Domain=.a.co.uk", "host=1"])
    assert cookies.added_to({}, "http://x.a.co.uk/") == {"Cookie": "own=1; host=1"}
    assert cookies.added_to({}, "http://y.a.co.uk/") == {"Cookie": "own=1"}
    assert cookies.added_to({}, "http://b.co.uk/") == {}


async def test_a_redirect_to_another_spelling_is_followed_as_it_is_spelled(serve: Serve, fetcher: Fetcher) -> None:
    pages = {"/%7Ea?b=%2F": moved("/~a?b=%2f"), "/~a?b=%2f": message("200 OK", body=b"here")}
    site = await serve(by_path(pages))
    outcome = await fetcher.fetch(Request(site.url("/%7Ea?b=%2F")))
    assert (outcome.kind, outcome.body) == (OutcomeKind.BODY, b"here")
    assert outcome.redirects == (Redirect(302, site.url("/~a?b=/")),)
