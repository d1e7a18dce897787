"""OPML: what other programs write, what ours writes, and what strangers send."""

from __future__ import annotations

import pytest

from pollerd.api.list_formats import parse_list
from pollerd.errors import InvalidValueError
from pollerd.site_settings import SiteSpec

MEDIA = "text/x-opml"


def parsed(body: str | bytes) -> list[tuple[int, SiteSpec | str]]:
    """Lines with the spec, or the field that was refused."""
    data = body if isinstance(body, bytes) else f"<opml version='2.0'>\n<body>\n{body}\n</body></opml>".encode()
    return [
        (line, found.field if isinstance(found, InvalidValueError) else found)
        for line, found in parse_list(data, MEDIA)
        if found is not None
    ]


def test_a_feed_readers_list_with_folders_and_categories() -> None:
    body = """<outline text="News; daily">
      <outline text="A" type="rss" xmlUrl="https://a.org/feed?x=1&amp;y=2" htmlUrl="https://a.org/"/>
      <outline title="Deep"><outline text="B" XMLURL=" https://b.org/feed "
        category="/one/two, three,/one/two"/></outline>
    </outline>
    <outline text="C" type="link" url="https://c.org/" description="not a field of ours"/>
    <outline text="no address"/>
    <outline text="D" htmlUrl="https://d.org/" xmlUrl=""/>"""
    assert [found for _, found in parsed(body)] == [
        SiteSpec("https://a.org/feed?x=1&y=2", tags=("News, daily",)),
        SiteSpec("https://b.org/feed", tags=("News, daily", "Deep", "one/two", "three")),
        SiteSpec("https://c.org/"),
        SiteSpec("https://d.org/"),
    ]


@pytest.mark.parametrize("before", ["\n", " \r\n\n", "\ufeff\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_blank_lines_stand_before_the_declaration(before: str, encoding: str) -> None:
    """And are counted."""
    text = f"{before}<?xml version='1.0' encoding='{encoding}'?>\n<opml><outline xmlUrl='feed://a.org/é'/></opml>"
    line = 2 + before.count("\n")
    assert parsed(text.encode(encoding)) == [(line, SiteSpec("http://a.org/%C3%A9"))]


def test_a_bare_ampersand_is_one() -> None:
    body = '<outline text="A&nbsp;&B" xmlUrl="https://a.org/?x=1&y=2&amp;z=3"/>'
    assert [found for _, found in parsed(body)] == [SiteSpec("https://a.org/?x=1&y=2&z=3")]


def test_what_is_commented_out_is_left_out() -> None:
    body = """<outline text="x" isComment="true"><outline xmlUrl="https://a.org/"/></outline>
    <outline xmlUrl="https://b.org/"/>"""
    assert [found for _, found in parsed(body)] == [SiteSpec("https://b.org/")]


def test_names_that_are_no_tags_are_made_fit() -> None:
    body = f'<outline text="{"long" * 50}&#10;"><outline xmlUrl="https://a.org/" category=" , /,x"/></outline>'
    assert [found for _, found in parsed(body)] == [SiteSpec("https://a.org/", tags=(("long" * 50)[:64], "x"))]


def test_a_bad_outline_is_named_by_its_line_and_stops_no_other() -> None:
    body = """<outline xmlUrl="nonsense"/>
<outline xmlUrl="https://a.org/" xmlns:p="urn:pollerd:opml" p:weight="much"/>
<outline xmlUrl="https://a.org/" xmlns:p="urn:pollerd:opml" p:colour="red"/>
<outline xmlUrl="https://a.org/" xmlns:p="urn:pollerd:opml" p:paused="perhaps"/>
<outline xmlUrl="https://good.org/" xmlns:p="urn:pollerd:opml" p:weight="2" p:tags="a;b" p:paused="TRUE"/>"""
    assert parsed(body) == [
        (3, "url"),
        (4, "weight"),
        (5, "colour"),
        (6, "paused"),
        (7, SiteSpec("https://good.org/", 2.0, tags=("a", "b"), paused=True)),
    ]


def test_a_document_that_breaks_off_keeps_what_came_before() -> None:
    before = b"<opml><body>\n<outline xmlUrl='https://a.org/'/>\n"
    for end in (b"<outline xmlUrl='https://b.org/?x<y'/>", b"", b"</opml>", b"\xff", b"&#0;"):
        found = parsed(before + end)
        assert (found[0], found[-1][1], len(found)) == ((2, SiteSpec("https://a.org/")), "document", 2), end
    long = before + b"<outline xmlUrl='https://b.org/'/>\n" * 10_000 + b"<outline"
    assert (len(parsed(long)), parsed(long)[-1]) == (10_002, (10_003, "document"))


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
def test_other_encodings(encoding: str) -> None:
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    text = f"<?xml version='1.0' encoding='{name}'?><opml><body><outline text='é' title=''>"
    text += "<outline xmlUrl='https://a.org/'/></outline></body></opml>"
    assert [found for _, found in parsed(text.encode(encoding))] == [SiteSpec("https://a.org/", tags=("é",))]


LAUGHS = '<!DOCTYPE opml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><opml><outline xmlUrl="&b;"/></opml>'


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"   ",
        b"https://a.org/\n",
        b"<html><body><outline xmlUrl='https://a.org/'/></body></html>",
        LAUGHS.encode(),
        b'<!DOCTYPE opml [<!ENTITY x SYSTEM "file:///etc/passwd">]><opml><outline xmlUrl="&x;"/></opml>',
        b'<!DOCTYPE opml [<!ENTITY % x SYSTEM "http://127.0.0.1/x.dtd"> %x;]><opml/>',
        b"<?xml version='1.0' encoding='no-such'?><opml/>",
        b"<!--" + b"x" * 200_000,
        b'<opml xmlns="http://example.org/other"/>',
    ],
)
def test_what_is_no_opml_or_defines_entities_is_refused_whole(document: bytes) -> None:
    with pytest.raises(InvalidValueError, match=r"^document: must be "):
        list(parse_list(document, MEDIA))


def test_nesting_is_bounded() -> None:
    deep = b"<opml><body>" + b"<outline text='x'>" * 100_000
    assert parsed(deep) == [(1, "document")]


@pytest.mark.parametrize("media", ["text/x-opml", "application/xml; charset=utf-8", "TEXT/XML", "text/opml"])
def test_its_media_types(media: str) -> None:
    assert list(parse_list(b"<opml><outline xmlUrl='https://a.org'/></opml>", media)) == [
        (1, SiteSpec("https://a.org/"))
    ]
