"""Sitemaps and feeds as lists of pages with dates."""

from __future__ import annotations

import gzip

import pytest

from pollerd.lists.sitemaps import (
    MAX_ENTRIES,
    MAX_NAMED,
    Listed,
    Sitemap,
    moment,
    read_feed,
    read_sitemap,
    robots_sitemaps,
)

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
URLSET = f"""<?xml version="1.0" encoding="ISO-8859-1"?><urlset {NAMESPACE}>
<url><loc> https://example.org/ä </loc><lastmod>2026-11-22T01:02:03+01:00</lastmod></url>
<url><loc>https://example.org/b</loc><priority>0.5</priority></url><url><lastmod>2026</lastmod></url></urlset>"""


def test_pages_and_their_dates_are_read() -> None:
    expected = Sitemap((Listed("https://example.org/ä", 1795305723.0), Listed("https://example.org/b")))
    assert read_sitemap(URLSET.encode()) == expected
    assert read_sitemap(gzip.compress(URLSET.encode())) == expected


def test_an_index_leads_to_other_sitemaps() -> None:
    index = f"<sitemapindex {NAMESPACE}><sitemap><loc>https://example.org/1.xml</loc></sitemap></sitemapindex>"
    assert read_sitemap(index.encode()) == Sitemap((), (Listed("https://example.org/1.xml"),))


def test_lines_of_urls_are_a_sitemap_and_prose_is_not() -> None:
    assert read_sitemap(b"\xef\xbb\xbfhttps://a.example/\n\nhttp://b.example/x\n") == Sitemap(
        (Listed("https://a.example/"), Listed("http://b.example/x"))
    )
    assert read_sitemap(b"hello\nhttps://a.example/") is None
    assert read_sitemap(b"") is None
    assert read_sitemap(b"<html><body>404</body></html>") is None


def test_one_date_for_all_is_that_of_the_sitemap() -> None:
    entries = "".join(f"<url><loc>https://a.example/{i}</loc><lastmod>2026-11-22</lastmod></url>" for i in range(3))
    found = read_sitemap(f"<urlset>{entries}</urlset>".encode())
    assert found is not None
    assert {page.modified for page in found.pages} == {None}


def test_what_breaks_off_still_lists_what_comes_before() -> None:
    found = read_sitemap(b"<urlset><url><loc>https://a.example/</loc></url><url><loc>https://b")
    assert found == Sitemap((Listed("https://a.example/"),), complete=False)


def test_hostile_documents_are_refused_or_cut_short() -> None:
    bomb = b'<!DOCTYPE u [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'
    assert read_sitemap(bomb) is None
    assert read_sitemap(b'<!doctype x SYSTEM "file:///etc/passwd"><urlset><url><loc>x</loc></url></urlset>') is None
    assert read_sitemap(b"<url>" * 100_000) is None
    assert read_sitemap(b"\x1f\x8bnot gzip") is None
    many = "<urlset>" + "<url><loc>https://a.example/</loc></url>" * (MAX_ENTRIES + 10) + "</urlset>"
    found = read_sitemap(many.encode())
    assert found is not None
    assert len(found.pages) == MAX_ENTRIES


def test_a_gzip_bomb_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.lists.sitemaps.MAX_BYTES", 1_000_000)
    # The URL behind the spaces lies beyond the limit.
    assert read_sitemap(gzip.compress(b" " * 1_000_000 + b"https://a.example/")) is None
    assert read_sitemap(gzip.compress(b" " * 999_000 + b"https://a.example/")) is not None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86_400.0),
        ("1970", 0.0),
        ("1970-02", 2_678_400.0),
        ("1970-01-01T00:00:05Z", 5.0),
        ("1970-01-01T00:00:05.5-01:00", 3_605.5),
        ("1970-01-01T00:00:05", 5.0),
        ("yesterday", None),
        ("", None),
        ("1970-13", None),
    ],
)
def test_w3c_dates(text: str, seconds: float | None) -> None:
    assert moment(text) == seconds


def test_robots_txt_names_sitemaps() -> None:
    robots = b"""User-agent: *
Disallow: /x # Sitemap: https://a.example/no.xml
  SITEMAP :https://a.example/1.xml\r
User-agent: other
Sitemap: /2.xml # relative
Sitemap: https://b.example/\xe9.xml
Sitemap: https://a.example/1.xml
Sitemap: mailto:me
Sitemap:
"""
    assert robots_sitemaps(robots, "https://a.example/robots.txt") == (
        "https://a.example/1.xml",
        "https://a.example/2.xml",
        "https://b.example/%E9.xml",
    )
    many = b"".join(b"Sitemap: /%d.xml\n" % number for number in range(MAX_NAMED + 10))
    assert len(robots_sitemaps(many, "https://a.example/robots.txt")) == MAX_NAMED


def test_feeds_lead_to_their_entries() -> None:
    rss = b"""<rss version="2.0"><channel><item><link>https://a.example/1</link><title>One</title>
    <pubDate>Thu, 01 Jan 1970 00:01:00 GMT</pubDate></item><item><title>No link</title></item></channel></rss>"""
    assert read_feed(rss) == (Listed("https://a.example/1", 60.0),)
    json = b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "url": "https://a.example/2"}]}'
    assert read_feed(json) == (Listed("https://a.example/2"),)
    assert read_feed(b"<html><body>no feed</body></html>") is None
