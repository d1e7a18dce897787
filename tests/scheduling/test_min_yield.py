"""How long sites are believed unchanged, and that choosing lets them be for so long."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation import registry
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.errors import InvalidValueError
from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling.capacity import PollLimit, reach, waiting
from pollerd.scheduling.choice import Chooser
from pollerd.scheduling.min_yield import Bounds, RateModel, first_waits, least_savings, waits
from pollerd.scheduling.settings import SchedulingSettings
from tests.scheduling.test_capacity import tables as spaced
from tests.scheduling.test_choice import NOW, SETTINGS, ByElapsed, chosen, tables

DAY = 86_400.0


class Known:
    """Believes in given rates, float64[n] 1/s; nan: in nothing."""

    def __init__(self, *rates: float) -> None:
        self.rates = np.array(rates)

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.expm1(-self.rates[slots, None] * elapsed))


class Mixed:
    """Believes in the rates float64[J] 1/s with these weights, of any slot."""

    def __init__(self, rates: list[float], weights: list[float]) -> None:
        self.rates, self.weights = np.array(rates), np.array(weights)

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((self.weights * -np.expm1(-elapsed[..., None] * self.rates)).sum(-1))

    def saved_at(self, gap: float) -> float:
        """The integral of the chance, in closed form."""
        return float((self.weights * (gap + np.expm1(-self.rates * gap) / self.rates)).sum())


def wait(believer: RateModel, slots: int, min_yield: float = 0.01, longest: float = DAY) -> NDArray[np.float64]:
    bounds = Bounds(np.zeros(slots), np.full(slots, min_yield), np.full(slots, longest))
    return waits(believer, np.arange(slots), bounds)[0]


def worth_it(
    believer: RateModel, *saving: float, min_yield: float = 0.0, longest: float = 10 * DAY
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Waits and bars of as many slots as there are savings."""
    slots = len(saving)
    bounds = Bounds(np.array(saving), np.full(slots, min_yield), np.full(slots, longest))
    return waits(believer, np.arange(slots), bounds)


@pytest.mark.parametrize("saving", [1.0, 20.0, 120.0, 3_600.0])
def test_a_known_rate_waits_until_the_saving_is_reached(saving: float) -> None:
    rates = 1.0 / np.array([5.0, 300.0, 3_600.0, DAY, 7 * DAY, 30 * DAY, 365 * DAY])
    found, bar = worth_it(Known(*rates), *[saving] * len(rates))
    np.testing.assert_allclose(found + np.expm1(-rates * found) / rates, saving, rtol=0.03)
    np.testing.assert_allclose(bar, -np.expm1(-rates * found), rtol=0.05)


def test_the_printed_table_of_waits() -> None:
    rates = 1.0 / np.array([300.0, 3_600.0, DAY, 7 * DAY, 30 * DAY, 365 * DAY])
    found, _ = worth_it(Known(*rates), *[20.0] * 6)
    np.testing.assert_allclose(found, [117, 6.4 * 60, 31 * 60, 82 * 60, 2.8 * 3_600, 9.9 * 3_600], rtol=0.02)


def test_the_wait_is_that_of_the_belief_and_not_of_its_mean_rate() -> None:
    """One percent of belief in one change a minute: its mean rate would say 848 s for ever."""
    sure = Mixed([1 / 60.0, 1e-12], [0.01, 0.99])
    found, _ = worth_it(sure, 60.0)
    assert found[0] == pytest.approx(6_060.0, rel=0.02)
    mean, _ = worth_it(Known(0.01 / 60.0), 60.0)
    assert mean[0] == pytest.approx(848.0, rel=0.03)


@pytest.mark.parametrize("saving", [10.0, 20.0, 60.0, 600.0])
def test_a_wide_belief_is_integrated_within_some_percent(saving: float) -> None:
    wide = Mixed([1 / 60, 1 / 3_600, 1 / DAY, 1e-7], [0.02, 0.1, 0.3, 0.58])
    found, _ = worth_it(wide, saving)
    assert wide.saved_at(float(found[0])) == pytest.approx(saving, rel=0.06)


def test_no_site_sooner_than_its_saving() -> None:
    found, bar = worth_it(Known(1e3, 10.0, 1e-3), 20.0, 5.0, 40.0)
    assert (found >= [20.0, 5.0, 40.0]).all()
    assert found[0] == pytest.approx(20.0, rel=0.03)
    assert bar[0] == pytest.approx(1.0)


def test_a_min_yield_is_a_floor() -> None:
    rates = [1 / 300.0, 1 / (30 * DAY)]
    saved, likely = worth_it(Known(*rates), 20.0, 20.0)[0], wait(Known(*rates), 2, 0.1, longest=1e8)
    both, bar = worth_it(Known(*rates), 20.0, 20.0, min_yield=0.1)
    np.testing.assert_allclose(both, np.maximum(saved, likely), rtol=0.02)
    assert saved[0] > likely[0]
    assert saved[1] < likely[1]
    assert bar[1] == 0.1


def test_a_poll_that_is_worth_nothing_waits_as_long_as_any() -> None:
    """At weight 0 no wait makes a poll worth it; it may come then, and need not."""
    assert worth_it(Known(1.0, 1e-4), math.inf, math.inf, longest=DAY)[0].tolist() == [DAY, DAY]


def test_no_saving_and_no_belief_are_no_reason_to_wait() -> None:
    found, bar = worth_it(Known(math.nan, 1e-6, 1e-6), 20.0, 0.0, 20.0)
    assert found[:2].tolist() == bar[:2].tolist() == [0.0, 0.0]
    assert found[2] > 20.0


def test_a_min_yield_of_nothing_says_that_a_site_may_always_be_polled() -> None:
    given, share = np.array([math.nan, math.nan, math.nan, 60.0, 0.0]), np.array([math.nan, 0.0, 0.02, 0.0, 0.02])
    assert least_savings(given, share, 20.0).tolist() == [20.0, 0.0, 20.0, 60.0, 0.0]


@pytest.mark.parametrize("min_yield", [0.001, 0.01, 0.1, 0.5])
def test_the_chance_of_a_change_is_the_yield_when_the_wait_ends(min_yield: float) -> None:
    rates = np.geomspace(1e-3, 1e-5, 30)
    found = wait(Known(*rates), 30, min_yield, longest=1e9)
    np.testing.assert_allclose(-np.expm1(-rates * found), min_yield, rtol=0.02)


def test_a_wait_below_a_second_is_told_too() -> None:
    assert wait(Known(1.0), 1)[0] == pytest.approx(0.01, rel=0.02)


def test_waits_end_at_the_longest_whatever_is_believed() -> None:
    assert wait(Known(1e-12, 0.0), 2, longest=5_000.0).tolist() == [5_000.0, 5_000.0]


def test_nothing_believed_and_no_yield_wanted_are_no_reason_to_wait() -> None:
    assert wait(Known(math.nan, math.nan), 2).tolist() == [0.0, 0.0]
    assert wait(Known(1e-9), 1, min_yield=0.0).tolist() == [0.0]
    mixed = Bounds(np.zeros(2), np.array([0.0, 0.01]), np.array([DAY, DAY]))
    assert waits(Known(1e-9, 1e-9), np.arange(2), mixed)[0].tolist() == [0.0, DAY]


def test_a_page_never_seen_to_change_is_asked_more_and_more_rarely() -> None:
    """The chance is an expectation over what is believed: no rate is ruled out at once, all get less likely."""
    n, gap, now, gaps = 50, 30.0, 0.0, []
    whittle = registry.create("whittle", budget=n / gap, rng=np.random.default_rng(0))
    all_of_them = np.arange(n)
    whittle.add(all_of_them, np.ones(n), np.ones(n))
    for _ in range(40):
        now += gap
        whittle.observe(all_of_them, np.full(n, gap), EvidenceBatch(np.zeros(n, np.bool_)), now)
        gap = max(30.0, float(wait(whittle, n).mean()))
        whittle.budget = n / gap  # as the daemon tells what can be spent
        gaps.append(gap)
    assert gaps[0] == 30.0, "the second poll found nothing new: the page is not given up for that"
    assert gaps[-1] > 1.5 * gaps[0]
    assert max(np.divide(gaps[1:], gaps[:-1])) < 2.0, "rarer little by little"


def test_first_waits_double() -> None:
    found = first_waits(np.array([0, 1, 2, 3, 13, 2_000_000_000], np.int32), np.full(6, 20.0))
    assert found[:4].tolist() == [300.0, 300.0, 600.0, 1_200.0]
    assert found[4] > DAY
    assert np.isfinite(found).all()
    dear = first_waits(np.array([1, 2, 3, 4], np.int32), np.array([400.0, 400.0, 0.0, math.inf]))
    assert dear.tolist() == [400.0, 600.0, 1_200.0, math.inf], "no poll before can save so much"


# --- choosing --------------------------------------------------------------------------------------------------------


def test_a_site_believed_unchanged_is_left_alone_until_then() -> None:
    sites, hosts = tables(3, 3)
    sites.put("unchanged_until", 2, NOW + 0.1)
    sites.put("unchanged_until", 1, NOW)
    assert chosen(sites, hosts, 3) == [1, 0]


def test_what_was_asked_for_comes_at_once() -> None:
    sites, hosts = tables(3, 3)
    sites.put("unchanged_until", slice(0, 3), NOW + 1e6)
    assert chosen(sites, hosts, 3) == []
    sites.asap[1] = True
    assert chosen(sites, hosts, 3) == [1]


def test_a_site_never_polled_waits_for_no_yield() -> None:
    sites, hosts = tables(2, 2, known=False)
    assert sorted(chosen(sites, hosts, 2)) == [0, 1]


def test_a_proof_comes_though_its_site_is_believed_unchanged() -> None:
    sites, hosts = tables(1, 1)
    sites.last_poll[0] = sites.last_seen[0] = NOW - 2
    sites.put("unchanged_until", 0, NOW + 1e6)
    chooser = Chooser(sites, hosts, SETTINGS)
    assert chooser.choose(ByElapsed(), NOW, 3, 100.0, 8).polls == []
    sites.proofs.ask(0, NOW)
    assert chooser.choose(ByElapsed(), NOW, 3, 100.0, 8).polls == [0]


def test_a_reused_slot_is_not_believed_unchanged() -> None:
    sites, _ = tables(2, 2)
    sites.put("unchanged_until", 1, NOW + 1e6)
    sites.remove(1)
    assert sites.add([9]).tolist() == [1]
    assert sites.unchanged_until[1] == -math.inf


def test_without_min_yields_the_column_takes_no_room() -> None:
    sites, _ = tables(4, 4)
    sites.put("unchanged_until", np.arange(4), np.full(4, -math.inf))
    assert sites.is_default("unchanged_until")


# --- what can be spent -----------------------------------------------------------------------------------------------


def test_what_is_believed_unchanged_needs_no_budget() -> None:
    settings = SchedulingSettings(min_interval_seconds=30, host_interval_seconds=1)
    sites, hosts = spaced(settings, [0, 1, 2])
    sites.last_seen[:3] = NOW
    sites.put("unchanged_until", np.arange(3), NOW + np.array([10.0, 300.0, -math.inf]))
    assert reach(sites, hosts, settings).total == pytest.approx(1 / 30 + 1 / 300 + 1 / 30)
    assert reach(sites, hosts, settings, whatever_is_believed=True).total == pytest.approx(3 / 30)


def test_what_binds() -> None:
    settings = SchedulingSettings(min_interval_seconds=30, host_interval_seconds=1)
    sites, hosts = spaced(settings, [0, 1, 2])
    sites.last_poll[:3] = NOW
    assert waiting(sites, hosts, settings, NOW).binding(0.0, 0.05) is PollLimit.BUDGET
    assert waiting(sites, hosts, settings, NOW).binding(0.0, 5.0) is PollLimit.MIN_INTERVAL
    sites.last_seen[:3] = NOW
    sites.put("unchanged_until", np.arange(3), NOW + np.array([40.0, 300.0, -math.inf]))
    assert waiting(sites, hosts, settings, NOW).binding(0.0, 5.0) is PollLimit.MIN_SAVING
    by_chance = replace(settings, min_saving_seconds=0.0, min_yield=0.01)
    assert waiting(sites, hosts, by_chance, NOW).binding(0.0, 5.0) is PollLimit.MIN_YIELD
    sites.put("announced_ttl", np.arange(3), np.array([40.0, 300.0, 0.0]))
    assert waiting(sites, hosts, settings, NOW).binding(0.0, 5.0) is PollLimit.TTL
    crowd, host = spaced(settings, [0] * 60)
    crowd.last_poll[:60] = NOW
    assert waiting(crowd, host, settings, NOW).binding(0.0, 5.0) is PollLimit.HOST_INTERVAL
    np.testing.assert_allclose(reach(crowd, host, settings).stretch, 2.0)
    crowd.state[:60] = STATE_CODE[SiteState.GONE]
    assert waiting(crowd, host, settings, NOW).binding(0.0, 5.0) is PollLimit.GONE
    for slot in range(60):
        crowd.remove(slot)
    assert waiting(crowd, host, settings, NOW).binding(0.0, 5.0) is PollLimit.NO_SITES


@pytest.mark.parametrize("value", [-0.1, 1.0, math.nan])
def test_settings_that_cannot_be(value: float) -> None:
    with pytest.raises(InvalidValueError, match="min_yield"):
        SchedulingSettings(min_yield=value)
    with pytest.raises(InvalidValueError, match="min_saving_seconds"):
        SchedulingSettings(min_saving_seconds=-abs(value))
    with pytest.raises(InvalidValueError, match="max_silence_seconds"):
        SchedulingSettings(max_silence_seconds=0.0)
