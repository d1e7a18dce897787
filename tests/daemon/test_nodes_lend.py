"""Redirects to hosts that another node holds: it lends them, and each host keeps its interval."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from aiohttp import web

from pollerd.daemon.nodes.calls import EndLoan, LendHost, LoanAnswer
from pollerd.daemon.nodes.loans import NOT_NOW, RETRY_SECONDS
from pollerd.model import OutcomeKind
from pollerd.partitions import PARTITIONS
from pollerd.scheduling.hosts import HostTable
from pollerd.storage.nodes import ClusterStore
from pollerd.urls import host_of
from tests.daemon.conftest import Running
from tests.daemon.test_nodes import HOSTS, check_hosts, every_host_polled, sites_of
from tests.daemon.test_nodes_answer import Served, two_nodes
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


def cluster_of(node: Served) -> ClusterStore:
    cluster = node.running.store.cluster
    assert cluster is not None
    return cluster


def hosts_of(running: Running) -> HostTable:
    return running.daemon.parts.scheduler.hosts


async def lend(a: Served, b: Served, question: LendHost) -> LoanAnswer:
    """What b answers to a."""
    part = a.running.daemon.parts.cluster
    assert part is not None
    (holder,) = [one for one in await cluster_of(a).others() if one.id == cluster_of(b).node_id]
    return await part.nodes.lend(holder, question)


async def end(a: Served, b: Served, ending: EndLoan) -> None:
    part = a.running.daemon.parts.cluster
    assert part is not None
    (holder,) = await cluster_of(a).others()
    assert holder.id == cluster_of(b).node_id
    await part.nodes.end_loan(holder, ending)


async def url_of(node: Served, site_id: int) -> str:
    site = await node.running.store.sites.get(site_id)
    assert site is not None
    return site.spec.url


def requests_to(origin: Origin, url: str) -> int:
    return sum(hit.host == host_of(url) for hit in origin.log)


async def test_hosts_keep_their_intervals_although_nodes_are_redirected_to_each_others(
    database: str, origin: Origin
) -> None:
    async with two_nodes(database, origin, total_seconds=20.0, host_seconds=1.0) as (a, b, _):
        moved(origin)
        await until(lambda: all(origin.hits(f"/from{n}") for n in range(1, HOSTS + 1)))
        before = len(origin.hits())
        await until(lambda: len(origin.hits()) > before + 10 * HOSTS, 120.0)
        await every_host_polled(origin)
        for node in (a, b):
            assert node.running.metric("pollerd_cluster_requests_total") > HOSTS / 4
            assert node.running.metric("pollerd_cluster_request_failures_total") == 0
    check_hosts(origin, LATE * 1.0)
    assert origin.most_concurrent == 1, "a lent host is asked by nobody else"


async def test_a_redirect_to_a_holder_that_cannot_be_reached_is_put_off(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin, address=False, total_seconds=20.0) as (a, b, _):
        moved(origin)
        await until(lambda: len(origin.hits("/p2")) > HOSTS)
        await until(lambda: a.running.metric("pollerd_cluster_request_failures_total") > 2)
        await until(lambda: a.running.metric("pollerd_polls_total", outcome=OutcomeKind.THROTTLED.value) > 0)
        await every_host_polled(origin)
        outcomes = {poll.outcome for site in sites_of(a.running) for poll in await a.running.polls(site)}
        assert OutcomeKind.THROTTLED in outcomes
        assert not {one for one in outcomes if one.link_suspect or one is OutcomeKind.DENIED}
        hosts = hosts_of(a.running)
        assert not hosts.throttles[: hosts.size].any(), "no host is to blame"
        assert sites_of(b.running)
    check_hosts(origin)


async def test_a_lent_host_is_asked_by_nobody_else_until_it_is_given_back(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin) as (a, b, there):
        url = await url_of(b, there)
        hosts, name = hosts_of(b.running), host_of(url)
        slot = hosts.slot_of(name)
        assert slot is not None
        answer = await lend(a, b, LendHost(1, url, 60.0))
        assert (answer.lent, answer.interval) == (True, 0.3)
        before = requests_to(origin, url)
        assert await lend(a, b, LendHost(2, url, 60.0)) != answer, "it waits, and is put off"
        assert requests_to(origin, url) == before
        await end(a, b, EndLoan(1, {name: 0.0}, name, 429, 50.0))
        assert hosts.paused_until[slot] > b.running.daemon.parts.runtime.clock() + 40.0, "it refused: so it is paused"
        put_off = (await lend(a, b, LendHost(3, url, 60.0))).put_off
        assert put_off is not None
        assert 30.0 < put_off <= 50.0
        assert requests_to(origin, url) == before


async def test_a_loan_that_is_not_given_back_lapses(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin) as (a, b, there):
        url = await url_of(b, there)
        assert (await lend(a, b, LendHost(1, url, 0.0))).lent
        before = requests_to(origin, url)
        await asyncio.sleep(8.0)
        assert requests_to(origin, url) == before
        await until(lambda: requests_to(origin, url) > before + 1)


async def test_the_holders_robots_txt_decides(database: str, origin: Origin) -> None:
    origin.robots = Page(body="User-agent: *\nDisallow: /private\nCrawl-delay: 0.5\n")
    async with two_nodes(database, origin) as (a, b, there):
        url = await url_of(b, there)
        private = url.rpartition("/")[0] + "/private"
        assert await lend(a, b, LendHost(1, private, 60.0)) == LoanAnswer(False)
        assert await lend(a, b, LendHost(2, private, 60.0, robots=True)) == LoanAnswer(True, interval=0.5)
        await end(a, b, EndLoan(2))


async def test_a_host_without_sites_is_lent_by_the_holder_of_its_partition(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin) as (a, b, _):
        names = [f"127.0.9.{n}" for n in range(1, 60)]
        url, other = "", ""
        for name in names:
            one = origin.url("/p1", host=name)
            here = await cluster_of(b).partition_of_host(host_of(one)) in cluster_of(b).held
            url, other = (one, other) if here else (url, one)
        assert await lend(a, b, LendHost(1, other, 60.0)) == LoanAnswer(False, RETRY_SECONDS)
        for number in (2, 3):
            assert (await lend(a, b, LendHost(number, url, 60.0))).lent
            slot = hosts_of(b.running).slot_of(host_of(url))
            assert slot is not None
            started = float(hosts_of(b.running).last_start[slot])
            await end(a, b, EndLoan(number))
            assert hosts_of(b.running).ready_at_of(slot) == started + 0.3


async def test_who_takes_a_partition_over_waits_for_requests_to_hosts_that_are_lent(
    database: str, origin: Origin, capsys: pytest.CaptureFixture[str]
) -> None:
    async with two_nodes(database, origin, total_seconds=20.0) as (a, b, there):
        assert (await lend(a, b, LendHost(1, await url_of(b, there), 60.0))).lent
        taken = a.running.metric("pollerd_cluster_partitions_taken_total")
        capsys.readouterr()
        b.running.daemon.stop()
        await until(lambda: a.running.metric("pollerd_cluster_partitions_taken_total") == taken + PARTITIONS // 2)
        lines = [line for line in capsys.readouterr().out.splitlines() if "partitions_taken" in line]
        assert sum("of_dead_nodes=1" in line for line in lines) == 1, lines


async def test_a_node_that_ends_answers_who_waits_for_a_host(
    database: str, origin: Origin, capsys: pytest.CaptureFixture[str]
) -> None:
    async with two_nodes(database, origin) as (a, b, there):
        url = await url_of(b, there)
        assert (await lend(a, b, LendHost(1, url, 60.0))).lent
        waiting = asyncio.create_task(lend(a, b, LendHost(2, url, 60.0)))
        await asyncio.sleep(0.5)
        b.running.daemon.stop()
        assert await waiting == NOT_NOW
    assert "Traceback" not in capsys.readouterr().out


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
        asked = [one.running.metric("pollerd_cluster_requests_total") for one in (a, b)]
        failures = [int(hosts_of(one.running).robots_failures.max()) for one in (a, b)]
    assert sum(asked) > 0
    assert failures == [0, 0], "what no node lends yet is no failure of the host"
    gaps = [after.at - before.at for before, after in pairs(origin)]
    assert min(gaps) > 0.9 * LATE
    assert origin.most_concurrent == 1


def pairs(origin: Origin) -> list[tuple[Hit, Hit]]:
    """Each two requests in a row to one host, robots.txt included."""
    hits = sorted(origin.log, key=lambda hit: (hit.host, hit.at))
    return [(one, two) for one, two in itertools.pairwise(hits) if one.host == two.host]
