"""What documents say of when pages changed."""

from __future__ import annotations

import gzip
import json

import pytest
from msgspec.structs import replace

from pollerd.lists.sitemaps import ListedChanges, read_changes

BASE = "https://a.invalid/map.xml"
A, B = "https://a.invalid/x", "https://a.invalid/y"
DAY = 1_577_836_800.0
"""2020-01-01."""


def read(kind: str, body: bytes, hosts: str = "same") -> ListedChanges | None:
    return read_changes(kind, body, None, BASE, hosts)


def whole(pages: dict[str, float | None], foreign: int = 0, unusable: int = 0) -> ListedChanges:
    """What a document says that names all its pages."""
    return ListedChanges(pages, foreign, unusable, complete=True)


def urlset(*entries: tuple[str, str]) -> bytes:
    rows = "".join(f"<url><loc>{url}</loc><lastmod>{day}</lastmod></url>" for url, day in entries)
    return f"<urlset>{rows}</urlset>".encode()


def test_a_sitemap_keeps_a_date_that_all_share() -> None:
    assert read("sitemap", urlset((A, "2020-01-01"), (B, "2020-01-01"))) == whole({A: DAY, B: DAY})


def test_an_index_speaks_of_its_sitemaps() -> None:
    index = b"<sitemapindex><sitemap><loc>/s1</loc><lastmod>2020-01-01</lastmod></sitemap></sitemapindex>"
    expected = replace(whole({"https://a.invalid/s1": DAY}), sitemaps=("https://a.invalid/s1",))
    assert read("sitemap", gzip.compress(index)) == expected


def test_the_newest_date_of_a_url_counts_also_of_1970() -> None:
    found = read("sitemap", urlset((A, "1970-01-01"), (A, "nonsense"), (B, "2100-01-01"), (B, "2020-01-01")))
    assert found == whole({A: 0.0, B: 4_102_444_800.0})


def test_other_hosts_are_left_out_unless_wanted() -> None:
    body = urlset((A, "2020-01-01"), ("https://b.invalid/", "2020-01-01"), ("ftp://c", "2020-01-01"))
    assert read("sitemap", body) == whole({A: DAY}, foreign=1, unusable=1)
    assert read("sitemap", body, "any") == whole({A: DAY, "https://b.invalid/": DAY}, unusable=1)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps([{"url": A, "date": "2020-01-01"}, B]),
        json.dumps({"title": "pages", "urls": [{"loc": A, "lastmod": DAY}, {"link": B}, 7, {"title": "none"}]}),
        f"# pages\n{A} 2020-01-01\n\n{B}\n",
        f"{A}, 2020-01-01\n/y\n",
    ],
)
def test_lists_of_urls(body: str) -> None:
    assert read("list", body.encode()) == whole({A: DAY, B: None})


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"[" * 100_000, b'{"a": 1}', b"one two three", b"\x00\xff"])
def test_what_is_no_list(body: bytes) -> None:
    assert read("list", body) is None


def test_a_document_that_was_cut_off_does_not_name_all_its_pages() -> None:
    cut = urlset((A, "2020-01-01")).removesuffix(b"</urlset>")
    assert read("sitemap", cut) == ListedChanges({A: DAY})
    lines = "\n".join(f"/{n}" for n in range(50_000)).encode()
    found = read("list", lines)
    assert found is not None
    assert (len(found.pages), found.complete) == (50_000, False)


def test_links_of_a_page_have_no_dates() -> None:
    assert read("links", b"<a href='/x'>x</a><a href='https://b.invalid'>b</a>") == ListedChanges({A: None}, foreign=1)


def test_a_feed() -> None:
    atom = (
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id><title>t</title><link href='/x'/>"
        "<updated>2020-01-01T00:00:00Z</updated></entry></feed>"
    )
    assert read("feed", atom.encode()) == ListedChanges({A: DAY})
    assert read("feed", b"<html><p>none</p></html>") is None


def test_entities_and_what_is_beyond_50_mib_are_not_read() -> None:
    assert read("sitemap", b'<!DOCTYPE x [<!ENTITY a "b">]>' + urlset((A, "2020-01-01"))) is None
    long = urlset((A, "2020-01-01")).removesuffix(b"</urlset>") + b" " * (50 * 1024 * 1024) + urlset((B, "2020-01-01"))
    assert read("sitemap", long) == ListedChanges({A: DAY})
