import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.feed import remember
from pollerd.detection.normalise import Normalised, normalise
from pollerd.detection.summary import summarise
from pollerd.model import Media


def feed(*titles: str) -> bytes:
    items = "".join(f"<item><guid>{title.lower()}</guid><title>{title}</title></item>" for title in titles)
    return normalise(f"<rss version='2.0'><channel>{items}</channel></rss>".encode(), "text/xml").content


def values(text: str) -> bytes:
    return normalise(text.encode(), "application/json").content


@pytest.mark.parametrize(
    ("before", "after", "media", "line"),
    [
        (None, b"x" * 1_234, Media.HTML, "now 1,234 bytes"),
        (b"x" * 12_040, b"x" * 12_311, Media.BINARY, "12,040 -> 12,311 bytes"),
        (b"a\nb", b"a\nc\nd\ne", Media.TEXT, "3 lines added, 1 removed: «c»"),
        (b"a", b"a\n\nb  b", Media.HTML, "2 lines added: «b b»"),
        (b"a\nb", b"a", Media.HTML, "1 line removed: «b»"),
        (b"a\nb", b"b\na", Media.HTML, "lines reordered"),
        (b"", b"", Media.HTML, "no line changed"),
        (feed("A", "B"), feed("C", "D", "A", "B"), Media.FEED, "2 new entries: C; D"),
        (feed("A", "B"), feed("C", "B"), Media.FEED, "1 new entry: C, 1 gone"),
        (feed("A"), feed("a"), Media.FEED, "1 edited: a"),
        (feed(), feed("A", "B", "C", "D"), Media.FEED, "4 new entries: A; B; C; …"),
        (values('{"a":{"b":1},"c":2,"d":3}'), values('{"a":{"b":2},"c":3,"d":3}'), Media.JSON, "keys changed: a.b, c"),
        (values('{"a":[1,2]}'), values('{"a":[1,3]}'), Media.JSON, "keys changed: a[1]"),
        (values('{"a":1}'), values('{"b":1}'), Media.JSON, "keys changed: a, b"),
        (values("[1]"), values("[1,2]"), Media.JSON, "2 lines added, 1 removed: «1,»"),
        (b"<p>", values('{"b":1}'), Media.JSON, "3 lines added, 1 removed: «{»"),
    ],
)
def test_one_line_for_a_person(before: bytes | None, after: bytes, media: Media, line: str) -> None:
    assert summarise(before, after, media) == line


def window(titles: str) -> Normalised:
    """A feed of entries with these ids, in this order."""
    items = "".join(f"<item><guid>{title}</guid></item>" for title in titles)
    return normalise(f"<rss version='2.0'><channel>{items}</channel></rss>".encode(), "text/xml")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("CBA", "DCB", "1 new entry: D"),
        ("CBA", "EDC", "2 new entries: D; E"),
        ("CBA", "FED", "3 new entries: D; E; F"),
        ("DCBA", "EDBA", "1 new entry: E, 1 gone"),
        ("DCBA", "EDB", "1 new entry: E, 1 gone"),
        ("DCBA", "ECB", "1 new entry: E, 1 gone"),
        ("CBA", "BA", "1 gone"),
        ("CBA", "CA", "1 gone"),
        ("CBA", "CB", "1 old entry left at the end"),
        ("DCBA", "DC", "2 old entries left at the end"),
        ("DCBA", "DB", "1 gone"),
        ("CBA", "", "3 gone"),
        ("ABC", "BCD", "1 new entry: D"),
        ("ABCD", "ACDE", "1 new entry: E, 1 gone"),
        ("ABC", "DEF", "3 new entries: D; E; F"),
    ],
)
def test_what_fell_off_the_end_of_a_feed_is_not_gone(before: str, after: str, line: str) -> None:
    old, new = window(before), window(after)
    items = remember(b"", old.entries)
    assert summarise(old.content, new.content, Media.FEED, order=(items, remember(items, new.entries))) == line


def test_deeply_nested_json_is_survived() -> None:
    deep = b"[" * 900 + b"%d" + b"]" * 900
    assert summarise(deep % 1, deep % 2, Media.JSON)


@given(st.none() | st.binary(max_size=600), st.binary(max_size=600), st.sampled_from(Media))
def test_any_contents_give_one_short_line(before: bytes | None, after: bytes, media: Media) -> None:
    line = summarise(before, after, media)
    assert 0 < len(line) <= 200
    assert len(line.splitlines()) == 1


@given(
    st.dictionaries(st.text(max_size=90), st.integers(0, 1)), st.dictionaries(st.text(max_size=90), st.integers(0, 1))
)
def test_any_keys_give_one_short_line(before: dict[str, int], after: dict[str, int]) -> None:
    line = summarise(json.dumps(before).encode(), json.dumps(after).encode(), Media.JSON)
    assert 0 < len(line) <= 200
    assert len(line.splitlines()) == 1


_TEXTS = st.lists(st.sampled_from([b"a", b"bb", b"a bb", b"", b"c"]), max_size=12).map(b"\n".join)


@given(_TEXTS, _TEXTS)
def test_lines_alike_at_both_ends_do_not_change_what_is_counted(before: bytes, after: bytes) -> None:
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    line = summarise(before, after, Media.TEXT)
    added, removed = (new - old).total(), (old - new).total()
    if added:
        assert line.startswith(f"{added} line")
    if removed:
        assert f"{removed} {'removed' if added else 'line'}" in line
    assert ("added" in line, "removed" in line) == (added > 0, removed > 0)
