"""Which hub an answer offers."""

from __future__ import annotations

import time

import pytest

from pollerd.lists.hubs import HubOffer, hub_offer

BASE = "https://a.invalid/dir/feed"
HUB, TOPIC = "https://hub.invalid/x", "https://a.invalid/feed"
BOTH = HubOffer(TOPIC, (HUB,))
LINKS = f'<link rel="hub" href="{HUB}"/><link rel="self" href="{TOPIC}"/>'


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([f'<{HUB}>; rel="hub", <{TOPIC}>; rel="self"'], BOTH),
        ([f"<{HUB}>;rel=hub", f"<{TOPIC}> ; rel=self"], BOTH),
        ([f'<{HUB}>; title="a, b"; REL="next HUB"', f"<{TOPIC}>; rel=Self"], BOTH),
        ([f'<{HUB}>; rel="hub"; rel="self"', f"<{TOPIC}>; rel=self"], BOTH),
        (["</x>; rel=hub, <feed>; rel=self"], HubOffer("https://a.invalid/dir/feed", ("https://a.invalid/x",))),
        ([f"<{HUB}>; rel=hub, <https://h2.invalid/>; rel=hub, <{TOPIC}>; rel=self"],
         HubOffer(TOPIC, (HUB, "https://h2.invalid/"))),
        ([f"<{HUB}>; rel=hub"], None),
        ([f"<{TOPIC}>; rel=self"], None),
        ([f"<javascript:x>; rel=hub, <{TOPIC}>; rel=self"], None),
        ([f"<{HUB}>; rel=hub, <ftp://a/>; rel=self"], None),
        ([f"<{HUB}>; rel=github, <{TOPIC}>; rel=self"], None),
    ],
)  # fmt: skip
def test_headers(headers: list[str], expected: HubOffer | None) -> None:
    assert hub_offer(b"", None, headers, BASE) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"<feed xmlns='http://www.w3.org/2005/Atom'>{LINKS}<entry/></feed>", BOTH),
        (f"<rss><channel>{LINKS.replace('<link', '<atom:link')}<item/></channel></rss>", BOTH),
        (f"<html><head>{LINKS}</head><body></body></html>", BOTH),
        (f"<html><head></head><body>{LINKS}</body></html>", None),
        (f"<rss><channel><item>{LINKS}</item></channel></rss>", None),
        (f"<feed><entry>{LINKS}</entry></feed>", None),
        (f"<urlset><url>{LINKS}</url></urlset>", None),
        (f"<feed><!-- {LINKS} --></feed>", None),
        (f"<feed><![CDATA[ {LINKS} ]]></feed>", None),
        (f"<feed><link rel=hub href={HUB}><link rel='self' href='https://a.invalid/?a&amp;b'></feed>",
         HubOffer("https://a.invalid/?a&b", (HUB,))),
        (f'{{"version": "x", "feed_url": "{TOPIC}", "hubs": [{{"type": "rssCloud", "url": "https://r/"}}, '
         f'{{"type": "WebSub", "url": "{HUB}"}}], "items": []}}', BOTH),
        (f'{{"feed_url": "{TOPIC}", "hubs": {{"type": "WebSub"}}}}', None),
        ("{", None),
        ("", None),
    ],
)  # fmt: skip
def test_documents(body: str, expected: HubOffer | None) -> None:
    assert hub_offer(body.encode(), None, (), BASE) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_json_feed_may_have_a_byte_order_mark(encoding: str) -> None:
    feed = f'{{"feed_url": "{TOPIC}", "hubs": [{{"type": "WebSub", "url": "{HUB}"}}], "items": []}}'
    assert hub_offer(feed.encode(encoding), "application/json", (), BASE) == BOTH


def test_headers_come_before_the_document() -> None:
    body = f"<feed>{LINKS}</feed>".encode()
    headers = ["<https://h2.invalid/>; rel=hub, <https://a.invalid/2>; rel=self"]
    assert hub_offer(body, None, headers, BASE) == HubOffer("https://a.invalid/2", ("https://h2.invalid/",))


@pytest.mark.parametrize(
    "hostile",
    [
        b"<link " * 50_000,
        b"<link rel=" + b"'" * 200_000,
        b"<" + b"a" * 200_000,
        b"<!--" * 50_000,
        b"<a:link a='" + b"=" * 250_000,
        b'{"hubs": ' + b"[" * 100_000,
        b"<link " + b"a=b " * 60_000,
    ],
)
def test_hostile_documents_and_headers_offer_nothing(hostile: bytes) -> None:
    began = time.process_time()
    assert hub_offer(hostile, None, (), BASE) is None
    header = hostile[:4_096].decode()
    assert hub_offer(b"", None, [header, f"<{HUB}>" + "; rel" * 800], BASE) is None
    # No measure of speed: the square of the length would take minutes.
    assert time.process_time() - began < 30
