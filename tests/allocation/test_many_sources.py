"""Many sources of signals: what a new one starts with, and where the best are read."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.signals.signals import Signals
from tests.allocation.test_signals import made

CYCLE, HOST = 1_000.0, 3


def add(signals: Signals, source: int, host: int = HOST) -> None:
    signals.add(source, np.array([source]), None, CYCLE, 5_000, host)


def poll(signals: Signals, source: int, *, named: bool, changed: bool) -> None:
    """A poll of the one page of a source, a uniform cycle after the one before; the source was pushed until then."""
    page, rate, now = np.array([source]), np.array([[1.0 / CYCLE]]), 1_000.0 * CYCLE
    signals.sources[source].alive(now)
    if named:
        signals.receive(page, source, np.array([np.nan]), now, rate[0])
    before = signals.read(page, np.array([CYCLE]), rate, now)
    signals.learn(page, before, rate, np.ones((1, 1)), np.array([changed]))


def taught() -> Signals:
    """One source of which a hundred polls have taught."""
    signals = Signals()
    add(signals, 0)
    for turn in range(100):
        poll(signals, 0, named=turn % 2 == 0, changed=turn % 10 != 1)
    return signals


def sums_of(signals: Signals, source: int) -> tuple[float, ...]:
    of = signals.sources[source]
    return of.announced, of.unannounced, of.false, of.exposure


def test_a_thousand_new_sources_start_alike() -> None:
    signals = taught()
    for source in range(1, 1_001):
        add(signals, source)
    known, first = sums_of(signals, 0), sums_of(signals, 1)
    polls = signals.sources[0].polls
    assert first[:3] == pytest.approx([1.0 + 4.0 / polls * (one - 1.0) for one in known[:3]])
    assert first[3] == pytest.approx(4.0 / polls * known[3])
    for source in range(2, 1_001):
        assert sums_of(signals, source) == pytest.approx(first), "what one was taught it does not pass on as its own"


@pytest.mark.parametrize("restored", [False, True])
def test_sources_that_hardly_learned_anything_themselves_teach_no_more_than_the_first(restored: bool) -> None:
    signals = taught()
    add(signals, 1)
    first = sums_of(signals, 1)
    for source in range(2, 80):
        poll(signals, source - 1, named=False, changed=False)
        if restored:
            before, signals = signals, Signals()
            signals.restore(before.state())
            for known in before.sources:
                add(signals, known)
        add(signals, source)
    last = sums_of(signals, 79)
    assert all(1.0 <= late <= early for late, early in zip(last[:3], first[:3], strict=True))


def test_a_host_without_sources_learns_of_all() -> None:
    signals = taught()
    add(signals, 1, host=-1)
    assert signals.sources[0].recall < signals.sources[1].recall < 0.4, "from .5, as far as four polls teach"
    add(signals, 2, host=HOST + 1)
    for _ in range(20):
        poll(signals, 2, named=False, changed=True)
    add(signals, 3, host=HOST + 1)
    assert signals.sources[3].recall < 0.8 * signals.sources[1].recall


def test_nothing_is_left_of_a_source_or_page_whose_number_is_given_again() -> None:
    signals, now = Signals(), 1_000.0 * CYCLE
    add(signals, 1)
    add(signals, 2)
    for source in (1, 2):
        signals.receive(np.array([source]), source, np.array([np.nan]), now, np.array([1.0 / CYCLE]))
    assert signals.waiting(np.array([1, 2])).tolist() == [1.0, 1.0]
    signals.remove(1, 5_000)
    add(signals, 1)
    signals.forget(np.array([2]), 5_000)
    add(signals, 2)
    assert signals.waiting(np.array([1, 2])).tolist() == [0.0, 0.0]


def choices(numbers: tuple[int, int, int]) -> list[int]:
    """Choices among sixty pages, of which three lists of other quality tell that are read at three more slots."""
    policy, rng = made(60), np.random.default_rng(1)
    policy.add(np.arange(60, 63), np.ones(3), np.ones(3))
    last, dirty = np.zeros(63), np.zeros(60, bool)
    for place, number in enumerate(numbers):
        policy.add_source(number, np.arange(place, 60, 3), polled_as=60 + place)
    out = []
    for now in np.arange(1.0, 500.0):
        dirty |= rng.random(60) < 0.01
        (chosen,) = policy.select(now - last, now, np.ones(63, bool), 1).tolist()
        changed = chosen >= 60 or bool(dirty[chosen])
        policy.observe(np.array([chosen]), np.array([now - last[chosen]]), EvidenceBatch(np.array([changed])), now)
        last[chosen] = now
        if chosen < 60:
            dirty[chosen] = False
        else:
            of = np.arange(chosen - 60, 60, 3)
            named = (of[dirty[of]], of[rng.random(20) < 0.5], of[:0])[chosen - 60]
            policy.signal(named, numbers[chosen - 60], np.full(len(named), np.nan), now)
            policy.fetched(numbers[chosen - 60], now)
        out.append(chosen)
    return out


def test_the_numbers_of_sources_do_not_matter() -> None:
    assert choices((7, 5, 1)) == choices((0, 1, 2))
