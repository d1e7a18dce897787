import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.normalise import normalise
from pollerd.model import Media

RSS = b'<?xml version="1.0"?><!-- <html> --><rss version="2.0"><channel><item><guid>1</guid></item></channel></rss>'
ATOM = b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id></entry></feed>'
HTML = b"<!DOCTYPE html><html><body><p>a</p></body></html>"
JSON_FEED = b'{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1"}]}'


@pytest.mark.parametrize(
    ("body", "content_type", "media"),
    [
        (HTML, "text/html; charset=utf-8", Media.HTML),
        (HTML, "application/xhtml+xml", Media.HTML),
        (HTML, None, Media.HTML),
        (b"\n <!-- c --> <html>", "", Media.HTML),
        (HTML, "text/plain", Media.TEXT),
        (HTML, "application/json", Media.TEXT),
        (HTML, "application/octet-stream", Media.TEXT),
        (b"plain", "text/html", Media.HTML),
        (RSS, "application/rss+xml", Media.FEED),
        (RSS, "text/xml", Media.FEED),
        (RSS, "text/html", Media.FEED),
        (RSS, None, Media.FEED),
        (ATOM, "application/atom+xml", Media.FEED),
        (ATOM, "text/plain", Media.FEED),
        (b"\xef\xbb\xbf" + ATOM, "application/xml", Media.FEED),
        (
            "\ufeff<?xml version='1.0' encoding='utf-16'?>".encode("utf-16-le") + RSS[21:].decode().encode("utf-16-le"),
            "application/rss+xml",
            Media.FEED,
        ),
        (JSON_FEED, "application/feed+json", Media.FEED),
        (JSON_FEED, "application/json", Media.FEED),
        (b'{"a":1}', "application/json", Media.JSON),
        (b'{"a":1}', "text/html", Media.JSON),
        (b"[1]", "text/plain", Media.JSON),
        (b"7", "application/vnd.api+json", Media.JSON),
        (b'{"a":', "application/json", Media.TEXT),
        (b'{"a":', None, Media.TEXT),
        (b"[link](x)", "text/markdown", Media.TEXT),
        (b"a,b\r\n1,2", "text/csv", Media.TEXT),
        (b"<urlset><url><loc>x</loc></url></urlset>", "application/xml", Media.TEXT),
        (b"<svg/>", "image/svg+xml", Media.TEXT),
        (b"", None, Media.TEXT),
        (b"hello", None, Media.TEXT),
        ("é".encode() * 2000, None, Media.TEXT),
        (b"\x1f\x8b\x08\x00\x00", "application/xml", Media.TEXT),
        (b"\x1f\x8b\x08\x00\x00", "application/gzip", Media.BINARY),
        (b"\x1f\x8b\x08\x00\x00", None, Media.BINARY),
        (b"\x89PNG\r\n\x1a\n", "image/png", Media.BINARY),
        (b"{}", "image/png", Media.BINARY),
        (b"\xff\xfeh\0i\0", None, Media.TEXT),
        (HTML, "html", Media.HTML),
        (b"hello", "html", Media.TEXT),
        (HTML, "text/html, text/html", Media.HTML),
        (HTML, "text/html,text/html; charset=utf-8", Media.HTML),
        (HTML, "application/force-download", Media.TEXT),
        (b"a;b\n1;2\n", "application/csv", Media.TEXT),
        (b"version 1", "application/rss", Media.TEXT),
        (RSS, "application/rss", Media.FEED),
        (b"PK\x03\x04\0\0", "application/zip", Media.BINARY),
        (b"\xd0\xcf\x11\xe0", "application/msword", Media.BINARY),
        (b"%PDF-1.4\n1 0 obj\n", "application/pdf", Media.BINARY),
    ],
)
def test_how_a_body_is_read(body: bytes, content_type: str | None, media: Media) -> None:
    assert normalise(body, content_type).media is media


def test_line_ends_of_text_do_not_count() -> None:
    assert normalise(b"a\r\nb\rc\n", "text/plain").content == b"a\nb\nc\n"


def test_binary_stays_as_it_is() -> None:
    assert normalise(b"\x00\r\n\xff", "application/pdf").content == b"\x00\r\n\xff"


@given(st.binary(max_size=300), st.none() | st.text(max_size=40))
def test_any_bytes_under_any_type_are_survived(body: bytes, content_type: str | None) -> None:
    assert isinstance(normalise(body, content_type).content, bytes)


@given(
    st.lists(
        st.sampled_from(
            ["<rss>", "<feed>", "<item>", "<guid>", "</", "<![CDATA[", "<!DOCTYPE", "<!ENTITY", "&x;", ">", "a"]
        )
    ),
    st.sampled_from(["text/html", "application/rss+xml", "application/json", "text/plain", ""]),
)
def test_any_feed_soup_is_survived(parts: list[str], content_type: str) -> None:
    body = ("<rss>" + "".join(parts)).encode()
    assert normalise(body, content_type) == normalise(body, content_type)
