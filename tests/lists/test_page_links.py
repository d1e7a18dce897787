"""Links of pages: bases, anchors, canonical URLs, what robots are asked for, and hostile markup."""

from __future__ import annotations

import pytest

from pollerd.lists.links import MAX_LINKS, Directives, Link, PageLinks, of_headers, page_links

URL = "https://example.org/a/b.html"


def read(html: str) -> PageLinks:
    """The links of a page at `URL`."""
    return page_links(html.encode(), URL)


def test_references_are_resolved_and_spelled_in_one_way() -> None:
    html = """<a href="c.html">C</a> <a href="/x/../y">Y</a> <a href="//OTHER.example:443/">O</a>
    <a href="https://example.org/a/%7euser#top">U</a> <a href=" c.html ">again</a>"""
    assert [link.url for link in read(html).links] == [
        "https://example.org/a/c.html",
        "https://example.org/y",
        "https://other.example/",
        "https://example.org/a/~user",
    ]


def test_the_first_base_counts_and_is_itself_resolved() -> None:
    html = '<base href="/root/"><base href="/other/"><a href="c">C</a>'
    assert read(html).links == (Link("https://example.org/root/c", "C"),)
    assert read('<base href="http://[bad"><a href="c">C</a>').links[0].url == "https://example.org/a/c"


def test_what_is_no_page_is_left_out() -> None:
    html = "".join(
        f'<a href="{href}">x</a>' for href in ("mailto:a@b.c", "JavaScript:void(0)", "#top", "", "tel:1", "http://[::1")
    )
    assert read(html + '<a name="here">x</a><a href="b.html">itself</a>').links == ()


def test_anchors_are_texts_pictures_or_titles() -> None:
    html = """<a href="1"> one\n<b>link</b> </a><a href="2"><img alt=" a  picture "></a><a href="3" title="told"></a>
    <a href="4"><img></a><map><area href="5"></map>"""
    assert [link.anchor for link in read(html).links] == ["one link", "a picture", "told", "", ""]
    assert len(read(f'<a href="1">{"x" * 1000}</a>').links[0].anchor) == 200


def test_a_url_linked_twice_keeps_the_telling_anchor_and_is_followed_where_one_link_is() -> None:
    html = '<a href="c" rel="nofollow"><img></a><a href="c">text</a><a href="d" rel="UGC external">d</a>'
    assert read(html).links == (
        Link("https://example.org/a/c", "text", nofollow=False),
        Link("https://example.org/a/d", "d", nofollow=True),
    )


def test_the_head_is_read() -> None:
    html = """<meta name="ROBOTS" content="NoIndex, max-snippet:5"><meta name="robots" content="nofollow">
    <link rel="canonical" href="/own"><link rel="canonical" href="/second">
    <link rel="alternate" type="application/rss+xml" href="feed"><link rel="alternate" hreflang="de" href="/de">"""
    found = read(html)
    assert (found.noindex, found.nofollow) == (True, True)
    assert found.canonical == "https://example.org/own"
    assert found.feeds == ("https://example.org/a/feed",)
    nothing = read('<meta name="robots" content="none">')
    assert (nothing.noindex, nothing.nofollow, nothing.canonical) == (True, True, None)


def test_rules_for_our_name_and_in_headers_count_and_those_for_others_do_not() -> None:
    html = b'<meta name="Pollerd" content="nofollow"><meta name="otherbot" content="noindex">'
    ours = page_links(html, URL, "pollerd")
    assert (ours.noindex, ours.nofollow) == (False, True)
    assert not page_links(html, URL).nofollow
    told = page_links(b"<p>page", URL, "pollerd", ["noindex"])
    assert (told.noindex, told.nofollow) == (True, False)
    assert page_links(b"<b>" * 50_000 + b"<p>" * 50_000, URL, "pollerd", ["noindex"]) == PageLinks(noindex=True)


@pytest.mark.parametrize(
    ("tags", "noindex", "nofollow"),
    [
        ([], False, False),
        (["NoIndex"], True, False),
        (["max-snippet: 5, nofollow"], False, True),
        (["otherbot: noindex, nofollow"], False, False),
        (["otherbot: noindex", "nofollow"], False, True),
        (["otherbot: noindex, pollerd: none"], True, True),
        (["Pollerd : noindex, nofollow"], True, True),
        (["unavailable_after: 25 Jun 2027 15:00:00 PST, noindex"], True, False),
        (["noindexing, , :"], False, False),
    ],
)
def test_robots_headers(tags: list[str], noindex: bool, nofollow: bool) -> None:
    assert of_headers(tags, "pollerd") == Directives(noindex, nofollow)


def test_a_refresh_is_a_link_and_one_to_itself_is_not() -> None:
    html = """<meta http-equiv="Refresh" content="0; URL='next.html'"><meta http-equiv="refresh" content="30">
    <meta http-equiv="refresh" content="5;url=b.html"><meta http-equiv="x" content="0;url=other.html">"""
    assert read(html).links == (Link("https://example.org/a/next.html", ""),)


def test_hostile_pages_are_bounded() -> None:
    many = "".join(f'<a href="/{number}">x</a>' for number in range(MAX_LINKS + 500))
    assert len(read(many).links) == MAX_LINKS
    assert read("<b>" * 50_000 + "<p>" * 50_000 + '<a href="c">c</a>') == PageLinks()
    assert page_links(b"\xff\xfe<a href=\xff>\x00", URL).canonical is None
