"""Links of a page with their texts, the declarations of its head, and its robots directives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode

from pollerd.detection.html import is_tag_bomb
from pollerd.errors import InvalidValueError
from pollerd.urls import join_url

# Robots directives of a page: `X-Robots-Tag` headers and meta robots, for all crawlers or one by name.
#
# Interpreted as search engines document it: if there are several directives, the strictest applies.

# Rules with a value after the colon; before other colons there is the name of a crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Directives(Struct, frozen=True, gc=False):
    """noindex: not to be collected. nofollow: its links are not to be followed."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_words(text: str) -> Directives:
    """Parses a comma-separated list of rules, as in a meta element (`NoIndex, max-snippet: 5`)."""
    words = {word.strip().lower() for word in text.split(",")}
    none = "none" in words
    return Directives(none or "noindex" in words, none or "nofollow" in words)


def of_headers(tags: Iterable[str], agent: str) -> Directives:
    """Parses `X-Robots-Tag` headers for the crawler named `agent`, in lower case.

    A name and a colon before a rule (`otherbot: noindex, nofollow`) restrict this rule, and those after it in the same
    header, to that crawler.
    """
    asked = Directives()
    for tag in tags:
        ours = True
        for rule in tag.split(","):
            name, colon, rest = rule.strip().lower().partition(":")
            if colon and name.strip() not in _VALUED:
                ours, name = name.strip() == agent, rest
            if ours:
                asked |= of_words(name)
    return asked


MAX_LINKS = 2_000
"""Maximum number of anchors read per page."""
LONGEST_ANCHOR = 200
_FEEDS = frozenset({"application/rss+xml", "application/atom+xml", "application/feed+json"})
_UNFOLLOWED = frozenset({"nofollow", "ugc", "sponsored"})
_REFRESH = re.compile(r"\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)
_OTHER_SCHEMES = ("mailto:", "javascript:", "tel:", "data:", "ftp:", "about:", "#")


class Link(Struct, frozen=True, gc=False):
    """A link of a page. `nofollow`: its author does not endorse it."""

    url: str
    anchor: str
    nofollow: bool = False


class PageLinks(Struct, frozen=True, gc=False):
    """Links and crawler directives of a page, URLs normalised.

    links: distinct URLs in the order of the page, without the page itself. canonical: its declared canonical URL, or
    None. noindex, nofollow: its robots directives. feeds: the feeds that it declares.
    """

    links: tuple[Link, ...] = ()
    canonical: str | None = None
    noindex: bool = False
    nofollow: bool = False
    feeds: tuple[str, ...] = ()


def page_links(html: bytes, url: str, agent: str = "", tags: Sequence[str] = ()) -> PageLinks:
    """Returns the links of a page at the normalised URL `url`; html is UTF-8.

    agent: our name as a crawler, in lower case, for directives by name. tags: the `X-Robots-Tag` headers. A refresh to
    another page is a link without a text. URLs other than http and https are omitted. The text of an anchor is its own,
    else that of its first picture, else its title: at most 200 characters, white space collapsed. Markup that would
    overload a parser has no links. Raises nothing.
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
    """Returns the directives of all meta robots elements, for all crawlers and for our name."""
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
    """Returns the canonical URL and the feeds in the page's `link` elements."""
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
    for node in tree.css("a[href], area[href]")[:MAX_LINKS]:
        if meant := _meant(_href(node), base):
            yield Link(meant, _text(node), not _UNFOLLOWED.isdisjoint(_words(node, "rel")))


def _merged(links: Iterator[Link], url: str) -> tuple[Link, ...]:
    """Removes duplicate URLs: keeps the first non-empty text; nofollow only if all links of the URL have it."""
    merged: dict[str, Link] = {}
    for link in links:
        if link.url == url:
            continue
        known = merged.get(link.url)
        if known is not None:
            link = Link(link.url, known.anchor or link.anchor, known.nofollow and link.nofollow)
        merged[link.url] = link
    return tuple(merged.values())


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
