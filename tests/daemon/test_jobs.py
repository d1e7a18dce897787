"""Jobs on many sites: in batches, through a kill in the middle, and back."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.app.build import LiveSettings, live_daemon
from pollerd.daemon.control import jobs as job_control
from pollerd.daemon.daemon import Daemon
from pollerd.errors import InvalidValueError, NotFoundError
from pollerd.model import JobAction, JobState, SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.jobs import Job, JobSpec
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import SiteFilter
from pollerd.telemetry import Instruments
from tests.storage.samples import poll_all
from tests.support.postgres import postgres_database

SITES = 3_500
Restart = Callable[[], Awaitable[Daemon]]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{shutil.copy(empty_database, tmp_path / 'poll.db')}"
        return
    with postgres_database() as found:
        yield found


class Running:
    """A daemon that is built and does not poll; it can be left as by a kill, and built again on what it had stored."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = AsyncExitStack()
        self.store: Store
        self.daemon: Daemon

    async def start(self) -> None:
        self.store = await Store.open(self._url, settings=StorageSettings(busy_timeout_seconds=0.5))
        self._stack.push_async_callback(self.store.close)
        instruments, rng = Instruments(CollectorRegistry(), "1"), np.random.default_rng(1)
        self.daemon = await self._stack.enter_async_context(live_daemon(self.store, LiveSettings(), instruments, rng))

    async def kill(self) -> None:
        """Nothing is ended or stored by it."""
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    async def again(self) -> None:
        await self.kill()
        await self.start()

    async def add(self, number: int = SITES) -> list[int]:
        specs = [SiteSpec(f"http://h{n % 7}/{n:05}", tags=("odd",) if n % 2 else ("even",)) for n in range(number)]
        result = await self.daemon.control.sites.add(specs)
        return [site_id for site_id, _, _ in result.added]

    async def do(self, action: JobAction, wanted: SiteFilter | None = None, **value: Any) -> Job:
        """Starts a job and runs it to its end."""
        spec = JobSpec(action, value, filter=wanted or SiteFilter())
        job = await self.daemon.control.jobs.start(spec, by="a test")
        await self.daemon.control.jobs.run_open()
        return await self.store.jobs.get(job.id)

    async def undo(self, job: Job) -> Job:
        await self.daemon.control.jobs.undo(job.id, by="a test")
        await self.daemon.control.jobs.run_open()
        return await self.store.jobs.get(job.id)

    async def specs(self) -> dict[int, SiteSpec]:
        return {site.id: site.spec async for site in self.store.sites.iterate()}

    def memory(self) -> dict[int, tuple[Any, ...]]:
        """What the scheduler has of each site."""
        table = self.daemon.parts.scheduler.sites
        names = ("paused", "weight", "min_interval", "max_interval", "polls", "last_poll", "state")
        slots = table.occupied().nonzero()[0]
        return {int(table.site_id[s]): tuple(str(getattr(table, name)[s]) for name in names) for s in slots.tolist()}


@pytest.fixture
async def running(url: str) -> AsyncIterator[Running]:
    found = Running(url)
    await found.start()
    yield found
    await found.kill()


CASES: list[tuple[JobAction, dict[str, Any], Callable[[SiteSpec], bool]]] = [
    (JobAction.PAUSE, {}, lambda spec: spec.paused),
    (JobAction.TAG, {"tag": "new"}, lambda spec: spec.tags == ("even", "new")),
    (JobAction.UNTAG, {"tag": "even"}, lambda spec: spec.tags == ()),
    (JobAction.WEIGHT, {"weight": 3.0}, lambda spec: spec.weight == 3.0),
    (
        JobAction.LIMITS,
        {"min_interval": 60.0, "max_interval": 600.0},
        lambda spec: (spec.min_interval, spec.max_interval) == (60.0, 600.0),
    ),
]


async def test_every_action_over_a_filter_and_back(running: Running) -> None:
    ids = await running.add()
    specs, memory = await running.specs(), running.memory()
    for action, value, done in CASES:
        job = await running.do(action, SiteFilter(tag="even"), **value)
        half = SITES // 2
        assert (job.state, job.total, job.seen, job.changed) == (JobState.DONE, half, half, half), action
        after = await running.specs()
        assert all(done(after[site]) for site in ids[::2])
        assert all(after[site] == specs[site] for site in ids[1::2])
        live = running.memory()
        if action not in (JobAction.TAG, JobAction.UNTAG):
            assert all(live[site] != memory[site] for site in ids[::2])
        assert all(live[site] == memory[site] for site in ids[1::2])
        job = await running.undo(job)
        assert (job.state, job.restored) == (JobState.UNDONE, half)
        assert await running.specs() == specs, action
        assert running.memory() == memory, action


async def test_deleted_sites_come_back_with_their_history(running: Running) -> None:
    ids = await running.add()
    await poll_all(running.store, ids[:3], 50.0, b"one")
    await poll_all(running.store, ids[:3], 60.0, b"two", changed=True)
    await running.again()
    specs, memory = await running.specs(), running.memory()
    job = await running.do(JobAction.DELETE, SiteFilter(tag="even"))
    assert (job.state, job.changed) == (JobState.DONE, SITES // 2)
    assert sorted(await running.specs()) == sorted(running.memory()) == ids[1::2]
    assert await running.store.sites.find(specs[ids[0]].url) is None
    with pytest.raises(NotFoundError):
        await running.store.sites.get(ids[0])
    with pytest.raises(NotFoundError):
        await running.daemon.control.sites.delete(ids[0])
    assert [change.site_id for change in (await running.store.changes.page()).items] == [ids[1]]
    assert await running.store.sites.deleted_among([specs[ids[0]].url]) == {specs[ids[0]].url}
    await running.again()
    assert sorted(running.memory()) == ids[1::2], "a restart leaves them out"
    assert await running.store.sites.count() == SITES // 2
    job = await running.undo(job)
    assert (job.state, job.restored) == (JobState.UNDONE, SITES // 2)
    assert await running.specs() == specs
    assert running.memory() == memory
    assert await running.store.sites.deleted_among([specs[ids[0]].url]) == set()
    assert len((await running.store.changes.page()).items) == 3


async def test_adding_the_url_of_a_deleted_site_brings_it_back(running: Running) -> None:
    ids = await running.add(4)
    await poll_all(running.store, ids, 50.0, b"one")
    await running.do(JobAction.DELETE)
    back = await running.daemon.control.sites.add_one(SiteSpec("http://h0/00000", weight=2.0))
    assert (back.id, back.polls, back.spec.weight, back.spec.tags) == (ids[0], 1, 2.0, ())
    assert list(running.memory()) == [ids[0]]
    listed = [SiteSpec(f"http://h{n}/{n:05}") for n in range(2)]
    result = await running.daemon.control.sites.add(listed, respect_deleted=True)
    assert ([i for _, i in result.existing], result.deleted) == ([0], [1]), "a list leaves it out"
    moved = await running.daemon.control.sites.update(ids[0], {"url": "http://h1/00001"})
    assert moved.spec.url == "http://h1/00001"
    assert sorted(running.memory()) == [ids[0]]


async def test_what_is_not_undone_in_time_is_purged(running: Running) -> None:
    ids = await running.add(4)
    job = await running.do(JobAction.DELETE, SiteFilter(tag="even"))
    control, store = running.daemon.control.jobs, running.store
    await control.purge()
    assert len(await store.sites.soft_deletion.unmark(ids)) == 2
    job = await running.do(JobAction.DELETE, SiteFilter(tag="even"))
    later = job.created_at + 100_000.0
    assert await store.sites.soft_deletion.purge(later) == 2
    await store.jobs.forget_expired(later)
    assert await store.sites.soft_deletion.unmark(ids) == []
    job = await store.jobs.get(job.id)
    assert job.undo_until is None
    with pytest.raises(InvalidValueError, match="24 hours"):
        await control.undo(job.id, by="a test")
    assert (await store.sites.count(), await store.jobs.next_changes(job)) == (2, [])


@pytest.mark.parametrize("action", [JobAction.TAG, JobAction.DELETE])
@pytest.mark.parametrize("point", ["kept", "done", "advanced"])
async def test_a_kill_in_the_middle_goes_on_where_it_was(
    running: Running, monkeypatch: pytest.MonkeyPatch, action: JobAction, point: str
) -> None:
    ids = await running.add()
    specs, memory = await running.specs(), running.memory()
    control, store = running.daemon.control.jobs, running.store
    value = {"tag": "new"} if action is JobAction.TAG else {}
    job = await control.start(JobSpec(action, value, filter=SiteFilter()), by="a test")
    assert (job.state, job.seen) == (JobState.RUNNING, 0)
    method, turns = {"kept": ("keep", 2), "done": ("advance", 2), "advanced": ("next_sites", 3)}[point]
    real, calls = getattr(store.jobs, method), 0

    class Killed(BaseException):
        pass

    async def call(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == turns:
            if point == "kept":
                await real(*arguments, **options)
            raise Killed
        return await real(*arguments, **options)

    monkeypatch.setattr(store.jobs, method, call)
    with pytest.raises(Killed):
        await control.run_open()
    late = await running.daemon.control.sites.add([SiteSpec("http://new/")])
    await running.again()
    await running.daemon.control.jobs.run_open()
    job = await running.store.jobs.get(job.id)
    assert (job.state, job.seen, job.changed, job.refused) == (JobState.DONE, SITES, SITES, 0)
    after = await running.specs()
    if action is JobAction.TAG:
        assert all(after[site].tags[-1] == "new" for site in ids)
    assert "new" not in after[late.added[0][0]].tags, "it came later"
    job = await running.undo(job)
    assert job.restored == SITES
    assert {site: spec for site, spec in (await running.specs()).items() if site in specs} == specs
    assert {site: one for site, one in running.memory().items() if site in memory} == memory


async def test_what_was_changed_since_is_left_alone(running: Running) -> None:
    one, two, three = (await running.add(3))[:3]
    job = await running.do(JobAction.WEIGHT, weight=3.0)
    await running.daemon.control.sites.update(one, {"weight": 5.0})
    await running.daemon.control.sites.delete(two)
    job = await running.undo(job)
    assert job.restored == 1
    assert {site: spec.weight for site, spec in (await running.specs()).items()} == {one: 5.0, three: None}
    with pytest.raises(InvalidValueError, match="not undone yet"):
        await running.daemon.control.jobs.undo(job.id, by="a test")


async def test_sites_that_cannot_have_it_are_counted_with_the_reason(running: Running) -> None:
    [site, other] = await running.add(2)
    await running.daemon.control.sites.update(site, {"min_interval": 100.0})
    job = await running.do(JobAction.LIMITS, max_interval=50.0)
    assert (job.changed, job.refused) == (1, 1)
    assert "max_interval: must be at least min_interval (100 s)" in job.detail
    assert (await running.store.sites.get(other)).spec.max_interval == 50.0


async def test_small_jobs_end_at_once_and_polls_come_first(running: Running) -> None:
    ids = await running.add(5)
    control = running.daemon.control.jobs
    job = await control.start(JobSpec(JobAction.POLL, {}, ids=(ids[3], ids[1], 999)), by="a test")
    assert (job.state, job.total, job.changed, job.undo_until) == (JobState.DONE, 3, 2, None)
    table = running.daemon.parts.scheduler.sites
    assert [int(table.site_id[slot]) for slot in table.asap.nonzero()[0]] == [ids[1], ids[3]]
    with pytest.raises(InvalidValueError, match="cannot be taken back"):
        await control.undo(job.id, by="a test")
    paused = await control.start(JobSpec(JobAction.PAUSE, {}, ids=tuple(ids)), by="a test")
    assert paused.changed == 5
    assert len((await running.store.sites.page(state=SiteState.PAUSED)).items) == 5
    assert [one.id for one in (await running.store.jobs.list_jobs()).items] == [paused.id, job.id]
    assert job_control.AT_ONCE == 1_000
