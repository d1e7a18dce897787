"""What a plan says, case by case, and that no plan says anything without a unit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.planning import (
    BudgetPlan,
    HeldBack,
    MeasuredDelays,
    PlanLimit,
    about,
    apart,
    exactly,
    in_percent,
    sentences,
    two_digits,
)

PLAN = BudgetPlan(
    objective="changes",
    allocator="whittle",
    tag="shop",
    share=0.9,
    within=1_800.0,
    budget=14.23,
    most=0.97,
    limits=(),
    current_budget=6.0,
    current_share=0.713,
    delay_median=1_320.0,
    delay_p90=11_400.0,
    measured=MeasuredDelays(88, 1_140.0, 10_200.0),
    sites=1_204,
    changes_per_day=2_210.0,
    seldom_polled=0,
    sampled=False,
    by_tag=(),
)
OF_SHOP = "90 % of the changes of 1,204 pages tagged shop within 30 minutes"
NO = f"No budget lets you learn of {OF_SHOP}"
HOSTS = HeldBack(PlanLimit.HOST_INTERVAL, 40, 40, 600.0, 0.2)


def test_a_plan_that_can_be_kept() -> None:
    assert sentences(PLAN) == (
        f"To learn of {OF_SHOP} you need about 14 checks per second; you have 6 checks per second.",
        "With 6 checks per second you learn of 71 % in that time; "
        "half of all changes are seen within 22 min, 90 % within 3 h 10 min.",
        "Measured where pages name a date: half within 19 min, 90 % within 2 h 50 min (of 88 changes).",
        "Goal: changes. The policy whittle splits the budget.",
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"budget": 3.91},
            f"To learn of {OF_SHOP} you need about 3.9 checks per second; you have 6 checks per second.",
        ),
        (
            {"budget": 0.01, "current_budget": 0.5},
            f"To learn of {OF_SHOP} you need about 36 checks per hour; you have 1,800 checks per hour.",
        ),
        (
            {"budget": 1_234.0},
            f"To learn of {OF_SHOP} you need about 1,200 checks per second; you have 6 checks per second.",
        ),
        (
            {"share": 0.995, "within": 5_400.0, "tag": None, "sites": 1},
            "To learn of 99.5 % of the changes of 1 page within 90 minutes "
            "you need about 14 checks per second; you have 6 checks per second.",
        ),
        (
            {"sampled": True, "sites": 48_211, "tag": None, "within": 86_400.0},
            "To learn of 90 % of the changes of about 48,211 pages within 1 day "
            "you need about 14 checks per second; you have 6 checks per second.",
        ),
        (
            {"budget": None, "most": 0.8, "limits": (HOSTS,)},
            f"{NO}: 40 hosts allow one request in 10 minutes. 80 % is the most.",
        ),
        (
            {"budget": None, "most": 0.004, "limits": (replace(HOSTS, hosts=1, sites=5_000, seconds=1.0),)},
            f"{NO}: 1 host allows one request a second for 5,000 pages. Under 1 % is the most.",
        ),
        (
            {"budget": None, "most": 0.8, "sampled": True, "limits": (replace(HOSTS, seconds=3_600.0),)},
            "No budget lets you learn of 90 % of the changes of about 1,204 pages tagged shop within 30 minutes: "
            "at least 40 hosts allow one request an hour. 80 % is the most.",
        ),
        (
            {
                "budget": None,
                "most": 0.5,
                "limits": (
                    HeldBack(PlanLimit.MIN_INTERVAL, 12, 3, 7_200.0, 0.2),
                    HeldBack(PlanLimit.MIN_YIELD, 1, 1, 11_000.0, 0.1),
                    HeldBack(PlanLimit.TTL, 30, 9, 3_600.0, 0.05),
                    HeldBack(PlanLimit.NEVER_POLLED, 5, 5, None, 0.01),
                ),
            },
            f"{NO}: 12 pages may be polled once in 2 hours at most (min_interval); 1 page is probably unchanged for "
            "3 h after each poll (min_yield); 30 pages ask to be left alone for 1 h (respect_ttl). 50 % is the most.",
        ),
        (
            {"budget": None, "most": 0.5, "limits": (HeldBack(PlanLimit.NEVER_POLLED, 5, 5, None, 0.01),)},
            f"{NO}: 5 pages are never polled: they have weight 0, or never change. 50 % is the most.",
        ),
        (
            {"budget": None, "most": 0.95, "limits": (HeldBack(PlanLimit.LARGEST_BUDGET, 5, 0, None, 0.01),)},
            f"{NO}: a budget is 10,000 checks per second at most.",
        ),
        ({"budget": None, "most": 0.8999, "limits": ()}, f"{NO}. 90 % is the most."),
        (
            {"budget": 0.000125, "current_budget": 0.01525},
            f"To learn of {OF_SHOP} you need about 11 checks per day; you have 1,320 checks per day.",
        ),
        (
            {"budget": 0.05, "current_budget": 0.01},
            f"To learn of {OF_SHOP} you need about 180 checks per hour; you have 36 checks per hour.",
        ),
        (
            {
                "budget": None,
                "most": 0.4,
                "limits": (HeldBack(PlanLimit.MIN_SAVING, 12, 3, 7_200.0, 0.2),),
                "checks_per_day": 600.0,
                "min_saving": 4.96,
                "current_checks_per_day": 304.0,
                "current_min_saving": 20.0,
            },
            f"To learn of {OF_SHOP} you need about 600 checks per day: "
            "--min-saving 5s (today 20s, 300 checks per day).",
        ),
        (
            {
                "budget": None,
                "limits": (HeldBack(PlanLimit.MIN_SAVING, 12, 3, 7_200.0, 0.2),),
                "checks_per_day": 864_000.0,
                "min_saving": 0.5,
            },
            f"To learn of {OF_SHOP} you need about 860,000 checks per day: --min-saving 0.5s and 10 checks per second.",
        ),
        (
            {"budget": None, "most": 0.4, "limits": (HeldBack(PlanLimit.MIN_SAVING, 12, 3, 7_200.0, 0.2),)},
            f"{NO}: 12 pages are not worth a poll for 2 h after each (min_saving). 40 % is the most.",
        ),
        ({"sites": 0}, "No page tagged shop is polled yet."),
        ({"sites": 0, "tag": None}, "No page is polled yet: add one by `pollerd sites add URL`."),
        ({"current_share": None}, "No change of 1,204 pages tagged shop is expected."),
    ],
)
def test_the_first_sentence_says_what_is_needed(changed: dict[str, Any], said: str) -> None:
    assert sentences(replace(PLAN, **changed))[0] == said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"current_share": 0.999, "delay_median": 0.4, "delay_p90": 45.2},
            "With 6 checks per second you learn of over 99 % in that time; "
            "half of all changes are seen within 0.4 s, 90 % within 45 s.",
        ),
        (
            {"delay_p90": None},
            "With 6 checks per second you learn of 71 % in that time; half of all changes are seen within 22 min, "
            "more than a tenth never.",
        ),
        (
            {"current_share": 0.0, "delay_median": None, "delay_p90": None},
            "With 6 checks per second you learn of 0 % in that time; more than half of all changes are never seen.",
        ),
    ],
)
def test_the_second_says_what_is(changed: dict[str, Any], said: str) -> None:
    assert sentences(replace(PLAN, **changed))[1] == said


@pytest.mark.parametrize(
    ("median", "saving", "said"),
    [
        (
            12.0,
            20.0,
            "The median weight is 12, and --min-saving 20s is for weight 1: a check of most is to save 1.67s.",
        ),
        (0.1, 60.0, "The median weight is 0.1, and --min-saving 1m is for weight 1: a check of most is to save 10m."),
        (0.0, 20.0, "The median weight is 0, and --min-saving 20s is for weight 1: most are hardly checked."),
        (0.2, 20.0, None),
        (5.0, 20.0, None),
        (12.0, 0.0, None),
    ],
)
def test_unusual_weights_are_told_as_min_saving_is_for_weight_1(median: float, saving: float, said: str | None) -> None:
    found = sentences(replace(PLAN, median_weight=median, current_min_saving=saving))
    assert [one for one in found if "median weight" in one] == ([] if said is None else [said])


def test_the_last_ones_say_what_is_measured_and_doubtful() -> None:
    assert sentences(replace(PLAN, measured=MeasuredDelays(1, 600.0, 600.0)))[2] == (
        "Measured where pages name a date: 10 min (of 1 change)."
    )
    assert "Measured" not in " ".join(sentences(replace(PLAN, measured=None)))
    assert sentences(replace(PLAN, objective="freshness"))[-2:] == (
        "Goal: freshness. The policy whittle splits the budget.",
        "Fewer may be seen in time: for this goal pages that change all the time are polled ever less.",
    )
    assert sentences(replace(PLAN, seldom_polled=812))[-1] == (
        "812 pages were polled fewer than 20 times: how often they change is not known well yet."
    )
    assert sentences(replace(PLAN, seldom_polled=1))[-1].startswith(
        "1 page was polled fewer than 20 times: how often it"
    )
    assert sentences(replace(PLAN, seldom_polled=812, changes_per_day=None, allocator="uniform"))[-1] == (
        "Uniform does not estimate how often pages change: all count alike."
    )


@pytest.mark.parametrize(
    ("seconds", "given", "expected", "spaced"),
    [
        (0.04, "0.04 seconds", "0.04 s", "in 0.04 s"),
        (1.0, "1 second", "1 s", "a second"),
        (1.5, "1.5 seconds", "1.5 s", "in 1.5 s"),
        (59.7, "59.7 seconds", "1 min", "in 1 min"),
        (1.0000000000000002, "1 second", "1 s", "in 1 s"),
        (60.0, "1 minute", "1 min", "a minute"),
        (1_800.0, "30 minutes", "30 min", "in 30 minutes"),
        (3_599.0, "3,599 seconds", "1 h", "in 3,599 seconds"),
        (3_600.0, "1 hour", "1 h", "an hour"),
        (11_400.0, "190 minutes", "3 h 10 min", "in 190 minutes"),
        (40_000.0, "40,000 seconds", "11 h", "in 40,000 seconds"),
        (86_399.0, "86,399 seconds", "1 d", "in 86,399 seconds"),
        (86_400.0, "1 day", "1 d", "a day"),
        (190_000.0, "190,000 seconds", "2 d 5 h", "in 190,000 seconds"),
        (1e9, "1,000,000,000 seconds", "11,574 d", "in 1,000,000,000 seconds"),
    ],
)
def test_durations(seconds: float, given: str, expected: str, spaced: str) -> None:
    assert (exactly(seconds), about(seconds), apart(seconds)) == (given, expected, spaced)


def test_shares_and_numbers() -> None:
    shares = (0.0, 0.001, 0.5, 0.994, 0.9999, 1.0)
    assert [in_percent(x) for x in shares] == ["0 %", "under 1 %", "50 %", "99 %", "over 99 %", "100 %"]
    assert [two_digits(x) for x in (0.0123, 0.25, 14.23, 99.6, 1_234.0)] == ["0.012", "0.25", "14", "100", "1,200"]


_SHARES, _SECONDS = st.floats(0, 1), st.floats(1e-3, 1e10)
_MAYBE = st.none() | _SHARES
_SPANLESS = PlanLimit.NEVER_POLLED, PlanLimit.LARGEST_BUDGET
_NUMBERS = st.integers(1, 10**6), st.integers(1, 10**5)
_HELD = st.builds(HeldBack, st.sampled_from(_SPANLESS), *_NUMBERS, st.none(), _SHARES) | st.builds(
    HeldBack, st.sampled_from([limit for limit in PlanLimit if limit not in _SPANLESS]), *_NUMBERS, _SECONDS, _SHARES
)


@given(
    st.builds(
        BudgetPlan,
        objective=st.sampled_from(["changes", "freshness"]),
        allocator=st.sampled_from(["whittle", "uniform"]),
        tag=st.none() | st.just("shop"),
        share=st.floats(0.001, 0.999),
        within=st.floats(1, 1e9),
        budget=st.none() | st.floats(0.01, 10_000),
        most=_MAYBE,
        limits=st.lists(_HELD, max_size=4).map(tuple),
        current_budget=st.floats(0.01, 10_000),
        current_share=_MAYBE,
        delay_median=st.none() | _SECONDS,
        delay_p90=st.none() | _SECONDS,
        measured=st.none() | st.builds(MeasuredDelays, st.integers(1, 20_000), _SECONDS, _SECONDS),
        sites=st.integers(0, 10**6),
        changes_per_day=st.none() | st.floats(0, 1e9),
        seldom_polled=st.integers(0, 10**6),
        sampled=st.booleans(),
        by_tag=st.just(()),
    )
)
def test_no_plan_says_nonsense(plan: BudgetPlan) -> None:
    said = " ".join(sentences(plan))
    assert not re.search(r"\b(None|nan|inf)\b|-0|  |e[+-]\d|(?<![\d.,])1 (pages|hosts|changes|seconds|days)\b", said)
    assert all(sentence[0].isupper() or sentence[0].isdigit() for sentence in sentences(plan))
    assert all(sentence.endswith(".") for sentence in sentences(plan))
    assert msgspec.convert(msgspec.to_builtins(plan), BudgetPlan) == plan
