import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.html import visible_text, why_no_text
from pollerd.model import FIRST_READER


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("<title>T</title><p>a<p>b", "T\na\nb"),
        ("<p>a  \n\t b</p>\n\n<p>c</p>", "a b\nc"),
        ("<p>one <b>two</b>thr<i>ee</i></p>", "one twothree"),
        ("a<br>b<BR/>c", "a\nb\nc"),
        ("<p>a<!-- c --><script>s</script><style>t</style><noscript>n</noscript><template>m</template></p>", "a"),
        ("<SCRIPT>x</SCRIPT>y<iframe>old</iframe>", "y"),
        ("<head><noscript><p>enable it</p></noscript><meta name=d content=e></head><body>x", "x"),
        ('<p title="<p>not me">a</p><input type=hidden value=t><input value=v>', "a"),
        ("<table><tr><td>1<td>23<tr><TD>12</TD><th>3</table>", "1 23\n12 3"),
        ("<ul><li>a<li>b</ul><h2>c</h2>", "a\nb\nc"),
        ("<pre>x = 1\n  y = 2</pre>z\nw", "x = 1\ny = 2\nz w"),
        ("a&nbsp;&nbsp;b&amp;c&shy;d\u200be", "a b&cde"),
        ("&#xD800;&#0;", "\ufffd\ufffd"),
        ("<svg><title>pic</title><style>s</style></svg>after", "pic\nafter"),
        ("<textarea>kept</textarea><select><option>o<option>p</select>", "kept\no\np"),
    ],
)
def test_what_a_reader_sees(html: str, text: str) -> None:
    assert visible_text(html.encode()).decode() == text


@pytest.mark.parametrize(
    "noise",
    [
        '<form hidden><input type="hidden" name="csrf_token" value="8f2"></form>',
        "<!-- generated Fri, 16 Jul 2021 23:46:17 GMT 1f -->",
        '<script nonce="x">var t = 5;</script>',
        '<img src="pixel?1" alt="">',
        "\n\n   \t",
        '<link rel="preload" href="a.css?v=2">',
        '<meta name="csrf-token" content="abc">',
    ],
)
def test_what_nobody_sees_is_no_difference(noise: str) -> None:
    assert visible_text(f"<p>a</p>{noise}<p>b</p>".encode()) == b"a\nb"


def test_source_line_breaks_do_not_count() -> None:
    flowing = b"<p>a long line of text, wrapped</p>"
    assert visible_text(flowing.replace(b" ", b"\r\n    ")) == visible_text(flowing)


def test_markup_around_the_same_words_does_not_count() -> None:
    assert visible_text(b'<p class="x">see <a href="1">this</a></p>') == visible_text(b"<div>see <em>this</em></div>")


@given(st.binary(max_size=400))
def test_any_bytes_give_folded_utf8(html: bytes) -> None:
    text = visible_text(html).decode()
    assert "  " not in text
    assert "\n\n" not in text
    assert text == text.strip(" \n")


@given(
    st.lists(
        st.sampled_from(["<p>", "</p>", "<table>", "<td>", "<pre>", "<script>", "</", "<!--", "x", "\f", "&", "<p"])
    )
)
def test_any_markup_soup_is_survived(parts: list[str]) -> None:
    lines = visible_text("".join(parts).encode()).decode().split("\n")
    assert lines == [""] or all(line and line == line.strip(" ") for line in lines)


@pytest.mark.parametrize(
    "unit", [b"<div>", b"<p>a", b"<b><i>", b"<table><tr><td>", b"<a href='", b"<!--", b"<pre ", b" \n"]
)
def test_of_five_malformed_megabytes_the_text_shows_and_no_markup(unit: bytes) -> None:
    lines = visible_text(b"<p>start</p>" + unit * (5_000_000 // len(unit))).split(b"\n")
    assert lines[0] == b"start"
    assert set(lines[1:]) == ({b"a"} if unit == b"<p>a" else set())


@pytest.mark.parametrize(
    ("html", "text", "before"),
    [
        ('<p>a<img src=x alt="Sold &amp; out">b</p>', "a Sold & out b", "ab"),
        ("<p><IMG ALT='Up'>x</p>", "Up x", "x"),
        ('<p><img src=x alt="a>b <i>"></p><p>c', "a>b <i>\nc", "c"),
        ('<form><input type="submit" value="Add to <b>"><input type=text value=x></form><p>y', "Add to <b>\ny", "y"),
        ("<input type=button value=Go><input type=reset value=No><input type=image alt=Map>", "Go No Map", ""),
        ('<input type="hidden" value="token"><p>y', "y", "y"),
        ("<select><option>a<option selected value=1>b</select>", "a\n✓ b", "a\nb"),
        ('<select><option class="x selected y">a</select>', "a", "a"),
        (
            "<p>was <s>10</s> <del class=x>9</del> now <strike>8</strike> 7",
            "was ~~10~~ ~~9~~ now ~~8~~ 7",
            "was 10 9 now 8 7",
        ),
        (
            '<x-y><template shadowrootmode="open"><p>In <template><p>no</template></template></x-y>out',
            "In\nout",
            "out",
        ),
        ("<frameset><frame src='a.html'><frame src=b></frameset><noframes>no</noframes>", "a.html\nb", ""),
    ],
)
def test_what_a_reader_sees_besides_the_text_between_tags(html: str, text: str, before: str) -> None:
    assert visible_text(html.encode()).decode() == text
    assert visible_text(html.encode(), FIRST_READER).decode() == before


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>x</p>",
        "<P HIDDEN>x</P>",
        "<div hidden=until-found><p>x</p></div>",
        '<span aria-hidden="true">x</span>',
        '<div class="y" aria-hidden=true><p>x</p><ul><li>x</ul></div>',
        '<p style="color: red; display: none">x</p>',
        "<div style='DISPLAY:NONE;'><p>x</div>",
        '<svg aria-hidden="true"><title>x</title></svg>',
        '<svg aria-hidden="true"><path d="M0"/></svg>',
        '<img hidden alt="x">',
        '<i class="icon" aria-hidden="true"></i>',
    ],
)
def test_what_no_reader_sees_is_left_out(hidden: str) -> None:
    assert visible_text(f"<p>a</p>{hidden}<p>b</p>".encode()).decode() == "a\nb"


@pytest.mark.parametrize(
    "shown",
    [
        '<p class="not hidden at all">x</p>',
        '<p title="display: none">x</p>',
        '<p style="overflow: hidden">x</p>',
        '<p aria-hidden="false">x</p>',
        '<p data-hidden="true">x</p>',
        '<p style="display: block">x</p>',
        "<p>hidden display:none x</p>",
    ],
)
def test_what_only_looks_hidden_is_kept(shown: str) -> None:
    assert "x" in visible_text(f"<p>a</p>{shown}<p>b</p>".encode()).decode().split("\n")[1]


@pytest.mark.parametrize(
    "page", ["<div hidden><p>all<p>of it</div>", '<body style="display:none"><p>all<p>of it', "<p hidden>all of it"]
)
def test_a_page_that_a_script_unhides_is_read_whole(page: str) -> None:
    assert "all" in visible_text(page.encode()).decode()


@pytest.mark.parametrize(
    ("html", "why"),
    [
        ("<title>Shop</title><div id=root></div><script src=/app.js></script>", "set render"),
        ("<div id=root></div><script>1</script><noscript>Enable JavaScript</noscript>", "set render"),
        ("<meta http-equiv=refresh content='0; url=/new'>", "add that URL instead (/new)"),
        ("<frameset><frame src='a.html'><frame src=b></frameset>", "add their URLs instead (a.html, b)"),
        ("<title>Sh&amp;op</title>", "the page has no text"),
        ("", "the page has no text"),
        ("<title>Shop</title><p>Open</p>", ""),
        ("<p>Open</p><script>1</script>", ""),
    ],
)
def test_a_page_without_text_says_why(html: str, why: str) -> None:
    found = why_no_text(html.encode(), visible_text(html.encode()))
    assert (why in found) if why else found == ""
    assert found.isprintable()


@pytest.mark.parametrize(
    "page",
    [
        b"<select><option" + b" " * 100_000 + b"</select>",
        b'<img "' * 50_000 + b" hidden display:none",
        b"<p hidden " * 50_000,
        b"<p " + b'a="b" ' * 50_000 + b"hidden",
        b'<p style="' + b"display" * 50_000 + b"display:",
        b"<svg hidden>" * 20_000,
        b"<div hidden>" * 20_000,
        b"<template shadowrootmode=open>" * 20_000,
        (b"<select><option " + b"a " * 50) * 2_000,
        b"<meta refresh" * 50_000,
        b"<frame <frameset" * 50_000,
    ],
    ids=range(11),
)
def test_odd_markup_costs_linear_time(page: bytes) -> None:
    """It ends: quadratic time would take minutes here."""
    assert len(visible_text(page)) <= len(page)
    assert why_no_text(page, b"").isprintable()
