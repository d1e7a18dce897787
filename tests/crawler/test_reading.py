"""A page read for a topic: its score, where it leads, what it asks of robots."""

from __future__ import annotations

from typing import Any

import pytest

from pollerd.crawler.pages import MAX_LISTED, OutLink, PageReading, read, recipe_of, topic_of, words_of
from pollerd.crawler.topics import TopicSettings
from pollerd.errors import InvalidValueError
from pollerd.model import Media, Outcome, OutcomeKind

TOPIC = TopicSettings("hats", keywords=("hat", "brim", "felt"), background=("the cat sat on a mat",))
RECIPE = recipe_of(TOPIC)
URL = "http://a/page"


def reading(body: str, media: Media = Media.HTML, text: str = "a felt hat", tags: tuple[str, ...] = ()) -> PageReading:
    outcome = Outcome(OutcomeKind.BODY, 0.0, 0.1, 200, body=body.encode(), robots_tags=tags)
    return read(RECIPE, URL, outcome, media, text.encode())


def test_a_page_is_scored_and_its_links_with_it() -> None:
    found = reading(
        '<a href="/hats?utm_source=x#top">felt hat</a><a href="/cats">cats</a><a href="/no" rel=nofollow>hat</a>'
    )
    assert found.relevance > 0.5
    assert [out_link.url for out_link in found.out_links] == ["http://a/hats", "http://a/cats"]
    assert found.out_links[0].anchor > 0.5
    assert found.out_links[1].anchor == 0.0
    assert reading("", text="a cat on a mat").relevance < 0.1


def test_a_page_does_not_lead_to_itself() -> None:
    assert reading('<a href="#x">hat</a><a href="/page?utm_source=x">hat</a>').out_links == ()


def test_another_canonical_url_is_told_and_its_own_is_not() -> None:
    assert reading('<link rel=canonical href="/other">').canonical == "http://a/other"
    assert reading('<link rel=canonical href="/page">').canonical is None


@pytest.mark.parametrize("tags", [(), ("noindex, nofollow",)])
def test_what_it_asks_of_robots_holds(tags: tuple[str, ...]) -> None:
    meta = "" if tags else '<meta name="pollerd" content="noindex, nofollow">'
    found = reading(f'{meta}<a href="/hats">felt hat</a>', tags=tags)
    assert found.noindex
    assert found.out_links == ()


def test_a_feed_leads_to_its_entries() -> None:
    feed = (
        "<rss version='2.0'><channel><title>t</title><item><title>hat</title><link>http://a/1</link>"
        "<pubDate>Sun, 22 Nov 2026 00:00:00 GMT</pubDate></item></channel></rss>"
    )
    assert reading(feed, Media.FEED).out_links == (OutLink("http://a/1", 0.0, 1795305600.0),)


def test_a_sitemap_is_a_list_of_pages() -> None:
    site_map = "<urlset><url><loc>http://a/1</loc><lastmod>2026-11-22</lastmod></url><url><loc>http://a/page</loc></url></urlset>"
    found = reading(site_map, Media.TEXT)
    assert found == PageReading(0.0, (OutLink("http://a/1", 0.0, 1795305600.0),), listing=True)


def test_long_sitemaps_are_not_read_to_their_end() -> None:
    urls = "\n".join(f"http://a/{n}" for n in range(MAX_LISTED + 10))
    assert len(reading(urls, Media.TEXT).out_links) == MAX_LISTED


def test_plain_text_is_scored_and_bytes_are_not() -> None:
    assert reading("a felt hat", Media.TEXT).relevance > 0.5
    assert reading("\0\1", Media.BINARY).relevance == 0.0


def test_domains_hold_with_their_subdomains() -> None:
    topic = TopicSettings(
        "t", keywords=("a",), allow_domains=("example.org", "127.0.0.2"), deny_domains=("x.example.org",)
    )
    allowed = ["http://example.org/", "https://www.example.org:8443/", "http://127.0.0.2:81/"]
    denied = ["http://x.example.org/", "http://a.x.example.org/", "http://badexample.org/", "http://127.0.0.20/"]
    assert [topic.permits(url) for url in (*allowed, *denied)] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", " "), ("keywords", ()), ("max_depth", -1), ("pages_per_host", 0), ("collection_size", 0)]
    + [("relevance_min", value) for value in (0.0, 1.1)],
)
def test_settings_are_checked(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=field):
        TopicSettings(**{"name": "t", "keywords": ("a",), field: value})


def test_a_language_is_part_of_the_words_and_one_that_is_not_set_changes_nothing() -> None:
    """Collections from before topics had a language are not read anew."""
    without, english = (
        TopicSettings("x", keywords=("mills",)),
        TopicSettings("x", keywords=("mills",), language="english"),
    )
    assert b"language" not in recipe_of(without)
    assert words_of(without) != words_of(english)
    assert topic_of(recipe_of(without)).score("mill") == 0.0 < topic_of(recipe_of(english)).score("mill")
