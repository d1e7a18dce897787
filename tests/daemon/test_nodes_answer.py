"""What only the holder of a site knows is asked of it; each node shows its own figures."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.api.application import create_api
from pollerd.api.server import ApiServer
from pollerd.api.settings import ApiSettings
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.daemon.nodes import questions
from pollerd.daemon.settings import DaemonSettings
from pollerd.errors import HolderUnavailableError
from pollerd.fetching.settings import FetchSettings
from pollerd.storage.node_questions import NodeQuestionStore
from pollerd.storage.node_values import NodeInfo
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.telemetry import Instruments
from tests.api.conftest import listening
from tests.daemon.conftest import Running, steady_clock
from tests.daemon.test_nodes import _SETTINGS, HOST_SECONDS, add_pages, shared_out, sites_of
from tests.storage.samples import query
from tests.support.origin import Origin, until_found
from tests.support.postgres import postgres_database


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


@dataclass(frozen=True)
class Served:
    """A node with its API."""

    running: Running
    root: str
    session: aiohttp.ClientSession

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(f"{self.root}/api/v1{path}") as response:
            return response.status, await response.json(content_type=None)


@contextlib.asynccontextmanager
async def served_node(
    name: str, url: str, *, total_seconds: float = 1.0, host_seconds: float = HOST_SECONDS
) -> AsyncIterator[Served]:
    """A node under way, and its API.

    total_seconds: a poll's deadline; host_seconds: the interval of each host.
    """
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(listening())
        root = f"http://127.0.0.1:{listener.getsockname()[1]}"
        info = NodeInfo(name=name, version="1")
        store = await Store.open(url, settings=StorageSettings(), node=info)
        stack.push_async_callback(store.close)
        live = LiveSettings(
            daemon=DaemonSettings(budget=30.0, allocator="whittle", flush_seconds=0.05, gather_seconds=0.05),
            scheduling=replace(_SETTINGS, host_interval_seconds=host_seconds),
            fetching=FetchSettings(allow_private=True, total_timeout_seconds=total_seconds),
        )
        registry = CollectorRegistry()
        made = live_daemon(store, live, Instruments(registry, "1"), np.random.default_rng(1), make_clock=steady_clock)
        daemon = await stack.enter_async_context(made)
        server = ApiServer(create_api(daemon.control, store, registry, ApiSettings(), "1"), drain_seconds=1)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        running = Running(daemon, store, registry, asyncio.create_task(daemon.run()))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        try:
            yield Served(running, root, session)
        finally:
            server.should_exit = True
            await serving
            daemon.stop()
            await running.task


@contextlib.asynccontextmanager
async def two_nodes(
    url: str,
    origin: Origin,
    *,
    total_seconds: float = 1.0,
    host_seconds: float = HOST_SECONDS,
) -> AsyncIterator[tuple[Served, Served, int]]:
    """Two nodes, and a site that the second one holds."""
    async with (
        served_node("a", url, total_seconds=total_seconds, host_seconds=host_seconds) as a,
        served_node("b", url, total_seconds=total_seconds, host_seconds=host_seconds) as b,
    ):
        await shared_out(set(), a.running, b.running)
        ids = await add_pages(a.running, origin)
        await shared_out(ids, a.running, b.running)
        there = min(sites_of(b.running))
        await a.running.polled(there, 2)
        yield a, b, there


async def test_any_node_shows_what_the_holder_knows(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin) as (a, b, there):
        status, at_a = await a.get(f"/sites/{there}/explain")
        assert status == 200, at_a
        assert (status, at_a["site_id"], at_a["allocator"]) == (200, there, "whittle")
        _, at_b = await b.get(f"/sites/{there}/explain")
        assert at_a.keys() == at_b.keys()
        assert at_a["origins"] == at_b["origins"]
        assert at_a["rate_per_day"] is not None
        _, shown = await a.get(f"/sites/{there}")
        assert shown["rate_per_day"] is not None
        assert (await a.get("/sites/999999/explain"))[0] == 404
        assert a.running.metric("pollerd_cluster_requests_total") >= 2
        assert a.running.metric("pollerd_cluster_request_failures_total") == 0
        assert await query(database, "SELECT * FROM node_question") == [], "what was answered is gone"


async def test_each_node_shows_its_own_figures_and_any_node_the_budget_of_all(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin) as (a, b, _):
        for one in (a, b):
            status, shown = await one.get("/allocation")
            assert status == 200, shown
            assert shown["sites"] == len(sites_of(one.running))

        async def granted() -> bool:
            _, cluster = await a.get("/cluster")
            grants = [node["grant"] for node in cluster["nodes"]]
            assert cluster["budget"] == 30.0
            return None not in grants and sum(grants) == pytest.approx(30.0, rel=1e-6)

        await until_found(granted)
        _, shown = await a.get("/allocation")
        assert shown["budget"] < 30.0, "its share"
        assert shown["benefit_curve"]
        for one in (a, b):
            polls, health = await live(one)
            assert polls <= sites_of(one.running)
            assert health["sites"] == len(sites_of(one.running))


async def live(one: Served) -> tuple[set[int], dict[str, Any]]:
    """Returns the sites whose polls a node's event stream shows, and what it says of its health."""
    seen, health = set[int](), dict[str, Any]()
    async with asyncio.timeout(60), one.session.get(f"{one.root}/api/v1/events?types=polls,health") as stream:
        kind = ""
        async for line in stream.content:
            text = line.decode().strip()
            kind = text.removeprefix("event: ") if text.startswith("event: ") else kind
            if text.startswith("data: ") and kind == "polls":
                seen |= {poll[0] for poll in json.loads(text.removeprefix("data: "))["polls"]}
            elif text.startswith("data: ") and kind == "health":
                health = json.loads(text.removeprefix("data: "))
            if len(seen) > 2 and health:
                break
    return seen, health


async def test_a_list_shows_sites_of_all_nodes_and_asks_none(database: str, origin: Origin) -> None:
    async with two_nodes(database, origin) as (a, b, there):
        await a.running.polled(there, 4)
        asked = a.running.metric("pollerd_cluster_requests_total")
        _, listed = await a.get("/sites?limit=1000")
        shown = {site["id"]: site for site in listed["items"]}
        assert shown.keys() == sites_of(a.running) | sites_of(b.running)
        assert (listed["total"], listed["total_is_exact"]) == (len(shown), True)
        assert shown[there]["rate_per_day"] is not None
        assert shown[there]["next_poll_at"] is not None
        _, at_b = await b.get("/sites?limit=1000")
        (of_b,) = [site for site in at_b["items"] if site["id"] == there]
        stored = (await a.running.store.sites.stored_forecasts([there]))[there].rate_per_day
        assert stored == pytest.approx(of_b["rate_per_day"], rel=0.5), "as it was with one of the last polls"
        assert a.running.metric("pollerd_cluster_requests_total") == asked
        await b.running.control.sites.pause(there, True)
        _, listed = await a.get("/sites?limit=1000")
        (paused,) = [site for site in listed["items"] if site["id"] == there]
        assert (paused["state"], paused["next_poll_at"]) == ("paused", None)


async def test_a_holder_that_gives_no_answer_is_said(
    database: str, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hears_nothing(*_: object) -> list[tuple[int, bytes]]:
        return []

    async with two_nodes(database, origin) as (a, _, there):
        monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.5)
        monkeypatch.setattr(NodeQuestionStore, "asked_of", hears_nothing)
        async with a.session.get(f"{a.root}/api/v1/sites/{there}/explain") as response:
            problem = await response.json(content_type=None)
            assert (response.status, response.headers["Retry-After"]) == (503, "5"), problem
            assert problem["type"] == "urn:pollerd:problem:holder-unavailable"
            assert "node b, which polls the site, gave no answer within 0.5 s" in problem["detail"]
        status, shown = await a.get(f"/sites/{there}")
        assert (status, shown["rate_per_day"] is None, shown["polls"] >= 2) == (200, False, True), "as it is stored"
        assert a.running.metric("pollerd_cluster_request_failures_total") == 2
        assert await query(database, "SELECT * FROM node_question") == []


async def test_an_answer_that_cannot_be_given_says_why(
    database: str, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(database, origin) as (a, b, there):

        async def said() -> str:
            with pytest.raises(HolderUnavailableError) as caught:
                await a.running.control.sites.explain(there)
            return str(caught.value)

        with monkeypatch.context() as patch:
            patch.setattr(questions, "MAX_BYTES", 10)
            assert await said() == "node b: its answer has more than 10 bytes"
        store, cluster = NodeQuestionStore(database=a.running.store.database), b.running.store.cluster
        assert cluster is not None
        for question, reason in (
            (questions.encoded(questions.ExplainSite(min(sites_of(a.running)))), b"it does not poll site"),
            (questions.encoded(questions.ShowSite(999_999)), b"it does not poll site"),
            (b"?", b"its version does not know this question"),
        ):
            number = await store.ask(cluster.node_id, question)
            await asyncio.sleep(1.0)
            assert reason in (await store.take(number) or b"")
