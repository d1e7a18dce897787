"""Proxies: the daemon's and a site's own, in the open and through tunnels, and what the guard still holds."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from pollerd.errors import InvalidValueError
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings, normalise_proxy, without_userinfo
from pollerd.model import OutcomeKind, Validators
from tests.fetching.conftest import Certificate, NewFetcher, Serve
from tests.fetching.sites import by_path, message, says
from tests.support.proxy import proxied

BODY = message("200 OK", "Content-Type: text/plain", body=b"hello")
BASIC = "Basic bWU6cDp3QDE="  # me:p:w@1


async def test_an_http_page_goes_through_the_daemons_proxy(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(says(BODY))
    async with proxied(authorization=BASIC) as proxy:
        fetcher = await new_fetcher(proxy=proxy.url("me:p%3Aw%401"))
        request = Request(site.url("/a"), Validators('"e"'), (("X-Key", "k"), ("Authorization", "Bearer t")))
        outcome = await fetcher.fetch(request)
        robots = await fetcher.fetch_robots(site.url("/robots.txt"))
    assert (outcome.kind, outcome.body, robots.body) == (OutcomeKind.BODY, b"hello", b"hello")
    assert [a.target for a in proxy.asked] == [site.url("/a"), site.url("/robots.txt")]
    page, rules = site.seen
    assert (page.headers["x-key"], page.headers["authorization"]) == ("k", "Bearer t")
    assert page.headers["if-none-match"] == '"e"'
    assert not {"x-key", "authorization", "proxy-authorization"} & rules.headers.keys()
    assert "proxy-authorization" not in page.headers


@pytest.mark.parametrize("proxy_tls", [False, True])
async def test_an_https_page_goes_through_a_tunnel(
    serve: Serve, new_fetcher: NewFetcher, certificate: Certificate, proxy_tls: bool
) -> None:
    site = await serve(says(BODY), certificate.server)
    async with proxied(certificate.server if proxy_tls else None, authorization=BASIC) as proxy:
        fetcher = await new_fetcher(ca_file=str(certificate.pem))
        request = Request(site.url("/a"), headers=(("X-Key", "k"),), proxy=proxy.url("me:p%3Aw%401"))
        first, second = await fetcher.fetch(request), await fetcher.fetch(request)
    assert (first.body, second.body) == (b"hello", b"hello")
    [asked] = proxy.asked  # the tunnel is kept for the second
    assert (asked.method, asked.target) == ("CONNECT", f"127.0.0.1:{site.port}")
    assert "x-key" not in asked.headers
    assert asked.headers["user-agent"] == site.seen[0].headers["user-agent"], "a proxy is told who asks, too"
    assert "proxy-authorization" not in site.seen[0].headers
    assert site.seen[0].headers["x-key"] == "k"


async def test_a_tunnel_without_a_password_is_kept_too(
    serve: Serve, new_fetcher: NewFetcher, certificate: Certificate
) -> None:
    site = await serve(says(BODY), certificate.server)
    async with proxied() as proxy:
        fetcher = await new_fetcher(ca_file=str(certificate.pem), contact="mailto:me@example.org")
        for _ in range(2):
            assert (await fetcher.fetch(Request(site.url(), proxy=proxy.url()))).body == b"hello"
    [asked] = proxy.asked
    assert "mailto:me@example.org" in asked.headers["user-agent"]
    assert "proxy-authorization" not in asked.headers


async def test_a_sites_own_proxy_wins_over_the_daemons(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(says(BODY))
    async with proxied() as own, proxied() as usual:
        fetcher = await new_fetcher(proxy=usual.url())
        await fetcher.fetch(Request(site.url(), proxy=own.url()))
        await fetcher.fetch_robots(site.url("/robots.txt"), own.url())
    assert (len(own.asked), len(usual.asked)) == (2, 0)


async def test_a_redirect_elsewhere_goes_through_the_same_proxy_without_headers(
    serve: Serve, new_fetcher: NewFetcher
) -> None:
    there = await serve(says(BODY))
    here = await serve(by_path({"/": message("302 Found", f"Location: {there.url('/b')}")}))
    async with proxied() as proxy:
        fetcher = await new_fetcher()
        outcome = await fetcher.fetch(Request(here.url(), headers=(("Authorization", "Bearer t"),), proxy=proxy.url()))
    assert outcome.kind is OutcomeKind.BODY
    assert [a.target for a in proxy.asked] == [here.url(), there.url("/b")]
    assert "authorization" in here.seen[0].headers
    assert "authorization" not in there.seen[0].headers


async def test_what_only_the_proxy_can_resolve_is_left_to_it(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(says(BODY))
    async with proxied() as proxy:
        proxy.names["inside.invalid:80"] = ("127.0.0.1", site.port)
        fetcher = await new_fetcher(allow_private=False, proxy=proxy.url())
        outcome = await fetcher.fetch(Request("http://inside.invalid/a"))
    assert (outcome.kind, outcome.body) == (OutcomeKind.BODY, b"hello")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::ffff:10.0.0.1]", "localhost"])
async def test_a_private_target_is_not_handed_to_the_proxy(new_fetcher: NewFetcher, host: str) -> None:
    async with proxied() as proxy:
        fetcher = await new_fetcher(allow_private=False, proxy=proxy.url())
        outcomes = [await fetcher.fetch(Request(f"{scheme}://{host}/")) for scheme in ("http", "https")]
        robots = await fetcher.fetch_robots(f"http://{host}/robots.txt")
    assert {o.kind for o in outcomes} == {OutcomeKind.BLOCKED_ADDRESS} == {robots.failure}
    assert proxy.asked == []


async def test_a_redirect_to_a_private_target_is_not_handed_to_the_proxy(serve: Serve, new_fetcher: NewFetcher) -> None:
    site = await serve(says(message("302 Found", "Location: http://10.1.2.3/")))
    async with proxied() as proxy:
        proxy.names["inside.invalid:80"] = ("127.0.0.1", site.port)
        fetcher = await new_fetcher(allow_private=False, proxy=proxy.url())
        outcome = await fetcher.fetch(Request("http://inside.invalid/"))
    assert (outcome.kind, len(proxy.asked)) == (OutcomeKind.BLOCKED_ADDRESS, 1)


async def test_one_denied_address_of_a_name_is_enough(new_fetcher: NewFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    def both(host: Any, *rest: Any, **more: Any) -> list[Any]:
        found = ("93.184.216.34", "10.0.0.1") if host == "both.invalid" else (host,)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    async with proxied() as proxy:
        fetcher = await new_fetcher(allow_private=False, proxy=proxy.url())
        outcome = await fetcher.fetch(Request("http://both.invalid/"))
    assert (outcome.kind, outcome.detail) == (
        OutcomeKind.BLOCKED_ADDRESS,
        "private address 10.0.0.1, not polled without --allow-private",
    )
    assert proxy.asked == []


async def test_a_sites_own_proxy_is_judged_like_any_address(new_fetcher: NewFetcher) -> None:
    async with proxied() as usual, proxied() as own:
        fetcher = await new_fetcher(allow_private=False, proxy=usual.url())
        outcome = await fetcher.fetch(Request("http://inside.invalid/", proxy=own.url()))
    assert (outcome.kind, own.asked) == (OutcomeKind.BLOCKED_ADDRESS, [])


@pytest.mark.parametrize("tls", [False, True])
async def test_a_proxy_that_refuses_is_no_fault_of_the_site(
    serve: Serve, new_fetcher: NewFetcher, certificate: Certificate, tls: bool
) -> None:
    site = await serve(says(BODY), certificate.server if tls else None)
    async with proxied(authorization=BASIC) as proxy:
        fetcher = await new_fetcher(proxy=proxy.url("me:secret"), ca_file=str(certificate.pem))
        outcome = await fetcher.fetch(Request(site.url()))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.CONNECT_ERROR, "the proxy refuses: HTTP status 407")
    assert (site.seen, outcome.status) == ([], None)


async def test_a_proxy_that_is_not_there(new_fetcher: NewFetcher) -> None:
    async with proxied() as proxy:
        url = proxy.url("me:secret")
    fetcher = await new_fetcher(proxy=url)
    outcome = await fetcher.fetch(Request("http://127.0.0.1:1/"))
    assert outcome.kind is OutcomeKind.CONNECT_ERROR
    assert "secret" not in repr(outcome)


@pytest.mark.parametrize(
    ("text", "normal", "shown"),
    [
        ("HTTP://Proxy.Example:3128/", "http://proxy.example:3128", "http://proxy.example:3128"),
        ("https://a:b%40@proxy.example:443", "https://a:b%40@proxy.example", "https://proxy.example"),
        (" http://u@[::1]:8080 ", "http://u@[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_one_spelling(text: str, normal: str, shown: str) -> None:
    assert normalise_proxy(text) == normal == normalise_proxy(normal)
    assert without_userinfo(normal) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "proxy:3128",
        "socks5://proxy:1080",
        "http://",
        "http://p/path",
        "http://p?q",
        "http://a b@p",
        "http://@p",
        "http://u:secret@p:99999",
        "http://u:secret@p@q",
        "http://u:se\ncret@p",
        "http://u:secret@p/x",
    ],
)
def test_what_is_no_proxy_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="proxy: must be") as caught:
        FetchSettings(proxy=text)
    assert "secret" not in str(caught.value)


def test_no_repr_tells_a_secret() -> None:
    url = "http://u:secret@p:1"
    told = repr(FetchSettings(proxy=url)) + repr(Request("http://x/", headers=(("A", "secret"),), proxy=url))
    assert "secret" not in told
