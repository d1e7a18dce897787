"""WebSub hubs (W3C WebSub): the hubs that an answer offers, and the request with which a hub verifies a subscription.

Section 4: an answer offers its hub in Link headers, else in its document.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from pollerd.detection.media import to_utf8
from pollerd.errors import InvalidValueError
from pollerd.urls import join_url

LONGEST_URL = 2_048
_MAX_BYTES = 256 * 1024
"""Of a document: hubs stand at its beginning."""
_MAX_LINKS = 50
_HEADER_LINK = re.compile(r"<([^<>]{1,2048})>([^<]{0,1000})")
_PARAMETER = re.compile(r";\s{0,10}([a-zA-Z*-]{1,20})\s{0,10}=\s{0,10}(?:\"([^\"]{0,500})\"|([^\s\",;]{1,500}))")
_ELEMENT = re.compile(r"<(?:[\w.-]{1,50}:)?link\s([^<>]{1,4000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w:-]{1,50})\s{0,10}=\s{0,10}(?:\"([^\"]{0,2500})\"|'([^']{0,2500})'|([^\s\"'>]{1,2500}))")
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)", re.DOTALL)
_HEAD_ENDS = re.compile(r"</head\b|<body\b|<(?:[\w.-]{1,50}:)?(?:item|entry|url|sitemap)[\s>]", re.IGNORECASE)
_WRITTEN = re.compile(r"https?://[\x21-\x7e]{1,2040}", re.IGNORECASE)


class HubOffer(msgspec.Struct, frozen=True, gc=False):
    """A topic as its publisher writes it (rel="self"), and its hubs, normalised, at least one."""

    topic: str
    hubs: tuple[str, ...]


class _JsonHub(msgspec.Struct, gc=False):
    type: str = ""
    url: str = ""


class _JsonFeed(msgspec.Struct, gc=False):
    feed_url: str = ""
    hubs: list[_JsonHub] = msgspec.field(default_factory=list)


def hub_offer(body: bytes, content_type: str | None, headers: Sequence[str], base: str) -> HubOffer | None:
    """Returns what an answer at the normalised URL `base` offers; None without a hub and a topic.

    headers: its Link headers, which come first. Of a document the links before its first entry or the end of its head
    count: what follows may be other people's. JSON Feed: `hubs` of type WebSub, and `feed_url`. Raises nothing.
    """
    offer = _offer(_in_headers(headers), base)
    if offer is not None:
        return offer
    plain = to_utf8(body[:_MAX_BYTES], content_type)
    if plain.lstrip().startswith(b"{"):
        return _offer(_in_json(to_utf8(body, content_type)), base)
    return _offer(_in_document(plain.decode("utf-8", "replace")), base)


def _offer(links: Iterable[tuple[str, str]], base: str) -> HubOffer | None:
    """Returns the offer of (relation, URL) pairs."""
    hubs, topic = dict[str, None](), ""
    for relation, url in links:
        if relation == "self" and not topic:
            topic = _topic(base, url)
        elif relation == "hub":
            try:
                hubs[join_url(base, url)] = None
            except InvalidValueError:
                continue
    return HubOffer(topic, tuple(hubs)) if hubs and topic else None


def _topic(base: str, url: str) -> str:
    """Returns the topic, as it is written if it is absolute: hubs compare it; empty if it is no usable URL."""
    if _WRITTEN.fullmatch(url):
        return url
    try:
        return join_url(base, url)
    except InvalidValueError:
        return ""


def _in_headers(headers: Sequence[str]) -> Iterator[tuple[str, str]]:
    for header in headers:
        for number, link in enumerate(_HEADER_LINK.finditer(header)):
            if number >= _MAX_LINKS:
                return
            for name, quoted, plain in _PARAMETER.findall(link[2]):
                if name.lower() == "rel":
                    yield from ((relation, link[1]) for relation in (quoted or plain).lower().split())
                    break


def _in_document(text: str) -> Iterator[tuple[str, str]]:
    shown = _HIDDEN.sub(" ", text)
    end = _HEAD_ENDS.search(shown)
    for number, element in enumerate(_ELEMENT.finditer(shown, 0, len(shown) if end is None else end.start())):
        if number >= _MAX_LINKS:
            return
        attributes = {name.lower(): html.unescape(a or b or c) for name, a, b, c in _ATTRIBUTE.findall(element[1])}
        url = attributes.get("href", "").strip()
        yield from ((relation, url) for relation in attributes.get("rel", "").lower().split() if url)


def _in_json(body: bytes) -> Iterator[tuple[str, str]]:
    try:
        feed = msgspec.json.decode(body, type=_JsonFeed)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return
    yield "self", feed.feed_url
    for hub in feed.hubs[:_MAX_LINKS]:
        if hub.type.lower() == "websub":
            yield "hub", hub.url


# Verification of a subscription by its hub (W3C WebSub, section 5.3).


class HubVerification(Struct, frozen=True):
    """What a hub asks with GET, as written; empty: left out."""

    mode: str = ""
    topic: str = ""
    challenge: str = ""
    lease_seconds: str = ""
    reason: str = ""
