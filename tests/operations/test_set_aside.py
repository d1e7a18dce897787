"""A site row that raises is set aside and reported; the rest keep their pace."""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import structlog
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger

from pollerd.allocation.baselines import Uniform
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.daemon.faults import SITES_IN_A_ROW, Faults
from pollerd.daemon.stages import Answer, Found
from pollerd.daemon.transition import poll_effect
from pollerd.errors import FaultEverywhereError
from pollerd.model import Detection, Outcome, OutcomeKind, Site, SiteState
from pollerd.scheduling.hosts import HostTable
from pollerd.storage.values import Batch, CommitResult, PollRecord, SiteContext
from pollerd.telemetry import Instruments
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until, until_found

FAULT = "no such luck"


@pytest.fixture(autouse=True)
def said() -> Iterator[CapturingLogger]:
    """What is logged meanwhile."""
    logger, before = CapturingLogger(), structlog.get_config()
    structlog.configure(processors=[structlog.processors.add_log_level], logger_factory=lambda *_: logger)
    yield logger
    structlog.configure(**before)


def damage(database: str, statement: str, *values: object) -> None:
    with sqlite3.connect(database.removeprefix("sqlite+aiosqlite:///")) as connection:
        connection.execute(statement, values)
    connection.close()


async def assert_set_aside(running: Running, site_id: int, reason: str) -> None:
    """The site says why it is left alone; the daemon runs and all others are polled on."""

    async def failed() -> Site | None:
        site = await running.site(site_id)
        return site if site.failures else None

    site = await until_found(failed)
    assert site is not None
    assert site.state is SiteState.BACKING_OFF
    assert site.last_detail.startswith("set aside: ")
    assert reason in site.last_detail
    assert not running.task.done()


async def assert_others_go_on(origin: Origin, running: Running, *paths: str) -> None:
    seen = {path: len(origin.hits(path)) for path in paths}
    await until(lambda: all(len(origin.hits(path)) >= seen[path] + 3 for path in paths))
    assert not running.task.done()


async def three(origin: Origin, running: Running) -> list[int]:
    origin.pages |= {path: Page("<p>one</p>") for path in ("/a", "/b", "/c")}
    ids = await running.add(*(origin.url(path, host=n) for n, path in enumerate(("/a", "/b", "/c"))))
    for site_id in ids:
        await running.polled(site_id, 1)
    return ids


async def test_rows_that_were_damaged_in_the_database(origin: Origin, start: Start, database: str) -> None:
    origin.pages |= {f"/{n}": Page() for n in range(6)}
    async with start() as running:
        ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(6)))
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == 6)
    damage(database, "UPDATE site SET url = 'rubbish' WHERE id = ?", ids[0])
    damage(database, "UPDATE site SET weight = -1 WHERE id = ?", ids[1])
    damage(database, "UPDATE site SET cost = 9e999 WHERE id = ?", ids[2])
    damage(database, "UPDATE site_state SET media = 'smoke' WHERE site_id = ?", ids[3])
    damage(database, "UPDATE site SET settings_changed_at = 'never' WHERE id = ?", ids[4])
    async with start() as running:
        await assert_set_aside(running, ids[1], "weight: must be finite, 0 or more; given: -1.0")
        await assert_set_aside(running, ids[2], "cost: must be finite, above 0; given: inf")
        await assert_set_aside(running, ids[3], "smoke")
        await until(lambda: running.metric("pollerd_polls_total", outcome="protocol_error") >= 1)
        assert (await running.site(ids[0])).last_detail == "rubbish"
        await assert_set_aside(running, ids[4], "TypeError")
        await assert_others_go_on(origin, running, "/5")
        assert not origin.hits("/rubbish")


SPOILED = {
    "weight": ("site SET weight = 'heavy' WHERE id", "weight: must be a number; given: 'heavy'"),
    "weight, as bytes": ("site SET weight = x'00ff' WHERE id", "weight: must be a number; given: b'"),
    "cost": ("site SET cost = '' WHERE id", "cost: must be a number; given: ''"),
    "cost, below 0": ("site SET cost = -1 WHERE id", "cost: must be finite, above 0; given: -1.0"),
    "min_interval": ("site SET min_interval = 'an hour' WHERE id", "min_interval: must be a number; given: 'an hour'"),
    "host_id": ("site SET host_id = 99 WHERE id", "host_id: must be a host's; given: 99"),
    "host_id, as text": ("site SET host_id = 'here' WHERE id", "host_id: must be a whole number; given: 'here'"),
    "created_at": ("site SET created_at = 'once' WHERE id", ""),
    "state": ("site_state SET state = 'asleep' WHERE site_id", "state: must be one of active, "),
    "polls": ("site_state SET polls = 'many' WHERE site_id", "polls: must be a whole number; given: 'many'"),
    "failures": ("site_state SET failures = NULL WHERE site_id", "failures: must be a whole number; given: None"),
    "not_before": ("site_state SET not_before = 'noon' WHERE site_id", "not_before: must be a number; given: 'noon'"),
    "last_outcome": ("site_state SET last_outcome = 'fine' WHERE site_id", "fine"),
}
"""What somebody may have typed into the database by hand, and what is then said of the site."""


def without_constraints(database: str) -> None:
    """As if a tool had made the tables anew and lost their constraints."""
    with sqlite3.connect(database.removeprefix("sqlite+aiosqlite:///")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name LIKE 'site%'")
    connection.close()


async def test_rows_with_text_or_nothing_in_place_of_numbers(origin: Origin, start: Start, database: str) -> None:
    origin.pages["/good"] = Page()
    origin.pages |= {f"/{n}": Page() for n in range(len(SPOILED))}
    async with start() as running:
        good, *ids = await running.add(
            origin.url("/good"), *(origin.url(f"/{n}", host=n + 2) for n in range(len(SPOILED)))
        )
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == 1 + len(SPOILED))
    without_constraints(database)
    for site_id, (statement, _) in zip(ids, SPOILED.values(), strict=True):
        damage(database, f"UPDATE {statement} = ?", site_id)
    async with start() as running:
        for site_id, (_, said) in zip(ids, SPOILED.values(), strict=True):
            if said:
                await assert_set_aside(running, site_id, said)
        await assert_others_go_on(origin, running, "/good")
        listed = (await running.store.sites.page()).items
        assert [site.id for site in listed] == [good, *ids]
        assert {(site.spec.weight, site.spec.cost) for site in listed} == {(None, None), (None, -1.0)}
        assert await running.store.sites.count() == len(listed)
        for site_id in ids:
            await running.control.sites.update(site_id, {"weight": 1.0, "cost": 1.0, "min_interval": None})
    async with start() as running:
        without_a_host = {ids[list(SPOILED).index(name)] for name in ("host_id", "host_id, as text")}
        assert set(running.daemon.parts.scheduler.unusable) == without_a_host


async def test_hosts_that_were_damaged_in_the_database(origin: Origin, start: Start, database: str) -> None:
    """What cannot be read of a host is as if it had never been known: robots.txt is asked for anew."""
    origin.pages["/a"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
    damage(
        database, "UPDATE host SET last_start_at = 'now', paused_until = 'noon', robots_body = 'all', throttles = ''"
    )
    asked = len(origin.hits("/robots.txt"))
    async with start() as running:
        await assert_others_go_on(origin, running, "/a")
        assert len(origin.hits("/robots.txt")) == asked + 1


async def test_a_setting_put_right_brings_the_site_back(origin: Origin, start: Start, database: str) -> None:
    origin.pages["/a"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
    damage(database, "UPDATE site SET weight = -1 WHERE id = ?", site_id)
    async with start() as running:
        await assert_set_aside(running, site_id, "weight")
        await running.control.sites.update(site_id, {"weight": 2.0, "paused": False})
        await assert_others_go_on(origin, running, "/a")
        assert (await running.site(site_id)).state is SiteState.ACTIVE


@pytest.mark.parametrize("part", ["pollerd.daemon.poll.Request", "pollerd.daemon.robots.robots_url"])
async def test_a_poll_that_raises(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch, said: CapturingLogger, part: str
) -> None:
    """In the way to the page, or to robots.txt: at the second site only."""
    real, calls = named(part), [0]

    def broken(*arguments: object, **named_arguments: object) -> object:
        calls[0] += 1
        if calls[0] == 2:
            raise RuntimeError(FAULT)
        return real(*arguments, **named_arguments)

    origin.pages |= {"/a": Page(), "/b": Page(), "/c": Page()}
    monkeypatch.setattr(part, broken)
    async with start() as running:
        ids = await running.add(*(origin.url(path, host=n) for n, path in enumerate(("/a", "/b", "/c"))))
        await until(lambda: running.metric("pollerd_site_faults_total") == 1)
        for site_id in ids:
            await running.polled(site_id, 3)
        polls = [poll for site_id in ids for poll in await running.polls(site_id)]
        (aside,) = [poll for poll in polls if poll.outcome is OutcomeKind.UNDECODABLE]
        assert aside.detail == f"set aside: RuntimeError: {FAULT}"
    (report,) = [call.kwargs for call in said.calls if call.args == () and call.kwargs.get("event") == "site_fault"]
    assert (report["site_id"], str(report["exc_info"])) == (aside.site_id, FAULT)


def named(part: str) -> Callable[..., object]:
    module, _, name = part.rpartition(".")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    return found


async def test_robots_rules_that_raise(origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    real = HostTable.allows

    def allows(self: HostTable, slot: int, url: str) -> bool | None:
        if url.endswith("/b"):
            raise RecursionError(FAULT)
        return real(self, slot, url)

    monkeypatch.setattr(HostTable, "allows", allows)
    origin.pages |= {"/a": Page(), "/b": Page()}
    async with start() as running:
        _, broken = await running.add(origin.url("/a", host=1), origin.url("/b", host=2))
        await assert_set_aside(running, broken, f"RecursionError: {FAULT}")
        await assert_others_go_on(origin, running, "/a")
        assert not origin.hits("/b")


async def test_a_poll_that_cannot_be_judged(origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start() as running:
        a, b, c = await three(origin, running)

        def judging(result: Found, *rest: Any) -> PollRecord:
            if result.site_id == b and result.answer.asked:
                raise ZeroDivisionError(FAULT)
            return poll_effect(result, *rest)

        monkeypatch.setattr("pollerd.daemon.transition.poll_effect", judging)
        await assert_set_aside(running, b, f"ZeroDivisionError: {FAULT}")
        await assert_others_go_on(origin, running, "/a", "/c")
        assert {(await running.site(i)).state for i in (a, c)} == {SiteState.ACTIVE}


async def test_a_lesson_that_the_allocator_does_not_take(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught: set[int] = set()

    async with start() as running:
        a, b, c = await three(origin, running)
        bad = running.daemon.parts.scheduler.sites.slot_of(b)
        real = Uniform.observe

        def observe(
            self: Uniform,
            slots: NDArray[np.int64],
            elapsed: NDArray[np.float64],
            evidence: EvidenceBatch,
            now: float,
        ) -> None:
            if bad in slots.tolist():
                raise FloatingPointError(FAULT)
            taught.update(slots.tolist())
            real(self, slots, elapsed, evidence, now)

        monkeypatch.setattr(Uniform, "observe", observe)
        origin.pages["/b"] = Page("<p>two</p>")
        await assert_set_aside(running, b, f"FloatingPointError: {FAULT}")
        await assert_others_go_on(origin, running, "/a", "/c")
        assert len(taught) == 2
        assert {(await running.site(i)).state for i in (a, c)} == {SiteState.ACTIVE}


@pytest.mark.parametrize("also_bare", [False, True])
async def test_a_poll_that_the_database_refuses(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch, also_bare: bool
) -> None:
    async with start() as running:
        a, b, c = await three(origin, running)
        real = running.store.commit

        async def commit(batch: Batch) -> CommitResult:
            if any(r.poll.site_id == b and (also_bare or r.poll.outcome.informative) for r in batch.records):
                raise ValueError(FAULT)
            return await real(batch)

        monkeypatch.setattr(running.store, "commit", commit)
        await until(lambda: running.metric("pollerd_site_faults_total") >= 1)
        if not also_bare:
            await assert_set_aside(running, b, f"ValueError: {FAULT}")
        await assert_others_go_on(origin, running, "/a", "/c")
        seen = {i: len(await running.polls(i)) for i in (a, c)}
        for site_id, count in seen.items():
            await running.polled(site_id, count + 2)


async def test_what_no_site_is_to_blame_for_takes_the_daemon_down(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commit(_: Batch) -> CommitResult:
        raise TypeError(FAULT)

    async with start() as running:
        await three(origin, running)
        monkeypatch.setattr(running.store, "commit", commit)
        with pytest.raises(ExceptionGroup) as caught:
            await running.task
        assert caught.group_contains(TypeError, match=FAULT)
        running.task = asyncio.create_task(asyncio.sleep(0))


@pytest.mark.parametrize(
    "part",
    [
        "pollerd.daemon.poll.Request",
        "pollerd.daemon.poll.detect",
        "pollerd.daemon.robots.robots_url",
        "pollerd.scheduling.hosts.HostTable.allows",
    ],
)
async def test_a_fault_at_every_site_ends_the_daemon_with_its_cause(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def broken(*arguments: object, **named_arguments: object) -> object:
        raise RuntimeError(FAULT)

    monkeypatch.setattr(part, broken)
    origin.pages |= {f"/{n}": Page() for n in range(SITES_IN_A_ROW)}
    async with start() as running:
        await running.add(*(origin.url(f"/{n}", host=n + 1) for n in range(SITES_IN_A_ROW)))
        with pytest.raises(ExceptionGroup) as caught:
            await running.task
        running.task = asyncio.create_task(asyncio.sleep(0))
    ours, others = caught.value.split(FaultEverywhereError)
    assert others is None
    assert ours is not None
    error = ours.exceptions[0]
    assert str(error) == f"{SITES_IN_A_ROW} sites in a row raised, the last: RuntimeError: {FAULT}"
    assert isinstance(error.__cause__, RuntimeError)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def faults(registry: CollectorRegistry) -> Faults:
    return Faults(Instruments(registry, "test"), lambda: 0.0)


def raising(faults: Faults, site_ids: range) -> None:
    for site_id in site_ids:
        faults.report(SiteContext(site_id, "http://a/"), RuntimeError(FAULT))


def finding(kind: OutcomeKind) -> Found:
    context, outcome = SiteContext(0, "http://a/"), Outcome(OutcomeKind.BODY, 0.0, 0.0, body=b"")
    return Found(Answer(0, context, outcome), Detection(kind, context.baseline))


def test_a_page_read_well_in_between_breaks_the_row(faults: Faults, registry: CollectorRegistry) -> None:
    for _ in range(3):
        raising(faults, range(1, SITES_IN_A_ROW))
        faults.passed(finding(OutcomeKind.UNCHANGED))
    assert registry.get_sample_value("pollerd_site_faults_total") == 3 * (SITES_IN_A_ROW - 1)


def test_a_page_that_could_not_be_read_does_not(faults: Faults) -> None:
    raising(faults, range(1, SITES_IN_A_ROW))
    faults.passed(finding(OutcomeKind.UNDECODABLE))
    with pytest.raises(FaultEverywhereError):
        raising(faults, range(SITES_IN_A_ROW, SITES_IN_A_ROW + 1))


def test_one_site_that_raises_again_and_again_is_no_row(faults: Faults, registry: CollectorRegistry) -> None:
    for _ in range(3):
        raising(faults, range(1, SITES_IN_A_ROW))
    assert registry.get_sample_value("pollerd_site_faults_total") == 3 * (SITES_IN_A_ROW - 1)
