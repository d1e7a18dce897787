"""Several nodes on one PostgreSQL database: who is here, who holds what, and who may commit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial

import pytest
from sqlalchemy import text

from pollerd.errors import ConfigError, DatabaseInUseError, DatabaseUnavailableError, InvalidValueError, SchemaError
from pollerd.partitions import NodeRole, partition_of
from pollerd.storage import migrate, node_session
from pollerd.storage.node_news import News, NewsTable
from pollerd.storage.node_questions import NodeQuestionStore
from pollerd.storage.node_values import LivingNode, NodeInfo
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, HostUpdate
from tests.storage.samples import add, hosts_of, query, record
from tests.support import postgres
from tests.support.origin import until, until_found

Join = Callable[[str], Awaitable[Store]]


@pytest.fixture
async def join(postgres_url: str) -> AsyncIterator[Join]:
    """Opens the database as a node of this name."""
    async with AsyncExitStack() as stack:

        async def opened(name: str) -> Store:
            info = NodeInfo(name=name, version="1")
            store = await Store.open(postgres_url, settings=StorageSettings(busy_timeout_seconds=1), node=info)
            stack.push_async_callback(store.close)
            return store

        yield opened


def cluster(store: Store) -> ClusterStore:
    assert store.cluster is not None
    return store.cluster


async def test_the_lock_table_says_who_is_here_and_holds_what(join: Join) -> None:
    a, b = await join("a"), await join("b")
    assert await cluster(a).prepare() == await cluster(b).prepare() == 64
    role = NodeRole.DELIVERY.unit
    assert [one.unit for one in await cluster(a).take([0, 1, role], 5.0)] == [0, 1, role]
    assert [one.unit for one in await cluster(b).take([1, 2], 5.0)] == [2]
    table = await cluster(b).look()
    assert table.nodes == {cluster(a).node_id, cluster(b).node_id}
    assert table.held_by(cluster(a).node_id) == [role, 0, 1]
    assert table.held_by(cluster(b).node_id) == [2]
    living = await cluster(b).living(sorted(table.nodes))
    assert [one.name for one in living] == ["a", "b"]
    await cluster(a).release([1])
    assert cluster(a).held == {0, role}
    taken = await cluster(b).take([1], 6.0)
    assert [(one.unit, one.after_death) for one in taken] == [(1, False)]
    await cluster(b).release([1, 2], unsettled={2: 5.0})
    taken = await cluster(a).take([1, 2], 7.0)
    assert [(one.unit, one.after_death) for one in taken] == [(1, False), (2, True)]
    assert taken[0].noticed_ago == 0.0
    assert 5.0 <= taken[1].noticed_ago < 60.0


async def test_what_a_dead_node_held_is_free_and_said_to_be_after_a_death(join: Join, postgres_url: str) -> None:
    a, b = await join("a"), await join("b")
    await cluster(a).prepare()
    await cluster(a).take([3, 4], 5.0)
    dead = cluster(a).node_id
    await a.close()

    async def is_gone() -> bool:
        return dead not in (await cluster(b).look()).nodes

    await until_found(is_gone)
    assert [(one.unit, one.after_death) for one in await cluster(b).take([3, 4], 6.0)] == [(3, True), (4, True)]
    await cluster(b).forget_dead()
    assert await cluster(b).starts() == {"a": 1, "b": 1}, "starts are counted for an hour"
    await query(postgres_url, "UPDATE node SET started_at = started_at - 3601")
    await cluster(b).forget_dead()
    assert await cluster(b).starts() == {}
    assert [one.name for one in await cluster(b).living([dead, cluster(b).node_id])] == ["b"]


async def test_connections_of_the_server_are_counted(join: Join) -> None:
    a = await join("a")
    before = await cluster(a).connections()
    assert 0 < before.open < before.most < 10_000
    more = [await join(name) for name in "bcd"]
    assert len((await cluster(a).look()).nodes) == len(more) + 1

    async def counted() -> bool:
        return (await cluster(a).connections()).open >= before.open + len(more)

    await until_found(counted)


async def test_a_node_that_joins_while_another_tidies_up_stays_known(join: Join) -> None:
    """Otherwise nobody would know its name before it is started again."""
    a = await join("a")
    tidying = asyncio.Event()

    async def tidy() -> None:
        while not tidying.is_set():
            await cluster(a).forget_dead()
            await asyncio.sleep(0)

    task = asyncio.create_task(tidy())
    ids = [cluster(await join(f"b{n}")).node_id for n in range(8)]
    tidying.set()
    await task
    assert [one.id for one in await cluster(a).living(ids)] == ids


async def test_a_node_that_was_taken_for_dead_is_known_again_once_it_is_back(join: Join, postgres_url: str) -> None:
    a, b = await join("a"), await join("b")
    await query(postgres_url, "DELETE FROM node WHERE name = 'b'")
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pollerd node'"
        f" AND datname = '{postgres_url.rpartition('/')[2]}'"
    )

    async def found() -> Sequence[LivingNode]:
        for store in (a, b):
            with suppress(DatabaseUnavailableError):
                await cluster(store).look()
        return await cluster(a).living([cluster(b).node_id])

    assert [one.name for one in await until_found(found)] == ["b"]


async def _committed(store: Store, site: int, at: float) -> int:
    """Returns how many polls of the batch were left out."""
    contexts = await store.sites.contexts([site])
    return len((await store.commit(Batch([record(contexts[site], at, b"x%d" % at)]))).skipped)


async def test_who_lost_a_partition_cannot_commit_for_it(join: Join, postgres_url: str) -> None:
    a, b = await join("a"), await join("b")
    await cluster(a).prepare()
    site, other = await add(a, 2)
    partitions = await cluster(a).partitions_of_sites([site, other])
    assert partitions == {site: partition_of("h0:80", 64), other: partition_of("h1:80", 64)}
    mine = partitions[site]
    await cluster(a).take([mine], 5.0)
    assert (await _committed(a, site, 10.0), await _committed(a, other, 10.0)) == (0, 1)
    (host,) = [one for one in await hosts_of(a) if one.name == "h0:80"]
    # The server ends the session, and another node is quicker than the old one.
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pollerd node'"
        f" AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = {mine} AND objsubid = 2)"
        f" AND datname = '{postgres_url.rpartition('/')[2]}'"
    )
    taken = await until_found(lambda: cluster(b).take([mine], 6.0))
    assert [one.after_death for one in taken] == [True]
    with suppress(DatabaseUnavailableError):  # a driver that has noticed connects anew at once
        assert await _committed(a, site, 20.0) == 1
    assert await _committed(a, site, 20.0) == 1, "its new session does not hold the partition"
    assert cluster(a).held == frozenset()
    late = HostUpdate(host.id, 99.0, None, 0, None)
    await a.commit(Batch([], hosts=[late]))
    assert [one.last_start_at for one in await hosts_of(b) if one.id == host.id] == [None]
    assert await _committed(b, site, 30.0) == 0
    assert len((await b.history.list_polls(site)).items) == 2


async def test_a_session_that_comes_back_first_holds_what_it_held(join: Join, postgres_url: str) -> None:
    a, b = await join("a"), await join("b")
    await cluster(a).prepare()
    await cluster(a).take([1, 2, 3], 5.0)
    await a.database.write(lambda c: c.execute(text("UPDATE holding SET node_id = 0 WHERE unit = 2")))
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pollerd node'"
        f" AND datname = '{postgres_url.rpartition('/')[2]}'"
    )
    await until(lambda: not any(cluster(store).may_write() for store in (a, b)))
    for store in (a, b):
        with suppress(DatabaseUnavailableError):
            await cluster(store).look()
    assert (await cluster(a).look()).held_by(cluster(a).node_id) == [1, 3]
    assert cluster(a).held == {1, 3}, "unit 2 was another's meanwhile"
    assert cluster(a).lost == {2}
    assert not cluster(a).may_write(), "sites of unit 2 may still be polled"
    cluster(a).dropped({2})
    assert cluster(a).may_write()


async def test_a_daemon_alone_and_nodes_keep_each_other_out(join: Join, postgres_url: str) -> None:
    first = await join("a")
    with pytest.raises(DatabaseInUseError):
        await Store.open(postgres_url)
    await first.close()
    alone = await Store.open(postgres_url)
    with pytest.raises(DatabaseInUseError, match="runs alone"):
        await join("b")
    await alone.close()


async def test_sqlite_is_refused_by_name(sqlite_url: str) -> None:
    with pytest.raises(InvalidValueError, match="PostgreSQL"):
        await Store.open(sqlite_url, node=NodeInfo(name="a", version="1"))


async def test_two_nodes_that_add_the_same_sites_at_once_add_each_once(join: Join) -> None:
    a, b = await join("a"), await join("b")
    await cluster(a).prepare()
    added = await asyncio.gather(*(add(store, 60, hosts=20) for store in (a, b)))
    assert sorted(map(len, added)) == [0, 60]
    assert await b.sites.count() == 60
    assert len(query_partitions := await cluster(b).partitions_of_sites(added[0] + added[1])) == 60
    assert set(query_partitions.values()) <= set(range(64))


async def test_contents_of_a_partition_are_its_hosts_with_their_sites(join: Join) -> None:
    a = await join("a")
    sites = await add(a, 400, hosts=100)
    await cluster(a).prepare()
    found: dict[int, list[int]] = {}
    for partition in range(64):
        async for hosts, ids in cluster(a).contents(partition):
            assert {partition_of(host.name, 64) for host in hosts} == {partition}
            found.setdefault(partition, []).extend(ids)
    assert sorted(site for ids in found.values() for site in ids) == sorted(sites)


async def test_news_tell_what_any_node_wrote(join: Join, postgres_url: str) -> None:
    a, b = await join("a"), await join("b")
    await cluster(a).prepare()
    heard: list[News | None] = []

    async def listen() -> None:
        async for one in cluster(b).listen():
            heard.append(one)  # noqa: PERF401 (each at once)

    task = asyncio.create_task(listen())
    while not heard:
        await asyncio.sleep(0.02)
    (site,) = await add(a, 1)
    await a.sites.pause_some([site], True)
    await a.sites.ask_to_poll(site)
    await a.sites.discard([site])
    filling = "INSERT INTO outbox (event_id, kind, at, rule_id, channel_id, waits_since, due_at) VALUES"
    await query(postgres_url, f"{filling} ('1', 'test', 1, 1, 1, 1, 1), ('2', 'test', 1, 1, 1, 1, 1) RETURNING id")
    wanted = {News(NewsTable.OUTBOX, "0"), News(NewsTable.SITE, str(site)), News(NewsTable.POLL_REQUEST, str(site))}
    await until(lambda: wanted <= set(heard))
    assert heard[0] is None
    assert heard.count(News(NewsTable.OUTBOX, "0")) == 1, "once for all messages of a statement"
    before = len(heard)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pollerd listener'"
        f" AND datname = '{postgres_url.rpartition('/')[2]}'"
    )
    await until(lambda: None in heard[before:])  # news may have been missed
    task.cancel()


async def test_a_question_is_asked_answered_and_gone(join: Join, postgres_url: str) -> None:
    a, b = await join("a"), await join("b")
    await cluster(a).prepare()
    heard: list[News | None] = []

    async def listen() -> None:
        async for one in cluster(b).listen():
            heard.append(one)  # noqa: PERF401 (each at once)

    task = asyncio.create_task(listen())
    await until(lambda: bool(heard))
    questions, its = NodeQuestionStore(database=a.database), NodeQuestionStore(database=b.database)
    number = await questions.ask(cluster(b).node_id, b"why?")
    later = await questions.ask(cluster(b).node_id, b"how?")
    await until(lambda: News(NewsTable.NODE_QUESTION, str(number)) in heard)
    assert await its.asked_of(cluster(b).node_id, 10) == [(later, b"how?"), (number, b"why?")]
    assert await its.asked_of(cluster(b).node_id, 1) == [(later, b"how?")]
    assert await its.asked_of(cluster(a).node_id, 10) == []
    await its.answer([(number, b"so"), (999, b"nobody asked")])
    await until(lambda: News(NewsTable.NODE_ANSWER, str(number)) in heard)
    assert News(NewsTable.NODE_ANSWER, "999") not in heard
    assert await its.asked_of(cluster(b).node_id, 10) == [(later, b"how?")], "the other one was answered"
    assert await questions.take(number) == b"so"
    assert await questions.take(number) is None
    await query(postgres_url, "UPDATE node_question SET asked_at = asked_at - 100")
    await cluster(a).forget_dead()
    assert await query(postgres_url, "SELECT id FROM node_question") == [], "nobody waits for it"
    task.cancel()


async def test_polls_are_no_news(join: Join, postgres_url: str) -> None:
    a = await join("a")
    await cluster(a).prepare()
    await cluster(a).prepare()
    told = await query(postgres_url, "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'pollerd_news'")
    assert {row[0] for row in told} == {one.value for one in NewsTable} - {
        NewsTable.POLL_REQUEST.value,
        NewsTable.SETTINGS_POLL.value,
        NewsTable.NODE_QUESTION.value,
        NewsTable.NODE_ANSWER.value,
    }


async def test_a_node_whose_schema_was_changed_meanwhile_writes_no_more(join: Join, postgres_url: str) -> None:
    a = await join("a")
    await query(postgres_url, "UPDATE alembic_version SET version_num = '9999'")
    await query(postgres_url, "UPDATE schema_support SET oldest = '9999'")
    await end_sessions(postgres_url)
    with suppress(DatabaseUnavailableError):
        await cluster(a).look()  # the session's end is noticed
    with pytest.raises(SchemaError, match=r"schema is 9999, not \d{4}, as this node \(a\) needs it: upgrade this node"):
        await cluster(a).look()
    with pytest.raises(SchemaError):
        await join("b")


async def test_a_node_works_with_a_newer_schema_that_supports_its_own(join: Join, postgres_url: str) -> None:
    a = await join("a")
    await query(postgres_url, "UPDATE alembic_version SET version_num = '9999'")
    await a.check()
    await end_sessions(postgres_url)
    await until_found(partial(looks, a))
    b = await join("b")
    await b.check()
    assert len((await cluster(a).look()).nodes) == 2
    with pytest.raises(SchemaError, match="9999"):
        await Store.open(postgres_url, settings=StorageSettings(), exclusive=False)


@pytest.mark.parametrize("ahead", [45.0, -45.0])
async def test_a_node_whose_clock_is_wrong_is_refused(
    join: Join, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    monkeypatch.setattr(node_session, "wall_clock", lambda: time.time() + ahead)
    with pytest.raises(ConfigError, match=r"node a: the clock .* 4\d\.\d s (ahead of|behind) .* by 30 s"):
        await join("a")


async def test_a_node_says_that_its_clock_is_a_little_wrong(
    join: Join, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(node_session, "wall_clock", lambda: time.time() + 10.0)
    a = await join("a")
    assert "clock_differs" in capsys.readouterr().out
    monkeypatch.setattr(node_session, "wall_clock", lambda: time.time() + 100.0)
    await end_sessions(postgres_url)
    await until_found(partial(looks, a))
    assert "clock_differs" in capsys.readouterr().out, "what was joined goes on"
    monkeypatch.setattr(node_session, "wall_clock", time.time)
    await join("b")
    assert "clock_differs" not in capsys.readouterr().out


async def looks(store: Store) -> bool:
    try:
        return bool((await cluster(store).look()).nodes)
    except DatabaseUnavailableError:
        return False


async def end_sessions(url: str) -> None:
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE application_name = 'pollerd node' AND datname = '{url.rpartition('/')[2]}'"
    )


async def test_a_migration_waits_for_nodes_and_names_them(
    join: Join, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [await join("a"), await join("b")]
    await query(postgres_url, "UPDATE alembic_version SET version_num = '0001'")
    await query(postgres_url, "UPDATE node SET revision = NULL")
    with pytest.raises(DatabaseInUseError, match=r"migrated from 0001 to \d{4} .*: a \(1\), b \(1\); stop them first"):
        await migrate.upgrade(postgres_url)
    migrated: list[None] = []
    monkeypatch.setattr(migrate, "up", lambda _: migrated.append(None))
    waiting = asyncio.create_task(migrate.upgrade_beside_others(postgres_url, StorageSettings()))
    await until(lambda: "migration_waits" in capsys.readouterr().out)
    assert not migrated
    for one in nodes:
        await one.close()
    await waiting
    assert migrated == [None]


@pytest.mark.parametrize("states", [True, False])
async def test_a_migration_that_only_adds_is_done_beside_nodes_that_go_on(
    join: Join, postgres_url: str, states: bool
) -> None:
    a = await join("a")
    await a.database.write(lambda c: migrate.down(c, "0036" if states else "0035"))
    assert await migrate.upgrade(postgres_url) == migrate.head() == await migrate.current(postgres_url)
    assert await query(postgres_url, "SELECT oldest FROM schema_support") == [(migrate.oldest_supported(),)]
    assert len((await cluster(a).look()).nodes) == 1, "its session went on"
    await a.check()


async def test_a_migration_that_removes_waits_for_nodes_that_use_what_it_removes(
    join: Join, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = await join("a")
    await query(postgres_url, "UPDATE alembic_version SET version_num = '0036'")
    monkeypatch.setattr(migrate, "up", lambda _: None)
    monkeypatch.setattr(migrate, "oldest_supported", lambda: "9998")
    with pytest.raises(DatabaseInUseError, match=r": a \(1\); stop them first"):
        await migrate.upgrade(postgres_url)
    monkeypatch.setattr(migrate, "oldest_supported", lambda: migrate.head())
    await migrate.upgrade(postgres_url)
    await query(postgres_url, "UPDATE node SET revision = NULL")
    with pytest.raises(DatabaseInUseError, match="stop them first"):
        await migrate.upgrade(postgres_url)
    await a.close()
    await migrate.upgrade(postgres_url)
