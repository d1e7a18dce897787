"""What pages and feeds call themselves."""

from __future__ import annotations

import pytest

from pollerd.detection.titles import own_title
from pollerd.model import Media, Outcome, OutcomeKind

RSS = "<rss><channel><title><![CDATA[The valley & more]]></title><item><title>Entry</title></item></channel></rss>"


def _answer(body: bytes, content_type: str = "text/html") -> Outcome:
    return Outcome(OutcomeKind.BODY, started_at=0.0, duration=0.1, status=200, body=body, content_type=content_type)


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (b"<html><head><TITLE lang=en>\n Espresso &amp;\n machine </TITLE><body>x", "Espresso & machine"),
        ("<title>Gr\u00f6\u00dfe</title>".encode("latin-1"), "Gr\u00f6\u00dfe"),
        ("<title>\u202egnp.exe\x00</title>".encode(), "gnp.exe"),
        (b"<title>one <b>two</title>", "one <b>two"),
        (b"<body><svg><title>Logo</title></svg>", ""),
        (b"<title>never closed", ""),
        (b"<title" * 40_000, ""),
        (b"<title>" * 40_000, ""),
        (b"<p>no title", ""),
        (b"<title>" + b"w " * 500 + b"</title>", ("w " * 100)[:200]),
    ],
)
def test_a_page_is_called_by_its_title(body: bytes, title: str) -> None:
    assert own_title(_answer(body), Media.HTML) == title


@pytest.mark.parametrize(
    ("body", "content_type", "title"),
    [
        (RSS.encode(), "application/rss+xml", "The valley & more"),
        (b"<feed><entry><title>Entry</title></entry></feed>", "application/atom+xml", ""),
        (b'{"title": "A feed", "items": []}', "application/feed+json", "A feed"),
    ],
)
def test_a_feed_is_called_by_its_own_title_and_not_by_an_entry_s(body: bytes, content_type: str, title: str) -> None:
    assert own_title(_answer(body, content_type), Media.FEED) == title


def test_data_has_no_title() -> None:
    assert own_title(_answer(b'{"title": "x"}', "application/json"), Media.JSON) == ""
    assert own_title(_answer(b""), None) == ""
