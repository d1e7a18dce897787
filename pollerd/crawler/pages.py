"""Pages as the crawler reads them: relevance to the topic, directives, and links with cleaned URLs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import xxhash
from msgspec import Struct

from pollerd.crawler.topics import Topic, TopicSettings, Vocabulary
from pollerd.detection.media import to_utf8
from pollerd.detection.normalise import normalise
from pollerd.detection.pdf import is_pdf
from pollerd.errors import InvalidValueError
from pollerd.lists.links import of_headers, page_links
from pollerd.lists.sitemaps import Listed, read_feed, read_sitemap
from pollerd.model import Media, Outcome
from pollerd.urls import join_url

# Session ids and tracking parameters, removed from URLs: they give one page many URLs, and a crawler that follows them
# never ends.

_TRACKING = re.compile(
    "utm_.*|gclid|gclsrc|dclid|fbclid|msclkid|yclid|twclid|igshid|mc_[ce]id|_g[al]|mkt_tok|vero_id|wickedid",
    re.IGNORECASE,
)
_SESSION = re.compile(
    "aspsessionid.*|phpsessid|jsessionid|session_?id|sess_id|cfid|cftoken|zenid|oscsid", re.IGNORECASE
)
# Names of a session only if the value looks like an id.
_PERHAPS_SESSION = frozenset({"sid", "s", "session", "osessid", "sess"})
_TOKEN = re.compile(r"(?=[0-9a-z]*[0-9])(?=[0-9a-z]*[a-z])[0-9a-z]{16,}|[0-9a-f-]{32,36}", re.IGNORECASE)
_IN_PATH = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/?;]*", re.IGNORECASE)


def strip_session_params(url: str) -> str:
    """Returns a normalised URL without session ids and tracking parameters; the rest is unchanged."""
    if "?" not in url and ";" not in url:
        return url
    path, question, query = url.partition("?")
    path = _IN_PATH.sub("", path)
    kept = [part for part in query.split("&") if not _is_visitor(part)] if question else []
    return f"{path}?{'&'.join(kept)}" if any(kept) else path


def _is_visitor(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    if _TRACKING.fullmatch(name) or _SESSION.fullmatch(name):
        return True
    return name.lower() in _PERHAPS_SESSION and _TOKEN.fullmatch(value) is not None


AGENT = "pollerd"
"""Our name as a crawler."""
MAX_LISTED = 5_000
"""Maximum number of entries read of a sitemap or feed: a sitemap may hold fifty thousand, all of one site."""


class OutLink(Struct, frozen=True, gc=False):
    """Target of a link: a normalised URL, the score of the link's text, and its date of last change, if known."""

    url: str
    anchor: float = 0.0
    modified: float | None = None


class PageReading(Struct, frozen=True, gc=False):
    """Result of reading a page.

    relevance: 0 to 1. out_links: distinct URLs of links that may be followed. canonical: its declared canonical URL, if
    that is another. noindex: it must not be collected. listing: it is a sitemap, not a page.
    """

    relevance: float
    out_links: tuple[OutLink, ...] = ()
    canonical: str | None = None
    noindex: bool = False
    listing: bool = False


class Recipe(Struct, frozen=True, gc=False, omit_defaults=True):
    """The definition of a `Topic`; its bytes omit a language that is not set."""

    examples: tuple[str, ...]
    keywords: tuple[str, ...]
    background: tuple[str, ...]
    language: str = ""


def recipe_of(settings: TopicSettings) -> bytes:
    """Serialises the topic, for other processes."""
    return msgspec.msgpack.encode(Recipe(settings.examples, settings.keywords, settings.background, settings.language))


def words_of(settings: TopicSettings) -> str:
    """Returns a hash of the topic's texts and its minimum relevance: it identifies the scoring of pages."""
    return xxhash.xxh3_128_hexdigest(recipe_of(settings) + repr(settings.relevance_min).encode())


@lru_cache(maxsize=2)
def topic_of(recipe: bytes) -> Topic:
    """Returns the topic of a recipe. Raises InvalidValueError if its texts contain no word."""
    made_of = msgspec.msgpack.decode(recipe, type=Recipe)
    vocabulary = Vocabulary(made_of.language)
    for text in (*made_of.examples, *made_of.background):
        vocabulary.add(text)
    return Topic(made_of.examples, made_of.keywords, vocabulary)


def read(recipe: bytes, url: str, outcome: Outcome, media: Media | None, text: bytes | None) -> PageReading:
    """Reads a body at the normalised URL, after redirects, with respect to the topic. Raises nothing.

    outcome: of kind BODY. text: its visible text, UTF-8; None: it is extracted here.
    """
    topic, body = topic_of(recipe), outcome.body or b""
    if text is None:
        # A PDF document could only be read in a process of its own.
        text = b"" if is_pdf(body, outcome.content_type) else normalise(body, outcome.content_type).content
    asked = of_headers(outcome.robots_tags, AGENT)
    if media is Media.HTML:
        return _read_html(topic, url, outcome, text)
    if media is Media.FEED:
        entries = read_feed(to_utf8(body, outcome.content_type)) or ()
        return PageReading(
            _score(topic, text), () if asked.nofollow else _out_links(url, entries), noindex=asked.noindex
        )
    sitemap = read_sitemap(body, outcome.content_type) if media is not Media.JSON else None
    if sitemap is not None:
        return PageReading(0.0, _out_links(url, (*sitemap.sitemaps, *sitemap.pages)), listing=True)
    return PageReading(_score(topic, text) if media is Media.TEXT else 0.0, noindex=asked.noindex)


def _read_html(topic: Topic, url: str, outcome: Outcome, text: bytes) -> PageReading:
    linked = page_links(to_utf8(outcome.body or b"", outcome.content_type), url, AGENT, outcome.robots_tags)
    anchors: dict[str, str] = {}
    if not linked.nofollow:
        for link in linked.links:
            if not link.nofollow:
                anchors.setdefault(strip_session_params(link.url), link.anchor)
        anchors |= {feed: "" for feed in map(strip_session_params, linked.feeds) if feed not in anchors}
        anchors.pop(url, None)
    scores = topic.scores([text.decode("utf-8", "replace"), *anchors.values()])
    canonical = None if linked.canonical is None else strip_session_params(linked.canonical)
    return PageReading(
        relevance=float(scores[0]),
        out_links=tuple(map(OutLink, anchors, scores[1:].tolist())),
        canonical=canonical if canonical != url else None,
        noindex=linked.noindex,
    )


def _score(topic: Topic, text: bytes) -> float:
    return topic.score(text.decode("utf-8", "replace"))


def _out_links(url: str, listed: Sequence[Listed]) -> tuple[OutLink, ...]:
    by_url: dict[str, OutLink] = {}
    for entry in listed:
        try:
            out_link = strip_session_params(join_url(url, entry.url))
        except InvalidValueError:
            continue
        if out_link != url:
            by_url.setdefault(out_link, OutLink(out_link, 0.0, entry.modified))
        if len(by_url) >= MAX_LISTED:
            break
    return tuple(by_url.values())
