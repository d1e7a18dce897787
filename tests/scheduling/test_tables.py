"""Site and host tables: slots, growth, intervals, robots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.errors import InvalidValueError
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling.hosts import PASSING_ROBOTS_BYTES, SPACING_KEPT_SECONDS, HostTable
from pollerd.scheduling.robots import LONG_BYTES, RobotsRules, RobotsText, rules_allow, rules_delay
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

NOW = 1_000_000.0


def test_slots_are_reused_and_start_afresh() -> None:
    table = SiteTable()
    slots = table.add([10, 11, 12])
    table.failures[slots[1]] = 5
    table.remove(int(slots[1]))
    assert table.slot_of(11) is None
    assert len(table) == 2
    (again,) = table.add([99]).tolist()
    assert again == slots[1]
    assert table.failures[again] == 0
    assert table.slot_of(99) == again


def test_grows_beyond_its_first_size_and_keeps_rows() -> None:
    table = SiteTable()
    table.add(range(1, 51))
    table.put("weight", slice(50), np.arange(50))
    table.add(range(51, 1001))
    assert table.weight[:50].tolist() == list(range(50))
    assert table.slot_of(1000) == 999
    assert table.slot_of(5_000_000) is None
    assert table.slots_of(np.array([1, 1000, 77777, -3])).tolist() == [0, 999, -1, -1]


def test_elapsed_is_inf_for_the_never_polled_and_never_negative() -> None:
    table = SiteTable()
    table.add([1, 2, 3])
    table.last_seen[1] = NOW - 5
    table.last_seen[2] = NOW + 5
    assert table.elapsed(NOW).tolist() == [math.inf, 5.0, 0.0]


def test_changes_always_needs_four_polls_and_forgives_one_in_sixteen() -> None:
    table = SiteTable()
    table.add([1])
    for _ in range(3):
        table.note_history(np.array([0]), np.array([True]))
    assert not table.changes_always()[0]
    table.note_history(np.array([0]), np.array([True]))
    assert table.changes_always()[0]
    for _ in range(12):
        table.note_history(np.array([0]), np.array([True]))
    table.note_history(np.array([0]), np.array([False]))
    assert table.changes_always()[0]
    table.note_history(np.array([0]), np.array([False]))
    assert not table.changes_always()[0]


@pytest.mark.parametrize("others", [0, 40])
def test_who_changes_always_is_found_among_few_and_many(others: int) -> None:
    """Among many that were hardly polled, too, where it is looked for otherwise."""
    table = SiteTable()
    table.add(range(1, others + 3))
    for found in ([True, True], [True, False], [True, True], [True, True]):
        table.note_history(np.array([0, 1]), np.array(found))
    assert np.flatnonzero(table.changes_always()).tolist() == [0]
    for _ in range(14):
        table.note_history(np.array([1]), np.array([True]))
    assert np.flatnonzero(table.changes_always()).tolist() == [0, 1]


def one_site(*changed: bool) -> SiteTable:
    table = SiteTable()
    table.add([1])
    for found in changed:
        table.note_history(np.array([0]), np.array([found]))
    return table


@pytest.mark.parametrize(
    ("changed", "keeps"),
    [
        ([True], False),
        ([True, True], True),
        ([False, True], False),
        ([False, True, True], False),
        ([False] * 20 + [True] * 3, True),
        ([True] * 5 + [False], False),
    ],
)
def test_a_page_keeps_changing_if_its_last_three_polls_changed(changed: list[bool], keeps: bool) -> None:
    assert one_site(*changed).keeps_changing(0) is keeps


def test_a_page_that_is_the_same_at_its_proof_is_believed_for_64_polls() -> None:
    table = one_site(*[True] * 5)
    table.note_proof(0, NOW, same=True)
    for _ in range(63):
        table.note_history(np.array([0]), np.array([True]))
    assert not table.changes_always()[0]
    assert not table.keeps_changing(0)
    table.note_history(np.array([0]), np.array([True]))
    assert table.changes_always()[0]
    assert table.keeps_changing(0)


def test_a_quiet_page_whose_change_is_proven_is_looked_at_as_before() -> None:
    table = one_site(False, False, True)
    table.note_proof(0, NOW, same=True)
    assert table.trusted[0] == 0
    assert table.history_length[0] == 3


def test_proofs_that_explain_nothing_are_counted_until_one_does() -> None:
    table = one_site()
    for _ in range(300):
        table.note_proof(0, NOW, same=False)
    assert table.proof_failures[0] == 255
    table.note_proof(0, NOW + 1, same=True)
    assert (table.proof_failures[0], table.proof_at[0]) == (0, NOW + 1)


def test_what_was_forgotten_counts_no_more() -> None:
    """Ten changes that were noise, then polls that find nothing: it does not change always."""
    table = SiteTable()
    table.add([1])
    for _ in range(10):
        table.note_history(np.array([0]), np.array([True]))
    table.forget_history(np.array([0]))
    for _ in range(6):
        table.note_history(np.array([0]), np.array([False]))
        assert not table.changes_always()[0]
        assert not table.keeps_changing(0)


def test_crawl_delay_widens_the_host_interval_up_to_the_cap() -> None:
    hosts = HostTable(SchedulingSettings(host_interval_seconds=1, crawl_delay_cap_seconds=100))
    slot = hosts.add(1, "a:80")
    for text, expected in (("0.2", 1.0), ("2.5", 2.5), ("1e9", 100.0), ("-3", 1.0), ("soon", 1.0), ("nan", 1.0)):
        body = f"User-agent: *\nCrawl-delay: {text}\n".encode()
        robots = RobotsText.of(body, "pollerd")
        hosts.set_rules(slot, robots, NOW, rules_delay(robots))
        assert hosts.interval_of(slot) == pytest.approx(expected), text
        assert hosts.interval()[slot] == pytest.approx(expected), text


def test_a_host_is_spaced_from_when_the_last_request_was_sent() -> None:
    hosts = HostTable(SchedulingSettings(host_interval_seconds=1))
    slot, other = hosts.add(1, "a:80"), hosts.add(2, "b:80")
    for each in (slot, other):
        hosts.set_rules(each, None, NOW)
        hosts.start(each, NOW)
    hosts.sent("a:80", NOW + 0.4)
    hosts.sent("a:80", NOW + 0.2)
    hosts.sent("unknown:80", NOW + 5)
    for each in (slot, other):
        assert not hosts.may_start(each, NOW + 5), "one at a time"
        hosts.finish(each)
    assert [hosts.may_start(slot, NOW + wait) for wait in (1.0, 1.3, 1.4)] == [False, False, True]
    assert hosts.may_start(other, NOW + 1.0)


@pytest.mark.parametrize(("interval", "stored"), [(SPACING_KEPT_SECONDS, False), (SPACING_KEPT_SECONDS + 1, True)])
def test_when_the_last_request_was_sent_is_stored_where_long_gaps_are_asked_for(interval: float, stored: bool) -> None:
    hosts = HostTable(SchedulingSettings(host_interval_seconds=interval))
    slot = hosts.add(1, "a:80")
    hosts.start(slot, NOW)
    hosts.touched[slot] = False  # a commit meanwhile
    hosts.sent("a:80", NOW + 0.4)
    hosts.finish(slot)
    assert (hosts.touched[slot], hosts.last_start[slot]) == (stored, NOW + 0.4)


def test_robots_unreachable_keeps_the_rules_that_were_known() -> None:
    hosts = HostTable(SchedulingSettings(host_interval_seconds=0))
    known, unknown = hosts.add(1, "a:80"), hosts.add(2, "b:80")
    hosts.set_rules(known, RobotsText.of(b"User-agent: *\nDisallow: /private", "pollerd"), NOW - 90_000)
    assert hosts.robots_wanted(NOW).tolist() == [True, True]
    for slot in (known, unknown):
        hosts.robots_unreachable(slot, NOW + 60)
    assert hosts.robots_wanted(NOW).tolist() == [False, False]
    assert hosts.ready(NOW).tolist() == [True, False]
    assert not hosts.allows(known, "http://a/private/x")
    assert hosts.allows(known, "http://a/public")


def test_a_redirect_target_becomes_a_stored_host() -> None:
    hosts = HostTable(SchedulingSettings())
    slot = hosts.add(-1, "c:443")
    assert hosts.add(7, "c:443") == slot
    assert hosts.host_id[slot] == 7
    assert hosts.slots_of_ids(np.array([7])).tolist() == [slot]


def test_a_longer_pause_in_force_stays() -> None:
    hosts = HostTable(SchedulingSettings())
    slot = hosts.add(1, "a:80")
    hosts.pause(slot, NOW + 100)
    hosts.pause(slot, NOW + 10)
    assert hosts.paused_until[slot] == NOW + 100


def answer(status: int | None, retry_after: float | None = None) -> Outcome:
    return Outcome(OutcomeKind.THROTTLED, NOW, 0.0, status=status, retry_after=retry_after)


def refused_before(in_a_row: int) -> HostTable:
    hosts = HostTable(SchedulingSettings(backoff_base_seconds=60.0, backoff_cap_seconds=86_400.0))
    hosts.throttles[hosts.add(1, "a:80")] = in_a_row
    return hosts


@given(
    st.sampled_from([429, 503]),
    st.one_of(st.none(), st.floats(allow_nan=True)),
    st.integers(2, 12),
    st.integers(0, 2**32 - 1),
)
def test_a_refusal_pauses_a_host_never_shorter_than_the_backoff(
    status: int, retry_after: float | None, in_a_row: int, seed: int
) -> None:
    hosts = refused_before(in_a_row)
    hosts.answered(0, answer(status, retry_after), NOW, np.random.default_rng(seed))
    assert min(86_400.0, 60.0 * 2.0**in_a_row) / 2 <= hosts.paused_until[0] - NOW <= 86_400.0
    assert (hosts.throttles[0], hosts.touched[0]) == (in_a_row + 1, True)


@pytest.mark.parametrize(("retry_after", "pause"), [(3000.0, 3000.0), (1e9, 86_400.0)])
def test_retry_after_lengthens_the_pause(retry_after: float, pause: float) -> None:
    hosts = refused_before(0)
    hosts.answered(0, answer(429, retry_after), NOW, np.random.default_rng(0))
    assert hosts.paused_until[0] == NOW + pause


@pytest.mark.parametrize(("status", "row"), [(503, 1), (500, 0), (None, 0)])
def test_one_503_pauses_no_host(status: int | None, row: int) -> None:
    hosts = refused_before(0)
    hosts.answered(0, answer(status, 60.0), NOW, np.random.default_rng(0))
    assert (hosts.paused_until[0], hosts.throttles[0]) == (0.0, row)


@pytest.mark.parametrize(("status", "row"), [(500, 3), (502, 3), (404, 0), (302, 0), (200, 0), (None, 3)])
def test_only_an_answer_ends_the_row_of_refusals(status: int | None, row: int) -> None:
    hosts = refused_before(3)
    hosts.answered(0, answer(status), NOW, np.random.default_rng(0))
    assert (hosts.throttles[0], hosts.paused_until[0], hosts.touched[0]) == (row, 0.0, row != 3)


@pytest.mark.parametrize(
    ("line", "obeyed"),
    [
        ("User-agent: pollerd", True),
        ("User-agent: pollerd/0.1.0", True),
        ("user-agent:POLLERD/0.1.0 (+https://example.org/)", True),
        ("User-agent: pollerd (+mailto:me@example.org) # please", True),
        ("User-Agent: Mozilla/5.0 (X11) HeadlessChrome/1 Safari/5 pollerd/0.1.0 (+https://example.org/)", True),
        ("User-agent: pollerd2", False),
        ("User-agent: pollerd-bot", False),
        ("User-agent: my-pollerd", False),
        ("User-agent: other # pollerd", False),
        ("Sitemap: https://example.org/ pollerd", False),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rules_are_found_by_the_product_token(line: str, obeyed: bool, end: str) -> None:
    """An operator copies what stands in the log, with version and contact (RFC 9309, section 2.2.1)."""
    text = end.join([line, "Disallow: /", "Crawl-delay: 7", "", "User-agent: *", "Disallow: /private", ""])
    robots = RobotsText.of(text.encode(), "pollerd")
    assert rules_allow(robots, "http://a/page") is not obeyed
    assert rules_delay(robots) == (7.0 if obeyed else 0.0)
    assert not rules_allow(robots, "http://a/private")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("min_interval_seconds", -1.0),
        ("host_interval_seconds", math.inf),
        ("max_interval_seconds", 0.0),
        ("max_interval_seconds", 5.0),
        ("backoff_base_seconds", math.nan),
    ],
)
def test_settings_name_what_is_wrong(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=field):
        SchedulingSettings(**{field: value})


def test_robots_rules_of_passing_hosts_are_forgotten_before_they_fill_the_memory() -> None:
    hosts = HostTable(SchedulingSettings())
    site_host = hosts.add(1, "site.example:80")
    body = b"User-agent: *\nDisallow: /a\n" + b"#" * (PASSING_ROBOTS_BYTES // 4)
    robots = RobotsText.of(body, "pollerd")
    hosts.set_rules(site_host, robots, 100.0)
    passing = [hosts.add(-1, f"{n}.example:80") for n in range(6)]
    for slot in passing:
        hosts.set_rules(slot, robots, 100.0)
    wanted = hosts.robots_wanted(101.0)
    assert [bool(wanted[slot]) for slot in [site_host, *passing]] == [False] + [True] * 3 + [False] * 3
    assert hosts.robots_text(passing[0]) is None
    assert hosts.robots_text(passing[-1]) == hosts.robots_text(site_host) == robots


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[RobotsText]:
    """The texts that were parsed, in order."""
    done: list[RobotsText] = []
    read = RobotsText.read

    def noting(text: RobotsText) -> RobotsRules:
        done.append(text)
        return read(text)

    monkeypatch.setattr(RobotsText, "read", noting)
    return done


def test_stored_rules_are_parsed_when_they_are_asked_for(parsed: list[RobotsText]) -> None:
    hosts = HostTable(SchedulingSettings())
    strict, alike, free = (hosts.add(i, f"{i}:80") for i in (1, 2, 3))
    robots = RobotsText.of(b"User-agent: *\nDisallow: /private", "pollerd")
    hosts.load_rules(strict, robots, NOW, 2.5)
    hosts.load_rules(alike, RobotsText.of(b"User-agent: *\nDisallow: /private", "pollerd"), NOW, 2.5)
    hosts.load_rules(free, None, NOW, 0.0)
    assert parsed == []
    for slot in (strict, alike, strict):
        assert hosts.allows(slot, "http://h/private/1") is False
        assert hosts.allows(slot, "http://h/") is True
    assert hosts.allows(free, "http://h/private/1") is True
    assert parsed == [robots], "equal ones are parsed once"
    assert (hosts.interval_of(strict), hosts.robots_at[free], bool(hosts.touched[:3].any())) == (2.5, NOW, False)
    hosts.set_rules(strict, None, NOW + 1)
    assert hosts.allows(strict, "http://h/private/1") is True
    assert hosts.allows(alike, "http://h/private/1") is False


def test_few_rules_are_held_parsed_and_answers_are_remembered(
    monkeypatch: pytest.MonkeyPatch, parsed: list[RobotsText]
) -> None:
    monkeypatch.setattr("pollerd.scheduling.robots.PARSED_BYTES", 100)
    monkeypatch.setattr("pollerd.scheduling.robots.ANSWERS", 16)
    hosts = HostTable(SchedulingSettings())
    slots = [hosts.add(i, f"{i}:80") for i in range(1, 9)]
    for slot in slots:
        hosts.set_rules(slot, RobotsText.of(b"User-agent: *\nDisallow: /private%d" % slot, "pollerd"), NOW)
    for slot in slots * 2:
        assert hosts.allows(slot, f"http://h/private{slot}") is False
        assert hosts.allows(slot, f"http://h/other{slot}") is True
        cache = hosts.robots_cache
        assert sum(text.size for text in cache.parsed) == cache.parsed_bytes <= 100
    assert len(parsed) == len(slots), "what was asked before needs no rules"
    assert hosts.allows(slots[0], "http://h/new") is True
    assert len(parsed) == len(slots) + 1
    assert hosts.robots_cache.answers == 16


def test_long_rules_are_left_to_be_read_elsewhere(parsed: list[RobotsText]) -> None:
    url = "http://h/private/1"
    hosts = HostTable(SchedulingSettings())
    slot, alike = hosts.add(1, "1:80"), hosts.add(2, "2:80")
    long = RobotsText.of(b"User-agent: *\nDisallow: /private\n" + b"#" * LONG_BYTES, "pollerd")
    for each in (slot, alike):
        hosts.load_rules(each, long, NOW, 0.0)
        assert hosts.allows(each, url) is None
    assert parsed == []
    hosts.note_answer(long, url, rules_allow(long, url))
    assert [hosts.allows(each, url) for each in (slot, alike)] == [False, False]
    assert hosts.allows(slot, "http://h/public") is None
    hosts.set_rules(slot, RobotsText.of(b"User-agent: *\nDisallow:", "pollerd"), NOW)
    assert (hosts.allows(slot, url), hosts.allows(alike, url)) == (True, False)


def test_overdue_sites_come_latest_first() -> None:
    table = SiteTable()
    table.add(range(1, 6))
    table.last_poll[:5] = NOW - np.array([50.0, 500.0, 300.0, 400.0, np.inf])
    table.put("max_interval", slice(4), [100.0, 100.0, np.nan, 350.0])
    everyone = np.ones(5, np.bool_)
    assert table.overdue(everyone, NOW, np.inf).tolist() == [1, 3]
    assert table.overdue(everyone, NOW, 100.0).tolist() == [1, 2, 3]
    assert table.overdue(np.array([True, False, True, True, True]), NOW, 100.0).tolist() == [2, 3]


def test_columns_that_nobody_sets_take_no_room_and_are_written_by_put_only() -> None:
    sites = SiteTable()
    slots = sites.add(np.arange(1, 100_001))
    sites.put("weight", slots, np.ones(len(slots)))
    sites.put("half_life", slots, np.full(len(slots), np.nan))
    assert sites.weight.strides == sites.half_life.strides == (0,)
    with pytest.raises(ValueError, match="read-only"):
        sites.weight[3] = 2.0
    sites.put("weight", 3, 2.0)
    sites.add([200_000])
    assert sites.weight[[2, 3, 100_000]].tolist() == [1.0, 2.0, 1.0]
    sites.remove(3)
    assert sites.weight[3] == 1.0
