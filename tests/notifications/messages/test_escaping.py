"""Text of pages is shown by every medium and obeyed by none."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pollerd.notifications.messages import one_line, plain_line
from pollerd.notifications.writing import GAP, Medium, escaped, inert_in_chats, link, web_url
from tests.support.sample_events import HOSTILE

ACTIVE = {
    "Slack": r"<[^<>\s][^<>]*>|(?<!\w)\*\S.*?\S?\*(?!\w)|"
    r"(?<!\w)_\S.*?_(?!\w)|~\S.*?~|`[^`]+`|^>|:[\w+-]+:|@(?:here|channel)",
    "Discord": r"@(?:everyone|here)|<[@#:t/][^>]*>|\*.+?\*|__?.+?__?|~~.+?~~|\|\|.+?\|\||"
    r"`.+?`|\[[^\]]*\]\(|^#{1,3} |^> |^-# ",
    "Telegram": r"[_*`\[~|]|https?://\S|(?<![\w.])[\w-]+\.[a-z]{2,}\b|(?<!\S)/\w+|@\w{3,}|#\w+",
    "GitHub": r"<[a-zA-Z!/]|@[\w-]+|(?<!\w)#\d+|https?://\S|www\.\w|:[\w+-]+:|&\#?\w+;",
}
"""What each service acts on in the text of a message, for all that concerns these texts."""
any_text = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([*HOSTILE, *"*_~`|<>[]()#@:/.-+=!\\&;$ a1\n"]), max_size=12).map("".join),
)


@pytest.mark.parametrize("service", ACTIVE)
@given(text=any_text)
def test_nothing_is_left_that_a_chat_acts_on(service: str, text: str) -> None:
    shown = inert_in_chats(one_line(text, 500))
    found = re.search(ACTIVE[service], shown, re.MULTILINE)
    assert found is None, f"{service} acts on {found[0]!r} in {shown!r}"


@given(any_text)
def test_markdown_renders_it_as_one_paragraph_of_text(text: str) -> None:
    shown = inert_in_chats(one_line(text, 500))
    rendered = MarkdownIt("commonmark").render(f"{shown}  \n")
    assert rendered in ("", f"<p>{html.escape(shown.strip(), quote=False).replace(chr(34), '&quot;')}</p>\n")


@given(any_text)
def test_escaping_again_changes_nothing(text: str) -> None:
    once = inert_in_chats(one_line(text, 500))
    assert inert_in_chats(once) == once


def test_what_is_harmless_stays_as_it_is() -> None:
    for text in ("Price fell from 12.50 € to 9.99 €, 20 % off (today)", "1.5 kg; 3/4; 10:30; a-b; «on sale»!", "$5"):
        assert inert_in_chats(text) == text


class Tags(HTMLParser):
    """Collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"title"}

    def handle_data(self, data: str) -> None:
        self.text += data


@given(any_text)
def test_html_shows_it_whole(text: str) -> None:
    plain = one_line(text, 500)
    parser = Tags()
    parser.feed(f'<p title="{escaped(plain, Medium.HTML)}">{escaped(plain, Medium.HTML)}</p>')
    parser.close()
    assert parser.tags == ["p"]
    assert parser.text == plain


@given(st.text(st.characters(), max_size=80), st.integers(5, 40))
def test_plain_lines_are_short_and_break_nothing(text: str, most: int) -> None:
    for line in (one_line(text, most), plain_line(text, most)):
        assert len(line) <= most
        assert len(line.splitlines()) <= 1
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", line)
        line.encode()


def test_plain_lines_keep_what_people_write() -> None:
    assert one_line("  Zürich \t 東京\u3000👩\u200d🚀 \n", 50) == "Zürich 東京 👩\u200d🚀"
    assert plain_line("    indented\ttext", 50) == "    indented text"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("x" + "\u200b" * 10_000 + "y", 10) == "x…", "hidden text beyond what is looked at"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/b?c=d&e=1#f", "https://a.example/b?c=d&e=1#f"),
        ("http://[::1]:8000/x", "http://[::1]:8000/x"),
        ("https://a.example/<b>\"'`|", "https://a.example/%3Cb%3E%22'%60%7C"),
        ("https://bücher.example/ü", "https://bücher.example/%C3%BC"),
        ("javascript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//a.example", ""),
        ("https://", ""),
        ("https://a.example/a b", ""),
        ("https://a.example/\nb", ""),
        ("http://[::1", ""),
        ("", ""),
    ],
)
def test_links_are_of_the_web(url: str, shown: str) -> None:
    assert web_url(url) == shown


def test_links_in_each_medium() -> None:
    url = "https://a.example/a_b*c~d'|x>y"
    assert link(url, Medium.TEXT) == "https://a.example/a_b%2Ac~d'%7Cx%3Ey".replace("%2A", "%2A")
    assert link(url, Medium.MARKDOWN) == "<https://a.example/a%5Fb%2Ac%7Ed%27%7Cx%3Ey>"
    expected = "https://a.example/a_b%2Ac~d&#x27;%7Cx%3Ey"
    assert link(url, Medium.HTML) == f'<a href="{expected}" rel="noopener noreferrer">{expected}</a>'
    assert link("javascript:x", Medium.HTML) == "javascript:x"
    assert link("[x](y)", Medium.MARKDOWN) == "\N{FULLWIDTH LEFT SQUARE BRACKET}x\N{FULLWIDTH RIGHT SQUARE BRACKET}(y)"
    assert GAP in link("ftp://a.example/@here", Medium.MARKDOWN)
