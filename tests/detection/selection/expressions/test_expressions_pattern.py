"""Patterns: Python's spelling, RE2's time, refusals by name, replacing."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.detection.selection.expressions import pattern as patterns
from pollerd.detection.selection.expressions.pattern import compile_pattern, compile_replacement
from pollerd.errors import InvalidValueError, SelectionLimitError

REFUSED = [
    (r"a(?=b)", 2, "look-ahead"),
    (r"(?!a)", 1, "negative look-ahead"),
    (r"(?<=a)b", 1, 'look-behind "(?<=" cannot run in linear time; match more and use "with"'),
    (r"(?<!a)b", 1, "negative look-behind"),
    (r"(a)\1", 4, "back-reference"),
    (r"\12", 1, "back-reference"),
    (r"(?P<n>a)(?P=n)", 9, "back-reference"),
    (r"(?x)a", 1, "(?x)"),
    (r"(?a)\w", 1, "(?a)"),
    (r"(?>a)", 1, "atomic"),
    (r"ab++", 4, "possessive"),
    (r"a{2}+", 5, "possessive"),
    (r"a{1001}", 2, "more than 1,000"),
    (r"a{1,99999}", 2, "more than 1,000"),
    (r"(a{100}){100}", 9, "repetitions within repetitions"),
    (r"a(?#b)", 2, "comment"),
    (r"(a)(?(1)b)", 4, "condition"),
    (r"\N{DASH}", 1, r"\N"),
    (r"\Qa\E", 1, r"\Q"),
    (r"\ud800", 1, "hexadecimal"),
    (r"\y", 1, "means nothing"),
    ("a\\", 2, "at the end"),
    (r"[a", 1, "never closed"),
    (r"[\d-z]", 2, "a range"),
    (r"(a", 1, "missing )"),
    (r"\w{1,900}", None, "too large"),
    (r"[\W]" * 20, None, "too many"),
]


@pytest.mark.parametrize(("source", "character", "reason"), REFUSED, ids=[row[0][:12] for row in REFUSED])
def test_what_re2_cannot_do_is_refused_by_name(source: str, character: int | None, reason: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        compile_pattern("steps[3].lines.drop[0]", {"re": source})
    at = f", character {character}" if character else ""
    assert refused.value.field == f"steps[3].lines.drop[0].re{at}"
    assert reason in refused.value.allowed


@pytest.mark.parametrize(
    "definition",
    [
        *(None, 1, {}, {"re": 1}, {"re": ""}, {"text": ""}, "", {"text": "a", "re": "a"}, {"re": "a", "case": True}),
        *({"text": "a", "case": 1}, {"re": "a" * 1_001}, {"re": "\0"}, {"text": "\ud800"}),
    ],
)
def test_what_is_no_pattern_is_refused(definition: object) -> None:
    with pytest.raises(InvalidValueError):
        compile_pattern("f", definition)


SAME = [r"\d+", r"\w+", r"[\w-]+", r"\W+", r"[^\W_]+", r"[^\d\s]+", r"[\D]+", r"[^\S\n]+", r"[a\S]", r"a\Z", r"\u00e9"]
SAME += [
    r"[\u00e0-\u00ff]",
    r"a{,2}b",
    r"a{x}",
    "{}",
    r"[]a]+",
    r"[a&-]",
    r"[\b]",
    r"\0",
    r"\101",
    r"(?i)É",
    r"(?s)a.b",
]
SAME += [r"(?P<é>a)", r"(?u)a", r"a*?b", r"(?i:A)b", r"\.\-\_", r"[\]\\^-]", r"(?m)^a$", r"[^\W\d]"]


@pytest.mark.parametrize("source", SAME)
@settings(max_examples=60)
@given(text=st.text(alphabet="aAbéÉ ٣5_\n-]x{}.&\b\0\xa0\\^日", max_size=12))
def test_matches_are_those_of_python(source: str, text: str) -> None:
    ours = [
        (match.group(), match.start(), match.end()) for match in compile_pattern("f", {"re": source}).finditer(text)
    ]
    assert ours == [(match.group(), match.start(), match.end()) for match in re.finditer(source, text)]


@given(source=st.text(alphabet=r"ab\dwWsSZu0019[]^-(){}?P<>=!:+*|.,xi#é", min_size=1, max_size=25))
def test_any_text_is_a_pattern_or_refused(source: str) -> None:
    try:
        compiled = compile_pattern("f", {"re": source})
    except InvalidValueError:
        return
    assert compiled.search("") is (len(compiled.warnings) > 0 and "empty" in compiled.warnings[0])


def test_texts_ignore_case_by_full_folding() -> None:
    assert compile_pattern("f", "STRASSE").search("die Straße")
    assert not compile_pattern("f", {"text": "STRASSE", "case": True}).search("die Straße")
    assert not compile_pattern("f", "s").search("ß")
    found = list(compile_pattern("f", "ss").finditer("aßSsſs"))
    assert [(match.group(), match.start(), match.end()) for match in found] == [("ß", 1, 2), ("Ss", 2, 4), ("ſs", 4, 6)]


@given(text=st.text(alphabet="aAßs", max_size=9), wanted=st.text(alphabet="aAßs", min_size=1, max_size=3))
def test_a_text_found_is_one_that_is_equal_when_folded(text: str, wanted: str) -> None:
    compiled = compile_pattern("f", wanted)
    matches = list(compiled.finditer(text))
    assert compiled.search(text) is bool(matches)
    assert all(match.group().casefold() == wanted.casefold() for match in matches)  # type: ignore[union-attr]


def test_halves_of_surrogate_pairs_are_no_failure() -> None:
    assert [match.start() for match in compile_pattern("f", {"re": "b"}).finditer("a\ud800b")] == [2]


def test_warnings() -> None:
    assert "empty string" in compile_pattern("f", {"re": "a*"}).warnings[0]
    assert r"\b" in compile_pattern("f", {"re": r"\bété\b"}).warnings[0]
    assert compile_pattern("f", {"re": r"\bCVE\b"}).warnings == ()


def test_replacing() -> None:
    compiled = compile_pattern("f", {"re": r"(?P<year>\d+)-(\d+)(x)?"})
    replacement = compile_replacement("g", r"\2/\g<year>\3\\\n<\g<0>>", compiled)
    assert compiled.sub(replacement, "a 2026-11 b") == "a 11/2026\\\n<2026-11> b"
    text = compile_pattern("f", "a")
    assert text.sub(compile_replacement("g", "", text), "xAax") == "xx"


@pytest.mark.parametrize(
    ("template", "character"),
    [(r"a\3", 2), (r"\g<m>", 1), (r"\g<9>", 1), ("x\\", 2), (r"\q", 1), (r"\g<", 1), (r"\0", 1)],
)
def test_templates_are_checked_when_set(template: str, character: int) -> None:
    compiled = compile_pattern("f", {"re": r"(?P<n>a)(b)"})
    with pytest.raises(InvalidValueError) as refused:
        compile_replacement("steps[1].replace.with", template, compiled)
    assert refused.value.field == f"steps[1].replace.with, character {character}"


def test_matches_and_results_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_pattern("f", {"re": "a"})
    assert compiled.search("b" * 100_000 + "a")
    with pytest.raises(SelectionLimitError, match="100,000 matches"):
        list(compiled.finditer("a" * 100_001))
    monkeypatch.setattr(patterns, "MAX_RESULT_CHARACTERS", 50)
    with pytest.raises(SelectionLimitError, match="characters after replacing"):
        compiled.sub(compile_replacement("g", r"\g<0>" * 20, compiled), "aaaa")


def test_catastrophic_expressions_end() -> None:
    assert not compile_pattern("f", {"re": "(a+)+$"}).search("a" * 100_000 + "b")


def test_pickled_as_its_definition() -> None:
    again = pickle.loads(pickle.dumps(compile_pattern("f", {"re": r"\d"})))
    assert again.search("٣")
    assert again.source == r"\d"
