"""Hosts that two nodes ask, by redirects to each other's: never at once, and never sooner than their interval."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

import pytest
from aiohttp import web

from pollerd.daemon.nodes import shared_hosts
from pollerd.daemon.nodes.redirects import NodeHostVisit
from pollerd.daemon.nodes.shared_hosts import SharedHosts
from pollerd.daemon.robots import WAIT_SECONDS, HostReservations
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import OutcomeKind
from pollerd.scheduling.hosts import HostTable
from pollerd.storage.shared_hosts import SharedHostStore
from pollerd.urls import host_of
from tests.daemon.conftest import Running
from tests.daemon.test_nodes import (
    HOST_SECONDS,
    HOSTS,
    add_pages,
    check_hosts,
    every_host_polled,
    node,
    shared_out,
    sites_of,
)
from tests.daemon.test_nodes_answer import Served, two_nodes
from tests.storage.samples import query
from tests.support import postgres
from tests.support.origin import Hit, Origin, Page, until
from tests.support.postgres import postgres_database

LATE = 0.85
"""Nodes and hosts run in one loop, which notes a request later than it was written: intervals seem shorter by that."""


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


def moved(origin: Origin) -> None:
    """Lets /p2 of each host lead to another host, of another partition or not."""

    async def redirect(request: web.Request) -> web.StreamResponse:
        number = int(request.host.partition(":")[0].rpartition(".")[2])
        target = origin.url(f"/from{number}", host=f"127.0.1.{(number * 5 + 7) % HOSTS + 1}")
        return web.Response(status=302, headers={"Location": target})

    origin.pages["/p2"] = Page(handler=redirect)
    origin.pages |= {f"/from{number}": Page() for number in range(1, HOSTS + 1)}


def shared_of(running: Running) -> SharedHosts:
    part = running.daemon.parts.cluster
    assert part is not None
    return part.shared


def hosts_of(running: Running) -> HostTable:
    return running.daemon.parts.scheduler.hosts


async def url_of(node: Served, site_id: int) -> str:
    site = await node.running.store.sites.get(site_id)
    assert site is not None
    return site.spec.url


def requests_to(origin: Origin, name: str) -> int:
    return sum(hit.host == name for hit in origin.log)


def pairs(origin: Origin) -> list[tuple[Hit, Hit]]:
    """Each two requests in a row to one host, robots.txt included."""
    hits = sorted(origin.log, key=lambda hit: (hit.host, hit.at))
    return [(one, two) for one, two in itertools.pairwise(hits) if one.host == two.host]


async def shared_rows(database: str) -> dict[str, int | None]:
    """Returns the owner of each shared host; None: it does not know yet."""
    return dict(await query(database, "SELECT name, owner FROM shared_host"))


async def test_hosts_keep_their_intervals_although_nodes_are_redirected_to_each_others(
    database: str, origin: Origin
) -> None:
    async with two_nodes(database, origin, total_seconds=20.0, host_seconds=1.0) as (a, b, _):
        assert await shared_rows(database) == {}, "a host that no other node wants costs nothing"
        moved(origin)
        await until(lambda: all(origin.hits(f"/from{n}") for n in range(1, HOSTS + 1)), 120.0)
        rows = await shared_rows(database)
        assert rows
        before = len(origin.hits())
        await until(lambda: len(origin.hits()) > before + 5 * HOSTS, 120.0)
        await every_host_polled(origin)
        for one in (a, b):
            found = Counter([poll.outcome for site in sites_of(one.running) for poll in await one.running.polls(site)])
            assert not {kind for kind in found if kind.link_suspect or kind is OutcomeKind.DENIED}, found
            hosts = hosts_of(one.running)
            assert not hosts.throttles[: hosts.size].any(), "no host is to blame"
    check_hosts(origin, LATE * 1.0)
    assert min(after.at - before.at for before, after in pairs(origin)) > 0.9 * LATE
    assert origin.most_concurrent == 1, "each host is asked by one at a time"


async def reserve(running: Running, name: str, seconds: float = 60.0) -> HostReservations | None:
    """Has a node reserve a host for a request; None: it could not in so long."""
    hosts, clock = hosts_of(running), running.daemon.parts.runtime.clock
    assert await shared_of(running).enter(name, running) is None
    slot = hosts.slot_of(name)
    assert slot is not None
    reservations = HostReservations(hosts=hosts, own=-1, clock=clock)
    if not await reservations.wait(slot, clock() + seconds):
        return None
    assert shared_of(running).may_write(name)
    reservations.take(slot, clock())
    return reservations


def leave(running: Running, name: str, reservations: HostReservations) -> None:
    reservations.finish()
    shared_of(running).leave(name, running)


async def test_a_host_is_asked_by_nobody_else_while_a_node_has_it_and_is_paused_for_all(
    database: str, origin: Origin
) -> None:
    async with two_nodes(database, origin) as (a, b, there):
        name = host_of(await url_of(b, there))
        had = await reserve(a.running, name)
        assert had is not None
        assert not shared_of(b.running).may_write(name)
        before = requests_to(origin, name)
        await asyncio.sleep(7.0)  # longer than a claim holds without renewal
        assert requests_to(origin, name) == before
        assert await reserve(b.running, name, WAIT_SECONDS) is None, "its owner waits, too"
        hosts, clock = hosts_of(a.running), a.running.daemon.parts.runtime.clock
        slot = hosts.slot_of(name)
        assert slot is not None
        hosts.pause(slot, clock() + 40.0)  # it refused
        leave(a.running, name, had)
        its = hosts_of(b.running)
        there_slot = its.slot_of(name)
        assert there_slot is not None
        await until(lambda: bool(its.paused_until[there_slot] > clock() + 20.0))
        await b.running.control.hosts.override(name, paused=False, until=None, by="test")
        await until(lambda: requests_to(origin, name) > before + 1)
        assert its.paused_until[there_slot] <= clock(), "a pause that somebody ended is not adopted again"


async def test_a_host_is_shared_no_more_when_nobody_else_wants_it_and_again_later(
    database: str, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pollerd.app.nodes.UNWANTED_SECONDS", 1.0)
    monkeypatch.setattr(shared_hosts, "UNWANTED_SECONDS", 1.0)
    monkeypatch.setattr(shared_hosts, "_LOOK_SECONDS", 0.5)
    async with two_nodes(database, origin) as (a, b, there):
        name = host_of(await url_of(b, there))
        for _ in range(2):
            had = await reserve(a.running, name)
            assert had is not None
            assert await shared_rows(database) == {name: b.running.store.cluster and b.running.store.cluster.node_id}
            leave(a.running, name, had)
            await until(lambda: not shared_of(b.running).is_shared(name))
            assert await shared_rows(database) == {}
            await until(lambda: not shared_of(a.running).is_shared(name))
            before = requests_to(origin, name)
            await until(lambda before=before: requests_to(origin, name) > before + 1)  # type: ignore[misc]
            assert not shared_of(a.running).may_write(name), "another node's host is asked with a claim only"
        visit = NodeHostVisit(shared_of(a.running))
        for _ in range(2):  # a request that waits longer than the host stays shared
            assert await visit.enter(name)
            assert shared_of(a.running).is_shared(name)
            await until(lambda: not shared_of(a.running).is_shared(name))
        visit.finish()
    assert min(after.at - before.at for before, after in pairs(origin)) > 0.9 * LATE * HOST_SECONDS


async def test_a_claim_that_cannot_be_renewed_permits_nothing_and_goes_on_when_it_can(
    database: str, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object) -> NoReturn:
        raise DatabaseUnavailableError("it does not answer")

    # Such long requests that the claim is not over in the database meanwhile: the other node might have it first then.
    async with two_nodes(database, origin, total_seconds=60.0) as (a, b, there):
        name = host_of(await url_of(b, there))
        had = await reserve(a.running, name)
        assert had is not None
        before = requests_to(origin, name)
        with monkeypatch.context() as patch:
            patch.setattr(SharedHostStore, "turn", unavailable)
            await until(lambda: not shared_of(a.running).may_write(name))
            assert await reserve(b.running, name, WAIT_SECONDS) is None, "no claim can be had: the request is put off"
            assert shared_of(b.running).wait_of(name) >= 5.0
        await until(lambda: shared_of(a.running).may_write(name))
        assert requests_to(origin, name) == before
        leave(a.running, name, had)
        await until(lambda: requests_to(origin, name) > before + 1)


async def test_a_host_that_a_dead_node_had_is_asked_when_nothing_of_it_can_be_under_way(
    database: str, origin: Origin
) -> None:
    async with node("b", database) as b:
        async with node("a", database, kill=True) as a:
            await shared_out(set(), a, b)
            ids = await add_pages(b, origin)
            await shared_out(ids, a, b)
            site = min(sites_of(b))
            name = host_of((await b.store.sites.get(site)).spec.url)
            assert await reserve(a, name) is not None
            before, began = requests_to(origin, name), time.monotonic()
        await until(lambda: sites_of(b) == ids)
        await until(lambda: requests_to(origin, name) > before + 1)
        gap = next(hit.at for hit in origin.log if hit.host == name and hit.at > began) - began
        assert gap > 1.0, "a request of the dead node may take so long"
        assert gap < 25.0
    check_hosts(origin)


async def test_a_shared_host_keeps_its_interval_when_its_partition_changes_hands(database: str, origin: Origin) -> None:
    async with node("a", database) as a:
        ids = await add_pages(a, origin)
        moved(origin)
        for _ in range(2):
            async with node("b", database) as b:
                await shared_out(ids, a, b)
                before = len(origin.hits())
                await until(lambda before=before: len(origin.hits()) > before + 6 * HOSTS)  # type: ignore[misc]
                assert await shared_rows(database)
                await every_host_polled(origin)
            await until(lambda: sites_of(a) == ids)
            await every_host_polled(origin)
    assert min(after.at - before.at for before, after in pairs(origin)) > 0.9 * LATE * HOST_SECONDS
    assert origin.most_concurrent == 1


async def test_polls_go_on_when_claims_fail_for_a_while(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin, total_seconds=20.0) as (a, b, _):
        moved(origin)
        await until(lambda: len(origin.hits("/p2")) > 2 * HOSTS)
        name = database.rpartition("/")[2]
        for _ in range(6):
            await asyncio.sleep(1.0)
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE application_name = 'pollerd node' AND datname = '{name}'"
            )
        before = sum(len(origin.hits(f"/from{n}")) for n in range(1, HOSTS + 1))
        await until(lambda: sum(len(origin.hits(f"/from{n}")) for n in range(1, HOSTS + 1)) > before + HOSTS)
        await every_host_polled(origin)
        for one in (a, b):
            outcomes = {poll.outcome for site in sites_of(one.running) for poll in await one.running.polls(site)}
            assert not {kind for kind in outcomes if kind.link_suspect or kind is OutcomeKind.DENIED}, outcomes
    assert min(after.at - before.at for before, after in pairs(origin)) > 0.9 * LATE * HOST_SECONDS
    assert origin.most_concurrent == 1


async def test_each_node_keeps_to_robots_txt_of_a_host_that_it_asks(database: str, origin: Origin) -> None:
    origin.robots = Page(body="User-agent: *\nDisallow: /private\nCrawl-delay: 0.6\n")
    async with two_nodes(database, origin, total_seconds=20.0) as (a, b, there):
        url = await url_of(b, there)

        async def denied(_: web.Request) -> web.StreamResponse:
            return web.Response(status=302, headers={"Location": url.rpartition("/")[0] + "/private"})

        own = min(sites_of(a.running))
        origin.pages["/p1"] = Page(handler=denied)
        await a.running.control.sites.poll_now(own)
        await until(lambda: len(origin.hits("/p1")) > HOSTS)
        await every_host_polled(origin)
        assert not origin.hits("/private")
        assert await shared_rows(database)
    assert min(after.at - before.at for before, after in pairs(origin)) > 0.9 * LATE * 0.6


async def test_a_robots_txt_that_leads_to_another_nodes_host_keeps_its_interval(database: str, origin: Origin) -> None:
    async def elsewhere(request: web.Request) -> web.StreamResponse:
        number = int(request.host.partition(":")[0].rpartition(".")[2])
        if number % 2:
            return web.Response(status=404)
        target = origin.url("/robots.txt", host=f"127.0.1.{(number * 3 + 4) % HOSTS + 1}")
        return web.Response(status=302, headers={"Location": target})

    origin.robots = Page(handler=elsewhere)
    async with two_nodes(database, origin, total_seconds=20.0, host_seconds=1.0) as (a, b, _):
        await every_host_polled(origin)
        failures = [int(hosts_of(one.running).robots_failures.max()) for one in (a, b)]
        assert await shared_rows(database)
    assert failures == [0, 0], "that another node asks the host is no failure of it"
    assert min(after.at - before.at for before, after in pairs(origin)) > 0.9 * LATE
    assert origin.most_concurrent == 1
