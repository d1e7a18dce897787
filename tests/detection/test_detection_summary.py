import json
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.feed import remember
from pollerd.detection.normalise import Normalised, normalise
from pollerd.detection.summary import replaced, summarise
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
        (b"x" * 12_040, b"x" * 12_311, Media.BINARY, "12,040 → 12,311 bytes"),
        (b"a\nb", b"a\nc\nd\ne", Media.TEXT, "+ c (2 more), − b"),
        (b"a", b"a\n\nb  b", Media.HTML, "+ b b"),
        (b"a\nb", b"a", Media.HTML, "− b"),
        (b"a\nb", b"b\na", Media.HTML, "only blank lines, or the order of lines, changed"),
        (b"a\n\n", b"a\n", Media.TEXT, "only blank lines, or the order of lines, changed"),
        (b"", b"", Media.HTML, "no line changed"),
        (
            b"Ad 1\nPrice: EUR 9.00\nz",
            b"Ad 2\nPrice: EUR 6.00\nz",
            Media.HTML,
            "Price: EUR 9.00 → EUR 6.00, −33 % (1 more)",
        ),
        (feed("A", "B"), feed("C", "D", "A", "B"), Media.FEED, "+ C; D"),
        (feed("A", "B"), feed("C", "B"), Media.FEED, "+ C, 1 gone"),
        (feed("A"), feed("a"), Media.FEED, "edited: a"),
        (feed(), feed("A", "B", "C", "D"), Media.FEED, "+ A; B; C (1 more)"),
        (values('{"a":{"b":1},"c":2,"d":3}'), values('{"a":{"b":2},"c":3,"d":3}'), Media.JSON, "a.b: 1 → 2; c: 2 → 3"),
        (values('{"a":[1,2]}'), values('{"a":[1,"x"]}'), Media.JSON, "a[1]: 2 → x"),
        (values('{"a":1}'), values('{"b":null}'), Media.JSON, "− a; + b: null"),
        (values('{"a":""}'), values('{"a":[1,2]}'), Media.JSON, 'a: "" → [1, 2]'),
        (
            values("{}"),
            json.dumps(dict.fromkeys(map(str, range(300)), 1)).encode(),
            Media.JSON,
            "+ 0: 1; + 1: 1; + 10: 1 (at least 97 more)",
        ),
        (values("[1]"), values("[1,2]"), Media.JSON, "+ 1, (1 more), − 1"),
        (b"<p>", values('{"b":1}'), Media.JSON, "+ { (2 more), − <p>"),
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
        ("CBA", "DCB", "+ D"),
        ("CBA", "EDC", "+ D; E"),
        ("CBA", "FED", "+ D; E; F"),
        ("DCBA", "EDBA", "+ E, 1 gone"),
        ("DCBA", "EDB", "+ E, 1 gone"),
        ("DCBA", "ECB", "+ E, 1 gone"),
        ("CBA", "BA", "1 gone"),
        ("CBA", "CA", "1 gone"),
        ("CBA", "CB", "1 old entry left at the end"),
        ("DCBA", "DC", "2 old entries left at the end"),
        ("DCBA", "DB", "1 gone"),
        ("CBA", "", "3 gone"),
        ("ABC", "BCD", "+ D"),
        ("ABCD", "ACDE", "+ E, 1 gone"),
        ("ABC", "DEF", "+ D; E; F"),
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
def test_lines_alike_at_both_ends_do_not_change_what_is_said(before: bytes, after: bytes) -> None:
    old, new = (Counter(filter(None, content.splitlines())) for content in (before, after))
    added, removed = (new - old).total(), (old - new).total()
    line = summarise(before, after, Media.TEXT)
    if added != removed:
        assert ("+ " in line, "− " in line) == (added > 0, removed > 0)
        assert sum(map(int, re.findall(r"\((\d+) more\)", line))) == added + removed - (added > 0) - (removed > 0)
    elif added:
        assert " more)" in line if added > 1 else " more)" not in line


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("€ 1,199.00", "€ 999.00", "€ 1,199.00 → € 999.00, −17 %"),
        ("1.199,00 €", "999,00 €", "1.199,00 € → 999,00 €, −17 %"),
        ("Preis 1 199,50 EUR inkl. MwSt", "Preis 1 099,50 EUR inkl. MwSt", "Preis 1 199,50 EUR → 1 099,50 EUR, −8 %"),
        ("$5", "$500", "$5 → $500"),
        ("from $5 to $9", "from $5 to $8", "from $5 to $9 → $8, −11 %"),
        ("$5 and $6", "$7 and $8", "$5 and $6 → $7 and $8"),
        ("$1.5", "$1.5.2", "$1.5 → $1.5.2"),
        ("$0", "$4", "$0 → $4"),
        ("Operational", "Major outage", "Operational → Major outage"),
        ("API Operational since May", "API Degraded since May", "API Operational → Degraded"),
        ("Version 3", "Version 4", "Version 3 → 4"),
        ("0 views", "18 views", "0 → 18 views"),
        ("Fire in the harbour", "Fire in the harbour, two hurt", "Fire in the harbour → harbour, two hurt"),
        ("Fire in town", "Fire in town now", "Fire in town + now"),
        ("Fire in town now", "Fire in town", "Fire in town − now"),
        ("w " * 30 + "a", "w " * 30 + "b", "…" + "w " * 20 + "a → b"),
        ("x" * 300 + "a", "x" * 300 + "b", "…xxxxxxxxxxxxxxxa → …xxxxxxxxxxxxxxxb"),
        ("same", "same", "same"),
    ],
)
def test_a_line_that_was_replaced_is_said_by_what_differs(old: str, new: str, words: str) -> None:
    assert replaced(old, new) == words


@given(st.text(max_size=300).map(str.strip), st.text(max_size=300).map(str.strip))
def test_any_lines_are_said_in_bounded_words(old: str, new: str) -> None:
    assert len(replaced(old, new)) <= 200 or old == new
