"""What follows from a failure: the wait grows with every one in a row, and Retry-After can only lengthen it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.daemon.stages import Answer, Found
from pollerd.daemon.transition import SiteStatus, poll_effect
from pollerd.model import Baseline, Outcome, OutcomeKind, Redirect, SiteState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.values import PollRecord, SiteContext

SETTINGS = SchedulingSettings(backoff_base_seconds=60.0, backoff_cap_seconds=86_400.0)


def judged(outcome: Outcome, *, in_a_row: int = 0, seed: int = 0) -> PollRecord:
    """`in_a_row`: failures of the site before this one."""
    standing = SiteStatus(failures=in_a_row, last_seen_at=None)
    finding = Found(Answer(0, SiteContext(1, "http://a.example/", baseline=Baseline()), outcome))
    return poll_effect(finding, standing, "", SETTINGS, np.random.default_rng(seed))


def refusal(status: int, retry_after: float | None) -> Outcome:
    return Outcome(OutcomeKind.THROTTLED, started_at=1000.0, duration=0.0, status=status, retry_after=retry_after)


@given(
    st.sampled_from([429, 503]),
    st.one_of(st.none(), st.floats(allow_nan=True)),
    st.integers(2, 12),
    st.integers(0, 2**32 - 1),
)
def test_the_wait_is_never_shorter_than_the_backoff(
    status: int, retry_after: float | None, in_a_row: int, seed: int
) -> None:
    effect = judged(refusal(status, retry_after), in_a_row=in_a_row, seed=seed)
    least = min(SETTINGS.backoff_cap_seconds, 60.0 * 2.0**in_a_row) / 2
    assert effect.not_before is not None
    assert least <= effect.not_before - 1000.0 <= SETTINGS.backoff_cap_seconds


@pytest.mark.parametrize(("in_a_row", "least_days", "most_days"), [(0, 1, 2), (1, 2, 4), (3, 8, 16), (60, 15, 30)])
def test_a_page_that_is_gone_is_requested_again_rarely(in_a_row: int, least_days: float, most_days: float) -> None:
    effect = judged(Outcome(OutcomeKind.GONE, 1000.0, 0.0, status=410), in_a_row=in_a_row)
    assert effect.state is SiteState.GONE
    assert effect.not_before is not None
    assert least_days * 86_400.0 <= effect.not_before - 1000.0 <= most_days * 86_400.0


def test_a_redirect_whose_host_was_busy_waits_for_that_host_and_no_longer() -> None:
    hop = (Redirect(302, "http://b.example/"),)
    outcome = Outcome(OutcomeKind.THROTTLED, 1000.0, 0.0, status=302, retry_after=7.0, redirects=hop)
    effect = judged(outcome, in_a_row=9)
    assert effect.not_before == 1007.0
