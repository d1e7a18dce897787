"""Plain markup read in one pass: where that gives a text at all it is the parser's, byte for byte."""

from __future__ import annotations

from html.entities import html5

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pollerd.detection.html import fold_white_space, simplified, text_by_parser, text_of_plain

_names = st.sampled_from(
    b"p div li h1 br ul body head html main section option optgroup hr a b i em span img meta link code nobr button "
    b"label form x-y svg g path desc foreignObject math mi select table tbody tr td th caption col colgroup pre "
    b"textarea title script style noscript iframe noembed noframes template xmp plaintext listing frameset DIV Td "
    b"dIv".split()
)
_attributes = st.sampled_from(
    b"""||| class="a"| x| x=y| x = 'y'| x=a/|/| x="<p>"| x=">"| x=>| x="1"y=2| "|=|\n|\f|\v| x="\n"| x=a="b""".split(
        b"|"
    )
)
_texts = st.sampled_from(
    b"t|u v| |\n|\f|\r\n|\t|<|>|a < b|&|&amp;|&lt;p&gt;|&nbsp;|&copy|&notit;|&T|&#9;|&#12;|&#10;|\xc3\xa9|\xc2\xa0|\xff"
    b"|\xe2\x80\x8b|\0|-->|<!|</|<?php ?>|<![CDATA[x]]>|<!doctype html>".split(b"|")
)
_comments = st.sampled_from(
    b"<!---->|<!-->|<!--->|<!-- a -->|<!-- <p> -->|<!-- <pre> -->|<!--a--!>b-->|<!--|<!-- - -- -->".split(b"|")
)
_starts = st.builds(b"<%b%b>".__mod__, st.tuples(_names, _attributes))
_ends = st.builds(b"</%b%b>".__mod__, st.tuples(_names, _attributes))


def _element(name: bytes, attributes: bytes, inside: bytes) -> bytes:
    return b"<%b%b>%b</%b>" % (name, attributes, inside, name)


_simple = _texts | _comments | _starts | _ends
_nested = st.builds(_element, _names, _attributes, _simple | st.builds(_element, _names, _attributes, _simple))
_pages = st.lists(_simple | _nested, max_size=8).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(_pages)
@example(b"\0<")
@example(b"<table><tr>x</table>")
@example(b"<title>a</title><pre>b\nc</pre>")
@example(b"<!-- <pre> -->a\nb")
@example(b"<svg><title/>a<p>b</svg>")
def test_the_text_of_plain_markup_is_that_of_its_tree(html: bytes) -> None:
    for page in (html, simplified(html)):
        text = text_of_plain(page)
        assert text is None or fold_white_space(text) == fold_white_space(text_by_parser(simplified(html)))


def _references() -> list[str]:
    numbers = [*range(0x100), 0xD7FF, 0xD800, 0xDFFF, 0xFDD0, 0xFFFE, 0x1F600, 0x10FFFF, 0x110000, 10**20]
    named = [f"&{name}" for name in html5]
    return named + [f"{name}x" for name in named] + [f"&#{n};" for n in numbers] + [f"&#x{n:X}" for n in numbers]


def test_every_character_reference_means_what_the_parser_says() -> None:
    # A word around each, so that none is lost where lines are folded.
    html = "".join(f"<p>a{reference} b</p>" for reference in _references()).encode()
    text = text_of_plain(html)
    assert text is not None
    for ours, parsed in zip(
        fold_white_space(text).split(b"\n"), fold_white_space(text_by_parser(html)).split(b"\n"), strict=True
    ):
        assert ours == parsed


@pytest.mark.parametrize(
    "html",
    [
        "<!DOCTYPE html><html lang='en'><head><title>T &amp; U</title><style>p > a {}</style></head><body class=x>",
        "<p>one <b class='x'>two</b></p><!-- three --><script>if (a < b) { '<p>' }</script>",
        "<ul><li>a<li>b</ul><select><option>c</select><textarea>d</textarea>",
        "<table>\n <thead>\n <tr> <th>a</th>\n <th>b</th> </tr></thead> <tr> <td>c</td> <td>d</td></tr></table>",
        '<svg viewBox="0 0 1 1"><title>e</title><path d="M0 0"/></svg><pre>one line</pre><?xml version="1.0"?>',
        "<noscript><p>f</p></noscript><IFRAME>".lower() + "g</iframe><a href=h?i=j>k</a>",
    ],
)
def test_the_markup_of_most_pages_is_plain(html: str) -> None:
    assert text_of_plain(html.encode()) is not None


@pytest.mark.parametrize(
    "html",
    [
        "<table><tr>moved</tr></table>",
        "a < b",
        "<p title='>x",
        "<script>never closed",
        "<script><!-- <script> --></script>",
        "<template>a</template>",
        "<svg><p></svg><frameset>",
        "<pre>a\nb</pre>",
        "\0",
        "\ud800",
    ],
)
def test_what_takes_a_tree_is_left_to_the_parser(html: str) -> None:
    assert text_of_plain(html.encode("utf-8", "surrogatepass")) is None


@pytest.mark.parametrize(
    "unit",
    [
        b"<pre>",
        b"<title>",
        b"<select><option>",
        b"<svg><g>",
        b"<!--",
        b"<!-",
        b"<table><tr>",
        b"<p ",
        b"<script>",
        b"&#",
    ],
)
def test_time_is_linear_in_whatever_is_repeated(unit: bytes) -> None:
    # A megabyte: were a part of it looked through for each repetition, this would take hours.
    assert text_of_plain(unit * (1_000_000 // len(unit))) in (None, b"&#" * 500_000)
