"""How many requests at once while a topic is set, and what one answer means for a page."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.crawler.concurrency import ConcurrencyLimiter, Fixed, Learned
from pollerd.crawler.pages import PageReading
from pollerd.crawler.state import MISSING, TRIES, PageStatus, PageTransition, page_record, page_transition
from pollerd.crawler.topics import TopicSettings
from pollerd.model import OutcomeKind, PageState, Poll, SiteState
from pollerd.storage.values import PollRecord, SiteContext

TOPIC = TopicSettings("t", keywords=("a",), relevance_min=0.4)
ON_TRIAL = PageStatus(page_id=1, depth=2, on_trial=True, own=True)
HELD = PageStatus(page_id=1, depth=2, on_trial=False, own=True)
THEIRS = PageStatus(page_id=1, depth=2, on_trial=False, own=False)


def polled(kind: OutcomeKind = OutcomeKind.FIRST, failures: int = 0, moved: int = 0) -> PollRecord:
    target = "http://b/" if moved else None
    context = SiteContext(7, "http://a/", redirect_url=target, redirect_count=moved)
    poll = Poll(7, 0.0, None, kind, None, 0.1, 0, changed=False)
    return PollRecord(poll, context, SiteState.ACTIVE, failures=failures)


def state(before: PageStatus, record: PollRecord, reading: PageReading | None = None) -> PageState | None:
    found = page_transition(before, record, reading, TOPIC)
    return None if found is None else found.state


def test_relevance_decides_with_room_to_waver() -> None:
    assert state(ON_TRIAL, polled(), PageReading(0.4)) is PageState.COLLECTED
    assert state(ON_TRIAL, polled(), PageReading(0.39)) is PageState.REJECTED
    assert state(HELD, polled(), PageReading(0.31)) is PageState.COLLECTED
    assert state(HELD, polled(), PageReading(0.29)) is PageState.REJECTED
    assert state(THEIRS, polled(), PageReading(0.0)) is PageState.COLLECTED


@pytest.mark.parametrize("reading", [PageReading(0.9, noindex=True), PageReading(0.9, listing=True)])
def test_what_is_not_to_be_held_is_not(reading: PageReading) -> None:
    assert state(ON_TRIAL, polled(), reading) is state(HELD, polled(), reading) is PageState.REJECTED


def test_a_page_known_by_another_url_leads_there() -> None:
    assert page_transition(ON_TRIAL, polled(moved=1), PageReading(0.9), TOPIC) == PageTransition(
        PageState.REJECTED, "moved", "http://b/"
    )
    assert state(HELD, polled(moved=1), PageReading(0.9)) is PageState.COLLECTED
    assert state(HELD, polled(moved=3), PageReading(0.9)) is PageState.REJECTED
    copy = page_transition(ON_TRIAL, polled(), PageReading(0.9, canonical="http://c/"), TOPIC)
    assert copy is not None
    assert copy.instead == "http://c/"


@pytest.mark.parametrize("kind", [OutcomeKind.GONE, OutcomeKind.NOT_FOUND, OutcomeKind.DENIED, OutcomeKind.TOO_LARGE])
def test_some_answers_reject_a_page_on_trial_at_once(kind: OutcomeKind) -> None:
    assert state(ON_TRIAL, polled(kind, failures=1)) is PageState.REJECTED


@pytest.mark.parametrize("kind", [OutcomeKind.TIMEOUT, OutcomeKind.SERVER_ERROR, OutcomeKind.DNS_ERROR])
def test_others_are_tried_again(kind: OutcomeKind) -> None:
    assert state(ON_TRIAL, polled(kind, failures=TRIES - 1)) is None
    assert state(ON_TRIAL, polled(kind, failures=TRIES)) is PageState.REJECTED
    assert state(HELD, polled(kind, failures=100)) is None


def test_what_is_held_is_gone_when_it_says_so_or_is_missing_for_long() -> None:
    assert state(HELD, polled(OutcomeKind.GONE, failures=1)) is PageState.GONE
    assert state(HELD, polled(OutcomeKind.NOT_FOUND, failures=MISSING - 1)) is None
    assert state(HELD, polled(OutcomeKind.NOT_FOUND, failures=MISSING)) is PageState.GONE
    assert state(THEIRS, polled(OutcomeKind.GONE, failures=1)) is None


def test_weights_follow_relevance_on_the_crawlers_own_sites_only() -> None:
    kept = PageTransition(PageState.COLLECTED)
    assert page_record(HELD, kept, PageReading(0.7), None).weight == 0.7
    assert page_record(THEIRS, kept, PageReading(0.7), None).weight is None
    assert page_record(HELD, kept, None, None).weight is None
    assert page_record(HELD, PageTransition(PageState.GONE, "gone"), None, None).ended
    assert not page_record(HELD, kept, PageReading(0.7), None).ended


class Time:
    """A clock that a test turns."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_request_may_always_start_where_none_is_under_way() -> None:
    pace = ConcurrencyLimiter(Fixed(1), Time())

    def may_start() -> bool:
        return pace.may_start

    assert may_start()
    pace.started()
    assert not may_start()
    pace.responded(0.1)
    pace.processed(0.01)
    assert may_start()


def rounds(pace: ConcurrencyLimiter, clock: Time, latency: float, processing: float, seconds: float) -> float:
    """Mean number of requests under way where every request takes `latency`, and reading an answer `processing`."""
    ends, ready, busy_until, total, step = list[float](), 0, 0.0, 0.0, 0.001
    steps = int(seconds / step)
    for _ in range(steps):
        clock.now += step
        while ends and ends[0] <= clock.now:
            ends.pop(0)
            ready += 1
            pace.responded(latency)
        if ready and busy_until <= clock.now:
            if busy_until > 0:
                ready -= 1
                pace.processed(processing)
            busy_until = clock.now + processing if ready else 0.0
        elif not ready:
            busy_until = 0.0
        if pace.may_start:
            pace.started()
            ends.append(clock.now + latency)
        total += len(ends)
    return total / steps


def test_as_many_are_under_way_as_keep_the_processor_busy() -> None:
    """Latency of 0.2 s and 10 ms of reading: about 20 keep it busy. A fixed 4 stay 4."""
    clock = Time()
    learned = rounds(ConcurrencyLimiter(Learned(np.random.default_rng(1)), clock), clock, 0.2, 0.01, 30.0)
    assert 8 < learned < 40
    clock = Time()
    assert rounds(ConcurrencyLimiter(Fixed(4), clock), clock, 0.2, 0.01, 5.0) <= 5.0
