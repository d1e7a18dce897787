"""Claims of hosts that several nodes ask: one at a time, never sooner than the interval, whoever dies or moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest

from pollerd.storage.node_values import NodeInfo
from pollerd.storage.nodes import set_number_of_partitions
from pollerd.storage.settings import StorageSettings
from pollerd.storage.shared_hosts import TURN_SECONDS, ClaimAnswer, HostTurn, HostUse, SharedHostStore
from pollerd.storage.store import Store
from tests.storage.samples import query

HOLD, WRITE, UNWANTED = 20.0, 4.0, 30.0
HOST = HostUse(name="h:80", partition=3, gap=2.0)


class SharingNode:
    """A node, and what it asks of the rows."""

    def __init__(self, store: Store, url: str) -> None:
        assert store.cluster is not None
        self.store, self.cluster, self._url = store, store.cluster, url
        self.shared = SharedHostStore(
            database=store.database,
            node_id=lambda: self.cluster.node_id,
            write_seconds=WRITE,
            hold_seconds=HOLD,
            unwanted_seconds=UNWANTED,
        )

    async def claim(self, *, missing: bool = False) -> ClaimAnswer:
        turn = HostTurn(missing=[HOST] if missing else [], claimed=[HOST])
        return (await self.shared.turn(turn)).claims[HOST.name]

    async def confirm(self, spacing: float = 0.0) -> bool:
        use = HostUse(name=HOST.name, partition=HOST.partition, gap=HOST.gap, spacing=spacing)
        return bool((await self.shared.turn(HostTurn(confirmed=[use]))).confirmed)

    async def release(self, spacing: float = 0.0, paused: float = 0.0) -> None:
        use = HostUse(name=HOST.name, partition=HOST.partition, gap=HOST.gap, spacing=spacing, paused=paused)
        assert (await self.shared.turn(HostTurn(released=[use]))).released

    async def later(self, seconds: float) -> None:
        """Lets time pass for all rows."""
        moved = ", ".join(f"{c} = {c} - {seconds}" for c in ("held_until", "next_free", "waiting_until", "wanted_at"))
        await query(self._url, f"UPDATE shared_host SET {moved}, paused_until = paused_until - {seconds}")


Join = Callable[[str], Awaitable[SharingNode]]


@pytest.fixture
async def join(postgres_url: str) -> AsyncIterator[Join]:
    """Opens the database as a node of this name."""
    async with AsyncExitStack() as stack:

        async def opened(name: str) -> SharingNode:
            info = NodeInfo(name=name, version="1")
            store = await Store.open(postgres_url, settings=StorageSettings(busy_timeout_seconds=1), node=info)
            stack.push_async_callback(store.close)
            node = SharingNode(store, postgres_url)
            await node.cluster.prepare()
            return node

        yield opened


async def shared_by_two(join: Join) -> tuple[SharingNode, SharingNode]:
    """Returns the owner of a shared host, and another node."""
    owner, other = await join("owner"), await join("other")
    await owner.cluster.take([HOST.partition], 0.0)
    assert not (await other.claim(missing=True)).known
    assert await owner.confirm()
    return owner, other


async def test_nobody_claims_before_the_owner_knows_that_its_host_is_shared(join: Join) -> None:
    owner, other = await join("owner"), await join("other")
    answer = await other.claim(missing=True)
    assert (answer.claimed, answer.known) == (False, False), "nobody holds the partition"
    assert not await owner.confirm(), "it does not hold the partition"
    await owner.cluster.take([HOST.partition], 0.0)
    assert await owner.shared.of_partition(HOST.partition) == [HOST.name]
    assert not (await other.claim()).claimed
    assert await owner.confirm(spacing=1.5)
    answer = await other.claim()
    assert (answer.claimed, answer.known, answer.gap) == (False, True, HOST.gap)
    assert 1.0 < answer.wait <= 1.5, "what the owner did before counts"
    await owner.later(1.5)
    assert (await other.claim()).claimed


async def test_a_claim_keeps_all_others_out_until_it_is_released_and_the_interval_is_over(join: Join) -> None:
    owner, other = await shared_by_two(join)
    await owner.later(TURN_SECONDS + 1)
    assert (await owner.claim()).claimed
    assert not (await other.claim()).claimed
    await owner.later(HOLD - 1)
    assert HOST.name in (await owner.shared.turn(HostTurn(renewed=[HOST]))).renewed
    await owner.later(HOLD - 1)
    assert not (await other.claim()).claimed
    await owner.release(spacing=2.0)
    answer = await other.claim()
    assert not answer.claimed
    assert 1.5 < answer.wait <= 2.0
    await owner.later(2.0)
    assert (await other.claim()).claimed


async def test_the_claim_of_a_dead_node_ends_when_nothing_of_it_can_be_under_way(join: Join) -> None:
    owner, other = await shared_by_two(join)
    await owner.later(TURN_SECONDS + 1)
    assert (await other.claim()).claimed
    await owner.later(HOLD - 0.5)
    assert not (await owner.claim()).claimed
    await owner.later(1.0)
    assert (await owner.claim()).claimed
    assert HOST.name not in (await other.shared.turn(HostTurn(renewed=[HOST]))).renewed, "its time was over"


async def test_the_interval_counts_from_the_last_moment_at_which_a_dead_node_can_have_written(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.storage.test_storage_shared_hosts.HOST", HostUse(name="h:80", partition=3, gap=60.0))
    owner, other = await shared_by_two(join)
    await owner.later(TURN_SECONDS + 1)
    assert (await other.claim()).claimed
    await owner.later(HOLD + 1)
    answer = await owner.claim()
    assert not answer.claimed
    assert answer.wait == pytest.approx(WRITE + 60.0 - HOLD - 1, abs=0.5)


async def test_nodes_that_both_want_a_host_take_turns(join: Join) -> None:
    owner, other = await shared_by_two(join)
    await owner.later(TURN_SECONDS + 1)
    turns = ""
    for _ in range(6):
        for name, node in (("o", owner), ("a", other)):
            if (await node.claim()).claimed:
                turns += name
                await (other if node is owner else owner).claim()
                await node.release()
    assert "oo" not in turns
    assert "aa" not in turns
    assert len(turns) > 4
    await owner.later(HOLD + TURN_SECONDS)
    assert (await other.claim()).claimed
    assert not (await owner.claim()).claimed
    await other.release()
    assert not (await other.claim()).claimed, "it is the owner's turn"
    await owner.later(TURN_SECONDS + 1)
    assert (await other.claim()).claimed, "who does not use its turn loses it"


async def test_a_partition_that_changes_hands_is_confirmed_anew_and_a_claim_outlasts_it(join: Join) -> None:
    owner, other = await shared_by_two(join)
    await owner.later(TURN_SECONDS + 1)
    assert (await other.claim()).claimed
    await owner.cluster.release([HOST.partition])
    heir = await join("heir")
    await heir.cluster.take([HOST.partition], 0.0)
    assert await heir.confirm()
    assert not (await heir.claim()).claimed, "the other node has it"
    await other.release()
    assert (await heir.claim()).claimed
    await heir.release()
    assert (await owner.claim()).known, "which is an owner no more"
    await heir.cluster.release([HOST.partition])
    await owner.cluster.take([HOST.partition], 0.0)
    assert not (await other.claim()).known, "the row names the last owner"


async def test_a_pause_is_news_for_whoever_claims_next(join: Join) -> None:
    owner, other = await shared_by_two(join)
    await owner.later(TURN_SECONDS + 1)
    await other.claim()
    await other.release(paused=50.0)
    answer = await owner.claim()
    assert answer.claimed
    assert 45.0 < answer.paused <= 50.0
    await owner.release(paused=0.0)
    assert (await other.claim()).paused < 1.0, "somebody ended it at the owner"


async def test_a_host_that_nobody_else_wants_is_shared_no_more(join: Join) -> None:
    owner, other = await shared_by_two(join)
    end = HostTurn(unwanted=[HOST.name])
    assert not (await owner.shared.turn(end)).ended
    await owner.later(UNWANTED + 1)
    assert not (await other.shared.turn(end)).ended, "that is its owner's"
    await owner.claim()
    await owner.release(spacing=7.0, paused=9.0)
    ended = (await owner.shared.turn(end)).ended[HOST.name]
    assert 6.0 < ended.wait <= 7.0
    assert 8.0 < ended.paused <= 9.0
    assert HOST.name not in (await other.shared.turn(HostTurn(claimed=[HOST]))).locked
    assert not (await other.claim(missing=True)).known, "it is shared again"


async def test_a_row_that_another_node_is_writing_holds_up_nobody(join: Join, postgres_url: str) -> None:
    owner, _ = await shared_by_two(join)

    async def busy() -> None:
        found = await owner.shared.turn(HostTurn(claimed=[HOST], missing=[HOST]))
        assert HOST.name not in found.locked
        assert not found.claims

    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    try:
        async with connection.transaction():
            await connection.execute("SELECT * FROM shared_host FOR UPDATE")
            await busy()
    finally:
        await connection.close()
    assert (await owner.shared.turn(HostTurn(claimed=[HOST]))).locked


async def test_another_number_of_partitions_forgets_shared_hosts(join: Join, postgres_url: str) -> None:
    owner, other = await shared_by_two(join)
    for node in (owner, other):
        await node.store.close()
    await set_number_of_partitions(postgres_url, 8)
    assert await query(postgres_url, "SELECT * FROM shared_host") == []
