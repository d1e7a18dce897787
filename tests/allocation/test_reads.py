"""The half-life of interest, learned from reads of changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pollerd.allocation.index import DEFAULT_HALF_LIFE_S
from pollerd.allocation.reads import (
    BETWEEN_HOSTS,
    MAX_OF_CHANGE,
    NO_EVIDENCE,
    NO_READS,
    WITHIN_HOST,
    ChangeReads,
    HostEvidence,
    PublishedChange,
    Read,
    ReadCounts,
    ReadStatistics,
    SiteReads,
    estimate,
    evidence_of,
    take_reads,
)
from pollerd.errors import InvalidValueError

HOUR, DAY = 3_600.0, 86_400.0


def ages_of(half_life: float, exposure: float, number: int, rng: np.random.Generator) -> np.ndarray:
    """Returns ages of reads, drawn from the exponential distribution cut off at the exposure, by inversion."""
    decay = math.log(2) / half_life
    return -np.log1p(rng.random(number) * math.expm1(-decay * exposure)) / decay


def learned(
    half_life: float,
    exposures: list[float],
    per_change: int,
    rng: np.random.Generator,
    start: ReadStatistics | None = None,
) -> ReadStatistics:
    statistics = start or ReadStatistics()
    for exposure in exposures:
        ages = ages_of(half_life, exposure, per_change, rng)
        statistics = statistics.faded().with_reads(per_change, float(ages.sum()), exposure)
    return statistics


@pytest.mark.parametrize("half_life", [600.0, HOUR, DAY, 10 * DAY])
def test_that_the_half_life_is_found_whatever_the_exposures_are(half_life: float) -> None:
    """Changes are exposed for 1 to 4 half-lives: the mean age alone would say up to five times too little."""
    rng = np.random.default_rng(7)
    exposures = (half_life * rng.uniform(1.0, 4.0, 60)).tolist()
    found = [estimate(learned(half_life, exposures, 20, rng)) for _ in range(20)]
    errors = np.log([one.value / half_life for one in found])
    # 400 reads count, each worth between .04 and .5 of an uncensored one: less than .2 from one draw to another.
    assert abs(errors.mean()) < 0.15
    assert errors.std() < 0.2
    assert np.mean([one.low < half_life < one.high for one in found]) >= 0.7


def test_that_ages_alone_would_not_do() -> None:
    """The estimate without exposures, ln 2 times the mean age, is far too short where changes follow soon."""
    rng = np.random.default_rng(3)
    exposures = [1.5 * HOUR] * 60
    statistics = learned(HOUR, exposures, 20, rng)
    naive = math.log(2) * statistics.ages / statistics.reads.sum()
    assert naive < 0.5 * HOUR
    assert 0.75 * HOUR < estimate(statistics).value < 1.4 * HOUR


@pytest.mark.parametrize("place", [0.0, 0.2, 0.5, 0.9])
def test_that_the_mode_solves_the_likelihood_equation(place: float) -> None:
    """1 / μ - T / (e^(μT) - 1) = mean age, also for exposures between two places of the histogram."""
    exposure = math.exp(0.35 * (26 + place))
    decay = 2.0 / exposure
    mean_age = 1 / decay - exposure / math.expm1(decay * exposure)
    statistics = ReadStatistics()
    for _ in range(25):
        statistics = statistics.with_reads(20, 20 * mean_age, exposure)
    assert estimate(statistics, math.log(2) / decay).value == pytest.approx(math.log(2) / decay, rel=0.02)


def test_that_popularity_does_not_matter() -> None:
    """Twice the reads of a change, at the same ages, move the estimate only as far as they are more."""
    one, other = ReadStatistics(), ReadStatistics()
    for _ in range(10):
        one, other = one.with_reads(20, 20 * HOUR, DAY), other.with_reads(2_000_000, 2_000_000 * HOUR, DAY)
    assert estimate(one).value == pytest.approx(estimate(other).value, rel=1e-9)
    assert one.reads.sum() == pytest.approx(10 * MAX_OF_CHANGE)


def test_that_a_drift_is_followed() -> None:
    rng = np.random.default_rng(11)
    before = learned(DAY, [7 * DAY] * 100, 10, rng)
    assert 0.8 * DAY < estimate(before).value < 1.25 * DAY
    after = learned(HOUR, [7 * DAY] * 60, 10, rng, before)
    assert 0.7 * HOUR < estimate(after).value < 2.0 * HOUR  # .95^60 of the old ones is left: 5 % of their ages


def test_that_three_reads_do_not_lead_a_site_astray() -> None:
    """Its host's other sites read for an hour: three reads of the last minutes before a change do not undo that."""
    rng = np.random.default_rng(2)
    others = NO_EVIDENCE
    for _ in range(30):
        one = evidence_of(learned(HOUR, [DAY] * 20, 10, rng))
        others = HostEvidence(others.precision + one.precision, others.weighted + one.weighted)
    for factor in (math.e, 1 / math.e):
        mean_age = factor * HOUR / math.log(2)
        three = ReadStatistics().with_reads(3, 3 * mean_age, 20 * DAY)
        alone, pooled = (math.log(estimate(three, None, some).value / HOUR) for some in (NO_EVIDENCE, others))
        assert abs(pooled) < 0.6
        assert pooled < 0.5 * alone or alone < 0 > pooled > 0.6 * alone
    assert 0.9 * HOUR < estimate(ReadStatistics(), None, others).value < 1.1 * HOUR
    many = learned(10 * HOUR, [20 * DAY] * 40, 10, rng)
    assert 8 * HOUR < estimate(many, None, others).value < 12 * HOUR


def test_the_prior_and_the_hosts_evidence() -> None:
    nothing = ReadStatistics()
    assert estimate(nothing).value == pytest.approx(DEFAULT_HALF_LIFE_S, rel=0.01)
    assert estimate(nothing, HOUR).value == pytest.approx(HOUR, rel=0.01)
    spread = math.sqrt(WITHIN_HOST**2 + BETWEEN_HOSTS**2)
    assert math.log(estimate(nothing).high / DEFAULT_HALF_LIFE_S) == pytest.approx(1.645 * spread, rel=0.02)
    assert evidence_of(nothing) == NO_EVIDENCE
    some = evidence_of(nothing.with_reads(10, 10 * HOUR, 30 * DAY))
    # Ten reads without censoring: x̂ = -log(mean age), and the information of each is 1.
    assert some.weighted / some.precision == pytest.approx(-math.log(HOUR), abs=0.1)
    assert 1 / some.precision == pytest.approx(WITHIN_HOST**2 + 1 / 10, rel=0.15)
    left = HostEvidence(some.precision + 1, some.weighted - 2).without(some)
    assert (left.precision, left.weighted) == pytest.approx((1, -2))


def test_that_reads_without_information_leave_the_prior() -> None:
    """Exposures of a minute say nothing of half-lives of days: their reads are spread evenly whatever these are."""
    statistics = ReadStatistics()
    for _ in range(100):
        statistics = statistics.with_reads(20, 20 * 30.0, 60.0)
    assert estimate(statistics).value == pytest.approx(DAY, rel=0.1)
    assert evidence_of(statistics).precision < 1.0


def test_stored_statistics() -> None:
    statistics = ReadStatistics().with_reads(7, 7 * HOUR, DAY).faded()
    stored = statistics.to_bytes()
    assert len(stored) == 245
    again = ReadStatistics.from_bytes(stored)
    assert again.to_bytes() == stored
    assert estimate(again).value == pytest.approx(estimate(statistics).value, rel=1e-5)
    nan = b"\x01" + np.full(61, np.nan, "<f4").tobytes()
    for damaged in (b"", b"\x02" + stored[1:], stored[:-1], nan, b"\x01" + np.full(61, -1.0, "<f4").tobytes()):
        with pytest.raises(InvalidValueError, match="statistics"):
            ReadStatistics.from_bytes(damaged)


@pytest.mark.parametrize("exposure", [1e-9, 1.0, 1e9, 1e12])
@pytest.mark.parametrize("ages", [0.0, 1.0, 1e15])
def test_extremes_stay_finite(exposure: float, ages: float) -> None:
    statistics = ReadStatistics()
    for number in (1, 1e9):
        statistics = statistics.faded().with_reads(number, ages, exposure)
    found = estimate(statistics)
    assert np.isfinite([found.value, found.low, found.high]).all()
    assert 0.9 < found.low <= found.high < 1.1e9


CHANGES = [PublishedChange(1, 100.0), PublishedChange(2, 200.0), PublishedChange(3, 400.0)]


def test_which_change_was_read() -> None:
    reads = [Read(99.0), Read(100.0, 2), Read(150.0), Read(399.0, 5), Read(400.0), Read(1_000.0, 3)]
    site, counts = take_reads(SiteReads(), CHANGES, reads)
    assert counts == ReadCounts(taken=12, before_changes=1)
    assert (site.reads, site.changes, site.newest) == (12, 3, 3)
    assert site.open is not None
    assert (site.open.id, site.open.seen) == (3, ChangeReads(4, 1_800.0, 600.0))
    assert site.statistics.reads.sum() == pytest.approx(3 * 0.95 + 5)
    assert site.statistics.ages == pytest.approx(50 * 0.95 + 5 * 199)


def test_changes_that_are_named() -> None:
    reads = [Read(150.0, 1, 1), Read(250.0, 2, 1), Read(39.0, 4, 1), Read(450.0, 8, 9), Read(450.0, 16, 3)]
    reads += [Read(41.0, 32, 1)]  # by a clock that is a minute behind: it counts as read at once
    site, counts = take_reads(SiteReads(), CHANGES, reads)
    assert counts == ReadCounts(taken=49, other_changes=14)
    assert site.open is not None
    assert site.open.named.number == 16


def test_that_reports_in_pieces_come_to_the_same() -> None:
    """Reads one by one, as they come, are what one report of all is, though changes follow in between."""
    reads = [Read(110.0), Read(120.0, 3), Read(230.0), Read(240.0), Read(500.0, 2), Read(700.0)]
    whole, _ = take_reads(SiteReads(), CHANGES, reads)
    site = SiteReads()
    for one in reads:
        known = [change for change in CHANGES if change.published_at <= one.at]
        site, counts = take_reads(site, known, [one])
        assert counts.taken == one.count
    site, _ = take_reads(site, CHANGES, [])
    assert site.statistics.ages == pytest.approx(whole.statistics.ages)
    assert site.statistics.reads == pytest.approx(whole.statistics.reads)
    assert (site.reads, site.changes, site.newest, site.open) == (whole.reads, whole.changes, whole.newest, whole.open)


def test_late_reads_of_a_change_that_another_followed() -> None:
    site, _ = take_reads(SiteReads(), CHANGES, [Read(110.0), Read(450.0)])
    before = site.statistics
    site, counts = take_reads(site, CHANGES, [Read(120.0, 2)])
    assert counts.taken == 2
    assert site.statistics.reads.sum() == pytest.approx(before.reads.sum() + 2)  # nothing fades by them
    assert site.changes == 2
    assert site.open is not None
    assert site.open.id == 3


UNSEEN = [PublishedChange(1, 100.0, 40.0), PublishedChange(2, 200.0, 180.0), PublishedChange(3, 400.0, 390.0)]


def test_that_reads_of_a_change_not_found_yet_do_not_count_for_the_one_before() -> None:
    """Reads that name no change count up to the last poll that saw the page without the next one; others as ever."""
    reads = [Read(170.0), Read(190.0, 2), Read(190.0, 4, 1), Read(395.0, 8), Read(399.0, 16, 2), Read(380.0, 32)]
    site, counts = take_reads(SiteReads(), UNSEEN, reads)
    assert counts == ReadCounts(taken=1 + 4 + 16 + 32, between_polls=2 + 8)
    assert site.open is None
    assert site.statistics.reads.sum() == pytest.approx((1 + 4) * 0.95 + 16 + 20)  # 32 of one change count as 20


def test_that_reads_wait_for_a_poll_that_saw_the_page() -> None:
    first = UNSEEN[:1]
    site, counts = take_reads(SiteReads(), first, [Read(110.0, 3), Read(150.0, 5)], seen_until=120.0)
    assert counts.taken == 8
    assert site.open is not None
    assert (site.open.seen.number, site.open.waiting.number) == (3, 5)
    assert site.so_far().reads.sum() == pytest.approx(2)
    # A poll later saw the page unchanged, and they count; a change found after them would have taken them away.
    confirmed, _ = take_reads(site, first, [], seen_until=160.0)
    assert confirmed.open is not None
    assert (confirmed.open.seen.number, confirmed.open.waiting) == (8, NO_READS)
    assert confirmed.so_far().reads.sum() == pytest.approx(7)
    followed, _ = take_reads(site, UNSEEN[:2], [], seen_until=200.0)  # the poll before the change was at 180
    assert followed.open is None
    assert followed.statistics.reads.sum() == pytest.approx(8)
    soon = [first[0], PublishedChange(2, 160.0, 120.0)]
    dropped, _ = take_reads(site, soon, [], seen_until=160.0)
    assert dropped.statistics.reads.sum() == pytest.approx(3)


def test_that_readers_who_do_not_wait_for_pollerd_are_no_bias() -> None:
    """People read each change when it is out; polls find it later, and tell of reads as they come."""
    rng, site, now = np.random.default_rng(17), SiteReads(), 0.0
    changes, coming = list[PublishedChange](), list[float]()
    out = float(rng.exponential(4 * HOUR))
    for _ in range(2_000):
        before, now = now, now + 0.7 * HOUR
        if changed := out < now:
            coming = [at for at in coming if at < out] + [out + age for age in ages_of(HOUR, 50 * HOUR, 12, rng)]
        reads = [Read(at) for at in coming if before < at <= now]
        site, _ = take_reads(site, changes, reads, seen_until=before)
        if changed:
            changes = [*changes[-2:], PublishedChange(changes[-1].id + 1 if changes else 1, now, before)]
            while out < now:
                out += float(rng.exponential(4 * HOUR))
    assert 0.8 * HOUR < estimate(site.so_far()).value < 1.25 * HOUR


def test_changes_of_one_moment_are_one() -> None:
    """A poll that finds changes of two selections publishes both at once."""
    changes = [PublishedChange(1, 100.0), PublishedChange(2, 100.0), PublishedChange(3, 200.0)]
    site, counts = take_reads(SiteReads(), changes, [Read(110.0), Read(150.0, 1, 1), Read(160.0, 1, 2)])
    assert counts.taken == 3
    assert (site.changes, site.newest) == (1, 2)
    assert site.statistics.reads.sum() == pytest.approx(3)


@pytest.mark.parametrize("end", ["another change", "all told", "not known"])
def test_that_estimates_are_calibrated(end: str) -> None:
    """Half-lives drawn from the prior: nine of ten are within their intervals, and errors cancel out.

    Reads are told one by one. Where nobody says how long the change was exposed, the silence since its latest read is
    not known: such estimates are too long, and change for the better with the next change.
    """
    rng = np.random.default_rng(13)
    errors, inside = [], []
    for _ in range(400):
        half_life = HOUR * math.exp(rng.normal(0, math.hypot(WITHIN_HOST, BETWEEN_HOSTS)))
        exposure = HOUR * math.exp(rng.uniform(-1, 5))
        site, known = SiteReads(), [PublishedChange(1, 0.0)]
        for age in np.sort(ages_of(half_life, exposure, int(rng.integers(1, 16)), rng)).tolist():
            site, _ = take_reads(site, known, [Read(age)], age if end == "all told" else None)
        if end == "another change":
            site, _ = take_reads(site, [*known, PublishedChange(2, exposure)], [])
        elif end == "all told":
            site, _ = take_reads(site, known, [], exposure)
        found = estimate(site.so_far(), HOUR)
        errors.append(math.log(found.value / half_life))
        inside.append(found.low < half_life < found.high)
    off = np.mean(errors) / (np.std(errors) / 20)
    if end == "not known":
        assert off > 4
        assert np.mean(errors) < 0.5 * math.hypot(WITHIN_HOST, BETWEEN_HOSTS)
    else:
        assert abs(off) < 4  # four standard errors: false alarms 1 in 16,000
        assert abs(np.mean(inside) - 0.9) < 4 * math.sqrt(0.09 / 400)


def test_that_one_read_of_an_open_change_says_nothing() -> None:
    assert SiteReads().so_far().reads.sum() == 0
    site, _ = take_reads(SiteReads(), [PublishedChange(1, 0.0)], [Read(60.0)])
    assert site.so_far().reads.sum() == 0
