"""What a sitemap or a feed lists, and what follows for the pages that are known."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.errors import InvalidValueError
from pollerd.lists import sitemaps
from pollerd.lists.readings import (
    MAX_SECONDS,
    MIN_SECONDS,
    check_pattern,
    difference,
    doubt,
    next_interval,
    url_matcher,
)
from pollerd.lists.sitemaps import read_listing, same_host

BASE = "https://a.example/sitemap.xml"
URLS = st.sampled_from([f"https://a.example/{n}" for n in range(8)])


def urlset(*urls: str) -> bytes:
    return ("<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>").encode()


@given(st.dictionaries(URLS, st.booleans()), st.lists(URLS))
def test_a_difference_leads_from_what_is_known_to_what_is_listed(known: dict[str, bool], listed: list[str]) -> None:
    found = difference(known, listed)
    after = {url for url, before in known.items() if before} | set(found.joined) | set(found.returned)
    assert after - set(found.vanished) == set(listed)
    assert not set(found.joined) & known.keys()
    assert all(known[url] is False for url in found.returned)
    for part in (found.joined, found.vanished, found.returned):
        assert len(part) == len(set(part))
    again = difference({**dict.fromkeys(known, False), **dict.fromkeys(listed, True)}, listed)
    assert not again, "what was applied once makes no difference"


@pytest.mark.parametrize(
    ("entries", "before", "share", "believed"),
    [
        (0, None, 1.0, False),
        (0, 10, 1.0, False),
        (1, None, 0.5, True),
        (5, 10, 0.5, True),
        (4, 10, 0.5, False),
        (4, 10, 1.0, True),
        (9, 10, 0.0, False),
        (30, 10, 0.0, True),
    ],
)
def test_a_list_that_shrank_is_believed_up_to_a_share(
    entries: int, before: int | None, share: float, believed: bool
) -> None:
    assert (doubt(entries, before, share) is None) is believed


@given(st.sampled_from(["sitemap", "feed"]), st.lists(st.booleans(), max_size=40))
def test_the_interval_stays_in_its_range(kind: str, readings: list[bool]) -> None:
    pace = next_interval(kind, None, news=True)
    for news in readings:
        before, pace = pace, next_interval(kind, pace, news=news)
        assert MIN_SECONDS[kind] <= pace <= MAX_SECONDS[kind]
        assert pace <= before if news else pace >= before


def test_a_sitemap_lists_normalised_distinct_pages_that_fit() -> None:
    body = urlset(
        "https://A.example:443/x#top", "https://a.example/x", "/y", "ftp://a.example/z", "https://a.example/n"
    )
    found = read_listing("sitemap", gzip.compress(body), None, BASE, "re:/[xy]$")
    assert found is not None
    assert found.pages == ("https://a.example/x", "https://a.example/y")
    assert (found.entries, found.unusable, found.complete) == (3, 1, True)


def test_what_is_cut_off_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = urlset(*(f"https://a.example/{n}" for n in range(100)))
    packed = gzip.compress(whole)
    for body in (whole[:-30], packed[:-12], packed + gzip.compress(whole)):
        found = read_listing("sitemap", body, None, BASE, None)
        assert found is not None
        assert not found.complete
    monkeypatch.setattr(sitemaps, "MAX_ENTRIES", 99)
    found = read_listing("sitemap", whole, None, BASE, None)
    assert found is not None
    assert (len(found.pages), found.complete) == (99, False)
    monkeypatch.setattr(sitemaps, "MAX_ENTRIES", 100)
    found = read_listing("sitemap", whole, None, BASE, None)
    assert found is not None
    assert (len(found.pages), found.complete) == (100, True)


def test_a_gzip_bomb_costs_the_limit_and_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "MAX_BYTES", 100_000)
    bomb = gzip.compress(urlset("https://a.example/x") + b" " * 20_000_000)
    found = read_listing("sitemap", bomb, None, BASE, None)
    assert found is not None
    assert (found.pages, found.complete) == (("https://a.example/x",), False)


@pytest.mark.parametrize("body", [b"", b"<html></html>", b"<urlset/>", b"\x1f\x8bno", b"<!DOCTYPE x []><urlset/>"])
def test_what_lists_nothing_is_none(body: bytes) -> None:
    assert read_listing("sitemap", body, None, BASE, None) is None


def test_a_feed_lists_its_links_and_says_whether_it_ended() -> None:
    items = "".join(f"<item><title>{n}</title><link>/{n}</link></item>" for n in range(3))
    whole = f'<rss version="2.0"><channel>{items}</channel></rss>\n<!-- made -->'.encode()
    found = read_listing("feed", whole, "application/rss+xml", "https://a.example/feed", None)
    assert found is not None
    assert found.pages == tuple(f"https://a.example/{n}" for n in range(3))
    assert found.complete
    cut = read_listing("feed", whole[:-60], "application/rss+xml", "https://a.example/feed", None)
    assert cut is not None
    assert not cut.complete
    assert read_listing("feed", urlset("https://a.example/"), None, BASE, None) is None


@pytest.mark.parametrize("pattern", ["", "re:", "re:(a", "re:a(?=b)", "re:(a{1000}){1000}", "x" * 1_001, "a\0b"])
def test_patterns_that_cannot_be_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidValueError, match="pattern"):
        check_pattern(pattern)


def test_a_pattern_is_a_part_of_the_url_or_an_expression_of_linear_time() -> None:
    assert url_matcher(check_pattern("/news/"))("https://a.example/news/1")
    assert not url_matcher("/news.*")("https://a.example/news/1")
    assert url_matcher("re:^https://a\\.example/(news|blog)/")("https://a.example/blog/1")
    assert not url_matcher("re:(a+)+$")("https://a.example/" + "a" * 100_000 + "!")
    assert url_matcher(None)("anything")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a.example/x", "https://a.example/y", True),
        ("https://a.example/x", "https://www.a.example/x", False),
        ("http://a.example:8080/", "http://a.example/", False),
        ("http://[::1]/x", "https://[::1]/", True),
    ],
)
def test_hosts_are_the_same_with_and_without_tls(one: str, other: str, same: bool) -> None:
    assert same_host(one, other) is same
