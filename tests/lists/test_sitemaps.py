"""Sitemaps and feeds as lists of pages with dates."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert read_sitemap(b"<url>" * 100_000) is None
    assert read_sitemap(b"\x1f\x8bnot gzip") is None
    many = "<urlset>" + "<url><loc>https://a.example/</loc></url>" * (MAX_ENTRIES + 10) + "</urlset>"
    found = read_sitemap(many.encode())
    assert found is not None
    assert len(found.pages) == MAX_ENTRIES


A, B = "https://a.example/1", "https://a.example/2"


def urls(*written: str) -> str:
    return "".join(f"<url><loc>{one}</loc></url>" for one in written)


@pytest.mark.parametrize(
    ("document", "pages"),
    [
        (f"<!DOCTYPE urlset><urlset>{urls(A)}</urlset>", [A]),
        (f'<!doctype x SYSTEM "file:///etc/passwd"><urlset>{urls(A)}</urlset>', [A]),
        (f"<urlset>{urls(A, A + '?a=1&b=2&copy=3', B)}</urlset>", [A, A + "?a=1&b=2&copy=3", B]),
        (f"<urlset>{urls(A + '?a=1&amp;b=2&#38;c=&#x33;')}</urlset>", [A + "?a=1&b=2&c=3"]),
        (f"<urlset>{urls('<![CDATA[' + A + '?a&b]]>')}</urlset>", [A + "?a&b"]),
        (f"<urlset><!-- {urls(B)} -->{urls(A)}</urlset>", [A]),
        (f"<urlset><url><image:image><image:loc>{B}</image:loc></image:image><loc>{A}</loc></url></urlset>", [A]),
        (f"<urlset><url><video:video><video:player_loc>{B}</video:player_loc></video:video></url></urlset>", None),
        (f"<urlset><url><image><loc>{B}</loc></image><loc>{A}</loc></url></urlset>", [A]),
        (f"<s:urlset><s:url><s:loc>{A}</s:loc></s:url></s:urlset>", [A]),
        (f"<b>Warning</b>: x on line <b>3</b>\n<?xml version='1.0'?><urlset>{urls(A)}</urlset>", [A]),
        (f"Warning: x on line 3\n<?xml version='1.0'?><urlset>{urls(A)}</urlset>", [A]),
        (f"<URLSET><URL><LOC>{A}</LOC></URL></URLSET>", [A]),
        (f"<urlset>{urls(A)}</urlset><script>x</script>", [A]),
        (f"<urlset><url /><url><loc/></url>{urls(A)}</urlset>", [A]),
        (f"\ufeff# our pages\r\n{A}\r\n\r\n# more\r\n\ufeff{B} # it\r\n", [A, B]),
        (f"{A}\r{B}\r", [A, B]),
    ],
)
def test_odd_sitemaps_are_read(document: str, pages: list[str] | None) -> None:
    found = read_sitemap(document.encode())
    assert (None if found is None else [page.url for page in found.pages]) == pages
    assert found is None or found.complete


@pytest.mark.parametrize(
    "fault",
    [
        "<url><loc>https://a.example/odd</ur>",
        "<url><loc>https://a.example/odd</loc>",
        "<url><loc>",
        "<url><priority>1</loc></url>",
        "<url><loc>https://a.example/odd?a<b</loc></url>",
        "<url><loc>https://a.example/\x0bodd</loc></url>",
        "</url></url>",
        "<<>&;<!x",
    ],
)
def test_what_comes_before_and_after_a_fault_is_read(fault: str) -> None:
    found = read_sitemap(f"<urlset>{urls(A)}{fault}{urls(B)}</urlset>".encode())
    assert found is not None
    listed = [page.url for page in found.pages]
    assert (listed[0], listed[-1], len(listed) <= 3) == (A, B, True)
    if "odd" in fault and fault.count("<url>") > fault.count("</url>"):
        assert not found.complete, "something may be missing"


@pytest.mark.parametrize(
    ("encoding", "declared", "content_type"),
    [
        ("cp1251", ' encoding="windows-1251"', None),
        ("cp1251", "", "application/xml; charset=windows-1251"),
        ("utf-8", ' encoding="windows-1251"', None),
        ("utf-16", ' encoding="utf-16"', None),
        ("utf-16-le", "", None),
        ("utf-16-be", ' encoding="utf-16"', "text/xml; charset=utf-8"),
        ("utf-8-sig", "", None),
    ],
)
def test_charsets_of_sitemaps(encoding: str, declared: str, content_type: str | None) -> None:
    page = "https://a.example/новости"
    document = f'<?xml version="1.0"{declared}?><urlset>{urls(page)}</urlset>'
    assert read_sitemap(document.encode(encoding), content_type) == Sitemap((Listed(page),))
    if not declared or "16" in encoding:
        assert read_sitemap(f"{page}\n".encode(encoding), content_type) == Sitemap((Listed(page),))


def test_gzip_in_gzip() -> None:
    packed = gzip.compress(gzip.compress(URLSET.encode()))
    assert read_sitemap(packed) == read_sitemap(URLSET.encode())
    assert read_sitemap(gzip.compress(gzip.compress(packed))) is None


@given(
    st.lists(st.sampled_from(["<url>", "</url>", "<loc>", "</loc>", A, "<!--", "-->", "<![CDATA[", "]]>", "<urlset>"]))
)
def test_any_soup_is_survived(parts: list[str]) -> None:
    found = read_sitemap("".join(parts).encode())
    assert found is None or all(page.url for page in found.pages)


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
\xef\xbb\xbfSitemap: /3.xml\rUser-agent: x\rSitemap: /4.xml\r"""
    assert robots_sitemaps(robots, "https://a.example/robots.txt") == (
        "https://a.example/1.xml",
        "https://a.example/2.xml",
        "https://b.example/%E9.xml",
        "https://a.example/3.xml",
        "https://a.example/4.xml",
    )
    for encoding in ("utf-8-sig", "utf-16"):
        first = "Sitemap: /1.xml\r\n".encode(encoding)
        assert robots_sitemaps(first, "https://a.example/robots.txt") == ("https://a.example/1.xml",)
    many = b"".join(b"Sitemap: /%d.xml\n" % number for number in range(MAX_NAMED + 10))
    assert len(robots_sitemaps(many, "https://a.example/robots.txt")) == MAX_NAMED


def test_feeds_lead_to_their_entries() -> None:
    rss = b"""<rss version="2.0"><channel><item><link>https://a.example/1</link><title>One</title>
    <pubDate>Thu, 01 Jan 1970 00:01:00 GMT</pubDate></item><item><title>No link</title></item></channel></rss>"""
    assert read_feed(rss) == (Listed("https://a.example/1", 60.0),)
    json = b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "url": "https://a.example/2"}]}'
    assert read_feed(json) == (Listed("https://a.example/2"),)
    assert read_feed(b"<html><body>no feed</body></html>") is None
