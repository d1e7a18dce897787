"""Lists of sites: every format, every kind of bad line."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.api.formats import Format
from pollerd.api.list_formats import parse_file, parse_list, parse_text
from pollerd.errors import InvalidValueError
from pollerd.site_settings import SiteSpec


def parsed(data: bytes, content_type: str) -> dict[int, SiteSpec | str | None]:
    """Line -> the spec, or the field that was refused."""
    return {
        line: found.field if isinstance(found, InvalidValueError) else found
        for line, found in parse_list(data, content_type)
    }


def test_plain_text_has_a_url_a_line_and_comments() -> None:
    text = "\ufeff# my sites\r\n\r\n  https://a.org/x#part  \r\nhttps://b.org # why\r\nnonsense\r\nhttps://c.org k=v\n"
    assert parsed(text.encode(), "Text/Plain; charset=utf-8") == {
        3: SiteSpec("https://a.org/x"),
        4: SiteSpec("https://b.org/"),
        5: "url",
        6: "line",
    }


@pytest.mark.parametrize(
    ("line", "urls"),
    [
        ("https://a.org https://b.org", ["https://a.org/", "https://b.org/"]),
        ("https://a.org/x\thttp://b.org # both", ["https://a.org/x", "http://b.org/"]),
        ("https://a.org/, https://b.org/; https://c.org/", ["https://a.org/", "https://b.org/", "https://c.org/"]),
        ("https://a.org/,https://b.org/;https://c.org/", ["https://a.org/", "https://b.org/", "https://c.org/"]),
        ("https://a.org/?u=x,https://b.org/", ["https://a.org/?u=x,https://b.org/"]),
        ("https://a.org/?u=x, https://b.org/", ["https://a.org/?u=x", "https://b.org/"]),
        ("https://a.org/web/https://b.org/", ["https://a.org/web/https://b.org/"]),
        ("<https://a.org/> <https://b.org/>", ["https://a.org/", "https://b.org/"]),
        ("feed://a.org/rss feed:https://b.org/rss", ["http://a.org/rss", "https://b.org/rss"]),
        ("https://a.org/x;y,z", ["https://a.org/x;y,z"]),
    ],
)
def test_several_urls_in_a_line(line: str, urls: list[str]) -> None:
    assert list(parse_list(f"\n{line}\n".encode(), "text/plain")) == [(2, SiteSpec(url)) for url in urls]


@pytest.mark.parametrize("line", ["https://a.org/\tNews", "News https://a.org/", "https://a.org/ weight=2"])
def test_what_stands_beside_a_url_is_refused_with_the_way_out(line: str) -> None:
    ((_, found),) = parse_list(line.encode(), "text/plain")
    assert isinstance(found, InvalidValueError)
    assert "settings need a .csv with a header" in str(found)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_encodings(encoding: str) -> None:
    text = "https://a.org/é\r\nhttps://b.org/\r\n" * 3_000
    a, b = SiteSpec("https://a.org/%C3%A9"), SiteSpec("https://b.org/")
    found = list(parse_list(text.encode(encoding), "text/plain"))
    assert found == [(number + 1, b if number % 2 else a) for number in range(6_000)]
    csv = "url;title\nhttps://b.org/;Köln\n".encode(encoding)
    assert parsed(csv, "text/csv") == {2: SiteSpec("https://b.org/", title="Köln")}
    line = '{"url": "https://b.org/", "title": "Köln"}\n'.encode(encoding)
    assert parsed(line, "application/x-ndjson") == {1: SiteSpec("https://b.org/", title="Köln")}


@pytest.mark.parametrize("between", [";", "\t"])
def test_csv_of_spreadsheets_has_other_marks_between_its_cells(between: str) -> None:
    lines = ["url,weight,tags", 'https://a.org/,2,"x;y"', "https://b.org/,,x"]
    data = "\r\n".join(line.replace(",", between) for line in lines).encode()
    assert parsed(data, "text/csv") == {
        2: SiteSpec("https://a.org/", 2.0, tags=("x", "y")),
        3: SiteSpec("https://b.org/", tags=("x",)),
    }


def test_csv_without_a_header_says_what_is_missing() -> None:
    with pytest.raises(InvalidValueError, match="a line before the first site has to hold the names of the columns"):
        parse_list(b"https://a.org/,2\n", "text/csv")


def test_bytes_that_are_no_text_spoil_their_line_alone() -> None:
    data = b"https://a.org/\nhttps://b.org/\xff\nhttps://c.org/\x00\nhttps://d.org/"
    assert parsed(data, "text/plain") == {
        1: SiteSpec("https://a.org/"),
        2: "url",
        3: "url",
        4: SiteSpec("https://d.org/"),
    }


def test_csv_has_a_header_in_any_order() -> None:
    data = (
        b"\n Weight,URL,tags,cost,min_interval,max_interval,half_life\n"
        b'2,https://a.org/,"a; b;",0.5,1,60,3600\n'
        b',"https://b.org/?x=1,2"\n'
        b"\n"
        b"0,https://c.org/\n"
    )
    assert parsed(data, "text/csv") == {
        3: SiteSpec("https://a.org/", 2.0, 0.5, ("a", "b"), 1.0, 60.0, half_life=3600.0),
        4: SiteSpec("https://b.org/?x=1,2"),
        6: SiteSpec("https://c.org/", 0.0),
    }


def test_numbers_may_be_written_with_their_unit() -> None:
    csv = b"url,min_interval,max_interval,min_yield\nhttps://a.org/,90s,1.5h,2.5%\n"
    line = b'{"url": "https://a.org/", "min_interval": "90s", "max_interval": "1.5h", "min_yield": "2.5%"}'
    site = SiteSpec("https://a.org/", min_interval=90.0, max_interval=5400.0, min_yield=0.025)
    assert parsed(csv, "text/csv") == {2: site}
    assert parsed(line, "application/x-ndjson") == {1: site}


def test_a_bad_csv_line_stops_no_other() -> None:
    data = (
        b"url,weight,max_interval\n"
        b'"https://open.org/,1\n'
        b"https://a.org/,much\n"
        b"https://a.org/,nan\n"
        b"https://a.org/,1,2,3\n"
        b",1\n"
        b"https://a.org/,,-1\n"
        b"https://good.org/,1\n"
    )
    found = parsed(data, "text/csv")
    assert found == {
        2: "line",
        3: "weight",
        4: "weight",
        5: "line",
        6: "url",
        7: "max_interval",
        8: SiteSpec("https://good.org/", 1.0),
    }


@pytest.mark.parametrize("header", [b"", b"weight\n", b"url,colour\n", b"url,url\n", b"https://a.org/\n", b'"url\n'])
def test_a_csv_header_that_cannot_be_used_is_refused(header: bytes) -> None:
    with pytest.raises(InvalidValueError, match=r"^header"):
        parse_list(header, "text/csv")


def test_json_lines() -> None:
    data = (
        b'{"url": "https://a.org", "weight": 2, "tags": ["x", "y"], "min_interval": null}\n'
        b"\n"
        b'{"url": "https://b.org", "max_interval": 60.5}'
    )
    assert parsed(data, "application/x-ndjson") == {
        1: SiteSpec("https://a.org/", 2.0, tags=("x", "y")),
        3: SiteSpec("https://b.org/", max_interval=60.5),
    }


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"{", "line"),
        (b"[]", "line"),
        (b'"https://a.org"', "line"),
        (b"\xff", "line"),
        (b"[" * 5000, "line"),
        (b"{}", "url"),
        (b'{"url": 1}', "url"),
        (b'{"url": "https://a.org", "weight": "1"}', "weight"),
        (b'{"url": "https://a.org", "weight": true}', "weight"),
        (b'{"url": "https://a.org", "weight": 1e999}', "line"),
        (b'{"url": "https://a.org", "weight": NaN}', "line"),
        (b'{"url": "https://a.org", "cost": 1' + b"0" * 400 + b"}", "line"),
        (b'{"url": "https://a.org", "min_yield": "1 in 7"}', "min_yield"),
        (b'{"url": "https://a.org", "min_yield": 1}', "min_yield"),
        (b'{"url": "https://a.org", "max_interval": "5 weeks"}', "max_interval"),
        (b'{"url": "https://a.org", "tags": "x"}', "tags"),
        (b'{"url": "https://a.org", "tags": [1]}', "tags"),
        (b'{"url": "https://a.org", "colour": 1}', "colour"),
    ],
)
def test_a_bad_json_line_stops_no_other(line: bytes, field: str) -> None:
    good = b'\n{"url": "https://good.org/"}'
    assert parsed(line + good, "application/jsonl") == {1: field, 2: SiteSpec("https://good.org/")}


@pytest.mark.parametrize("content_type", ["", "text/html", "application/json", "text"])
def test_another_type_is_refused(content_type: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^content_type"):
        parse_list(b"", content_type)


def test_text_is_read_from_a_file_as_it_is_asked_for() -> None:
    file = io.BytesIO(b"\xef\xbb\xbfhttp://a/\r\nhttp://b/\rhttp://c/ # c\n\nbad\n" + b"http://d/\n" * 100_000)
    lines = parse_text(file)
    first = [next(lines) for _ in range(5)]
    assert [(n, getattr(found, "url", "rejected")) for n, found in first] == [
        (1, "http://a/"),
        (2, "http://b/"),
        (3, "http://c/"),
        (5, "rejected"),
        (6, "http://d/"),
    ]
    assert file.tell() < 100_000, "the rest is still to be read"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b" \t\n"])
@pytest.mark.parametrize(
    ("form", "head", "line"),
    [
        (Format.TEXT, b"", b"http://a/"),
        (Format.CSV, b"url", b"http://a/"),
        (Format.JSON_LINES, b"", b'{"url": "http://a/"}'),
    ],
)
def test_blank_lines_are_not_read_one_by_one(form: Format, head: bytes, line: bytes, end: bytes) -> None:
    """Millions of them fit into a list; so few steps keep nobody waiting, and each lets others go on."""
    blank = 3_000_000
    found = list(parse_file(io.BytesIO(head + end * blank + line + end + line), form))
    sites = [number for number, one in found if one is not None]
    assert sites == [blank + 1, blank + 2]
    assert len(found) < 300
    assert len(found) > 10, "others go on in between"


PIECES = (b"http://a/", b" \thttp://b/ ", b"", b"# c", b"\x0b", b"http://c/x" * 9_000)


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.data())
def test_lines_have_the_numbers_that_they_have_in_an_editor(lines: list[bytes], data: st.DataObject) -> None:
    ends = [data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])) for _ in lines]
    text = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    wanted = [n for n, line in enumerate(text.splitlines(), 1) if line.strip().startswith(b"http")]
    assert [n for n, one in parse_text(io.BytesIO(text)) if one is not None] == wanted
