"""What a page links to: anchors with their texts, and what its head says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode

from pollerd.crawling.pages.directives import Directives, of_headers, of_words
from pollerd.detection.parser_bombs import is_tag_bomb
from pollerd.errors import InvalidValueError
from pollerd.urls import join_url

MOST_LINKS = 2_000
"""A page's further links are not read."""
LONGEST_ANCHOR = 200
_FEEDS = frozenset({"application/rss+xml", "application/atom+xml", "application/feed+json"})
_UNFOLLOWED = frozenset({"nofollow", "ugc", "sponsored"})
_REFRESH = re.compile(r"\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)
_OTHER_SCHEMES = ("mailto:", "javascript:", "tel:", "data:", "ftp:", "about:", "#")


class Link(Struct, frozen=True, gc=False):
    """A link of a page. `nofollow`: its author does not vouch for it."""

    url: str
    anchor: str
    nofollow: bool = False


class PageLinks(Struct, frozen=True, gc=False):
    """All that a page says of where to go on, URLs normalised.

    links: each URL once, in the order of the page, without the page itself. canonical: the URL that it names as its
    own, None where it names none. noindex, nofollow: what it asks of robots. feeds: those that it announces.
    """

    links: tuple[Link, ...] = ()
    canonical: str | None = None
    noindex: bool = False
    nofollow: bool = False
    feeds: tuple[str, ...] = ()


def page_links(html: bytes, url: str, agent: str = "", tags: Sequence[str] = ()) -> PageLinks:
    """The links of a page at the normalised URL `url`; html is UTF-8.

    agent: our name as a crawler, in lower case, for what is asked of us alone. tags: the `X-Robots-Tag` headers.
    A refresh that leads to another page is a link without a text.
    What is no http or https URL is left out. An anchor's text is its own, else that of its first picture, else its
    title: at most 200 characters, its white space folded. Markup so tangled that a parser would choke on it has no
    links. Raises nothing.
    """
    asked = of_headers(tags, agent)
    if is_tag_bomb(html):
        return PageLinks(noindex=asked.noindex, nofollow=asked.nofollow)
    tree = LexborHTMLParser(html)
    base = _base(tree, url)
    asked |= _asked(tree, agent)
    canonical, feeds = _announced(tree, base)
    links = _merged(chain(_refreshes(tree, base), _anchors(tree, base)), url)
    return PageLinks(links, canonical, asked.noindex, asked.nofollow, feeds)


def _base(tree: LexborHTMLParser, url: str) -> str:
    node = tree.css_first("base[href]")
    return (_meant(_href(node), url) if node is not None else None) or url


def _asked(tree: LexborHTMLParser, agent: str) -> Directives:
    """What all meta robots, and those for our name, ask for."""
    asked = Directives()
    for node in tree.css("meta[name][content]"):
        if (node.attributes["name"] or "").strip().lower() in ("robots", agent or "robots"):
            asked |= of_words(node.attributes["content"] or "")
    return asked


def _refreshes(tree: LexborHTMLParser, base: str) -> Iterator[Link]:
    for node in tree.css("meta[http-equiv][content]"):
        if (node.attributes["http-equiv"] or "").strip().lower() == "refresh":
            match = _REFRESH.match(node.attributes["content"] or "")
            if match and (meant := _meant(match[1], base)):
                yield Link(meant, "")


def _announced(tree: LexborHTMLParser, base: str) -> tuple[str | None, tuple[str, ...]]:
    """Canonical URL and feeds, from the page's `link` elements."""
    canonical, feeds = None, list[str]()
    for node in tree.css("link[rel][href]"):
        relations = _words(node, "rel")
        is_feed = "alternate" in relations and (node.attributes.get("type") or "").strip().lower() in _FEEDS
        if not is_feed and "canonical" not in relations:
            continue
        if meant := _meant(_href(node), base):
            if is_feed:
                feeds.append(meant)
            else:
                canonical = canonical or meant
    return canonical, tuple(dict.fromkeys(feeds))


def _anchors(tree: LexborHTMLParser, base: str) -> Iterator[Link]:
    for node in tree.css("a[href], area[href]")[:MOST_LINKS]:
        if meant := _meant(_href(node), base):
            yield Link(meant, _text(node), not _UNFOLLOWED.isdisjoint(_words(node, "rel")))


def _merged(links: Iterator[Link], url: str) -> tuple[Link, ...]:
    """Each URL once: with the first anchor that says something, and followed where one of its links is."""
    found: dict[str, Link] = {}
    for link in links:
        if link.url == url:
            continue
        known = found.get(link.url)
        if known is not None:
            link = Link(link.url, known.anchor or link.anchor, known.nofollow and link.nofollow)
        found[link.url] = link
    return tuple(found.values())


def _href(node: LexborNode) -> str:
    return node.attributes.get("href") or ""


def _meant(reference: str, base: str) -> str | None:
    reference = reference.strip()
    if not reference or reference.lower().startswith(_OTHER_SCHEMES):
        return None
    try:
        return join_url(base, reference)
    except InvalidValueError:
        return None


def _words(node: LexborNode, attribute: str) -> set[str]:
    value = node.attributes.get(attribute)
    return set(value.lower().split()) if value else set()


def _text(node: LexborNode) -> str:
    text = " ".join(node.text().split())
    if not text:
        picture = node.css_first("img[alt]")
        text = " ".join(
            ((picture.attributes["alt"] if picture else None) or node.attributes.get("title") or "").split()
        )
    return text[:LONGEST_ANCHOR]
