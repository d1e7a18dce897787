"""What steps keep of pages, feeds, JSON, XML and text."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.selection.selection import Selected, compile_selection
from pollerd.detection.selection.steps.lines import sort_step, space_step, unique_step
from pollerd.errors import InvalidValueError, SelectionLimitError
from pollerd.model import Media

URL = "https://example.org/news/today"
PAGE = b"""<html lang="de"><head><title>Shop</title>
<script type="application/ld+json">{"offers": {"price": "479.00", "availability": "https://schema.org/InStock"}}</script>
</head><body><nav>Menu</nav><main><h1>Sale</h1>
<table id="t"><tr><td>pears</td><td>2</td></tr><tr><td>Apples</td><td>10</td></tr></table>
<p class="price">Only <b itemprop="price" content="479.00">479,00 &euro;</b> today</p>
<ul class="jobs"><li>cook</li><li>baker<ul><li>night</li></ul></li></ul>
<p>See <a href="/terms#top">the terms</a></p></main><footer>Page 3 of 7</footer>
<script>var hidden = "<p>never</p>"</script></body></html>"""
JSON = b'{"data": [{"id": 7, "status": "open"}, {"id": 8, "status": null}], "at": 1}'
XML = b"<r><a n='1'>one</a><b/><a n='2'>two</a></r>"
RSS = b"""<rss version="2.0"><channel><title>f</title>
<item><title>CVE-1 found</title><link>https://example.org/1</link><description>bad</description></item>
<item><title>Party</title><link>https://example.org/2</link><description>good</description></item></channel></rss>"""
CHANNEL = RSS.split(b"\n")[0].decode()


def read(steps: list[Any], body: bytes = PAGE, content_type: str = "text/html", **more: Any) -> Selected:
    selection = compile_selection("default", "selections.default", {"steps": steps, **more})
    return selection.read(body, content_type, URL)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ([{"keep": {"css": "h1"}}], "Sale"),
        ([{"keep": {"css": "tr"}}], "pears 2\nApples 10"),
        ([{"keep": {"css": "tr"}}, {"sort": "text"}], "Apples 10\npears 2"),
        ([{"keep": {"css": "tr"}}, {"sort": "reverse"}], "pears 2\nApples 10"),
        ([{"keep": {"css": "td"}, "skip": 1, "limit": 2}], "2\nApples"),
        ([{"keep": [{"css": ".price"}, {"css": "h1"}]}], "Only 479,00 € today\nSale"),
        ([{"keep": [{"css": "h1"}, {"xpath": "//footer"}]}], "Sale\nPage 3 of 7"),
        ([{"keep": {"css": "main"}}, {"keep": {"css": "h1, b"}}], "Sale\n479,00 €"),
        ([{"keep": {"xpath": "//main"}}, {"keep": {"xpath": ".//td/text()"}}], "pears\n2\nApples\n10"),
        ([{"keep": {"xpath": "//b/@content"}}], "479.00"),
        ([{"keep": {"xpath": "count(//li)"}}], "3"),
        ([{"keep": {"xpath": "//tr"}}], "pears 2\nApples 10"),
        ([{"remove": {"css": "b"}}, {"keep": {"css": ".price"}}], "Only today"),
        ([{"remove": {"xpath": "//b"}}, {"keep": {"css": ".price"}}], "Only today"),
        ([{"remove": [{"css": "nav, main"}, {"xpath": "//footer"}]}], "Shop"),
        ([{"keep": {"css": "main p a"}}, {"text": {"links": "yes"}}], "the terms (/terms#top)"),
        ([{"keep": {"css": "main p a"}}, {"text": {"links": "absolute"}}], "the terms (https://example.org/terms#top)"),
        ([{"keep": {"css": "tr"}}, {"text": {"cells": "tab"}}, {"sort": "text"}], "Apples\t10\npears\t2"),
        ([{"keep": {"xpath": "//tr"}}, {"text": {"cells": "tab"}}], "pears\t2\nApples\t10"),
        ([{"keep": {"css": "tr"}}, {"text": {"cells": "space", "links": "no"}}], "pears 2\nApples 10"),
        ([{"keep": {"css": "li"}}, {"unique": "all"}], "cook\nbaker\nnight"),
        ([{"keep": {"css": "footer"}}, {"replace": {"re": r"\d+", "with": "n"}}], "Page n of n"),
        ([{"keep": {"css": "footer"}}, {"find": {"re": r"(\d+) of (\d+)", "with": r"\2/\1"}}], "7/3"),
        ([{"find": [{"re": r"\d+,\d+"}, {"text": "Sale"}]}], "479,00\nSale"),
        ([{"keep": {"css": "h1"}}, {"case": "ignore"}], "sale"),
        ([{"keep": {"css": "tr"}}, {"lines": {"keep": [{"text": "APPLES"}]}}], "Apples 10"),
        ([{"keep": {"css": "tr"}}, {"lines": {"keep": [{"text": "APPLES", "case": True}]}, "optional": True}], ""),
        ([{"keep": {"css": "tr"}}, {"lines": {"drop": [{"re": "^pears"}]}}], "Apples 10"),
        ([{"keep": {"css": "#none"}, "optional": True}], ""),
    ],
)
def test_steps_on_a_page(steps: list[Any], kept: str) -> None:
    found = read(steps)
    assert (found.content.decode(), found.media, found.missing) == (kept, Media.HTML, "")


def test_cells_stand_on_the_line_of_their_row() -> None:
    page = b"""<table><thead><tr><th>Name<th>Price<th></tr></thead>
    <tr><td><p>pears</p></td><td>
      <div>2 <b>EUR</b></div></td><td></td></tr><tr><td></td><td>x</td></tr></table><p>no cell</p>"""
    found = read([{"text": {"cells": "tab"}}], page)
    assert found.content.decode() == "Name\tPrice\npears\t2 EUR\n\tx\nno cell"


def test_without_steps_a_page_is_read_as_without_a_selection() -> None:
    from pollerd.detection.normalise import normalise

    assert read([]).content == normalise(PAGE, "text/html").content


@pytest.mark.parametrize(
    ("steps", "body", "content_type", "kept", "media"),
    [
        ([{"keep": {"jsonpath": "$.data[?@.id==7].status"}}], JSON, "application/json", "open", Media.JSON),
        ([{"keep": {"jsonpath": "$.data[*].id"}}], JSON, "application/json", "[\n  7,\n  8\n]", Media.JSON),
        ([{"keep": {"jsonpath": "$.data[1].status"}}], JSON, "application/json", "null", Media.JSON),
        ([{"keep": {"jsonpath": "$.data[0]"}}, {"keep": {"jsonpath": "$.id"}}], JSON, "text/plain", "7", Media.JSON),
        (
            [{"as": "xml"}, {"keep": {"xpath": "//a"}}],
            XML,
            "text/xml",
            '<a n="1">one</a>\n<a n="2">two</a>',
            Media.TEXT,
        ),
        ([{"keep": {"xpath": "//a/@n"}}], XML, "application/xml", "1\n2", Media.TEXT),
        ([{"as": "xml"}, {"remove": {"xpath": "//a"}}], XML, "text/xml", "<r>\n  <b/>\n</r>", Media.TEXT),
        ([{"items": {"fields": ["title"]}}], RSS, "text/xml", "CVE-1 found\nParty", Media.FEED),
        (
            [{"items": {"fields": ["link", "summary"], "where": {"title": {"re": r"(?i)\bcve\b"}}}}],
            RSS,
            "application/rss+xml",
            "https://example.org/1\tbad",
            Media.FEED,
        ),
        ([{"items": {"where": {"title": "none of them"}}}], RSS, "text/xml", "", Media.FEED),
        (
            [{"as": "source"}, {"lines": {"keep": "<channel>"}}],
            RSS,
            "text/xml",
            RSS.split(b"\n")[0].decode(),
            Media.TEXT,
        ),
        ([{"as": "text"}], b"a\r\nb", "text/html", "a\nb", Media.TEXT),
        ([{"space": "collapse"}], b"a   b\n\n\n c ", "text/plain", "a b\nc", Media.TEXT),
        ([{"space": "trim"}], b" a   b\n\n c ", "text/plain", "a   b\nc", Media.TEXT),
        ([{"unique": "adjacent"}], b"a\na\nb\na", "text/plain", "a\nb\na", Media.TEXT),
        ([{"sort": "number"}], b"b 10\na 9,5\nnone\nc -1", "text/plain", "c -1\na 9,5\nb 10\nnone", Media.TEXT),
        ([{"sort": "reverse_order"}], b"b\nc\na", "text/plain", "a\nc\nb", Media.TEXT),
    ],
)
def test_steps_on_other_media(steps: list[Any], body: bytes, content_type: str, kept: str, media: Media) -> None:
    found = read(steps, body, content_type)
    assert (found.content.decode(), found.media, found.missing) == (kept, media, "")


def test_an_element_of_xml_is_kept_with_its_own_namespaces_only() -> None:
    def kept(declared: str) -> str:
        feed = f"<rss {declared} xmlns:dc='http://dc/'><item><title>A &amp; b</title><dc:by>me</dc:by></item></rss>"
        return read([{"keep": {"xpath": "//item/*"}}], feed.encode(), "text/xml").content.decode()

    assert kept("") == '<title>A &amp; b</title>\n<dc:by xmlns:dc="http://dc/">me</dc:by>'
    assert kept("xmlns:media='http://media/'") == kept("")


ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="urn:m"><title>All</title>
<entry><id>1</id><title>Release 1</title><media:group><media:title>Clip</media:title></media:group></entry></feed>"""


@pytest.mark.parametrize(
    ("xpath", "kept"),
    [
        ("//entry/title", "<title>Release 1</title>"),
        ("//entry/title/text()", "Release 1"),
        ("/feed/entry[1]/id", "<id>1</id>"),
        ("//title[. = 'Clip']", "<title>Clip</title>"),
        ("//title", "<title>All</title>\n<title>Release 1</title>"),
        ("//group", "<group>\n  <title>Clip</title>\n</group>"),
        ("count(//entry)", "1"),
        ("string(//entry/id)", "1"),
        ("//*[local-name()='id']", '<id xmlns="http://www.w3.org/2005/Atom">1</id>'),
    ],
)
def test_xpath_finds_elements_of_namespaces_by_their_local_names(xpath: str, kept: str) -> None:
    """What an expression matches as it is written comes first."""
    found = read([{"keep": {"xpath": xpath}}], ATOM, "application/atom+xml")
    assert (found.content.decode(), found.missing) == (kept, "")


def test_xpath_by_local_names_in_several_steps_and_values() -> None:
    steps = [{"remove": {"xpath": "//group"}}, {"keep": {"xpath": "//entry"}}, {"keep": {"xpath": ".//title"}}]
    found = read(steps, ATOM, "text/xml", values={"id": {"kind": "number", "from": {"xpath": "//entry/id"}}})
    assert found.content == b"<title>Release 1</title>"
    assert found.readings["id"].text == "1"
    rss = b"<rss xmlns:dc='urn:dc'><channel><item><title>A</title><dc:creator>me</dc:creator></item></channel></rss>"
    values = {"by": {"kind": "text", "from": {"xpath": "//creator"}}, "css": {"kind": "text", "from": {"css": "b"}}}
    readings = read([], rss, "application/rss+xml", values=values).readings
    assert (readings["by"].text, readings["css"].text) == ("me", "")
    assert readings["css"].problem


def test_css_on_a_feed_says_what_to_use() -> None:
    for steps in ([{"keep": {"css": "entry > title"}}], [{"remove": {"css": "media"}}]):
        missing = read(steps, ATOM, "application/atom+xml").missing
        assert "which is feed; in a feed, CSS selects nothing: use the step items, or xpath" in missing
    readings = read([], ATOM, "text/xml", values={"id": {"kind": "number", "from": {"css": "id"}}}).readings
    assert "use the step items, or xpath" in readings["id"].problem


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (
            [{"remove": {"jsonpath": "$.at"}}, {"keep": {"jsonpath": "$"}}],
            {"data": [{"id": 7, "status": "open"}, {"id": 8, "status": None}]},
        ),
        ([{"remove": {"jsonpath": "$..status"}}], {"at": 1, "data": [{"id": 7}, {"id": 8}]}),
        (
            [{"remove": [{"jsonpath": "$.data[?@.id == 7]"}, {"jsonpath": "$.at"}]}],
            {"data": [{"id": 8, "status": None}]},
        ),
        ([{"remove": {"jsonpath": "$.data[-1, 0, -1]"}}], {"at": 1, "data": []}),
        ([{"remove": {"jsonpath": "$.data[*]['status', 'id']"}}], {"at": 1, "data": [{}, {}]}),
        (
            [{"remove": {"jsonpath": "$.none"}}, {"remove": {"jsonpath": "$.data[::2]"}}],
            {"at": 1, "data": [{"id": 8, "status": None}]},
        ),
        ([{"remove": {"jsonpath": "$"}}], {"at": 1, "data": [{"id": 7, "status": "open"}, {"id": 8, "status": None}]}),
    ],
)
def test_fields_of_json_are_removed(steps: list[Any], kept: object) -> None:
    values = {"at": {"kind": "number", "from": {"jsonpath": "$.at"}}}
    selected = read(steps, JSON, "application/json", values=values)
    assert (selected.media, orjson.loads(selected.content), selected.missing) == (Media.JSON, kept, "")
    assert selected.readings["at"].number == 1, "of the whole document, as of a page"
    assert "does not fit the page" in read(steps, PAGE).missing
    with pytest.raises(InvalidValueError, match="css and xpath for pages, or jsonpath for JSON"):
        read([*steps[:1], {"keep": {"css": "a"}}])


def test_of_lines_of_json_fields_are_removed_and_kept() -> None:
    steps = [{"remove": {"jsonpath": "$[*].at"}}, {"keep": {"jsonpath": "$[1]"}}]
    assert orjson.loads(read(steps, b'{"id": 1, "at": 5}\n{"id": 2, "at": 6}\n', "application/json").content) == {
        "id": 2
    }


def test_json_lines_are_read_by_jsonpath() -> None:
    lines = b'{"id": 1}\n{"id": 2}\n'
    assert read([{"keep": {"jsonpath": "$[1].id"}}], lines, "application/json").content == b"2"
    values = {"id": {"kind": "number", "from": {"jsonpath": "$[0].id"}}}
    for content_type in ("application/json", "application/x-ndjson", "text/plain"):
        found = read([], lines, content_type, values=values)
        assert (found.readings["id"].text, found.content) == ("1", lines)


def test_bytes_are_kept_as_they_are() -> None:
    found = read([{"as": "bytes"}], b"\0\1", "text/html")
    assert (found.content, found.media) == (b"\0\1", Media.BINARY)


@pytest.mark.parametrize(
    ("steps", "body", "content_type", "why"),
    [
        ([{"keep": {"css": "#none"}}], PAGE, "text/html", "steps[0] matches nothing"),
        ([{"keep": {"css": "main"}}, {"keep": {"css": "#none"}}], PAGE, "text/html", "steps[1] matches nothing"),
        ([{"keep": {"jsonpath": "$.none"}}], JSON, "application/json", "steps[0] matches nothing"),
        ([{"keep": {"css": "p"}}], JSON, "application/json", "does not fit the page, which is json"),
        ([{"keep": {"jsonpath": "$.a"}}], PAGE, "text/html", "does not fit the page, which is html"),
        ([{"as": "xml"}], b"", "text/xml", "the page is no XML"),
        ([{"as": "json"}], PAGE, "text/html", "the page is no JSON"),
        ([{"as": "feed"}], PAGE, "text/html", "the page is no feed"),
        ([{"items": {}}], PAGE, "text/html", "the page is no feed"),
        ([{"as": "pdf"}], PAGE, "text/html", "not a PDF document"),
        ([{"lines": {"keep": "nowhere"}}], PAGE, "text/html", "nothing is left"),
        ([{"find": {"re": "nowhere"}}], PAGE, "text/html", "nothing is left"),
    ],
)
def test_nothing_selected_says_why(steps: list[Any], body: bytes, content_type: str, why: str) -> None:
    assert why in read(steps, body, content_type).missing


def test_values_of_a_page() -> None:
    values = {
        "shown": {"kind": "price", "from": {"css": ".price b"}},
        "machine": {"kind": "price", "from": {"css": "[itemprop=price]", "attribute": "content"}},
        "linked": {"kind": "price", "from": {"jsonpath": "$..price"}},
        "stock": {"kind": "text", "from": {"jsonpath": "$..availability"}},
        "page": {"kind": "number", "from": {"re": r"Page (\d+)", "with": r"\1"}},
        "none": {"kind": "number", "from": {"xpath": "//none"}},
    }
    found = read([{"remove": {"css": "b"}}], values=values)  # values are read before anything is removed
    texts = {name: one.text for name, one in found.readings.items()}
    assert texts["shown"] == texts["machine"] == texts["linked"] == "479"
    assert (texts["stock"], texts["page"]) == ("https://schema.org/InStock", "3")
    assert found.readings["none"].problem


def test_values_of_json_feeds_and_pdf_without_elements() -> None:
    values = {"id": {"kind": "number", "from": {"jsonpath": "$.data[0].id"}}}
    assert read([], JSON, "application/json", values=values).readings["id"].text == "7"
    css = {"id": {"kind": "number", "from": {"css": "b"}}}
    for body, content_type in ((JSON, "application/json"), (RSS, "text/xml")):
        assert read([], body, content_type, values=css).readings["id"].problem


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"steps": "x"}, "selections.default.steps[0]"),
        ({"steps": [{}]}, "selections.default.steps[0]"),
        ({"steps": [{"keep": {"css": "a"}, "remove": {"css": "b"}}]}, "selections.default.steps[0]"),
        ({"steps": [{"keep": {"css": "a"}, "limit": 0}]}, "selections.default.steps[0].limit"),
        ({"steps": [{"keep": {"css": "a"}, "optional": "yes"}]}, "selections.default.steps[0].optional"),
        ({"steps": [{"keep": {"css": "a", "xpath": "b"}}]}, "selections.default.steps[0].keep"),
        ({"steps": [{"keep": {"css": "a["}}]}, None),
        ({"steps": [{"text": {"cells": "comma"}}]}, "selections.default.steps[0].text.cells"),
        ({"steps": [{"text": {}}]}, "selections.default.steps[0].text"),
        ({"steps": [{"text": {"rows": "tab"}}]}, "selections.default.steps[0].text.rows"),
        ({"steps": [{"text": {"links": "no"}}, {"keep": {"css": "a"}}]}, "selections.default.steps[1].keep"),
        ({"steps": [{"as": "docx"}]}, "selections.default.steps[0].as"),
        ({"steps": [{"as": "json"}, {"keep": {"css": "a"}}]}, "selections.default.steps: selections.default.steps[1]"),
        ({"steps": [{"keep": {"css": "a"}}, {"keep": {"xpath": "//b"}}]}, "selections.default.steps[1].keep"),
        ({"steps": [{"items": {"fields": ["body"]}}]}, "selections.default.steps[0].items.fields[0]"),
        ({"steps": [{"items": {}}, {"keep": {"css": "a"}}]}, "selections.default.steps: items"),
        ({"steps": [{"lines": {}}]}, "selections.default.steps[0].lines"),
        ({"steps": [{"replace": {"re": "(", "with": ""}}]}, None),
        ({"steps": [{"replace": {"re": "a", "with": r"\1"}}]}, None),
        ({"steps": [{"space": "none"}]}, "selections.default.steps[0].space"),
        ({"values": {"a": {"kind": "price", "from": {"css": "b", "attribut": "c"}}}}, None),
        ({"values": {"a": {"kind": "price", "from": {"jsonpath": "$.a", "attribute": "c"}}}}, None),
        ({"conditions": {"value": "prize", "below": 1}}, "selections.default.conditions.value"),
        ({"least": {"chars": -1}}, "selections.default.least.chars"),
        ({"step": []}, "selections.default.step"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(given: dict[str, Any], field: str | None) -> None:
    with pytest.raises(InvalidValueError, match=r"selections\.default") as refused:
        compile_selection("default", "selections.default", given)
    if field is not None:
        assert refused.value.field == field


def test_a_page_that_no_parser_can_read_is_refused() -> None:
    with pytest.raises(SelectionLimitError):
        read([{"keep": {"css": "p"}}], b"<div><b>" * 200_000)


@given(st.text(alphabet="ab\n A", max_size=50))
def test_text_steps_are_idempotent(text: str) -> None:
    for step in (
        unique_step("f", "all"),
        unique_step("f", "adjacent"),
        sort_step("f", "text"),
        sort_step("f", "number"),
        space_step("f", "collapse"),
        space_step("f", "trim"),
    ):
        assert step(step(text)) == step(text)


def test_the_version_follows_what_is_kept_not_the_conditions() -> None:
    def version(given: dict[str, Any], name: str = "default") -> bytes:
        return compile_selection(name, "f", given).version

    plain = version({"steps": [{"keep": {"css": "a"}}]})
    assert plain == version({"steps": [{"keep": {"css": "a"}}], "conditions": {"appears": "x"}, "least": {"chars": 3}})
    assert plain != version({"steps": [{"keep": {"css": "b"}}]})
    assert plain != version({"steps": [{"keep": {"css": "a"}}]}, "other")
