"""When the poller chooses again, by a clock that a test turns; queues of commands; the hook without a crawler."""

from __future__ import annotations

import inspect
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.crawler.crawl import CrawlHook
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.poll import Cadence
from pollerd.daemon.scheduler_state import CommandQueue


class Clock:
    """Monotonic seconds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_before_the_first_choice_nothing_holds_it_back() -> None:
    cadence = Cadence(0.1, Clock())
    assert (cadence.choose_again_at, cadence.rested_at) == (-math.inf, -math.inf)
    assert (cadence.tick, cadence.due_in, cadence.nothing_due) == (0.1, math.inf, False)


def test_a_quick_choice_keeps_the_tick_and_takes_its_share_of_the_time() -> None:
    cadence = Cadence(0.1, Clock())
    cadence.chose(0.002, 5.0, nothing_due=True)
    assert cadence.tick == 0.1
    assert cadence.choose_again_at == pytest.approx(100.006), "choosing takes a quarter of the time at most"
    assert cadence.rested_at == pytest.approx(100.038), "and a twentieth where nothing was chosen"
    assert (cadence.due_in, cadence.nothing_due) == (5.0, True)


@pytest.mark.parametrize(("took", "tick"), [(0.01, 0.2), (0.03, 0.6), (0.2, 1.0)])
def test_a_slow_choice_looks_further_ahead_a_second_at_most(took: float, tick: float) -> None:
    cadence = Cadence(0.1, Clock())
    cadence.chose(took, 0.0, nothing_due=False)
    assert cadence.tick == pytest.approx(tick)
    assert cadence.number(200.0, ahead=False) == int(200.0 * cadence.tick)


def test_a_look_for_what_is_due_counts_like_a_choice() -> None:
    cadence = Cadence(0.1, Clock())
    cadence.chose(0.002, 0.0, nothing_due=False)
    cadence.looked(0.001)
    assert cadence.rested_at == pytest.approx(100.038 + 0.019)


@pytest.mark.parametrize(
    ("rate", "ahead", "number"), [(0.01, True, 1), (5.0, True, 5), (50.0, True, 16), (50.0, False, 5), (1e3, True, 100)]
)
def test_how_many_are_chosen_at_once(rate: float, ahead: bool, number: int) -> None:
    assert Cadence(0.1, Clock()).number(rate, ahead=ahead) == number


TICKS = st.floats(0.001, 1.0)
SPENT = st.floats(0.0, 30.0)
Steps = list[tuple[float, float, bool]]
STEPS = st.lists(st.tuples(SPENT, SPENT, st.booleans()), min_size=1, max_size=30)
"""Of each: seconds that pass, seconds that a choice or a look takes, and whether it is a choice."""


@given(TICKS, SPENT)
def test_a_tick_is_never_shorter_than_asked_for_nor_longer_than_a_second(shortest: float, took: float) -> None:
    cadence = Cadence(shortest, Clock())
    cadence.chose(took, math.inf, nothing_due=False)
    assert shortest <= cadence.tick <= 1.0


@given(TICKS, STEPS)
def test_choosing_whenever_it_is_allowed_takes_a_quarter_of_the_time_at_most(shortest: float, steps: Steps) -> None:
    clock = Clock()
    cadence = Cadence(shortest, clock)
    for _, took, _ in steps:
        began = clock.now = max(clock.now, cadence.choose_again_at)
        clock.now += took
        cadence.chose(took, 0.0, nothing_due=False)
        assert took <= 0.25 * (cadence.choose_again_at - began) + 1e-9


@given(TICKS, STEPS)
def test_in_rest_nineteen_times_what_choosing_and_looking_took_passes(shortest: float, steps: Steps) -> None:
    clock = Clock()
    cadence, spent = Cadence(shortest, clock), 0.0
    for _, took, is_choice in steps:
        began = clock.now = max(clock.now, cadence.rested_at)
        clock.now += took
        if is_choice or not math.isfinite(cadence.rested_at):
            cadence.chose(took, math.inf, nothing_due=True)
            first, spent = began, took
        else:
            cadence.looked(took)
            spent += took
        assert 19 * spent <= (cadence.rested_at - first) * (1 + 1e-9) + 1e-6


@given(TICKS, STEPS)
def test_where_nothing_was_chosen_it_rests_no_less_than_where_something_was(shortest: float, steps: Steps) -> None:
    clock = Clock()
    cadence = Cadence(shortest, clock)
    for passed, took, is_choice in steps:
        clock.now += passed
        if is_choice:
            cadence.chose(took, passed, nothing_due=False)
            assert cadence.due_in == passed
        else:
            before = cadence.choose_again_at, cadence.tick
            cadence.looked(took)
            assert (cadence.choose_again_at, cadence.tick) == before, "a look is no choice"
        assert cadence.rested_at >= cadence.choose_again_at


@given(TICKS, st.floats(0.01, 10_000.0), st.floats(0.01, 10_000.0), SPENT)
def test_more_budget_chooses_no_fewer_and_ahead_no_fewer(shortest: float, one: float, two: float, took: float) -> None:
    cadence = Cadence(shortest, Clock())
    cadence.chose(took, 0.0, nothing_due=False)
    low, high = sorted((one, two))
    for ahead in (False, True):
        assert 1 <= cadence.number(low, ahead=ahead) <= cadence.number(high, ahead=ahead)
    now, soon = cadence.number(one, ahead=False), cadence.number(one, ahead=True)
    assert now <= soon <= max(now, 16)
    assert soon <= max(1.0, one), "never more than a second's budget"


def test_a_queue_gives_its_commands_once_and_drops_all_where_there_are_too_many() -> None:
    done = list[int]()
    commands = [lambda _, n=n: done.append(n) for n in range(4)]
    queue, allocator = CommandQueue(2), object()
    queue.put(commands[0])
    queue.put(commands[1])
    for command in queue.take():
        command(allocator)  # type: ignore[arg-type]
    assert (done, len(queue), queue.overflowed) == ([0, 1], 0, False)
    for command in commands[:3]:
        queue.put(command)
    assert (len(queue), queue.overflowed) == (0, True)
    queue.put(commands[3])
    assert queue.take() == []


def test_the_crawler_takes_what_the_loop_calls() -> None:
    wanted = {name for name in vars(PageHook) if not name.startswith("_")} | {"chooses_ahead"}
    source = inspect.getsource(CrawlHook)
    assert [name for name in sorted(wanted) if name not in source] == []
