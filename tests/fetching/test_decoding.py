import gzip
import tracemalloc
import zlib

import brotli
import pytest

from pollerd.fetching.headers import CutShortError, DecodingError, TooLargeError, decode, unsaid_gzip

PAGE = b"<p>hello, world</p>\n" * 500
LIMIT = 1_000_000


def _raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", PAGE),
        ("identity", PAGE),
        ("utf-8", PAGE),
        ("gzip", gzip.compress(PAGE, mtime=0)),
        ("GZIP", gzip.compress(PAGE, mtime=0)),
        ("x-gzip", gzip.compress(PAGE, mtime=0)),
        ("gzip", gzip.compress(PAGE[:100], mtime=0) + gzip.compress(PAGE[100:], mtime=0)),
        ("gzip", gzip.compress(PAGE, mtime=0) + b"\0\0rubbish"),
        ("deflate", zlib.compress(PAGE)),
        ("deflate", _raw_deflate(PAGE)),
        ("br", brotli.compress(PAGE)),
        ("gzip, br", brotli.compress(gzip.compress(PAGE, mtime=0))),
        ("identity , gzip", gzip.compress(PAGE, mtime=0)),
        ('"gzip"', gzip.compress(PAGE, mtime=0)),
        ("'br'; q=1", brotli.compress(PAGE)),
        ("aws-chunked", PAGE),
        ("windows-1251", PAGE),
        ("text/html, gzip", gzip.compress(PAGE, mtime=0)),
    ],
)
def test_decodes(encoding: str, body: bytes) -> None:
    assert decode(body, encoding, len(PAGE)) == PAGE
    with pytest.raises(TooLargeError):
        decode(body, encoding, len(PAGE) - 1)
    assert decode(body, encoding, 100, partial=True) == PAGE[:100]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_no_bytes_are_no_body(encoding: str) -> None:
    assert decode(b"", encoding, LIMIT) == b""


@pytest.mark.parametrize("content", [b"", b"x"])
def test_tiny_bodies(content: bytes) -> None:
    for encoding, body in (("gzip", gzip.compress(content, mtime=0)), ("br", brotli.compress(content))):
        assert decode(body, encoding, LIMIT) == content


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", PAGE),
        ("gzip", gzip.compress(PAGE, mtime=0)[:-20]),
        ("gzip", gzip.compress(PAGE, mtime=0)[:-1]),
        ("gzip", gzip.compress(PAGE, mtime=0)[:-8] + b"12345678"),
        ("gzip", gzip.compress(PAGE, mtime=0) + gzip.compress(PAGE, mtime=0)[:-9]),
        ("gzip", gzip.compress(b"", mtime=0) * 101),
        ("deflate", zlib.compress(PAGE)[:-20]),
        ("deflate", b"\xff\xff\xff"),
        ("br", brotli.compress(PAGE)[:-4]),
        ("br", b"\xff\xff\xffjunk"),
        ("zstd", PAGE),
        ("gzip, gzip, gzip, gzip", PAGE),
    ],
)
def test_damage_is_told(encoding: str, body: bytes) -> None:
    with pytest.raises(DecodingError):
        decode(body, encoding, LIMIT)


def test_what_can_be_read_of_a_cut_body_is_kept() -> None:
    with pytest.raises(CutShortError) as found:
        decode(gzip.compress(PAGE, mtime=0)[:-8], "gzip", LIMIT)
    assert found.value.readable == PAGE
    with pytest.raises(CutShortError) as found:  # the outer layer: what it holds is damaged, too
        decode(gzip.compress(gzip.compress(PAGE, mtime=0), mtime=0)[:-8], "gzip, gzip", LIMIT)
    assert found.value.readable == b""


@pytest.mark.parametrize(
    ("body", "content_type", "unsaid"),
    [
        (gzip.compress(PAGE), "text/html; charset=utf-8", True),
        (gzip.compress(PAGE), "application/rss+xml", True),
        (gzip.compress(PAGE), "application/json", True),
        (gzip.compress(PAGE), None, True),
        (gzip.compress(PAGE), "application/gzip", False),
        (gzip.compress(PAGE), "application/octet-stream", False),
        (PAGE, "text/html", False),
    ],
)
def test_gzip_under_the_type_of_text(body: bytes, content_type: str | None, unsaid: bool) -> None:
    assert unsaid_gzip(body, content_type) is unsaid


def test_partial_takes_what_is_there() -> None:
    half = decode(gzip.compress(PAGE, mtime=0)[:-12], "gzip", LIMIT, partial=True)
    assert PAGE.startswith(half)


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        ("gzip", gzip.compress(bytes(50_000_000), mtime=0)),
        ("deflate", zlib.compress(bytes(50_000_000))),
        ("br", brotli.compress(bytes(50_000_000))),
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(50_000_000), mtime=0), mtime=0)),
    ],
)
def test_a_bomb_costs_no_more_memory_than_the_cap(encoding: str, bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            decode(bomb, encoding, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * LIMIT
