"""The words of `explain`: each row of the table, and thousands of random explanations."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from pollerd.daemon.views import ComingChangesView, ExplanationView, FeedView
from pollerd.web.explanation import half_life_in_words, words
from pollerd.web.words import figure, how_often, percent, plain

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
    last_detail: str = ""
    min_interval: float | None = None
    max_interval: float | None = None


def told(said: ExplanationView, known: Known = Known(), *, sites: int = 1_000) -> str:
    return " ".join(plain(sentence) for sentence in words(said, cast(Any, known), NOW, sites=sites))


def test_all_that_is_said_of_a_page_whose_rate_is_known() -> None:
    assert told(SAID) == (
        "It changes about 6 times a day (90 % sure: between 4 times a day and 9 times a day). "
        "The last poll was 38 min ago; the chance that it has changed since is 15 %. 211 pages are more urgent. "
        "At this budget it is polled about every 1 h 50 min and takes 0.015 % of the budget. "
        "Each check is to bring news 20 s sooner. Next: about 2027-01-15 09:12 UTC. "
        "It may be polled at any moment; it waits only because others are more urgent."
    )


@pytest.mark.parametrize(
    ("changed", "known", "expected"),
    [
        ({}, {"polls": 1}, "We have not seen enough of it yet; until then we assume what is usual here."),
        ({"notes": {"prior_source": "its host's"}}, {"polls": 0}, "what is usual here (its host's)."),
        (
            {"rate_per_day": 1.0, "rate_low_per_day": 0.14, "rate_high_per_day": 5.0},
            {},
            "but this is far from certain (between once a week and",
        ),
        (
            {"rate_low_per_day": 1.0, "rate_high_per_day": 2.5},
            {},
            "It changes between once a day and 2.5 times a day (90 % sure); with rare bursts 6 times a day on average.",
        ),
        (
            {"next_30_days": ComingChangesView(4, 9, 1_019)},
            {},
            "In the coming month it will change 4 to 1,019 times (90",
        ),
        ({"next_30_days": ComingChangesView(0, 0, 1)}, {}, "In the coming month it will change at most 1 time (90"),
        ({"next_30_days": ComingChangesView(0, 0, 0)}, {}, "In the coming month it will probably not change. The last"),
        (
            {"next_30_days": ComingChangesView(0, 3, 92_519)},
            {"changes": 0},
            "No change was found in 100 checks. If it changes, then at most 9 times a day (95 % sure). The last poll",
        ),
        (
            {"rate_low_per_day": None, "rate_high_per_day": None},
            {"polls": 5, "changes": 0},
            "No change was found in 5 checks. The last poll",
        ),
        ({"rate_low_per_day": None}, {}, "This allocator does not say how sure it is."),
        ({}, {"last_poll_at": None}, "It was not polled yet."),
        ({"rank": 2}, {}, "1 page is more urgent."),
        ({"why_not_now": "paused by the user", "next_poll_at": None}, {}, "You paused it."),
        ({"why_not_now": "the server said 410 Gone"}, {}, "The server said it is gone (410)"),
        ({"why_not_now": "a poll is under way"}, {}, "It is being polled right now."),
        (
            {"why_not_now": "backing_off after 3 failures", "failures": 3},
            {"last_detail": "timeout"},
            "The last 3 polls failed (timeout). Next try: 2027-01-15 08:00 UTC. Waits grow with each failure.",
        ),
        ({"why_not_now": "backing_off after 1 failure", "failures": 1}, {}, "The last poll failed."),
        (
            {"why_not_now": "the host asked to be left alone"},
            {},
            "shop.example.org asked to be left alone until 2027-01-15 08:00 UTC.",
        ),
        ({"why_not_now": "another request to the host is under way"}, {}, "Another request to shop.example.org is"),
        ({"why_not_now": "the host's interval is not over"}, {}, "We wait between requests to shop.example.org."),
        ({"why_not_now": "robots.txt is unreachable"}, {}, "We could not read the robots.txt of shop.example.org"),
        (
            {"why_not_now": "its min_interval is not over", "origins": {"min_interval": "tag shop"}},
            {"min_interval": 3_600.0},
            "Its shortest interval is 1 h (from tag shop).",
        ),
        ({"why_not_now": "closed until Friday: windows"}, {}, "It may be polled only in its windows; next at"),
        (
            {"why_not_now": "its change waits for a second poll: …"},
            {},
            "Something was new; we look again before we call",
        ),
        (
            {"feed": SHOWS},
            {},
            "others are more urgent. It shows 20 items, 14 new at the last poll; all are new after about 3 h.",
        ),
        ({"feed": replace(SHOWS, new=None, full_after=None)}, {}, "others are more urgent. It shows 20 items."),
        (
            {"feed": replace(SHOWS, new=2, limited=False)},
            {},
            "It shows 20 items, 2 new at the last poll; it has not dropped any",
        ),
        ({"feed": replace(SHOWS, full_polls=2)}, {}, "At 2 polls every item was new: items may have been lost."),
        ({"capped_to_uniform": True}, {}, "So that it does not eat the budget it gets what every page gets."),
        ({"notes": {"profile": "all sites change at 0.5 times their usual pace now"}}, {}, "All pages are quieter"),
        ({"notes": {"drift": "its rate drifts fast with probability 0.62"}}, {}, "Its rhythm has been changing."),
        ({"why_not_now": "something that is new here"}, {}, "Not now: something that is new here."),
    ],
)
def test_each_row_of_the_table(changed: dict[str, Any], known: dict[str, Any], expected: str) -> None:
    assert expected in told(replace(SAID, **changed), replace(Known(), **known))


def test_ranks_of_long_lists_are_estimated() -> None:
    assert "About 211 pages are more urgent." in told(SAID, sites=50_000)


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
        assert not re.search(r"(?<![.,\d])1 (?:days|pages are|changes)\b", text), text


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

    assert "learned from them" in of("reads")
    assert "1 h 30 min" in of("reads")
    assert "usual" in of("default")
    assert "its own settings" in of("site")
    assert "tag news" in of("tag news")
