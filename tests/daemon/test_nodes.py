"""Several daemons on one database: each host polled by one of them, whoever comes and goes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text

from pollerd import partitions
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.daemon.control.cluster import ClusterControl
from pollerd.daemon.loading import LONGEST_WAIT_SECONDS
from pollerd.daemon.nodes.membership import join
from pollerd.daemon.settings import DaemonSettings, SignalSettings
from pollerd.errors import ConflictError, NotFoundError
from pollerd.fetching.settings import FetchSettings
from pollerd.model import SiteState
from pollerd.notifications.settings import NotificationSettings
from pollerd.partitions import PARTITIONS, UNEVEN_SHARE, NodeRole, weight_of
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import RespectTtl, SiteSpec
from pollerd.storage.grants import GrantStore
from pollerd.storage.node_values import NodeInfo
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.telemetry import Instruments
from pollerd.urls import normalise_url
from tests.daemon.conftest import Running, steady_clock
from tests.storage.samples import query
from tests.support import postgres
from tests.support.origin import Origin, Page, until, until_found
from tests.support.postgres import postgres_database

HOSTS = 24
HOST_SECONDS = 0.3
_SETTINGS = SchedulingSettings(min_interval_seconds=0, min_saving_seconds=0, host_interval_seconds=HOST_SECONDS)


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


@contextlib.asynccontextmanager
async def node(
    name: str,
    url: str,
    allocator: str = "uniform",
    kill: bool = False,
    host_seconds: float = HOST_SECONDS,
    budget: float = 30.0,
    signals: SignalSettings | None = None,
    secret_key: str | None = None,
    maintenance_seconds: float = 600.0,
) -> AsyncIterator[Running]:
    """A node under way. kill: it ends without handing anything over."""
    info = NodeInfo(name=name, version="1")
    store = await Store.open(url, settings=StorageSettings(secret_key=secret_key), node=info)
    registry = CollectorRegistry()
    try:
        live = LiveSettings(
            daemon=DaemonSettings(
                budget=budget,
                allocator=allocator,
                flush_seconds=0.05,
                gather_seconds=0.05,
                maintenance_seconds=maintenance_seconds,
            ),
            scheduling=replace(_SETTINGS, host_interval_seconds=host_seconds),
            fetching=FetchSettings(allow_private=True, total_timeout_seconds=1.0),
            signals=signals or SignalSettings(),
            notifying=NotificationSettings(allow_private_channels=True),
        )
        assert store.shared is not None
        live = replace(live, daemon=await join(store.shared, live.daemon, ("allocator", "objective", "budget")))
        rng = np.random.default_rng(1)
        async with live_daemon(store, live, Instruments(registry, "test"), rng, make_clock=steady_clock) as daemon:
            running = Running(daemon, store, registry, asyncio.create_task(daemon.run()))
            try:
                yield running
            finally:
                if kill:
                    running.task.cancel()
                daemon.stop()
                with contextlib.suppress(asyncio.CancelledError):
                    await running.task
    finally:
        await store.close()


def sites_of(running: Running) -> set[int]:
    table = running.daemon.parts.scheduler.sites
    return set(table.site_id[: table.size][table.occupied()].tolist())


async def shared_out(ids: set[int], *nodes: Running) -> None:
    """Waits until each node holds its part of the partitions and all their sites: none moves any more."""

    async def settled() -> bool:
        if set().union(*map(sites_of, nodes)) != ids or sum(len(sites_of(one)) for one in nodes) != len(ids):
            return False
        cluster = nodes[0].store.cluster
        assert cluster is not None
        table = await cluster.look()
        held = {unit: its for unit, its in table.holders.items() if unit >= 0}
        weights = {unit: weight_of(table.sites.get(unit, 0)) for unit in range(PARTITIONS)}
        return len(table.nodes) == len(nodes) and held == partitions.shared_out(
            weights, held, table.nodes, UNEVEN_SHARE
        )

    await until_found(settled)


async def every_host_polled(origin: Origin, times: int = 1) -> None:
    """Waits until each host was asked for so many pages more."""
    before = Counter(hit.host for hit in origin.hits())

    def polled() -> bool:
        now = Counter(hit.host for hit in origin.hits())
        return len(now) == HOSTS and all(count >= before[host] + times for host, count in now.items())

    await until(polled)


async def add_pages(running: Running, origin: Origin) -> set[int]:
    origin.pages |= {f"/p{page}": Page() for page in (1, 2)}
    urls = [normalise_url(origin.url(f"/p{page}", host=f"127.0.1.{n}")) for n in range(1, HOSTS + 1) for page in (1, 2)]
    added = await running.control.sites.add([SiteSpec(url=url) for url in urls])
    return {site_id for site_id, _, _ in added.added}


def _never(*_: object) -> NoReturn:
    raise AssertionError("showing divides nothing")


async def test_a_node_knows_what_pages_announced_to_another(database: str, origin: Origin) -> None:
    origin.pages["/a"] = Page(headers={"Cache-Control": "max-age=3600"})
    url = normalise_url(origin.url("/a", host="127.0.1.1"))
    async with node("a", database) as a:
        (added,) = (await a.control.sites.add([SiteSpec(url=url, respect_ttl=RespectTtl.STRICT)])).added
        site_id = added[0]
        await a.polled(site_id, 1)
    async with node("b", database) as b:
        await until(lambda: sites_of(b) == {site_id})
        assert b.explain(site_id).announced_ttl == 3600.0
        assert len(await b.polls(site_id)) == 1


def check_hosts(origin: Origin, seconds: float = HOST_SECONDS) -> None:
    """No host was asked sooner than its interval, by whichever node."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for hit in origin.hits():
        times[hit.host].append(hit.at)
    assert len(times) == HOSTS
    for host, its in times.items():
        gaps = np.diff(its)
        assert gaps.min(initial=np.inf) > 0.9 * seconds, (host, gaps.min())


async def test_nodes_come_and_go_and_each_host_is_polled_by_one(
    database: str, origin: Origin, capsys: pytest.CaptureFixture[str]
) -> None:
    async with node("a", database) as a:
        ids = await add_pages(a, origin)
        await until(lambda: sites_of(a) == ids)
        async with node("b", database, budget=90.0) as b:
            await shared_out(ids, a, b)
            assert not sites_of(a) & sites_of(b)
            here = next(iter(sites_of(b)))
            before = len(await a.polls(here))
            await a.polled(here, before + 2)
            shown = await ClusterControl(b.store.cluster, GrantStore(database=b.store.database, divide=_never)).view()
            assert [one.name for one in shown.nodes] == ["a", "b"]
            assert [one.here for one in shown.nodes] == [False, True]
            assert sum(one.partitions for one in shown.nodes) + shown.unheld == 64
            assert sum(one.grant or 0.0 for one in shown.nodes) <= 30.0
            assert all(one.grant for one in shown.nodes)
            assert shown.budget == 30.0, "the nodes' budget holds, whatever the second one was started with"
        await until(lambda: sites_of(a) == ids)
        before = len(await a.polls(here))
        await a.polled(here, before + 2)
        await every_host_polled(origin)
    assert "setting_of_all_nodes" in capsys.readouterr().out
    check_hosts(origin)


async def test_a_drained_node_hands_over_all_and_takes_nothing_until_it_is_undrained(
    database: str, origin: Origin, capsys: pytest.CaptureFixture[str]
) -> None:
    async with node("a", database) as a:
        ids = await add_pages(a, origin)
        await until(lambda: sites_of(a) == ids)
        with pytest.raises(ConflictError, match="node a is the only one that polls: start another node first, or stop"):
            await a.control.cluster.drain("a", True)
        with pytest.raises(NotFoundError, match="no such node: b"):
            await a.control.cluster.drain("b", True)
        async with node("b", database) as b:
            await shared_out(ids, a, b)
            await every_host_polled(origin)
            for _ in range(2):
                await b.control.cluster.drain("a", True)
            await until(lambda: sites_of(b) == ids)
            assert a.store.cluster is not None
            assert not a.store.cluster.held, "neither partitions nor roles"
            assert a.metric("pollerd_cluster_drained") == 1
            shown = (await a.control.cluster.view()).nodes
            assert [(one.name, one.drained, one.partitions, one.sites) for one in shown] == [
                ("a", True, 0, 0),
                ("b", False, PARTITIONS, len(ids)),
            ]
            assert len(shown[1].roles) == len(NodeRole)
            with pytest.raises(ConflictError, match="node b is the only one that polls"):
                await a.control.cluster.drain("b", True)
            await every_host_polled(origin)
            polls = [len(await b.polls(site_id)) for site_id in sorted(ids)]
            assert sum(polls) <= sum(hit.path.startswith("/p") for hit in origin.hits())
        await until(lambda: a.metric("pollerd_cluster_nodes") == 1)
        assert not a.store.cluster.held, "what somebody decided holds, also while nobody else is there"
    assert "pollerd nodes undrain a" in capsys.readouterr().out
    async with node("a", database) as a, node("b", database) as b:
        await until(lambda: sites_of(b) == ids)
        assert not sites_of(a), "a restart does not end it"
        await b.control.cluster.drain("a", False)
        await shared_out(ids, a, b)
        assert a.metric("pollerd_cluster_drained") == 0
        await b.control.cluster.drain("a", False)
        with pytest.raises(NotFoundError):
            await b.control.cluster.drain("c", False)
        await every_host_polled(origin)
    check_hosts(origin)


async def test_partitions_even_out_by_sites(database: str, origin: Origin) -> None:
    """One partition has as many sites as all others weigh: its node holds hardly any other."""
    origin.pages["/x"] = Page()
    async with node("a", database) as a:
        one = [normalise_url(origin.url(f"/x?{n}", host="127.0.1.1")) for n in range(7_000)]
        for start in range(0, len(one), 1_000):
            await a.control.sites.add([SiteSpec(url=url, paused=True) for url in one[start : start + 1_000]])
        await until(lambda: len(sites_of(a)) == len(one))
        async with node("b", database) as b:

            def held(running: Running) -> int:
                assert running.store.cluster is not None
                return sum(unit >= 0 for unit in running.store.cluster.held)

            await until(lambda: sorted((held(a), held(b))) == [1, PARTITIONS - 1])
            await until(lambda: sorted((len(sites_of(a)), len(sites_of(b)))) == [0, len(one)])
            view = await a.control.cluster.view()
            assert sum(one.sites for one in view.nodes) == len(one)


async def test_a_host_keeps_its_interval_when_it_changes_hands(database: str, origin: Origin) -> None:
    async with node("a", database, host_seconds=3.0) as a:
        ids = await add_pages(a, origin)
        await every_host_polled(origin)
        async with node("b", database, host_seconds=3.0) as b:
            await shared_out(ids, a, b)
            await every_host_polled(origin, 2)
    check_hosts(origin, 3.0)


async def test_a_dead_nodes_sites_are_polled_by_the_others_after_its_requests(database: str, origin: Origin) -> None:
    async with node("a", database) as a:
        ids = await add_pages(a, origin)
        async with node("b", database, kill=True) as b:
            await shared_out(ids, a, b)
            theirs = sites_of(b)
            await every_host_polled(origin)
        await until(lambda: sites_of(a) == ids)
        for site_id in sorted(theirs)[:4]:
            await a.polled(site_id, len(await a.polls(site_id)) + 1)
        await every_host_polled(origin)
    check_hosts(origin)


async def test_times_of_a_node_whose_clock_was_ahead_are_set_right(database: str, origin: Origin) -> None:
    async with node("a", database) as a:
        ids = await add_pages(a, origin)
        await every_host_polled(origin)
        await until(lambda: sites_of(a) == ids)
    ahead = 1e7
    for statement in (
        f"UPDATE site_state SET last_poll_at = last_poll_at + {ahead}, last_seen_at = last_seen_at + {ahead},"
        f" not_before = {time.time() + ahead}",
        f"UPDATE host SET last_start_at = {time.time() + ahead}, paused_until = {time.time() + ahead},"
        f" robots_at = robots_at + {ahead}",
    ):
        await query(database, statement)
    async with node("b", database) as b:
        await until(lambda: sites_of(b) == ids)
        now, sites, hosts = time.time(), b.daemon.parts.scheduler.sites, b.daemon.parts.scheduler.hosts
        slots = sites.slots_of(np.array(sorted(ids)))
        for column in (sites.last_poll, sites.last_seen):
            assert column[slots].max() <= now
        own = sites.host[slots]
        for times in (hosts.last_start, hosts.robots_at):
            assert times[own].max() <= now + HOST_SECONDS
        for waits in (sites.not_before[slots], hosts.paused_until[own]):
            assert now + 80_000.0 < waits.max() <= now + LONGEST_WAIT_SECONDS


async def test_what_was_lost_with_a_session_is_dropped_before_anything_is_polled(database: str, origin: Origin) -> None:
    async with node("a", database) as a:
        ids = await add_pages(a, origin)
        await until(lambda: sites_of(a) == ids)
        await every_host_polled(origin)
        assert a.store.cluster is not None
        name = database.rpartition("/")[2]
        taken = text("UPDATE holding SET node_id = 0 WHERE unit BETWEEN 0 AND 31")  # as if by another node
        await a.store.database.write(lambda c: c.execute(taken))
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE application_name = 'pollerd node' AND datname = '{name}'"
        )
        await until(lambda: a.metric("pollerd_cluster_partitions_lost_total") >= 32)
        await until(lambda: sites_of(a) == ids)
        await every_host_polled(origin)
        assert not a.store.cluster.lost
    check_hosts(origin)


async def test_what_one_node_is_told_the_holder_does(database: str, origin: Origin) -> None:
    async with node("a", database) as a, node("b", database) as b:
        ids = await add_pages(a, origin)
        await shared_out(ids, a, b)
        theirs = sorted(sites_of(b))
        await a.control.sites.update(theirs[0], {"weight": 7.0})
        table = b.daemon.parts.scheduler.sites
        await until(lambda: float(table.weight[table.slots_of(np.array([theirs[0]]))[0]]) == 7.0)
        assert (await a.control.sites.pause(theirs[0], True)).state is SiteState.PAUSED
        await until(lambda: b.daemon.parts.scheduler.is_paused(theirs[0]))
        await a.control.sites.delete(theirs[1])
        await until(lambda: theirs[1] not in sites_of(b))
        await a.control.sites.update(theirs[2], {"max_interval": 86_400.0, "min_interval": 86_000.0})
        await until(lambda: float(table.min_interval[table.slots_of(np.array([theirs[2]]))[0]]) == 86_000.0)
        polls = len(await a.polls(theirs[2]))
        await a.control.sites.poll_now(theirs[2])
        await a.polled(theirs[2], polls + 1)
        await a.control.sites.update(theirs[3], {"weight": 2.0})
        await a.polled(theirs[3], len(await a.polls(theirs[3])) + 2)


async def test_nodes_that_start_at_once_on_an_empty_database() -> None:
    with postgres_database(migrated=False) as url:
        names = [f"n{n}" for n in range(3)]
        opening = (Store.open(url, settings=StorageSettings(), node=NodeInfo(name=name, version="1")) for name in names)
        stores = await asyncio.gather(*opening)
        try:
            assert stores[0].cluster is not None
            assert len((await stores[0].cluster.look()).nodes) == len(names)
        finally:
            for store in stores:
                await store.close()


async def test_a_site_on_a_new_host_is_polled_by_the_holder_wherever_it_is_added(database: str, origin: Origin) -> None:
    async with node("a", database) as a, node("b", database) as b:
        await shared_out(set(), a, b)
        ids = await add_pages(a, origin)
        await until(lambda: sites_of(a) | sites_of(b) == ids)
        assert sites_of(a)
        assert sites_of(b)
        await until(lambda: len({hit.host for hit in origin.hits()}) == HOSTS)
        scheduler = b.daemon.parts.scheduler
        assert not scheduler.unusable
        slots = scheduler.sites.slots_of(np.array(sorted(sites_of(b))))
        assert "" not in {scheduler.hosts.names[host] for host in scheduler.sites.host[slots]}
