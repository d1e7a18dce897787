"""Allocator, objective and shadows of all nodes: set at any of them; what nodes cannot divide is refused."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

import pytest

from pollerd.app.config import load
from pollerd.app.serve import serve
from pollerd.daemon.budget import BudgetMeter
from pollerd.daemon.control.allocation import check_split
from pollerd.daemon.control.control import Control
from pollerd.daemon.nodes.followers import SpendingLimit
from pollerd.daemon.nodes.membership import join
from pollerd.daemon.settings import DaemonSettings
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.storage.grants import SharedAllocation
from pollerd.storage.node_values import NodeInfo
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import AllocationRow
from tests.daemon.conftest import Running
from tests.daemon.test_nodes import add_pages, node, shared_out, sites_of
from tests.support.origin import Origin, until, until_found
from tests.support.postgres import postgres_database

UNSPLIT = ["htraa", "lakg", "gpoks", "lspe"]
UNIFORM = DaemonSettings(allocator="uniform", budget=5.0)


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


@pytest.fixture
async def stores(database: str) -> AsyncIterator[list[Store]]:
    """Two nodes' stores; nobody has joined yet."""
    async with AsyncExitStack() as stack:
        opened = []
        for name in ("a", "b"):
            info = NodeInfo(name=name, version="1")
            opened.append(await Store.open(database, settings=StorageSettings(), node=info))
            stack.push_async_callback(opened[-1].close)
        yield opened


def shared(store: Store) -> SharedAllocation:
    assert store.shared is not None
    return store.shared


def has(running: Running, allocator: str, objective: str) -> bool:
    scheduler = running.daemon.parts.scheduler
    return (scheduler.allocator_name, scheduler.objective) == (allocator, objective)


async def test_what_is_set_at_one_node_all_have(database: str, origin: Origin) -> None:
    async with node("a", database) as a, node("b", database) as b:
        ids = await add_pages(a, origin)
        await shared_out(ids, a, b)
        theirs = min(sites_of(b))
        await a.polled(theirs, 3)
        await b.control.allocation.set(allocator="whittle", objective="freshness", shadows=["uniform"])
        assert has(b, "whittle", "freshness")
        assert b.daemon.parts.shadows.names() == ("uniform",)
        await until(lambda: has(a, "whittle", "freshness") and a.daemon.parts.shadows.names() == ("uniform",))
        learned = await a.store.sites.schedule.learned_of("whittle", sorted(ids))
        assert {site_id for site_id, _ in learned} == ids, "each node stored what its candidate learned of its sites"
        await a.polled(theirs, len(await a.polls(theirs)) + 2)
        async with node("c", database) as c:
            assert has(c, "whittle", "freshness"), "whatever it was started with"
            await until(lambda: c.daemon.parts.shadows.names() == ("uniform",))
        await a.control.allocation.set(allocator="uniform")
        await until(lambda: has(b, "uniform", "freshness") and not b.daemon.parts.shadows.names())


async def test_a_deadline_reaches_all_nodes_and_those_learn_anew_only_where_it_counts(
    database: str, origin: Origin
) -> None:
    async with node("a", database) as a, node("b", database) as b:
        ids = await add_pages(a, origin)
        await shared_out(ids, a, b)
        before = [one.daemon.parts.scheduler.allocator for one in (a, b)]
        await a.control.allocation.set(deadline=300.0)
        await until(lambda: [one.control.allocation.view().deadline for one in (a, b)] == [300.0, 300.0])
        assert [one.daemon.parts.scheduler.allocator for one in (a, b)] == before, "no site's time counts"
        await b.control.allocation.set(objective="deadline")
        await until(lambda: has(a, "uniform", "deadline"))
        before = [one.daemon.parts.scheduler.allocator for one in (a, b)]
        await b.control.allocation.set(deadline=60.0)
        await until(lambda: a.control.allocation.view().deadline == 60.0)
        assert all(one.daemon.parts.scheduler.allocator not in before for one in (a, b))


@pytest.mark.parametrize("allocator", UNSPLIT)
async def test_what_nodes_cannot_divide_is_refused_by_name_with_the_way_to_go(
    stores: list[Store], allocator: str
) -> None:
    a, b = map(shared, stores)
    with pytest.raises(ConfigError, match=rf"allocator: {allocator} .*without --node, or .* --allocator whittle"):
        await join(a, replace(UNIFORM, allocator=allocator), ["allocator"])
    with pytest.raises(ConfigError, match=f"shadow: {allocator} .*without --node"):
        await join(a, replace(UNIFORM, shadows=(allocator,)), ["shadows"])
    assert (await join(a, UNIFORM, ())).allocator == "uniform"
    for _ in range(2):  # a node that is there alone, and one beside another
        with pytest.raises(InvalidValueError, match=f"where pollerd runs with --node.*given: '{allocator}'"):
            await a.change(lambda _: AllocationRow(allocator, "changes", 5.0), check_split)
        with pytest.raises(InvalidValueError, match="shadows"):
            await a.change(lambda _: AllocationRow("uniform", "changes", 5.0, shadows=(allocator,)), check_split)
        await join(b, UNIFORM, ())
    assert await b.stored() == AllocationRow("uniform", "changes", 5.0, deadline=UNIFORM.deadline)


async def test_nodes_that_join_and_change_at_once_agree(stores: list[Store]) -> None:
    a, b = map(shared, stores)
    await join(a, UNIFORM, ())
    change = a.change(lambda _: AllocationRow("whittle", "changes", 7.0), check_split)
    joined, changed = await asyncio.gather(join(b, UNIFORM, ()), change)
    assert changed.allocator == "whittle"
    assert joined.allocator in ("uniform", "whittle")
    assert await b.stored() == changed


async def test_the_first_node_sets_what_was_chosen_for_it_and_a_later_one_does_not(stores: list[Store]) -> None:
    a, b = map(shared, stores)
    await join(a, UNIFORM, ())
    await stores[0].close()
    chosen = DaemonSettings(allocator="whittle", budget=9.0)
    assert await join(b, chosen, ["budget"]) == DaemonSettings(allocator="uniform", budget=9.0)
    assert await b.stored() == AllocationRow("uniform", "changes", 9.0, deadline=chosen.deadline)


@pytest.mark.parametrize(
    ("allocator", "chosen", "shadows"),
    [
        ("uniform", (), ("estimator", "whittle")),
        ("whittle", ("allocator",), ("estimator",)),
        ("uniform", ("shadows",), ()),
    ],
)
async def test_the_first_node_has_the_shadows_that_are_stored_unless_others_were_chosen(
    stores: list[Store], allocator: str, chosen: tuple[str, ...], shadows: tuple[str, ...]
) -> None:
    a, b = map(shared, stores)
    await join(a, UNIFORM, ())
    await a.change(lambda _: AllocationRow("uniform", "changes", 5.0, shadows=("estimator", "whittle")), check_split)
    await stores[0].close()
    await join(b, DaemonSettings(allocator=allocator, budget=5.0), chosen)
    row = await b.stored()
    assert row is not None
    assert (row.allocator, row.shadows) == (allocator, shadows)


async def test_a_node_without_state_in_common_begins_with_that_of_another(database: str, origin: Origin) -> None:
    async with node("a", database, allocator="whittle") as a:
        await a.polled(min(await add_pages(a, origin)), 2)
    async with node("b", database, allocator="whittle") as b:
        assert b.store.cluster is not None
        assert await b.store.cluster.load_common("whittle")
        assert await b.store.cluster.load_common("uniform") is None


async def test_what_a_daemon_alone_had_is_refused_when_it_becomes_a_node_and_its_shadows_are_left_out(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {"database": database, "listen": "127.0.0.1:0", "no_wait": True}

    async def watch(control: Control) -> None:
        seen.append(control.allocation.view().allocator)

    seen: list[str] = []
    alone = {"allocator": "htraa", "shadow": ["lakg", "uniform"]}
    await asyncio.wait_for(serve(load({**flags, **alone}, environ={}), watch), 60)
    with pytest.raises(ConfigError, match="allocator: htraa keeps one state over all sites"):
        await asyncio.wait_for(serve(load({**flags, "node": "a"}, environ={}), watch), 60)
    given = {"node": "a", "allocator": "whittle", "node_address": "http://a:8080"}
    await asyncio.wait_for(serve(load({**flags, **given}, environ={}), watch), 60)
    assert seen == ["htraa", "whittle"]
    said = capsys.readouterr().out
    assert "shadows_skipped" in said
    assert "setting_without_effect" in said


async def test_the_first_node_changes_what_nodes_shared_before(database: str) -> None:
    async def agreed(control: Control, wanted: tuple[float, float]) -> None:
        async def is_agreed() -> bool:
            budget = (await control.cluster.view()).budget
            return (budget, control.allocation.view().deadline) == wanted

        await until_found(is_agreed)

    flags = {"database": database, "node": "a", "listen": "127.0.0.1:0"}
    for given, wanted in (
        ({"budget": 3.0, "deadline": 900.0}, (3.0, 900.0)),
        ({"budget": 8.0}, (8.0, 900.0)),
        ({"deadline": 60.0}, (8.0, 60.0)),
        ({}, (8.0, 60.0)),
    ):
        watch = partial(agreed, wanted=wanted)
        await asyncio.wait_for(serve(load({**flags, **given}, environ={}), watch), 60)


def limited(share_spent: float, seconds: float, limit: SpendingLimit, grant: float, begin: float = 0.0) -> float:
    """What a node can spend after so long, in which it spent this share of what it was given; of 40 polls/s."""
    lost, now = LOST.get(limit, 0.0), begin
    while now < begin + seconds:
        now += 3.0
        lost += 3.0 * (1 - share_spent)
        limit.look(now, lost, min(grant, limit.able), 40.0)
    LOST[limit] = lost
    return limit.able


LOST: dict[SpendingLimit, float] = {}


def test_a_grant_that_is_not_spent_shrinks_within_a_minute_and_grows_again_while_all_of_it_is_spent() -> None:
    limit = SpendingLimit(0.0)
    assert limited(0.97, 120.0, limit, 20.0) == math.inf, "who spends what it is given is given what it is worth"
    assert limited(0.9, 12.0, limit, 20.0, 120.0) == pytest.approx(20.0 * 0.9**2)
    assert limited(0.1, 12.0, limit, 20.0, 132.0) == pytest.approx(10.0 * 0.9**2), "not at once to nothing"
    assert limited(0.0, 300.0, limit, 20.0, 144.0) == 0.4, "always enough to show that it could spend more"
    assert limited(1.0, 15.0, limit, 20.0, 444.0) < 0.5, "a little more first"
    assert limited(1.0, 75.0, limit, 20.0, 459.0) == math.inf


def test_a_time_in_which_nothing_might_be_polled_shows_nothing() -> None:
    limit = SpendingLimit(0.0)
    for now in range(3, 300, 3):
        assert limit.pass_over(now, float(now)) == math.inf
    assert limit.look(303.0, 297.0, 20.0, 40.0) == math.inf


def test_what_a_slow_node_can_spend_is_found() -> None:
    """It can spend 3 polls/s, and is given up to 20."""
    limit, lost = SpendingLimit(0.0), 0.0
    for turn in range(1, 200):
        grant = min(limit.able, 20.0)
        lost += 3.0 * max(1 - 3.0 / grant, 0.0)
        limit.look(3.0 * turn, lost, grant, 40.0)
        if turn >= 20:
            assert 2.0 <= limit.able <= 3.6


async def test_time_in_which_nothing_was_due_does_not_count_as_slow() -> None:
    meter = BudgetMeter()
    with meter.idle(nothing_due=True):
        await asyncio.sleep(0.2)
        assert meter.idle_seconds() >= 0.2
    before = meter.idle_seconds()
    with meter.idle(nothing_due=False):
        await asyncio.sleep(0.1)
    assert meter.idle_seconds() == before
