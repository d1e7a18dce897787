"""A page as the crawler reads it: how near it is to the topic, and where it leads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import xxhash
from msgspec import Struct

from pollerd.crawling.pages.directives import of_headers
from pollerd.crawling.pages.feeds import read_feed
from pollerd.crawling.pages.links import page_links
from pollerd.crawling.pages.relevance import Topic, Vocabulary
from pollerd.crawling.pages.sitemaps import Listed, read_sitemap
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.crawling.pages.url_canonical import strip_session_params
from pollerd.detection.charset import to_utf8
from pollerd.detection.normalise import normalise
from pollerd.errors import InvalidValueError
from pollerd.model import Media, Outcome
from pollerd.urls import join_url

AGENT = "pollerd"
"""Our name as a crawler."""
MOST_LISTED = 5_000
"""Further entries of a sitemap or feed are not read: a sitemap may hold fifty thousand, all of one site."""


class OutLink(Struct, frozen=True, gc=False):
    """Where a page leads: a normalised URL, the score of the link's text, and when it changed last, if that is told."""

    url: str
    anchor: float = 0.0
    modified: float | None = None


class PageReading(Struct, frozen=True, gc=False):
    """What a page showed.

    relevance: 0 to 1. leads: each URL once, those of links that may be followed. canonical: the URL that it names as
    its own, where that is another. noindex: it asks not to be collected. listing: it is a sitemap, no page.
    """

    relevance: float
    out_links: tuple[OutLink, ...] = ()
    canonical: str | None = None
    noindex: bool = False
    listing: bool = False


class Recipe(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a `Topic` is made from; its bytes leave out a language that is not set."""

    examples: tuple[str, ...]
    keywords: tuple[str, ...]
    background: tuple[str, ...]
    language: str = ""


def recipe_of(settings: TopicSettings) -> bytes:
    """The topic as bytes, which go to other processes."""
    return msgspec.msgpack.encode(Recipe(settings.examples, settings.keywords, settings.background, settings.language))


def words_of(settings: TopicSettings) -> str:
    """Tells apart what pages are scored by, and from which score on they are kept."""
    return xxhash.xxh3_128_hexdigest(recipe_of(settings) + repr(settings.relevance_min).encode())


@lru_cache(maxsize=2)
def topic_of(recipe: bytes) -> Topic:
    """The topic made by a recipe. Raises InvalidValueError where no text of it holds a word."""
    made_of = msgspec.msgpack.decode(recipe, type=Recipe)
    vocabulary = Vocabulary(made_of.language)
    for text in (*made_of.examples, *made_of.background):
        vocabulary.add(text)
    return Topic(made_of.examples, made_of.keywords, vocabulary)


def read(recipe: bytes, url: str, outcome: Outcome, media: Media | None, text: bytes | None) -> PageReading:
    """What a body at the normalised URL, where redirects led, shows of the topic. Raises nothing.

    outcome: of kind BODY. text: what a reader sees of it, UTF-8; None: it is to be found out.
    """
    topic, body = topic_of(recipe), outcome.body or b""
    if text is None:
        text = normalise(body, outcome.content_type).content
    asked = of_headers(outcome.robots_tags, AGENT)
    if media is Media.HTML:
        return _read_html(topic, url, outcome, text)
    if media is Media.FEED:
        entries = read_feed(to_utf8(body, outcome.content_type)) or ()
        return PageReading(
            _score(topic, text), () if asked.nofollow else _out_links(url, entries), noindex=asked.noindex
        )
    sitemap = read_sitemap(body) if media is not Media.JSON else None
    if sitemap is not None:
        return PageReading(0.0, _out_links(url, (*sitemap.sitemaps, *sitemap.pages)), listing=True)
    return PageReading(_score(topic, text) if media is Media.TEXT else 0.0, noindex=asked.noindex)


def _read_html(topic: Topic, url: str, outcome: Outcome, text: bytes) -> PageReading:
    found = page_links(to_utf8(outcome.body or b"", outcome.content_type), url, AGENT, outcome.robots_tags)
    anchors: dict[str, str] = {}
    if not found.nofollow:
        for link in found.links:
            if not link.nofollow:
                anchors.setdefault(strip_session_params(link.url), link.anchor)
        anchors |= {feed: "" for feed in map(strip_session_params, found.feeds) if feed not in anchors}
        anchors.pop(url, None)
    scores = topic.scores([text.decode("utf-8", "replace"), *anchors.values()])
    canonical = None if found.canonical is None else strip_session_params(found.canonical)
    return PageReading(
        relevance=float(scores[0]),
        out_links=tuple(map(OutLink, anchors, scores[1:].tolist())),
        canonical=canonical if canonical != url else None,
        noindex=found.noindex,
    )


def _score(topic: Topic, text: bytes) -> float:
    return topic.score(text.decode("utf-8", "replace"))


def _out_links(url: str, listed: Sequence[Listed]) -> tuple[OutLink, ...]:
    found: dict[str, OutLink] = {}
    for entry in listed:
        try:
            out_link = strip_session_params(join_url(url, entry.url))
        except InvalidValueError:
            continue
        if out_link != url:
            found.setdefault(out_link, OutLink(out_link, 0.0, entry.modified))
        if len(found) >= MOST_LISTED:
            break
    return tuple(found.values())
