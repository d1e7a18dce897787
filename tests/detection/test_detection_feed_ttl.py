"""How long feeds say that they need not be asked again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.feed import feed_ttl
from pollerd.detection.normalise import normalise
from pollerd.model import Media


def rss(said: str, entry: str = "") -> bytes:
    item = f"<item><title>t</title><link>http://e/</link>{entry}</item>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>c</title>{said}{item}</channel></rss>'.encode()


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("<ttl>60</ttl>", 3_600.0),
        ("<ttl> 5 </ttl>", 300.0),
        ("<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>", 1_800.0),
        ("<sy:updatePeriod>\n\thourly\t</sy:updatePeriod>", 3_600.0),
        ("<syn:updateFrequency>4</syn:updateFrequency>", 21_600.0),
        ("<sy:updatePeriod>Weekly</sy:updatePeriod>", 604_800.0),
        ("<ttl>10</ttl><sy:updatePeriod>daily</sy:updatePeriod>", 600.0),
        ("", None),
        ("<ttl>0</ttl>", None),
        ("<ttl>soon</ttl>", None),
        ("<ttl>-5</ttl>", None),
        ("<sy:updatePeriod>fortnightly</sy:updatePeriod>", None),
        ("<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>0</sy:updateFrequency>", None),
    ],
)
def test_what_a_feed_says(said: str, seconds: float | None) -> None:
    body = rss(said)
    assert feed_ttl(body) == seconds
    found = normalise(body, "application/rss+xml")
    assert (found.media, found.ttl) == (Media.FEED, seconds)


def test_what_an_entry_says_is_not_the_feeds() -> None:
    assert feed_ttl(rss("", entry="<ttl>60</ttl>")) is None


def test_a_page_has_no_ttl() -> None:
    assert normalise(b"<html><body><ttl>60</ttl></body></html>", "text/html").ttl is None


@given(st.binary(max_size=300))
def test_nothing_makes_it_stumble(text: bytes) -> None:
    assert (feed_ttl(b"<ttl>" + text) or 1.0) > 0
