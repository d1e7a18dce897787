"""The demo's summary: what was found beside what happened, and what uniform polling would have found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pollerd.app.demo_web import DemoSite, SiteKind
from pollerd.cli.demo.score import SLACK_SECONDS, Watched, detection_delays, score, uniform_finds, uniform_mean_delay


def site(name: str, rate: float = 0.1) -> DemoSite:
    return DemoSite(f"http://{name}:1/", name, "/", SiteKind.PLAIN, rate)


def test_changes_between_two_polls_are_found_as_one_and_the_last_may_wait() -> None:
    one = site("127.1.0.2")
    truth = {one.url: np.array([5.0, 12.0, 14.0, 21.0, 29.0])}
    result = score([one], truth, {one.url: Watched(10.0, 5, [15.0, 25.0])}, 30.0)
    assert (result.happened, result.found, result.noticed, result.merged, result.waiting) == (4, 2, 3, 1, 1)
    assert sorted(result.delays.tolist()) == [1.0, 3.0, 4.0]
    assert result.share == 2 / 4


def test_sites_not_answered_yet_or_not_listed_do_not_count() -> None:
    early, unlisted = site("127.1.0.2"), site("127.1.0.3")
    truth = {early.url: np.array([1.0]), unlisted.url: np.array([1.0])}
    result = score([early, unlisted], truth, {early.url: Watched(None, 3, [])}, 10.0)
    assert (result.happened, result.found) == (0, 0)
    assert math.isnan(result.share)
    assert math.isnan(result.uniform_share)


def test_a_site_that_always_changes_counts_for_the_shares_only() -> None:
    always, still = site("127.1.0.2", math.inf), site("127.1.0.3")
    truth = {always.url: np.empty(0), still.url: np.empty(0)}
    watched = {always.url: Watched(0.0, 4, [1.0, 2.0, 3.0]), still.url: Watched(0.0, 8, [])}
    result = score([always, still], truth, watched, 10.0)
    assert (result.happened, result.found, result.noticed) == (0, 0, 0)
    assert result.share == pytest.approx(3 / 10)
    assert result.uniform_share == pytest.approx(1 / 2), "half of the even polls go to each"


def test_a_change_while_the_request_was_under_way_belongs_to_that_poll() -> None:
    delays = detection_delays(np.array([10.0 + SLACK_SECONDS / 2, 10.0 + SLACK_SECONDS * 2]), [10.0, 20.0])
    assert delays.tolist() == pytest.approx([0.0, 10.0 - 2 * SLACK_SECONDS])


@pytest.mark.parametrize("seed", range(5))
def test_expected_finds_of_uniform_polling_agree_with_polling_at_every_phase(seed: int) -> None:
    rng = np.random.default_rng(seed)
    end, period = 100.0, 7.0
    changes = np.sort(rng.uniform(0.0, end, 12))
    finds = []
    for phase in (np.arange(20_000) + 0.5) / 20_000 * period:
        polls = np.arange(phase, end, period)
        finds.append(len(np.unique(np.searchsorted(polls, changes[changes <= polls[-1]]))))
    assert uniform_finds(changes, period, end) == pytest.approx(np.mean(finds), abs=0.01)


def test_without_changes_uniform_polling_finds_nothing() -> None:
    assert uniform_finds(np.empty(0), 3.0, 10.0) == 0.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_delay_of_equal_polls_agrees_with_polling_at_every_phase(seed: int) -> None:
    rng = np.random.default_rng(seed)
    period, now = 3.0, 40.0
    happened = [np.sort(rng.uniform(0.0, now, size)) for size in (0, 5, 30)]
    changes = np.concatenate(happened)
    means = []
    for first in np.arange(0.0, period, 0.001):
        polls = np.append(np.arange(first, now, period), now)  # what is not found yet waits until now
        means.append((polls[np.searchsorted(polls, changes)] - changes).mean())
    assert uniform_mean_delay(happened, period, now) == pytest.approx(np.mean(means), rel=1e-3)
    assert math.isnan(uniform_mean_delay([np.empty(0)], period, now))


def test_changes_that_wait_count_with_their_age() -> None:
    site = DemoSite("http://a/", "a", "/", SiteKind.PLAIN, 1.0)
    truth = {"http://a/": np.array([2.0, 9.0])}
    result = score([site], truth, {"http://a/": Watched(1.0, 3, [4.0])}, 12.0)
    assert result.mean_delay == pytest.approx((2.0 + 3.0) / 2)
