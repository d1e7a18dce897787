import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pollerd.detection.detect import HEAVY_BYTES, HEAVY_FEED_BYTES, detect, heavy
from pollerd.errors import InvalidValueError
from pollerd.model import Baseline, Detection, Evidence, Media, Outcome, OutcomeKind

NOW = 1_700_000_000.0


def response(body: bytes, content_type: str | None = "text/html") -> Outcome:
    return Outcome(OutcomeKind.BODY, started_at=NOW, duration=0.1, body=body, content_type=content_type)


def polls(*bodies: bytes, content_type: str | None = "text/html") -> list[Detection]:
    found: list[Detection] = []
    for body in bodies:
        baseline = found[-1].baseline if found else Baseline()
        found.append(detect(response(body, content_type), baseline, 60.0 if found else None))
    return found


def kinds(found: list[Detection]) -> str:
    return " ".join(each.kind.value for each in found)


def test_first_then_unchanged() -> None:
    first, second = polls(b"<p>a</p>", b"<p>a</p>")
    assert (first.kind, first.evidence, first.content) == (OutcomeKind.FIRST, None, b"a")
    assert len(first.baseline.fingerprint or b"") == len(first.baseline.raw_fingerprint or b"") == 16
    assert (second.kind, second.evidence, second.content) == (OutcomeKind.UNCHANGED, Evidence(changed=False), None)
    assert second.baseline == first.baseline


def test_there_and_back_again_is_two_changes() -> None:
    found = polls(b"<p>a</p>", b"<p>b</p>", b"<p>a</p>")
    assert kinds(found) == "first changed changed"
    assert found[2].evidence == Evidence(changed=True)
    assert found[2].content == b"a"


def test_noise_is_no_change_and_the_new_bytes_are_remembered() -> None:
    found = polls(b"<p>a</p><!-- 1 -->", b"<p>a</p><!-- 2 -->", b"<p>a</p><!-- 2 -->")
    assert kinds(found) == "first unchanged unchanged"
    assert found[0].baseline.raw_fingerprint != found[1].baseline.raw_fingerprint
    assert found[0].baseline.fingerprint == found[1].baseline.fingerprint
    assert found[1].content is None


def test_an_empty_body_is_a_body() -> None:
    found = polls(b"", b"", b"<p>a</p>", b"")
    assert kinds(found) == "first unchanged changed changed"
    assert found[0].content == b""


def test_another_media_is_a_change_even_with_the_same_content() -> None:
    first = detect(response(b"<p>a</p>", "text/html"), Baseline(), None)
    second = detect(response(b"a", "text/plain"), first.baseline, 60.0)
    assert first.content == second.content
    assert (second.kind, second.baseline.media) == (OutcomeKind.CHANGED, Media.TEXT)


def test_a_page_that_becomes_a_feed_has_no_number_of_new_entries() -> None:
    feed = b"<rss version='2.0'><channel><item><guid>1</guid></item><item><guid>2</guid></item></channel></rss>"
    found = polls(b"<p>a</p>", feed, b"<p>a</p>")
    assert found[1].evidence == Evidence(changed=True)
    assert len(found[1].baseline.items) == 16


def rss_of(*ids: str) -> bytes:
    items = "".join(f"<item><guid>{one}</guid></item>" for one in ids)
    return f"<rss version='2.0'><channel>{items}</channel></rss>".encode()


def test_entries_are_not_new_when_a_feed_is_back_after_a_page() -> None:
    found = polls(rss_of("1", "2"), b"<p>a</p>", rss_of("2", "1"), rss_of("3", "1"))
    assert found[1].baseline.items == found[0].baseline.items != b""
    window = found[2].baseline.window
    assert window is not None
    assert (window.full_polls, window.away) == (0, 0)
    assert found[3].evidence == Evidence(changed=True, count=1, at_least=1)


@pytest.mark.parametrize(("days", "away", "kept"), [(13, 500, True), (15, 49, True), (15, 50, False)])
def test_entries_are_kept_over_a_page_for_two_weeks_or_fifty_polls(days: float, away: int, kept: bool) -> None:
    before = polls(rss_of("1", "2"))[0].baseline
    assert before.window is not None
    window = replace(before.window, away=away, read_at=NOW - days * 86_400)
    found = detect(response(b"<p>a</p>", "text/html"), replace(before, window=window), 60.0)
    assert bool(found.baseline.items) is kept


@pytest.mark.parametrize("elapsed", [None, 0.0, 60.0])
def test_not_modified_keeps_the_baseline(elapsed: float | None) -> None:
    before = polls(b"<p>a</p>")[0].baseline
    found = detect(Outcome(OutcomeKind.NOT_MODIFIED, started_at=NOW, duration=0.1), before, elapsed)
    assert (found.kind, found.content) == (OutcomeKind.NOT_MODIFIED, None)
    assert found.baseline is before
    assert found.evidence == (None if elapsed is None else Evidence(changed=False))


@pytest.mark.parametrize("kind", [kind for kind in OutcomeKind if kind.value not in ("body", "not_modified")])
def test_other_outcomes_are_refused(kind: OutcomeKind) -> None:
    with pytest.raises(InvalidValueError, match=r"outcome\.kind"):
        detect(Outcome(kind, started_at=NOW, duration=0.1), Baseline(), 60.0)


@pytest.mark.parametrize("elapsed", [-1.0, math.nan, math.inf])
def test_impossible_gaps_are_refused(elapsed: float) -> None:
    with pytest.raises(InvalidValueError, match="elapsed"):
        detect(response(b"x"), Baseline(), elapsed)


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=4), st.none() | st.text(max_size=30))
def test_any_history_is_survived_and_its_repetition_is_no_change(bodies: list[bytes], content_type: str | None) -> None:
    found = polls(*bodies, bodies[-1], content_type=content_type)
    assert found[0].kind is OutcomeKind.FIRST
    assert found[-1].kind is OutcomeKind.UNCHANGED
    for each in found:
        assert (each.content is not None) == (each.kind in (OutcomeKind.FIRST, OutcomeKind.CHANGED))


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_bytes_differ_exactly_where_binary_content_does(one: bytes, other: bytes) -> None:
    second = polls(one, other, content_type="image/png")[1]
    assert (second.kind is OutcomeKind.CHANGED) == (one != other)


@pytest.mark.parametrize(
    ("size", "content_type", "expected"),
    [
        (HEAVY_BYTES, "text/html", False),
        (HEAVY_BYTES + 1, "text/html", True),
        (HEAVY_FEED_BYTES, "application/rss+xml; charset=utf-8", False),
        (HEAVY_FEED_BYTES + 1, "application/rss+xml; charset=utf-8", True),
        (HEAVY_FEED_BYTES + 1, None, False),
    ],
)
def test_heavy_bodies(size: int, content_type: str | None, expected: bool) -> None:
    assert heavy(response(b"x" * size, content_type)) is expected


def test_the_same_bytes_as_last_time_are_not_heavy() -> None:
    page = response(b"x" * (HEAVY_BYTES + 1), "text/html")
    baseline = detect(page, Baseline(), None).baseline
    assert heavy(page)
    assert not heavy(page, baseline)


def test_nothing_is_not_heavy() -> None:
    assert not heavy(Outcome(OutcomeKind.NOT_MODIFIED, started_at=NOW, duration=0.1))


def test_a_change_over_an_unknown_gap_is_a_change_without_evidence() -> None:
    first = detect(response(b"<p>a</p>"), Baseline(), None)
    found = detect(response(b"<p>b</p>"), first.baseline, None)
    assert (found.kind, found.evidence) == (OutcomeKind.CHANGED, None)
