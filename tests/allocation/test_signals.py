"""Signals: formulas, learned quality, choices with and without sources, storage (docs/signals.md)."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import ELSEWHERE, PUSHED, EvidenceBatch
from pollerd.allocation.learned_state import pack, unpack
from pollerd.allocation.registry import create
from pollerd.allocation.signals.pairs import windows
from pollerd.allocation.signals.quality import (
    DELAYS,
    LEARNED,
    LearnedSource,
    due_level,
    fetch_gain,
    waiting_value,
)
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.signals.waiting import SignalEvidence
from pollerd.allocation.whittle.belief import VERSION
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.errors import InvalidValueError
from tests.allocation.signal_windows import prompt

SITES = 300
NAN = np.nan
CHOICES_WITHOUT_SOURCES = (
    {"changes": "0a5df768019d5d8d", "freshness": "5501ba97a8c3740c", "interest": "6fa8e0f4fa16a9bb"},
    {"changes": "fc9c0396f1c04127", "freshness": "1479ec9a4c3b8fb2", "interest": "60eaedeef7e955d3"},
)
"""By `recorded_choices`, on processors with and without AVX-512: numpy has other exponentials for the first.

Recorded when the page's own long run went, before the recall of pushed sources was learned otherwise."""
KERNELS = {"OPENBLAS_CORETYPE": "Haswell"}
"""Sums round otherwise with other kernels of the matrix library; these run on every processor of the last ten years."""


def rates_of(sites: int) -> NDArray[np.float64]:
    return -np.log1p(-0.9 / np.arange(1, sites + 1))


def made(sites: int, objective: str = "changes", polls_per_change: float = 1.0) -> Allocator:
    budget = polls_per_change * float(rates_of(sites).sum())
    policy = create("whittle", budget=budget, objective=objective, rng=np.random.default_rng(0))
    policy.add(np.arange(sites), np.ones(sites), np.ones(sites))
    return policy


class Pages:
    """Pages that change Poisson, a source that announces changes and gives false signals, and the polls of a policy."""

    def __init__(
        self,
        policy: Allocator,
        sites: int,
        recall: float,
        false_rate: float | NDArray[np.float64],
        seed: int = 1,
        late: int = 0,
    ) -> None:
        """false_rate: 1/s, of all pages or of each; late: polls from a change to the signal that announces it."""
        self.on_the_way = deque[NDArray[np.int64]]([np.empty(0, np.int64)] * late)
        self.policy, self.sites, self.recall, self.false_rate = policy, sites, recall, false_rate
        self.rng = np.random.default_rng(seed)
        self.last, self.dirty, self.now = np.zeros(sites), np.zeros(sites, bool), 0.0
        self.found = self.signalled = self.polls = self.changes = 0
        self.pending = np.zeros(sites, bool)
        self.chosen: list[int] = []

    def run(self, polls: int, *, signals: bool = True, mode: str = "honest") -> None:
        rates, step = rates_of(self.sites), 1.0 / self.policy.budget
        for i in range(polls):
            self.now += step
            changed = np.flatnonzero(self.rng.random(self.sites) < -np.expm1(-rates * step))
            self.changes += len(changed)
            self.dirty[changed] = True
            self.on_the_way.append(changed[self.rng.random(len(changed)) < self.recall])
            told = self.on_the_way.popleft()
            false = np.flatnonzero(self.rng.random(self.sites) < self.false_rate * step)
            slots = {
                "honest": np.concatenate([told, false]),
                "now": np.arange(self.sites) if i % (self.sites // 4) == 0 else told[:0],
                "never": told[:0],
            }[mode]
            if signals and len(slots):
                self.pending[slots] = True
                self.policy.signal(slots, 0, np.full(len(slots), NAN), self.now)
            self.poll()

    def poll(self) -> None:
        chosen = self.policy.select(self.now - self.last, self.now, np.ones(self.sites, bool), 1)
        self.chosen += chosen.tolist()
        self.polls += 1
        self.signalled += int(self.pending[chosen].sum())
        self.found += int(self.dirty[chosen].sum())
        evidence = EvidenceBatch(self.dirty[chosen].copy())
        self.policy.observe(chosen, self.now - self.last[chosen], evidence, self.now)
        self.last[chosen], self.dirty[chosen], self.pending[chosen] = self.now, False, False


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the digests are those of x86 kernels")
def test_without_sources_choices_and_state_are_those_of_before() -> None:
    command = [sys.executable, "-m", "tests.allocation.recorded_choices"]
    printed = subprocess.run(command, env={**os.environ, **KERNELS}, capture_output=True, text=True, check=True).stdout
    assert dict(line.split() for line in printed.splitlines()) in CHOICES_WITHOUT_SOURCES


def test_signals_of_unknown_sources_change_nothing() -> None:
    policy = made(3)
    before = policy.shared_state()
    policy.signal(np.arange(3), 7, np.full(3, NAN), 10.0)
    policy.fetched(7, 10.0)
    policy.remove_source(7)
    assert policy.source_quality(7) is None
    assert policy.shared_state() == before


def test_probability_unchanged_is_that_of_random_draws() -> None:
    rate, recall, false_rate, gap, draws = 0.7, 0.6, 0.3, 1.9, 400_000
    rng = np.random.default_rng(1)
    announced, false = rng.poisson(recall * rate * gap, draws), rng.poisson(false_rate * gap, draws)
    unannounced = rng.poisson((1 - recall) * rate * gap, draws)
    one = np.ones((1, 1))
    window = prompt(recall * one, false_rate * one, one, gap * one)
    weight = float(window.weights(rate * one)[0][0, 0])
    for number in range(4):
        those = announced + false == number
        drawn = ((announced + unannounced) == 0)[those].mean()
        level = (1 - recall) * rate * gap + number * weight
        assert np.exp(-level) == pytest.approx(drawn, abs=5 * np.sqrt(drawn / those.sum()))


def test_gain_of_a_reading_is_that_of_a_renewal_argument() -> None:
    rate, due, window = 0.7, 0.4, 0.8
    value = 1 / rate
    price = value * (1 - due + due * np.log(due))
    renewal = -np.expm1(-rate * window) * (1 / rate - price) - due * window
    one = np.ones(1)
    gain = fetch_gain(one, window * one, rate * one, 1.0, 1e-12, due * one, value * one)
    assert gain[0] == pytest.approx(renewal, abs=1e-6)
    assert due_level(np.array([price / value]))[0] == pytest.approx(due, abs=1e-4)
    assert waiting_value(one, due * one, value * one)[0] == pytest.approx(price)
    assert due_level(np.array([1.5]))[0] == 0.0


def test_a_nearly_perfect_source_is_followed() -> None:
    policy = made(SITES, polls_per_change=0.5)  # so that there is always a signal to follow
    policy.add_source(0, np.arange(SITES))
    pages = Pages(policy, SITES, 1.0, 0.0)
    pages.run(900)
    quality = policy.source_quality(0)
    assert quality is not None
    assert quality.say > 0.9
    assert pages.signalled > 500
    pages.signalled = pages.polls = pages.found = pages.changes = 0
    pages.run(300)
    assert pages.signalled > 0.9 * pages.polls
    assert pages.found > 0.9 * pages.polls


def test_choices_of_few_are_the_top_of_all_urgencies() -> None:
    """Crossing times of `LazyTopK` hold with signals that come, and readings that end."""
    sites = 2000
    policy = made(sites)
    policy.add(np.array([sites]), np.zeros(1), np.ones(1))
    policy.add_source(0, np.arange(0, sites, 2))
    policy.add_source(1, np.arange(0, sites, 3), polled_as=sites)
    rng, last = np.random.default_rng(3), np.zeros(sites + 1)
    policy.observe(np.arange(sites), np.full(sites, 100.0), EvidenceBatch(rng.random(sites) < 0.3), 0.0)
    for i in range(150):
        now = i * 2.0 + 1.0
        slots = rng.integers(sites, size=5)
        policy.signal(slots, int(rng.integers(2)), np.full(5, NAN), now)
        if i % 20 == 7:
            policy.fetched(1, now)
        chosen = policy.select(now - last, now, np.ones(sites + 1, bool), 3)
        urgency = policy.urgency(now - last, now)
        assert np.sort(urgency[chosen])[0] >= np.sort(urgency)[-3] * (1 - 1e-6) - 1e-12
        policy.observe(chosen, now - last[chosen], EvidenceBatch(rng.random(len(chosen)) < 0.5), now)
        last[chosen] = now


def test_polls_that_come_on_signals_teach_rates_without_bias() -> None:
    """Such a poll nearly always finds a change: without the signals in its likelihood every page would seem fast."""
    policy = made(SITES)
    policy.add_source(0, np.arange(SITES))
    Pages(policy, SITES, 0.9, 0.0005).run(2500)
    fast = policy.rates_of(np.arange(10)) / rates_of(SITES)[:10]
    assert np.exp(np.log(fast).mean()) == pytest.approx(1.0, abs=0.35)
    slow = policy.rates_of(np.arange(100, SITES)).sum() / rates_of(SITES)[100:].sum()
    assert slow < 4.0


def test_a_poor_source_does_no_harm() -> None:
    found = {}
    for signals in (True, False):
        policy = made(SITES)
        if signals:
            policy.add_source(0, np.arange(SITES))
        pages = Pages(policy, SITES, 0.3, 0.3 * float(rates_of(SITES).mean()))
        pages.run(2500, signals=signals)
        found[signals] = pages.found / pages.changes
    assert found[True] > found[False] - 0.02


def test_what_signals_taught_of_rates_is_stored_with_the_sites() -> None:
    policy = made(SITES)
    policy.add_source(0, np.arange(SITES))
    Pages(policy, SITES, 0.9, 0.0).run(800)
    again = made(SITES)
    again.restore(np.arange(SITES), policy.site_state(np.arange(SITES)), policy.shared_state())
    assert again.rates_of(np.arange(SITES)) == pytest.approx(policy.rates_of(np.arange(SITES)), rel=1e-3)


def test_signals_say_nothing_where_the_number_of_changes_is_known() -> None:
    one = np.ones((3, 1))
    window = prompt(0.8 * one, 0.1 * one, np.array([[2.0], [0.0], [1.0]]), 5.0 * one)
    evidence = SignalEvidence(np.array([0, 2, 3]), 4, (window,), np.ones(3), np.full(3, 5.0))
    polls = EvidenceBatch(np.ones(4, bool), count=np.array([3, -1, -1, -1]))
    rates = np.geomspace(0.01, 10.0, 24)[None]
    more = evidence.log_likelihood(rates, polls)
    assert (more[0] == 0.0).all()
    assert more[1, 23] < more[1, 0], "silence before a change speaks for a low rate"
    some = evidence.take(np.array([0, 3]))
    assert some.rows.tolist() == [0, 1]
    assert (some.log_likelihood(rates, polls.take(np.array([0, 3]))) == more[[0, 2]]).all()
    slope, information = evidence.score(np.full(3, 0.3), polls)
    assert slope[0] == information[0] == 0.0
    assert (information >= 0.0).all()


def test_the_recall_of_a_perfect_pushed_source_is_learned_from_polls_that_signals_call_for() -> None:
    policy = made(SITES)
    policy.add_source(0, np.arange(SITES))
    Pages(policy, SITES, 1.0, 0.0).run(10 * SITES)
    quality = policy.source_quality(0)
    assert quality is not None
    assert quality.recall > 0.9
    assert quality.precision > 0.9


def test_recall_and_false_signals_move_to_what_was_found_together() -> None:
    """As Bayes' rule on a fine grid has it, from the same start."""
    source, cycle = LearnedSource(np.arange(3), PUSHED, 100.0), 100.0
    odds, logs = np.meshgrid(np.linspace(-12, 12, 481), np.linspace(-12, 12, 481), indexing="ij")
    recall, false = 1 / (1 + np.exp(-odds)), np.exp(logs)
    grid = -((odds - 1.0) ** 2) / (2 * 2.5**2) - logs**2 / (2 * 2.0**2)
    for announced in [1.0, 1.0, 1.0, 0.0] * 4:
        # a change in each of 16 cycles, and two signals, of which one is false if the change was announced
        def chance(r: NDArray[np.float64], v: NDArray[np.float64], told: float = announced) -> NDArray[np.float64]:
            return -v + np.where(told, np.log(r * v + 1e-12), np.log((1.0 - r) * v + 1e-12))

        grid += chance(recall, false)
        nodes = source.joint.nodes
        source.learn_pushed(np.stack([chance(*nodes[0]), np.full(9, -100.0)])[None])
    weights = np.exp(grid - grid.max())
    weights /= weights.sum()
    power = source.joint.power
    assert source.joint.nodes[0, 0] @ np.outer([1, 4, 1], [1, 4, 1]).ravel() / 36 == pytest.approx(
        float((weights * recall).sum()), abs=0.05
    )
    assert np.log(source.joint.nodes[0, 1, 4]) == pytest.approx(float((weights * logs).sum()), abs=0.1)
    assert source.false_signals[0] == pytest.approx(source.joint.false_signals / cycle)
    assert power < 0.12, "the other hypothesis explains less"


@pytest.mark.parametrize("share", [False, True])
def test_what_false_signals_depend_on_is_learned(share: bool) -> None:
    """As many of all pages, or as a share of each page's changes: then what is signalled is as likely to be true."""
    policy, sites = made(80), 80
    assert isinstance(policy, Whittle)
    policy.add_source(0, np.arange(sites))
    rates = rates_of(sites)
    Pages(policy, sites, 0.9, 0.9 * rates if share else np.full(sites, 0.9 * rates.mean())).run(20 * sites)
    of = policy.signals.sources[0]
    assert (of.false_signals[1] > 0.5) == share
    assert 0.7 < of.recall <= 1.0
    quick = np.array([0, sites - 1])
    one, _ = windows(policy.signals.pairs, policy.signals.sources, quick, np.full(2, 10.0), 1e9)
    false = one[0].false_rates(rates[quick, None])[:, 0] / rates[quick]
    assert (max(false) / min(false) < 4.0) == share, "false signals a change"


def test_pages_with_more_false_signals_than_others_of_their_source_are_known() -> None:
    policy, sites = made(40), 40
    assert isinstance(policy, Whittle)
    policy.add_source(0, np.arange(sites))
    mean = rates_of(sites).mean()
    Pages(policy, sites, 0.9, np.where(np.arange(sites) % 2, 4.0, 0.1) * mean).run(30 * sites)
    pairs = policy.signals.pairs
    rows = pairs.first(np.arange(sites))
    noisy, quiet = (pairs.false[rows[some::2]].sum() / pairs.usual[rows[some::2]].sum() for some in (1, 0))
    assert noisy > 1.5 * quiet
    known = pairs.usual[rows] > 20.0
    assert known.sum() > 10
    assert ((pairs.own_false(rows) > 1.0) == (np.arange(sites) % 2 == 1))[known].mean() > 0.8
    policy.remove_source(0)
    policy.add_source(0, np.arange(sites))
    assert (policy.signals.pairs.own_false(policy.signals.pairs.first(np.arange(sites))) == 1.0).all(), "another one"


def test_silence_of_a_source_that_delivers_in_batches_says_nothing_since_the_last_one() -> None:
    batches, single = (LearnedSource(np.arange(20), PUSHED, 100.0) for _ in range(2))
    for at in (100.0, 200.0, 300.0):
        for part in range(5):
            batches.received(1, np.empty(0), at + 0.1 * part)
        single.received(1, np.empty(0), at)
    assert batches.unread(340.0) == pytest.approx(40.0)
    assert batches.unread(450.0) == pytest.approx(100.0), "one that did not come had nothing to tell of"
    assert single.unread(340.0) == 0.0
    assert (batches.reported_at(300.2), batches.reported_at(400.0)) == (200.0, 300.0), "it came in five parts"
    assert (single.reported_at(400.0), batches.quiet_before(400.0)) == (-np.inf, 100.0)


def test_a_list_that_is_written_again_now_and_then_makes_no_batches() -> None:
    source, at = LearnedSource(np.arange(100), PUSHED, 100.0), 0.0
    for _ in range(3):
        for number in [1] * 12 + [50, 1]:
            at += 10.0
            source.received(number, np.empty(0), at)
            assert source.batch_gap == 0.0, "it reports changes one by one besides"
    for _ in range(12):
        at += 10.0
        source.received(50, np.empty(0), at)
    assert source.batch_gap == pytest.approx(10.0)


def test_a_batch_of_many_pages_counts_if_it_may_be_true() -> None:
    """A pushed source that names most of its pages is not a list written anew if it was quiet for long enough."""
    policy = made(SITES)
    policy.observe(np.arange(SITES), np.full(SITES, 5.0), EvidenceBatch(np.ones(SITES, bool)), 5.0)
    policy.add_source(0, np.arange(SITES))
    everyone, no_dates = np.arange(SITES), np.full(SITES, NAN)
    policy.signal(everyone[:1], 0, no_dates[:1], 6.0)
    policy.signal(everyone, 0, no_dates, 6.5)
    assert policy.signals_waiting(everyone)[1:].sum() == 0.0
    policy.signal(everyone, 0, no_dates, 6.5 + 1e4)
    assert (policy.signals_waiting(everyone) > 0.0).all()


def test_a_delay_without_dates_is_learned_from_polls_that_signals_call_for() -> None:
    """Signals that come a tenth of a cycle late call for polls in vain if they follow the poll of their change."""
    learned, sites = list[float](), 80
    for late in (0, 8):
        policy = made(sites)
        assert isinstance(policy, Whittle)
        policy.add_source(0, np.arange(sites))
        Pages(policy, sites, 1.0, 0.0, late=late).run(10 * sites)
        of = policy.signals.sources[0]
        learned.append(of.late / of.learned_cycle)
        early, never = of.on_the_way(np.array([1e-3, 1.0]) * of.learned_cycle) @ of.delay_chances
        assert never < 0.01, "it cannot tell of what a poll so long ago has seen"
        assert (early < 0.1) == (late == 0)
        assert of.recall > 0.7, "what comes after the poll that found it was not missed"
    assert learned[0] < 0.01
    assert 0.04 < learned[1] < 0.2


def test_false_signals_of_fast_pages_are_not_taken_for_late_ones() -> None:
    """Half of each page's signals are false: most of those of pages that are polled often, as if they were late."""
    policy, sites = made(80), 80
    assert isinstance(policy, Whittle)
    policy.add_source(0, np.arange(sites))
    Pages(policy, sites, 0.9, 0.9 * rates_of(sites)).run(20 * sites)
    of = policy.signals.sources[0]
    assert of.late / of.learned_cycle < 0.03


def test_delays_are_learned_by_bayes_rule_and_only_of_pushed_sources_without_dates() -> None:
    source = LearnedSource(np.arange(3), PUSHED, 100.0)
    assert source.late < 1.0, "a new one is taken for prompt"
    for _ in range(20):
        source.learn_delay(np.log(np.where(DELAYS == 0.25, 0.9, 0.3)))
    assert source.late == pytest.approx(25.0, rel=0.05)
    assert source.on_the_way(np.array([0.0, 25.0, 50.0])) @ source.delay_chances == pytest.approx([1, 0.5, 0], abs=0.01)
    noisy = replace(prompt(*np.full((4, 1, 1), [[[0.5]]])), false_rate=np.array([[1e15]]), early=np.array([[0.5]]))
    assert [float(each[0, 0]) for each in noisy.weights(np.array([[1e-3]]))] == pytest.approx([0, 0], abs=1e-15)
    again = LearnedSource(np.arange(3), PUSHED, 100.0)
    again.learn_again(source.learned())
    assert again.late == source.late
    for _ in range(10):
        source.received(1, np.array([49.0]), 50.0)
    assert source.late == pytest.approx(10 / 11, rel=0.01), "that of its dates"
    assert not source.learns_delay


def test_quality_that_an_earlier_version_stored_is_read() -> None:
    policy = made(SITES)
    policy.add_source(0, np.arange(SITES), polled_as=5)
    policy.fetched(0, 0.0)
    Pages(policy, SITES, 0.8, 0.001).run(200)
    assert isinstance(policy, Whittle)
    stored = policy.signals.state()
    known, before = stored["signal_quality"], len(LEARNED)
    for number in (before + len(DELAYS), before, before - 1):
        policy.signals.restore({**stored, "signal_quality": known[:, :number]})
        table = policy.signals.state()["signal_quality"]
        assert (table[:, :number] == known[:, :number]).all()
        assert table.shape == known.shape
    assert table[0, before - 1] == max(table[0, 1] - 1.0, 0.0), "as many true signals as announced changes"


def test_counts_that_an_earlier_version_stored_of_a_pushed_source_are_its_quality() -> None:
    policy = made(SITES)
    assert isinstance(policy, Whittle)
    policy.add_source(0, np.arange(SITES))
    stored = policy.signals.state()
    counts = stored["signal_quality"][:, : len(LEARNED) + len(DELAYS)].copy()
    of = dict(zip(LEARNED, range(len(LEARNED)), strict=True))
    counts[0, [of["announced"], of["unannounced"], of["false"], of["exposure"]]] = 90.0, 10.0, 50.0, 5000.0
    policy.signals.restore({**stored, "signal_quality": counts})
    known = policy.signals.sources[0]
    assert known.recall == pytest.approx(0.9, abs=0.01)
    assert known.joint.nodes[0, 1, 4] / known.learned_cycle == pytest.approx(0.01, rel=0.05)
    again = policy.signals.state()
    policy.signals.restore(again)
    assert (policy.signals.state()["signal_quality"] == again["signal_quality"]).all()
    wrong = again["signal_quality"].copy()
    wrong[0, -2:] = 0.0, 9.0
    with pytest.raises(InvalidValueError):
        policy.signals.restore({**again, "signal_quality": wrong})
    wrong = again["signal_quality"].copy()
    wrong[0, -11] = -1e3
    with pytest.raises(InvalidValueError):
        policy.signals.restore({**again, "signal_quality": wrong})


@pytest.mark.parametrize("mode", ["now", "never"])
def test_a_liar_loses_its_say(mode: str) -> None:
    policy = made(SITES)
    policy.add_source(0, np.arange(SITES))
    Pages(policy, SITES, 0.9, 0.0).run(1500, mode=mode)
    quality = policy.source_quality(0)
    assert quality is not None
    assert quality.recall < 0.2 or quality.precision < 0.2
    assert quality.say < 0.5


def test_a_source_that_goes_wrong_is_let_go_and_regained_when_it_is_right_again() -> None:
    policy = made(SITES)
    policy.add_source(0, np.arange(SITES))
    assert isinstance(policy, Whittle)
    pages, trust = Pages(policy, SITES, 0.9, 0.0005), list[float]()
    for recall, false_rate, polls in ((0.9, 0.0005, 900), (0.0, 0.01, 300), (0.9, 0.0005, 900)):
        pages.recall, pages.false_rate = recall, false_rate
        pages.run(polls)
        say = np.mean([policy.signals.say(slot) for slot in set(pages.chosen[-100:])])
        trust.append(float(say) * policy.signals.sources[0].recall)
    assert trust[0] > 0.7
    assert trust[1] < 0.4
    assert trust[2] > 0.6


def test_pages_differ_from_their_source_by_what_is_unusual() -> None:
    """Half of a source's pages lie: the others are believed, and these are not, whatever their source is worth."""
    policy = made(40)
    assert isinstance(policy, Whittle)
    policy.add_source(0, np.arange(40))
    rng, now, last, dirty = np.random.default_rng(5), 0.0, np.zeros(40), np.zeros(40, bool)
    for _ in range(2_500):
        now += 1.0
        new = np.flatnonzero(rng.random(40) < 0.02)
        dirty[new] = True
        said = np.r_[new[new % 2 == 0], 1 + 2 * np.flatnonzero(rng.random(20) < 0.1)]
        policy.signal(said, 0, np.full(len(said), NAN), now)
        chosen = policy.select(now - last, now, np.ones(40, bool), 1)
        policy.observe(chosen, now - last[chosen], EvidenceBatch(dirty[chosen].copy()), now)
        last[chosen], dirty[chosen] = now, False
    every = np.arange(40)
    before = policy.change_probability(every, now + 1.0 - last)
    policy.signal(every, 0, np.full(40, NAN), now + 1.0)
    more = policy.change_probability(every, now + 1.0 - last) - before
    assert more[::2].mean() > 0.15
    assert more[1::2].mean() < more[::2].mean() / 3.0


@pytest.mark.parametrize("added_first", [True, False])
def test_a_restored_source_keeps_its_quality(added_first: bool) -> None:
    whole = made(SITES)
    whole.add_source(4, np.arange(0, SITES, 2))
    whole.add_source(0, np.arange(SITES), polled_as=5)
    whole.fetched(0, 0.0)
    Pages(whole, SITES, 0.8, 0.001).run(400)
    state = np.arange(SITES), whole.site_state(np.arange(SITES)), whole.shared_state()
    again = made(SITES)
    if not added_first:
        again.restore(*state)
        assert again.shared_state() == whole.shared_state(), "kept until the sources are there"
    again.add_source(0, np.arange(SITES), polled_as=5)
    again.add_source(4, np.arange(0, SITES, 2))
    if added_first:
        again.restore(*state)
    assert again.shared_state() == whole.shared_state()
    for source in (0, 4):
        assert again.source_quality(source) == whole.source_quality(source)
    quality = whole.source_quality(0)
    assert quality is not None
    assert quality.polls > 0


def test_removed_and_reused_slots_start_from_nothing() -> None:
    policy = made(4)
    policy.observe(np.arange(4), np.full(4, 5.0), EvidenceBatch(np.array([True, False, True, False])), 5.0)
    policy.add_source(1, np.arange(4))
    quiet = policy.urgency(np.full(4, 2.0), 7.0)
    policy.signal(np.array([1]), 1, np.array([6.0]), 7.0)
    assert policy.urgency(np.full(4, 2.0), 7.0)[1] > quiet[1]
    policy.remove(np.array([1]))
    policy.add(np.array([1]), np.ones(1), np.ones(1))
    policy.observe(np.array([1]), np.array([5.0]), EvidenceBatch(np.array([False])), 7.0)
    plain = made(4)
    plain.observe(np.arange(4), np.full(4, 5.0), EvidenceBatch(np.array([True, False, True, False])), 5.0)
    plain.remove(np.array([1]))
    plain.add(np.array([1]), np.ones(1), np.ones(1))
    plain.observe(np.array([1]), np.array([5.0]), EvidenceBatch(np.array([False])), 7.0)
    policy.remove_source(1)
    assert (policy.urgency(np.full(4, 2.0), 9.0) == plain.urgency(np.full(4, 2.0), 9.0)).all()


def test_old_dates_tell_of_nothing_and_future_dates_do_no_harm() -> None:
    policy = made(3)
    policy.add_source(0, np.arange(3))
    policy.observe(np.arange(3), np.full(3, 5.0), EvidenceBatch(np.ones(3, bool)), 1000.0)
    before = policy.urgency(np.full(3, 50.0), 1050.0)
    policy.signal(np.array([0]), 0, np.array([900.0]), 1050.0)
    assert policy.urgency(np.full(3, 50.0), 1050.0)[0] == before[0]
    policy.signal(np.array([0, 1]), 0, np.array([4e9, NAN]), 1050.0)
    quality = policy.source_quality(0)
    assert quality is not None
    assert quality.delay == 150.0
    assert np.isfinite(policy.urgency(np.full(3, 50.0), 1050.0)).all()


class Dated:
    """Three pages and a source that is believed so far, and gives dates."""

    def __init__(self, say: float = 0.95) -> None:
        self.signals = Signals()
        self.signals.add(0, np.arange(3), 5, 100.0, 6, -1)
        self.signals.sources[0].log_odds = np.log(say / (1.0 - say))
        self.poll(1000.0)

    def poll(self, now: float) -> None:
        self.signals.polled(np.arange(3), now)

    def say(self, *dates: float, now: float) -> list[float]:
        """Gives dates of the first pages. Returns when these were announced to change, nan: they were not."""
        slots = np.arange(len(dates))
        self.signals.receive(slots, 0, np.array(dates), now, np.full(len(dates), 0.01))
        return self.announced(len(dates))

    def announced(self, pages: int = 3) -> list[float]:
        return [round(date, 2) for date in self.signals.announced(np.arange(pages))[0].tolist()]


def test_a_page_is_announced_by_a_date_that_is_not_that_of_the_list() -> None:
    source = Dated()
    first, *others = source.say(1001.0, 1004.0, NAN, now=1005.0)
    assert first == 1001.0
    assert np.isnan(others).all(), "the newest may be the time at which the list was made"
    assert source.say(1007.0, now=1008.0) == [1007.0], "the newest now, but not the time before"
    source.poll(1008.5)
    assert np.isnan(source.announced()).all()


def test_a_page_that_always_has_the_newest_date_is_never_announced() -> None:
    source = Dated()
    for now in np.arange(1010.0, 1100.0, 7.0).tolist():
        assert np.isnan(source.say(now - 3.0, now, now=now)[1])
        source.poll(now + 0.5)


@pytest.mark.parametrize(
    ("date", "newest", "announced"),
    [(0, 40, False), (0, 60, True), (1, 40, True), (1, 1.05, False), (-420, 7200, False)],
)
def test_dates_are_taken_for_no_finer_than_they_are_written(date: float, newest: float, announced: bool) -> None:
    """One page is dated with the time of the list, cut off to the minute, the second or the day; or seems to be."""
    seven_past_midnight = 86_400.0 + 420.0
    first, _ = Dated().say(seven_past_midnight + date, seven_past_midnight + newest, now=100_000.0)
    assert bool(np.isfinite(first)) is announced


def test_a_list_that_is_written_anew_announces_nothing() -> None:
    signals = Signals()
    signals.add(0, np.arange(20), 50, 100.0, 60, -1)
    signals.polled(np.arange(20), 1000.0)
    signals.sources[0].alive(1000.0)
    got = signals.receive(np.arange(20), 0, np.arange(1001.0, 1021.0), 1030.0, np.full(20, 0.001))
    assert got.size == 0
    assert np.isnan(signals.announced(np.arange(20))[0]).all()


def test_what_a_source_said_stays_when_another_is_added() -> None:
    source = Dated()
    source.say(1001.0, 1004.0, now=1005.0)
    source.signals.add(1, np.arange(3), 5, 100.0, 6, -1)
    assert source.announced()[0] == 1001.0


def test_what_is_announced_is_as_believed_as_the_best_of_its_sources() -> None:
    source = Dated(0.85)
    source.say(1001.0, 1004.0, now=1005.0)
    assert source.signals.announced(np.arange(3))[1].tolist() == [pytest.approx(0.85), 0.0, 0.0]
    source.signals.add(1, np.arange(3), 5, 100.0, 6, -1)
    source.signals.receive(np.arange(2), 1, np.array([1000.5, 1004.0]), 1005.0, np.full(2, 0.01))
    assert source.signals.announced(np.arange(1))[1] == pytest.approx(0.85), "the new one is believed less"
    assert source.announced(1) == [1001.0]
    uniform = create("uniform", budget=1.0, objective="changes", rng=np.random.default_rng(0))
    dates, say = uniform.announced(np.arange(3))
    assert np.isnan(dates).all()
    assert not say.any()


def test_a_date_before_a_page_s_first_poll_is_no_signal() -> None:
    """A first poll is no evidence, so the allocator knows of it only by the gaps of later choices."""
    policy = made(3)
    policy.add_source(0, np.arange(3))
    never, everyone = np.full(3, np.inf), np.ones(3, bool)
    policy.select(never, 1000.0, everyone, 1)
    policy.select(np.array([5.0, np.inf, 20.0]), 1030.0, everyone, 1)
    policy.select(np.array([10.0, 5.0, 25.0]), 1035.0, everyone, 1)
    policy.signal(np.arange(3), 0, np.full(3, 1020.0), 1040.0)
    assert policy.signals_waiting(np.arange(3)).tolist() == [0.0, 0.0, 1.0]


def test_silence_of_a_late_source_says_nothing_of_its_delay() -> None:
    source = LearnedSource(np.arange(3), -1, 100.0)
    assert source.unread(50.0) == 0.0
    for _ in range(200):
        source.received(1, np.array([30.0]), 50.0)
    assert source.unread(50.0) == pytest.approx(20.0, rel=0.02)
    read = LearnedSource(np.arange(3), 1, 100.0)
    read.alive(40.0)
    for _ in range(200):
        read.received(1, np.array([45.0]), 50.0)
    assert read.unread(50.0) == 10.0, "what changed since it was read could not be told of before"
    read.alive(50.0)
    for _ in range(200):
        read.received(1, np.array([45.0]), 60.0)
    assert read.unread(60.0) == pytest.approx(10.0 + 2.5, abs=0.2), "half of the changes were seen one reading late"


def test_what_a_source_has_told_of_is_measured_on_the_clock_of_the_gaps() -> None:
    """In quiet hours, in which a gap grows slowly, what was not read yet is as short."""
    signals = Signals()
    signals.add(0, np.arange(2), 5, 100.0, 6, -1)
    signals.sources[0].alive(40.0)
    rates, gap = np.full((1, 1), 0.01), np.array([30.0])
    for clock, covered in ((None, 10.0), (lambda elapsed, _: elapsed / 4, 25.0)):
        _, windows = signals.read(np.array([1]), gap, rates, 60.0, clock)
        assert windows[0].covered.item() == covered


def test_a_list_that_names_a_page_missed_no_change_since_the_reading_before() -> None:
    read = LearnedSource(np.arange(1), 0, 100.0)
    assert read.unnamed(1.0, 40.0) == 1.0, "it was never read twice"
    for at in (10.0, 20.0, 30.0):
        read.alive(at)
    assert [read.unnamed(number, 40.0) for number in (0.0, 1.0, 3.0, 4.0, 5.0)] == [1.0, 0.75, 0.25, 0.0, 0.0]


def test_a_poll_that_proves_the_change_of_a_list_is_not_one_more_reading() -> None:
    of = LearnedSource(np.arange(1), 0, 100.0)
    for at in (10.0, 10.1, 20.0, 20.1, 30.0):
        of.alive(at)
    assert of.fetches == 3.0
    assert of.unnamed(1.0, 40.0) == pytest.approx(0.75, abs=0.01)
    assert of.unread(30.5) == 0.5, "what it said at its last poll counts"


def test_a_source_that_others_read_says_nothing_of_the_time_since() -> None:
    policy = made(3)
    policy.observe(np.arange(3), np.full(3, 5.0), EvidenceBatch(np.array([True, False, True])), 10.0)
    for source, polled_as in ((0, None), (1, ELSEWHERE)):
        policy.add_source(source, np.array([source]), polled_as=polled_as)
        policy.fetched(source, 10.0)
    pushed, read = (LearnedSource(np.arange(1), polled_as, 5.0) for polled_as in (PUSHED, ELSEWHERE))
    for of in (pushed, read):
        of.alive(10.0)
    assert (pushed.unread(30.0), read.unread(30.0)) == (0.0, 20.0)
    policy.add(np.array([3]), np.ones(1), np.ones(1))
    policy.add_source(2, np.arange(2), polled_as=3)
    policy.remove(np.array([3]))
    assert np.isfinite(policy.urgency(np.array([1.0, 1.0, 1.0, np.inf]), 40.0)[:3]).all()


def test_a_new_source_starts_like_the_others_of_its_host() -> None:
    policy = made(SITES)
    policy.place(np.arange(SITES), np.arange(SITES) % 2)
    policy.add_source(0, np.arange(0, SITES, 2))
    Pages(policy, SITES, 0.95, 0.0).run(600)
    policy.add_source(1, np.arange(0, SITES, 2))
    policy.add_source(2, np.arange(1, SITES, 2))
    old, same_host, any_host = (policy.source_quality(source) for source in range(3))
    assert old is not None
    assert same_host is not None
    assert any_host is not None
    assert 0.5 < same_host.recall < old.recall
    assert any_host.recall == pytest.approx(same_host.recall, rel=0.01), "there is no other host to learn from"
    assert same_host.say < 0.1, "each has to prove itself"


def test_damaged_state_of_sources_is_refused() -> None:
    policy = made(5)
    policy.add_source(0, np.arange(5))
    arrays = unpack("whittle", VERSION, policy.shared_state())
    none = np.empty(0, np.int64)
    for name in [name for name in arrays if name.startswith("signal_") and arrays[name].size]:
        # one number less of one source is what version 0.1 stored
        for changed in ({**arrays, name: arrays[name][:-2]}, {k: v for k, v in arrays.items() if k != name}):
            with pytest.raises(InvalidValueError, match="shared_state"):
                policy.restore(none, policy.site_state(none), pack("whittle", VERSION, changed))


def test_bad_input_is_refused() -> None:
    policy = made(3)
    with pytest.raises(InvalidValueError, match="source"):
        policy.add_source(-1, np.arange(3))
    with pytest.raises(InvalidValueError, match="slots"):
        policy.add_source(0, np.array([0, 9]))
    policy.add_source(0, np.arange(3))
    with pytest.raises(InvalidValueError, match="at"):
        policy.signal(np.arange(3), 0, np.zeros(2), 1.0)


def test_an_unproven_source_that_is_polled_is_read_three_times_in_its_first_cycle() -> None:
    policy = made(50)
    policy.add(np.array([50]), np.ones(1), np.ones(1))
    policy.observe(np.arange(51), np.full(51, 20.0), EvidenceBatch(np.zeros(51, bool)), 0.0)
    policy.add_source(0, np.arange(50), polled_as=50)
    cycle, last, fetches = 51 / policy.budget, np.zeros(51), 0
    for i in range(1, 52):
        now = i * cycle / 51
        (chosen,) = policy.select(now - last, now, np.ones(51, bool), 1).tolist()
        assert (50 in policy.readings_due()) is (chosen == 50), "it is chosen for what is read there"
        policy.observe(np.array([chosen]), np.array([now - last[chosen]]), EvidenceBatch(np.zeros(1, bool)), now)
        last[chosen] = now
        if chosen == 50:
            policy.fetched(0, now)
            assert not policy.readings_due().size
            fetches += 1
    assert fetches >= 3


def test_what_many_hardly_known_sources_taught_is_passed_on() -> None:
    """Whatever single polls said, also that nothing is sure."""
    policy, rng = made(SITES), np.random.default_rng(4)
    assert isinstance(policy, Whittle)
    for source in range(30):
        policy.add_source(source, np.arange(10 * source, 10 * source + 10))
        of = policy.signals.sources[source]
        assert of.joint.power < 0.5
        for _ in range(3):
            of.learn_pushed(rng.normal(0.0, 20.0, (1, 2, 9)))
        of.learn(1.0, 0.0, 1.0, 10.0, 0.0)
        assert 0.0 < of.recall < 1.0
        assert of.false_signals[0] > 0.0
    state = policy.signals.state()
    policy.signals.restore(state)
    assert (policy.signals.state()["signal_quality"] == state["signal_quality"]).all()


def test_recall_stays_below_one_whatever_was_stored() -> None:
    """Bounds of indices take the logarithm of what a source misses."""
    source = LearnedSource(np.arange(3), PUSHED, 100.0)
    source.joint.restore([*2 * [1e9, 0.0, 1e9, 1e12, 0.0], 0.0])
    assert 0.999 < source.recall < 1.0
