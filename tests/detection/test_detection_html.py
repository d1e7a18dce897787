import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.html import visible_text


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
