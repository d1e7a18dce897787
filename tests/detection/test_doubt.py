"""Answers that are hardly the page: which they are, and which are the page after all."""

from __future__ import annotations

import pytest

from pollerd.detection.doubt import doubt_of
from pollerd.model import Media

PAGE = b"Shop\nShoes\nBlue 10\nRed 12\nContact"
FEED = b"\t\t\tNews\n1\tOne\t\t\n2\tTwo\t\t"


@pytest.mark.parametrize(
    ("before", "media_before", "after", "media", "why"),
    [
        (PAGE, Media.HTML, b"", Media.HTML, "nothing"),
        (PAGE, Media.HTML, b"", Media.TEXT, "nothing"),
        (FEED, Media.FEED, b"Just a moment...\nChecking", Media.HTML, "a page instead of a feed"),
        (b"{}", Media.JSON, b"Bad gateway", Media.HTML, "a page instead of JSON"),
        (None, Media.FEED, b"x", Media.HTML, "a page instead of a feed"),
        (FEED, Media.FEED, b"\t\t\tNews", Media.FEED, "its feed has no entries"),
        (
            b'{"a": 1}',
            Media.JSON,
            b'{"error": "rate limit", "status": 429}',
            Media.JSON,
            "an error instead of its data",
        ),
        (
            PAGE,
            Media.HTML,
            b"Just a moment...\nChecking if the site connection is secure",
            Media.HTML,
            "Just a moment...",
        ),
        (PAGE, Media.HTML, b"Shop\nWe are back soon", Media.HTML, "We are back soon"),
        (PAGE, Media.HTML, b"Wartungsarbeiten", Media.HTML, "Wartungsarbeiten"),
        (PAGE, Media.HTML, b"Sign in\nName", Media.HTML, "another page (Sign in)"),
        (PAGE, Media.TEXT, b"upstream error: 502", Media.TEXT, "502"),
    ],
)
def test_what_is_doubted(before: bytes | None, media_before: Media, after: bytes, media: Media, why: str) -> None:
    found = doubt_of(before, media_before, after, media, whole=True)
    assert why in found
    assert found.isprintable()


@pytest.mark.parametrize(
    ("before", "media", "after"),
    [
        (PAGE, Media.HTML, PAGE.replace(b"10", b"7")),
        (PAGE, Media.HTML, b"Shop\nShoes\nSold out"),
        (PAGE, Media.HTML, b"New shop\nBoots\nGreen 7\nContact us"),
        (b"Service is up", Media.HTML, b"Service temporarily unavailable"),
        (b"Status\nAll up", Media.HTML, b"Maintenance\nBack soon"),
        (PAGE, Media.HTML, b"Shop\nShoes\nBlue 10\nScheduled maintenance\nContact"),
        (PAGE, Media.HTML, b"\n".join(b"maintenance %d" % n for n in range(1_000))),
        (b"", Media.HTML, PAGE),
        (FEED, Media.FEED, b"3\tThree\t\t"),
        (b"\tT\t\tAll up", Media.FEED, b"\tT\t\tDOWN"),
        (b'{"error": null, "a": 1}', Media.JSON, b'{"error": "x"}'),
        (b'{"a": 1}', Media.JSON, b'{"a": 2, "error": 1}'),
        (b"[1]", Media.JSON, b"[]"),
        (b"\0\1", Media.BINARY, b"\0"),
    ],
)
def test_what_is_a_change_of_the_page(before: bytes, media: Media, after: bytes) -> None:
    assert doubt_of(before, media, after, media, whole=True) == ""


def test_of_what_a_selection_keeps_only_the_media_says_something() -> None:
    assert doubt_of(PAGE, Media.HTML, b"", Media.HTML, whole=False) == ""
    assert doubt_of(None, Media.HTML, b"Just a moment", Media.HTML, whole=False) == ""
    assert doubt_of(None, Media.FEED, b"x", Media.HTML, whole=False) != ""
