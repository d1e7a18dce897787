"""How sites stand: a state that is true, and a cure for each trouble."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pollerd.api.sites import SiteSchema
from pollerd.model import Detail, OutcomeKind, Site, SiteState
from pollerd.site_settings import DayWindow, SiteSpec, Windows
from pollerd.texts import ENGLISH, _, language, speak
from pollerd.web.standing import Standing, site_standing
from tests.support.pseudo import PseudoLanguage, untranslated

NOW = 1_795_860_000.0  # a Saturday
READ = Site(
    1,
    SiteSpec("https://example.org/"),
    "example.org:443",
    SiteState.ACTIVE,
    NOW - 9_000.0,
    last_poll_at=NOW - 60.0,
    polls=40,
    changes=3,
    last_outcome=OutcomeKind.UNCHANGED,
)
MONDAYS = Windows("Europe/Vienna", (DayWindow(("mon",), "08:00", "18:00"),))


def _shown(**changes: Any) -> SiteSchema:
    return SiteSchema.of(replace(READ, **changes), None, {})


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, Standing.FINE),
        ({"state": SiteState.PAUSED}, Standing.PAUSED),
        ({"last_outcome": None, "last_poll_at": None, "polls": 0}, Standing.NEW),
        ({"polls": 4}, Standing.LEARNING),
        ({"polls": 5, "changes": 0}, Standing.FINE),
        ({"polls": 40, "changes": 39}, Standing.ALWAYS),
        ({"polls": 40, "changes": 36}, Standing.FINE),
        ({"spec": SiteSpec("https://example.org/", max_interval=50.0)}, Standing.OVERDUE),
        ({"spec": SiteSpec("https://example.org/", max_interval=58.0)}, Standing.FINE),
        ({"spec": SiteSpec("https://example.org/", windows=MONDAYS)}, Standing.CLOSED),
        ({"last_outcome": OutcomeKind.TIMEOUT, "state": SiteState.BACKING_OFF, "failures": 1}, Standing.FAILING),
        ({"last_outcome": OutcomeKind.TIMEOUT}, Standing.FAILING),  # resumed, and not read since
        ({"last_outcome": OutcomeKind.GONE, "state": SiteState.GONE}, Standing.FAILING),
        ({"last_outcome": OutcomeKind.DENIED, "state": SiteState.BLOCKED}, Standing.BLOCKED),
        ({"last_detail": Detail.NO_TEXT_WITHOUT_SCRIPTS}, Standing.EMPTY),
    ],
)
def test_a_site_stands_as_its_last_answer_says(changes: dict[str, Any], standing: Standing) -> None:
    found = site_standing(_shown(**changes), NOW)
    assert found.standing is standing
    assert found.words
    assert found.sign


def test_nothing_is_fine_while_our_own_link_is_down() -> None:
    assert site_standing(_shown(), NOW, offline=True).standing is Standing.OFFLINE
    assert site_standing(_shown(state=SiteState.PAUSED), NOW, offline=True).standing is Standing.PAUSED


@pytest.mark.parametrize(
    ("outcome", "detail", "reason", "place"),
    [
        (OutcomeKind.CLIENT_ERROR, "HTTP status 401", "password", "#when"),
        (OutcomeKind.CLIENT_ERROR, "HTTP status 403", "refuses programs", "#when"),
        (OutcomeKind.CLIENT_ERROR, "HTTP status 202, which comes without a page", "test", "/use-browser"),
        (OutcomeKind.PROTOCOL_ERROR, "redirect loop at https://example.org/", "cookies", "#when"),
        (OutcomeKind.DENIED, "robots.txt of the host denies it", "robots.txt", "#settings"),
        (OutcomeKind.NOTHING_SELECTED, "", "was not found", "#counts"),
        (OutcomeKind.NOT_FOUND, "HTTP status 404", "404", "#settings"),
        (OutcomeKind.TIMEOUT, "no answer within 30 s", "no answer within 30 s", "/resume"),
        (OutcomeKind.DNS_ERROR, "", "DNS error", "/resume"),
    ],
)
def test_a_failure_has_its_cure(outcome: OutcomeKind, detail: str, reason: str, place: str) -> None:
    trouble = site_standing(_shown(last_outcome=outcome, last_detail=detail), NOW).trouble
    assert trouble is not None
    assert reason in trouble.reason
    assert trouble.place == place
    assert trouble.cure


def test_what_reads_well_and_needs_its_user_all_the_same() -> None:
    moved = site_standing(_shown(redirect_url="https://example.org/new", redirect_count=3), NOW)
    assert moved.standing is Standing.FINE
    assert moved.trouble is not None
    assert (moved.trouble.place, moved.trouble.posts) == ("/accept-redirect", True)
    assert "https://example.org/new" in moved.trouble.reason
    empty = site_standing(_shown(last_detail=Detail.NO_TEXT_BUT_FRAMES.format(named="/a, /b")), NOW).trouble
    assert empty is not None
    assert "frames: add their URLs instead (/a, /b)" in empty.reason


def test_a_detail_is_recognised_in_the_language_in_which_it_was_stored_and_shown_in_the_readers() -> None:
    spoken = PseudoLanguage()
    refused = Detail.STATUS.format(status=403)
    speak(spoken)
    try:
        details = {refused, _(Detail.STATUS, status=403)}
        empty = {Detail.NO_TEXT, _(Detail.NO_TEXT)}
    finally:
        speak(language(ENGLISH))
    assert (len(details), len(empty)) == (2, 2)
    for detail in details:
        speak(spoken)
        try:
            trouble = site_standing(_shown(last_outcome=OutcomeKind.CLIENT_ERROR, last_detail=detail), NOW).trouble
            stands = [site_standing(_shown(last_detail=text), NOW).standing for text in empty]
        finally:
            speak(language(ENGLISH))
        assert trouble is not None
        assert trouble.place == "#when"
        assert untranslated(trouble.reason) == untranslated(trouble.cure) == []
        assert stands == [Standing.EMPTY] * 2
