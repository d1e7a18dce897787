"""Masks at work: contents compared under them, learned from repeat fetches, tried at other pages."""

from __future__ import annotations

import pytest

from pollerd.detection.detect import detect
from pollerd.detection.noise.learning import (
    PairVerdict,
    learn_from_pair,
    mask_is_stale,
    under_known_noise,
    without_noise,
)
from pollerd.detection.noise.learning import noise_of_pair as noise_of
from pollerd.detection.summary import summarise
from pollerd.errors import InvalidValueError
from pollerd.model import Baseline, Media, Outcome, OutcomeKind

NEWS = "Latest news\nThe council meets on Monday\nBridge closed for repairs until spring\n"


def page(token: str, news: str = NEWS) -> bytes:
    return f"{news}Your request {token} was served\nAll rights reserved by the city\n".encode()


FIRST, SECOND = page("9f8e7d6c5b4a3928"), page("0a1b2c3d4e5f6071")


def html(token: str, news: str = NEWS) -> Outcome:
    body = b"<html><body>" + b"".join(b"<p>" + line + b"</p>" for line in page(token, news).splitlines())
    return Outcome(OutcomeKind.BODY, 0.0, 0.1, 200, len(body), body, "text/html")


def learned() -> Baseline:
    verdict = learn_from_pair(FIRST, SECOND, Baseline(fingerprint=b"x" * 16), None)
    assert verdict.same
    return verdict.baseline


def test_twins_are_the_same_under_what_they_teach() -> None:
    mask = learned().mask
    assert without_noise(FIRST, mask) == without_noise(SECOND, mask) == without_noise(page("f" * 16), mask)
    assert without_noise(page("f" * 16, NEWS + "More\n"), mask) != without_noise(SECOND, mask)
    assert any("Your request" in line for line in noise_of(mask))


def test_without_a_mask_contents_are_as_they_are() -> None:
    assert without_noise(FIRST, b"") == FIRST
    assert noise_of(b"") == ()


def test_detect_compares_under_the_mask_and_keeps_the_whole_content() -> None:
    first = detect(html("9f8e7d6c5b4a3928"), Baseline(), None)
    second = detect(html("0a1b2c3d4e5f6071"), first.baseline, 1.0)
    assert second.kind is OutcomeKind.CHANGED
    assert first.content is not None
    assert second.content is not None
    verdict = learn_from_pair(first.content, second.content, second.baseline, None)
    assert verdict.same
    baseline = verdict.baseline
    noise = detect(html("1234567890abcdef"), baseline, 5.0)
    assert noise.kind is OutcomeKind.UNCHANGED
    news = detect(html("fedcba0987654321", NEWS + "Fire in the harbour\n"), noise.baseline, 5.0)
    assert news.kind is OutcomeKind.CHANGED
    assert news.content is not None
    assert b"fedcba0987654321" in news.content
    assert news.baseline.mask == baseline.mask


def test_a_change_between_the_twins_is_no_noise() -> None:
    after = page("0a1b2c3d4e5f6071", NEWS.replace("Monday", "Friday"))
    verdict = learn_from_pair(FIRST, after, Baseline(), page("1111222233334444"))
    assert not verdict.same
    assert not verdict.only_noise
    mask = verdict.baseline.mask
    assert without_noise(after, mask) != without_noise(FIRST, mask)


def test_a_change_that_is_taken_back_between_the_twins_is_no_noise_unless_that_is_said() -> None:
    """As where the servers of a host do not have the change all at once: masked, it would never be found."""
    news, before = NEWS.replace("Monday", "Friday"), page("1111222233334444")
    first, second = page("9f8e7d6c5b4a3928", news), page("0a1b2c3d4e5f6071")
    verdict = learn_from_pair(first, second, Baseline(), before, returns=False)
    assert verdict.only_noise
    assert not verdict.same
    mask = verdict.baseline.mask
    assert without_noise(page("f" * 16, news), mask) != without_noise(before, mask)
    swinging = learn_from_pair(first, second, Baseline(), before, returns=True)
    assert swinging.same
    assert without_noise(page("f" * 16, news), swinging.baseline.mask) == without_noise(before, swinging.baseline.mask)


def test_a_second_fetch_that_differs_from_the_poll_before_in_noise_alone_says_so() -> None:
    verdict = learn_from_pair(FIRST, SECOND, Baseline(), page("1111222233334444"))
    assert (verdict.same, verdict.only_noise) == (True, True)
    news = NEWS + "Fire in the harbour\n"
    verdict = learn_from_pair(page("a" * 16, news), page("0a1b2c3d4e5f6071", news), Baseline(), FIRST)
    assert (verdict.same, verdict.only_noise) == (True, False)


def test_twins_that_are_alike_teach_nothing() -> None:
    before = Baseline(fingerprint=b"y" * 16)
    assert learn_from_pair(FIRST, FIRST, before, None) == PairVerdict(before, same=True, only_noise=False)


def test_a_place_that_is_missing_in_three_pairs_is_forgotten() -> None:
    baseline, rebuilt = learned(), b"A new start\nNothing as it was\n"
    for _ in range(3):
        assert mask_is_stale(rebuilt, baseline.mask)
        baseline = learn_from_pair(rebuilt, rebuilt, baseline, None).baseline
    assert baseline.mask == b""


def test_a_page_that_is_all_noise_gets_no_mask() -> None:
    verdict = learn_from_pair(b"1700000001", b"1700000002", Baseline(), None)
    assert verdict == PairVerdict(Baseline(), same=False, only_noise=False)


def test_a_mask_serves_other_pages_with_the_same_noise_only() -> None:
    mask = learned().mask
    found = under_known_noise(page("aaaabbbbccccdddd"), page("1111222233334444"), Baseline(), [mask])
    assert found is not None
    assert found.mask == mask
    news = page("1111222233334444", NEWS.replace("Monday", "Friday"))
    assert under_known_noise(page("aaaabbbbccccdddd"), news, Baseline(), [mask]) is None


def test_a_rebuilt_page_outgrows_its_mask() -> None:
    mask = learned().mask
    assert not mask_is_stale(page("f" * 16), mask)
    assert mask_is_stale(b"A new start\nNothing as it was\n", mask)


def test_what_the_mask_hides_is_not_in_the_summary() -> None:
    mask = learned().mask
    news = page("1111222233334444", NEWS + "Fire in the harbour\n")
    assert summarise(FIRST, news, Media.TEXT, mask) == "+ Fire in the harbour"


@pytest.mark.parametrize("damaged", [b"[]", b"\xff", b"[9,[],[]]"])
def test_a_damaged_mask_is_refused(damaged: bytes) -> None:
    with pytest.raises(InvalidValueError, match="mask"):
        without_noise(FIRST, damaged)


def served(token: str, title: str = "Terms", label: str = "Request") -> bytes:
    return "\n".join([title, "a line", "another line", "Compliance", f"{label} {token} was served"]).encode()


@pytest.mark.parametrize(
    ("earlier", "only_noise"),
    [
        (served("a3f0c1"), True),
        (served("777777"), True),
        (served("a3f0c1", title="New terms"), False),
        (served("a3f0c1", label="Answer"), False),
    ],
)
def test_codes_that_look_like_numbers_in_both_polls_are_those_of_the_poll_before(
    earlier: bytes, only_noise: bool
) -> None:
    verdict = learn_from_pair(served("123456"), served("654321"), Baseline(), earlier)
    assert (verdict.same, verdict.only_noise, verdict.wide) == (True, only_noise, False)
    mask = verdict.baseline.mask
    assert without_noise(served("999999"), mask) == without_noise(served("654321"), mask)
    if only_noise:
        assert without_noise(earlier, mask) == without_noise(served("654321"), mask)
