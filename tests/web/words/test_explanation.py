"""The words of `explain`: each row of the table, and thousands of random explanations."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pollerd.daemon.views import ComingChangesView, ExplanationView, FeedView, WaitsFor
from pollerd.texts import N_, speaking, translated
from pollerd.web.explanation import half_life_in_words, rate_in_words, words
from pollerd.web.words import Strong, figure, how_often, percent, plain, sentence
from tests.support.pseudo import PseudoLanguage, untranslated

NOW = 1_800_000_000.0


SHOWS = FeedView(
    items=20,
    new=14,
    limited=True,
    oldest_at=None,
    newest_at=None,
    read_at=NOW,
    full_polls=0,
    full_after=10_800.0,
)
SAID = ExplanationView(
    site_id=1,
    allocator="whittle",
    objective="changes",
    rate_per_day=6.0,
    rate_low_per_day=4.0,
    rate_high_per_day=9.0,
    elapsed=2_280.0,
    change_probability=0.15,
    urgency=0.1,
    rank=212,
    price=0.1,
    budget_share=0.00015,
    expected_interval=6_600.0,
    next_poll_at=NOW,
    next_expected_poll_at=NOW + 4_320.0,
    believed_unchanged_until=None,
    announced_ttl=None,
    why_not_now=None,
    capped_to_uniform=False,
    failures=0,
    notes={},
    host="shop.example.org:443",
    host_override=None,
    min_saving_in_force=20.0,
    half_life_in_force=86_400.0,
)


@dataclass(frozen=True)
class Known:
    polls: int = 100
    changes: int = 20
    last_poll_at: float | None = NOW - 2_280.0
    created_at: float = NOW - 10 * 86_400.0
    rate_per_day: float | None = 6.0
    last_detail: str = ""
    min_interval: float | None = None
    max_interval: float | None = None


def told(said: ExplanationView, known: Known = Known(), *, sites: int = 1_000) -> str:
    return " ".join(plain(sentence) for sentence in words(said, cast(Any, known), NOW, sites=sites))


def test_all_that_is_said_of_a_page_whose_rate_is_known() -> None:
    assert told(SAID) == (
        "It changes about 6 times a day (90 % confidence: between 4 times a day and 9 times a day). "
        "The last check was 38 min ago; the chance that it has changed since is 15 %. 211 sites are ahead of it. "
        "At this budget it is checked about every 1 h 50 min, using 0.015 % of the budget. "
        "A check has to be expected to find changes 20 s sooner. Next check: about 2027-01-15 09:12 UTC. "
        "It is ready and waits for its turn: other sites are ahead of it."
    )


def waiting(for_: WaitsFor, **more: Any) -> dict[str, Any]:
    """What `explain` says of a site that waits. The words are the daemon's: the page has its own."""
    return {"waits_for": for_, "why_not_now": "…", **more}


@pytest.mark.parametrize(
    ("changed", "known", "expected"),
    [
        ({}, {"polls": 1}, "Not enough checks yet, so pollerd assumes a typical change rate."),
        ({"notes": {"prior_source": "its host's"}}, {"polls": 0}, "a typical change rate (its host's)."),
        (
            {"rate_per_day": 1.0, "rate_low_per_day": 0.14, "rate_high_per_day": 5.0},
            {},
            "but this is uncertain: between once a week and",
        ),
        (
            {"next_30_days": ComingChangesView(4, 9, 1_019)},
            {},
            "In the coming month it will change 4 to 1,019 times (90",
        ),
        (
            {"next_30_days": ComingChangesView(0, 3, 92_519)},
            {"changes": 0},
            "No change was found in 100 checks. If it changes, then at most 9 times a day (95 % confidence). The last",
        ),
        (
            {"rate_low_per_day": None, "rate_high_per_day": None},
            {"polls": 5, "changes": 0},
            "No change was found in 5 checks. The last check",
        ),
        ({"next_30_days": ComingChangesView(0, 0, 1)}, {}, "In the coming month it will change at most 1 time (90"),
        ({"next_30_days": ComingChangesView(0, 0, 0)}, {}, "In the coming month it will probably not change. The last"),
        ({"rate_low_per_day": None}, {}, "This policy does not say how certain that is."),
        ({}, {"last_poll_at": None}, "It was not checked yet."),
        ({"rank": 2}, {}, "1 site is ahead of it."),
        (waiting(WaitsFor.RESUME, next_poll_at=None), {}, "It is paused."),
        (waiting(WaitsFor.GONE), {}, "gone for good (410), so it is checked rarely. Next check from 2027-01-15 08:00"),
        (waiting(WaitsFor.ITS_POLL), {}, "It is being checked right now."),
        (
            waiting(WaitsFor.RETRY, failures=3),
            {"last_detail": "timeout"},
            "The last 3 checks failed (timeout). Retries are spaced further apart each time. "
            "Next check from 2027-01-15 08:00 UTC on.",
        ),
        (waiting(WaitsFor.RETRY, failures=1), {}, "The last check failed. Retries"),
        (
            waiting(WaitsFor.HOST_PAUSE),
            {},
            "shop.example.org asked for a pause. Next check from 2027-01-15 08:00 UTC on.",
        ),
        (waiting(WaitsFor.HOST_REQUEST), {}, "Another request to shop.example.org is"),
        (waiting(WaitsFor.HOST_INTERVAL), {}, "pollerd waits between two requests to shop.example.org."),
        (waiting(WaitsFor.ROBOTS), {}, "The robots.txt of shop.example.org could not be read"),
        (
            waiting(WaitsFor.MIN_INTERVAL, origins={"min_interval": "tag shop"}),
            {"min_interval": 3_600.0},
            'Its minimum interval of 1 h, set by the tag "shop", is not over. Next check from',
        ),
        (waiting(WaitsFor.MIN_INTERVAL), {"min_interval": 3_600.0}, "Its minimum interval of 1 h is not over."),
        (waiting(WaitsFor.MIN_INTERVAL), {}, "Its minimum interval is not over."),
        (waiting(WaitsFor.WINDOW), {}, "It is outside its checking hours. Next check from"),
        (waiting(WaitsFor.CONFIRMATION), {}, "A difference was found. It is checked again before it is reported"),
        (waiting(WaitsFor.LIKELIER_CHANGE), {}, "It is too early: a check has to be expected to find changes 20 s"),
        (waiting(WaitsFor.LIKELIER_CHANGE, min_saving_in_force=None), {}, "A change is too unlikely to be worth a"),
        (
            {"feed": SHOWS},
            {},
            "ahead of it. It shows 20 items. 14 were new at the last check. All are new after about 3 h.",
        ),
        ({"feed": replace(SHOWS, new=None, full_after=None)}, {}, "ahead of it. It shows 20 items."),
        (
            {"feed": replace(SHOWS, new=1, limited=False)},
            {},
            "It shows 20 items. 1 was new at the last check. It has not dropped any",
        ),
        ({"feed": replace(SHOWS, full_polls=2)}, {}, "On 2 checks every item was new, so older items may have been"),
        ({"capped_to_uniform": True}, {}, "so it is limited to an equal share of the budget."),
        ({"notes": {"profile": "all sites change at 0.5 times their usual pace now"}}, {}, "changing less than usual."),
        ({"notes": {"drift": "its rate drifts fast with probability 0.62"}}, {}, "Its change rate has been shifting."),
        ({"why_not_now": "something of an older node"}, {}, "Not now: something of an older node."),
    ],
)
def test_each_row_of_the_table(changed: dict[str, Any], known: dict[str, Any], expected: str) -> None:
    assert expected in told(replace(SAID, **changed), replace(Known(), **known))


@pytest.mark.parametrize("waits", WaitsFor)
def test_every_reason_has_its_sentence_in_any_language(waits: WaitsFor) -> None:
    said = replace(SAID, waits_for=waits, why_not_now="…", failures=2)
    assert "…" not in told(said)
    with speaking(PseudoLanguage()):
        assert untranslated(told(said), ["UTC", "shop.example.org"]) == []


def test_a_translation_sets_values_where_its_words_want_them(tmp_path: Path) -> None:
    file = tmp_path / "pollerd.po"
    file.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
        'msgid "The last check was {ago} ago."\nmsgstr "Vor {ago} geprüft."\n\n'
        'msgid "Next check: about {when}."\nmsgstr "Nächste Prüfung: {wann}."\n'
    )
    with speaking(translated("de", file)):
        assert sentence(N_("The last check was {ago} ago."), ago=Strong("3 h")) == ("Vor ", Strong("3 h"), " geprüft.")
        assert sentence(N_("Next check: about {when}."), when="9:12") == ("Next check: about ", "9:12", ".")


OFTEN: dict[str, Any] = {"rate_per_day": 336.0, "rate_low_per_day": 8.0, "rate_high_per_day": 9_000.0}


def test_a_page_that_differs_at_most_checks_changes_at_least_as_often_as_was_seen() -> None:
    """The estimate of 336 changes a day is of pages like it: nobody saw more than 9 of this one."""
    seen = Known(polls=11, changes=9, last_poll_at=NOW, created_at=NOW - 86_400.0, rate_per_day=336.0)
    said = told(replace(SAID, **OFTEN, next_30_days=ComingChangesView(200, 9_000, 90_000)), seen)
    assert said.startswith("It changes at least 9 times a day; how much more often than that, its checks cannot show. ")
    assert "month" not in said
    assert rate_in_words(cast(Any, seen)) == "at least 9 times a day"
    calm = replace(seen, changes=5)
    assert rate_in_words(cast(Any, calm)) == "14 times an hour", "most checks found nothing: they tell"
    assert "about 14 times an hour" in told(replace(SAID, **OFTEN), calm)
    checked_often = replace(seen, polls=1_000, changes=900)
    assert rate_in_words(cast(Any, checked_often)) == "14 times an hour", "it is checked more often than it changes"
    for new in (replace(seen, last_poll_at=None), replace(seen, created_at=NOW)):
        assert rate_in_words(cast(Any, new)) == "14 times an hour"
    assert rate_in_words(cast(Any, replace(seen, rate_per_day=None))) == ""
    assert rate_in_words(cast(Any, replace(seen, changes=0))) == "none found", "a rate would contradict it"


def test_ranks_of_long_lists_are_estimated() -> None:
    assert "About 211 sites are ahead of it." in told(SAID, sites=50_000)


def test_random_explanations_are_sentences() -> None:
    rng = np.random.default_rng(7)
    for _ in range(10_000):
        rate = float(10 ** rng.uniform(-6, 6))
        spread = float(10 ** rng.uniform(0, 3))
        said = replace(
            SAID,
            rate_per_day=rate,
            rate_low_per_day=rate / spread,
            rate_high_per_day=rate * spread,
            change_probability=float(rng.uniform()) ** 3,
            rank=int(rng.integers(1, 10**6)),
            budget_share=float(10 ** rng.uniform(-9, 0)),
            expected_interval=float(10 ** rng.uniform(-1, 9)),
            next_expected_poll_at=NOW + float(10 ** rng.uniform(-1, 8)),
            failures=int(rng.integers(0, 50)),
            notes={"profile": f"all sites change at {10 ** rng.uniform(-3, 3):.2g} times their usual pace now"},
        )
        text = told(said, Known(polls=int(rng.integers(0, 10**6)), last_poll_at=NOW - float(10 ** rng.uniform(-3, 9))))
        assert not re.search(r"None|nan|inf\b|\s-0|(?<![.,\d])1 times|e[+-]\d|unknown", text), text
        assert not re.search(r"(?<![.,\d])1 (?:days|sites are|changes)\b", text), text


@pytest.mark.parametrize(
    ("per_day", "expected"),
    [
        (6.0, "6 times a day"),
        (1.0, "once a day"),
        (1 / 7, "once a week"),
        (24.0, "once an hour"),
        (0.001, "less than once a year"),
        (86_400.0 * 3, "3 times a second"),
    ],
)
def test_rates(per_day: float, expected: str) -> None:
    assert how_often(per_day) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, "0"), (0.0154, "0.015"), (3.14, "3.1"), (9.96, "10"), (48.2, "48"), (1204.0, "1,204")]
)
def test_figures(value: float, expected: str) -> None:
    assert figure(value) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.9999, "over 99 %"), (1e-9, "under 0.001 %"), (0.153, "15 %")],
)
def test_shares(share: float, expected: str) -> None:
    assert percent(share) == expected


def test_which_half_life_holds_and_why() -> None:
    def of(origin: str) -> str:
        return half_life_in_words(replace(SAID, half_life_in_force=5_400.0, origins={"half_life": origin}))

    assert "learned from its readers" in of("reads")
    assert "1 h 30 min" in of("reads")
    assert "the default" in of("default")
    assert "set for this site" in of("site")
    assert 'the tag "news"' in of("tag news")
