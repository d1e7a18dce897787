"""What a feed shows: its items, how many are new, whether it drops older ones, and what that says of its rate."""

from __future__ import annotations

import pytest
from msgspec import json

from pollerd.detection.detect import detect
from pollerd.model import Baseline, Detection, FeedWindow, Outcome, OutcomeKind
from tests.detection.test_detection_feed import atom, json_feed, poll, rdf, rss

NOW, HOUR = 1_700_000_000.0, 3_600.0
KINDS = pytest.mark.parametrize("build", [rss, rdf, atom, json_feed])


def items(*numbers: int) -> list[tuple[str, str, float]]:
    """Items by number, of which number n was published n hours after NOW."""
    return [(f"id:{n}", f"Title {n}", NOW + n * HOUR) for n in numbers]


def window_of(detection: Detection) -> FeedWindow:
    assert detection.baseline.window is not None
    return detection.baseline.window


def polled(*windows: list[tuple[str, str, float]], every: float = 4 * HOUR) -> Detection:
    """Polls a feed that shows these windows, one poll each, the first at NOW."""
    baseline, found = Baseline(), None
    for n, shown in enumerate(windows):
        elapsed = None if n == 0 else every
        found = poll(rss(shown), baseline, elapsed, NOW + n * every)
        baseline = found.baseline
    assert found is not None
    return found


@KINDS
def test_a_feed_tells_how_many_items_it_shows_and_since_when(build) -> None:  # type: ignore[no-untyped-def]
    window = window_of(poll(build(items(-1, -2, -3, -5, -9)), Baseline(), None))
    assert window == FeedWindow(
        items=5, new=None, limited=True, oldest_at=NOW - 9 * HOUR, newest_at=NOW - HOUR, read_at=NOW
    )


def test_new_items_are_counted_and_an_unchanged_feed_has_none() -> None:
    found = polled(items(-1, -2, -3, -4), items(2, 1, -1, -2))
    assert (window_of(found).new, window_of(found).full) == (2, False)
    assert found.evidence is not None
    assert (found.evidence.count, found.evidence.at_least, found.evidence.span) == (2, 2, None)
    later = poll(rss(items(2, 1, -1, -2)), found.baseline, HOUR, NOW + 5 * HOUR)
    assert window_of(later).new == 0
    same = detect(Outcome(OutcomeKind.NOT_MODIFIED, started_at=NOW + 5 * HOUR, duration=0.1), found.baseline, HOUR)
    assert window_of(same).new == 0
    assert window_of(same).read_at == NOW + 4 * HOUR


def test_if_all_items_are_new_there_were_at_least_so_many() -> None:
    found = polled(items(-1, -2, -3, -4), items(3, 2, 1))
    assert window_of(found).full
    assert window_of(found).full_polls == 1
    assert found.evidence is not None
    assert (found.evidence.count, found.evidence.at_least, found.evidence.span) == (None, 3, 3 * HOUR)
    assert window_of(polled(items(-1, -2), items(2, 1), items(2, 1))).full_polls == 1


def test_items_dated_before_the_last_poll_do_not_date_their_number() -> None:
    evidence = polled(items(-1, -2, -3, -4), items(3, 2, -90)).evidence
    assert evidence is not None
    assert (evidence.at_least, evidence.span) == (3, None)


def test_a_feed_that_takes_items_in_and_drops_none_is_not_limited() -> None:
    assert window_of(polled(items(-1, -2))).shown == 2.0
    assert window_of(polled(items(-1, -2), items(2, 1, -1, -2))).shown is None
    assert window_of(polled(items(-1, -2), items(2, 1, -1, -2), items(2, 1, -1, -2))).shown is None
    assert window_of(polled(items(-1, -2), items(2, 1, -1, -2), items(6, 5, 2, 1))).shown == 4.0
    assert window_of(polled(items(-1, -2), items(1, -1))).shown == 2.0


@pytest.mark.parametrize(
    "shown",
    [
        items(-1, -2, -3),
        [(f"id:{n}", "x", NOW - HOUR) for n in range(9)],
        items(0, -1, -2, -3, -4),
        items(9, -1, -2, -3, -4),
    ],
    ids=["too few", "one date", "dated now", "dated ahead"],
)
def test_a_first_poll_tells_nothing_without_dates_to_go_by(shown: list[tuple[str, str, float]]) -> None:
    assert poll(rss(shown), Baseline(), None).evidence is None


def test_old_items_that_a_feed_keeps_do_not_make_it_slow() -> None:
    evidence = poll(rss(items(-1, -2, -3, -4, -50_000, -60_000)), Baseline(), None).evidence
    assert evidence is not None
    assert (evidence.changed, evidence.at_least, evidence.span) == (False, 3, 3 * HOUR)


def test_a_page_shows_no_items() -> None:
    outcome = Outcome(OutcomeKind.BODY, started_at=NOW, duration=0.1, body=b"<p>text", content_type="text/html")
    assert detect(outcome, Baseline(), None).baseline.window is None


def test_a_page_that_becomes_a_feed_is_not_full() -> None:
    page = Outcome(OutcomeKind.BODY, started_at=NOW, duration=0.1, body=b"<p>text", content_type="text/html")
    found = poll(rss(items(-1, -2)), detect(page, Baseline(), None).baseline, HOUR, NOW + HOUR)
    assert found.kind is OutcomeKind.CHANGED
    assert (window_of(found).new, window_of(found).full_polls) == (None, 0)
    assert found.evidence is not None
    assert (found.evidence.count, found.evidence.at_least) == (None, None)


def test_what_it_shows_is_kept_as_bytes() -> None:
    window = window_of(polled(items(-1, -2), items(2, 1)))
    assert json.decode(json.encode(window), type=FeedWindow) == window
