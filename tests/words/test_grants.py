"""One budget, several nodes: what all may spend never exceeds it, whatever happens to nodes and transactions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from pollerd.allocation.budget_split import PriceCurve, divide_reported
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.storage.engine import Database, database_url
from pollerd.storage.grants import SETTLE_SECONDS, GrantAnswer, GrantReport, GrantStore
from pollerd.storage.settings import StorageSettings
from tests.support.postgres import postgres_database

T = TypeVar("T")
STOPS_AFTER_SECONDS = 10.0
"""A node whose session is gone polls no longer than this."""


class TransactionFailedError(Exception):
    """A transaction of a test is to be rolled back."""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres_database() as found:
        yield found


def opened(url: str) -> Database:
    return Database(database_url(url), StorageSettings(busy_timeout_seconds=30), create=False)


def curve(scale: float) -> bytes:
    budgets = np.geomspace(0.01, 10.0, 8) * scale
    return PriceCurve(budgets, np.geomspace(1.0, 0.01, 8)).to_bytes()


class Cluster:
    """The truth about nodes: who has a session, and at which rate each polls, whatever the database says."""

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.database = opened(url)
        self.now = 1.75e9
        self.rate: dict[str, float] = {}
        self.alive: set[str] = set()
        self.stops_at: dict[str, float] = {}
        self.store = GrantStore(database=self.database, divide=divide_reported, clock=lambda _: self.now)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def reported(self, node: str, weight: float | None, living: Collection[str] | None = None) -> GrantAnswer:
        said = GrantReport(node, self.rate[node], weight or 0.0, None if weight is None else curve(weight))
        there = self.alive if living is None else living
        return self.wait(self.store.report(said, lambda _: there, 10.0))

    def end_sessions(self, nodes: Collection[str]) -> None:
        for node in nodes:
            self.alive.discard(node)
            self.stops_at[node] = self.now + STOPS_AFTER_SECONDS

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for node, at in self.stops_at.items():
            if self.now >= at:
                self.rate[node] = 0.0

    @property
    def spent(self) -> float:
        return sum(self.rate.values())

    def close(self) -> None:
        self.wait(self.database.close())
        self.loop.close()


WEIGHTS = st.one_of(st.none(), st.sampled_from([0.01, 0.3, 1.0, 2.0, 50.0]))
MAX_NODES = 5
EVENTS = ("join", "fail", "lose_session", "come_back", "leave", "restart_server", "spend_less")


class Machine(RuleBasedStateMachine):
    """Nodes join, report, miss answers, lose sessions, die; the budget goes up and down; transactions fail.

    What happens is drawn by one rule: rules of their own would be left out of whole runs.
    """

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(self.url)
        self.budget, self.spent_before, self.named = 10.0, 0.0, 0

    @initialize()
    def begin(self) -> None:
        def work(connection: Connection) -> None:
            connection.execute(text("DELETE FROM budget_grant"))
            connection.execute(text("DELETE FROM shared_budget"))

        self.cluster.wait(self.cluster.database.write(work))
        for _ in range(3):
            self.join(0)

    def some(self, number: int) -> str:
        names = sorted(self.cluster.alive)
        return names[number % len(names)]

    @precondition(lambda self: self.cluster.alive)
    @rule(number=st.integers(0, 9), weight=WEIGHTS, answered=st.integers(0, 3).map(bool))
    def report(self, number: int, weight: float | None, answered: bool) -> None:
        """If it is not answered, the answer was lost, or its pacer is not set yet."""
        node = self.some(number)
        answer = self.cluster.reported(node, weight)
        assert answer.budget == self.budget
        if answered:
            self.cluster.rate[node] = answer.grant

    @rule(event=st.sampled_from(EVENTS), number=st.integers(0, 9))
    def happen(self, event: str, number: int) -> None:
        getattr(self, event)(number)

    @rule(seconds=st.sampled_from([0.1, 4.0, 9.0, 11.0, 14.9, 15.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.pass_time(seconds)

    @rule(budget=st.sampled_from([0.01, 0.5, 3.0, 10.0, 123.4, 10_000.0]))
    def set_budget(self, budget: float) -> None:
        if self.cluster.wait(self.cluster.store.status()).budget is not None:
            self.cluster.wait(self.cluster.store.set_budget(budget))
            self.budget = budget

    def join(self, _: int) -> None:
        if len(self.cluster.alive) < MAX_NODES:
            self.named += 1
            name = f"node {self.named}"
            self.cluster.alive.add(name)
            self.cluster.rate[name] = 0.0

    def spend_less(self, number: int) -> None:
        if self.cluster.alive:
            self.cluster.rate[self.some(number)] *= number / 10

    def fail(self, number: int) -> None:
        """A transaction fails under the lock, after rows were read."""

        def living(_: Connection) -> Collection[str]:
            raise TransactionFailedError

        said = GrantReport(f"node {number}", 0.0, 5.0)
        with pytest.raises(TransactionFailedError):
            self.cluster.wait(self.cluster.store.report(said, living, self.budget))

    def lose_session(self, number: int) -> None:
        """It goes on polling for a while; it may die meanwhile, or come back."""
        if self.cluster.alive:
            self.cluster.end_sessions([self.some(number)])

    def come_back(self, number: int) -> None:
        if self.cluster.stops_at:
            names = sorted(self.cluster.stops_at)
            node = names[number % len(names)]
            del self.cluster.stops_at[node]
            self.cluster.alive.add(node)

    def restart_server(self, _: int) -> None:
        self.cluster.end_sessions(set(self.cluster.alive))

    def leave(self, number: int) -> None:
        if self.cluster.alive:
            node = self.some(number)
            self.cluster.alive.discard(node)
            self.cluster.rate[node] = 0.0
            self.cluster.wait(self.cluster.store.leave(node))

    @invariant()
    def never_more_than_the_budget(self) -> None:
        """After the budget was lowered, less and less until it is kept; no node spends more meanwhile."""
        spent = self.cluster.spent
        assert spent <= max(self.budget, self.spent_before)
        assert spent <= self.cluster.wait(self.cluster.store.status()).in_force or spent == 0
        self.spent_before = spent

    def teardown(self) -> None:
        """In the end, those that are there have all of the budget."""
        try:
            self.cluster.pass_time(STOPS_AFTER_SECONDS)
            if self.cluster.alive:
                for _ in range(2):
                    self._settle()
                assert self.cluster.spent == pytest.approx(self.budget, rel=1e-3, abs=1e-4)
                assert self.cluster.wait(self.cluster.store.status()).in_force == self.budget
        finally:
            self.cluster.close()

    def _settle(self) -> None:
        for _ in range(2):
            for node in sorted(self.cluster.alive):
                self.cluster.rate[node] = self.cluster.reported(node, 1.0).grant
                self.never_more_than_the_budget()
            self.cluster.pass_time(SETTLE_SECONDS)


def test_whatever_happens_nodes_do_not_spend_more_than_the_budget(url: str) -> None:
    class Here(Machine):
        pass

    Here.url = url
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )


async def end_some_sessions(url: str, rounds: int, rng: np.random.Generator) -> None:
    """Ends sessions at random, in the middle of transactions."""
    database = opened(url)
    some = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
    )
    for _ in range(rounds):
        await asyncio.sleep(float(rng.uniform(0.005, 0.03)))
        await database.write(lambda c: c.execute(some).all())
    await database.close()


async def test_concurrent_reports_and_lost_sessions_do_not_spend_more_than_the_budget(url: str) -> None:
    """Reports wait for each other's lock, sessions end between any two statements, and the budget changes."""
    rng = np.random.default_rng(7)
    names = [f"node {k}" for k in range(8)]
    rate, budget, most, answered = dict.fromkeys(names, 0.0), 20.0, 20.0, 0
    first = opened(url)
    store = GrantStore(database=first, divide=divide_reported)

    async def poll(name: str) -> None:
        nonlocal answered
        database = opened(url)
        mine = GrantStore(database=database, divide=divide_reported)
        for _ in range(25):
            weight = float(rng.choice([0.1, 1.0, 10.0]))
            asked_under = most  # a lower budget can be stored, and known here, before the answer under this one arrives
            try:
                answer = await mine.report(GrantReport(name, rate[name], 1.0, curve(weight)), lambda _: names, budget)
            except DatabaseUnavailableError:
                continue
            before = sum(rate.values())
            rate[name] = answer.grant
            answered += 1
            assert sum(rate.values()) <= max(most, asked_under, before)
            await asyncio.sleep(float(rng.uniform(0, 0.01)))
        await database.close()

    async def change() -> None:
        nonlocal budget, most
        for following in (5.0, 40.0, 1.0, 20.0):
            await asyncio.sleep(0.1)
            most = max(budget, following)
            try:
                await store.set_budget(following)
            except DatabaseUnavailableError:
                continue
            budget = most = following

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(poll(name))
        tasks.create_task(change())
        tasks.create_task(end_some_sessions(url, 25, rng))
    assert answered > 50
    await first.close()


async def test_a_grant_is_free_when_its_node_says_that_it_spends_less(url: str) -> None:
    database, living = opened(url), ["a", "b"]
    store = GrantStore(database=database, divide=divide_reported)

    async def report(node: str, spending: float, scale: float) -> GrantAnswer:
        return await store.report(GrantReport(node, spending, 1.0, curve(scale)), lambda _: living, 8.0)

    assert (await report("a", 0.0, 1.0)).grant == 8.0  # alone
    joined = await report("b", 0.0, 1.0)
    assert joined.grant == 0.0
    assert joined.target == pytest.approx(4.0, rel=1e-3)
    lowered = await report("a", 8.0, 1.0)
    assert lowered.grant == pytest.approx(4.0, rel=1e-3)
    assert (await report("b", 0.0, 1.0)).grant == 0.0  # a has not said that it spends less
    await report("a", lowered.grant, 1.0)
    raised = await report("b", 0.0, 1.0)
    assert raised.grant == pytest.approx(4.0, rel=1e-3)
    status = await store.status()
    assert (status.budget, status.in_force) == (8.0, 8.0)
    assert [(row.node, row.gone_at) for row in status.nodes] == [("a", None), ("b", None)]
    await database.close()


async def test_what_a_dead_node_had_is_free_after_its_requests_are_past(url: str) -> None:
    database, now, living = opened(url), 100.0, ["a", "b"]
    store = GrantStore(database=database, divide=divide_reported, settle_seconds=15.0, clock=lambda _: now)

    async def report(node: str, spending: float) -> float:
        return (await store.report(GrantReport(node, spending, 1.0, curve(1.0)), lambda _: living, 8.0)).grant

    a = await report("a", 0.0)
    living.remove("a")
    assert await report("b", 0.0) == 0.0  # first missed now
    now += 14.9
    assert await report("b", 0.0) == 0.0
    now += 0.1
    assert await report("b", 0.0) == 8.0
    living.append("a")  # it was given up, went on, and is answered by what it has
    assert await report("a", a) == 0.0
    await database.close()


async def test_what_a_node_can_and_did_spend_is_stored_and_the_others_get_the_rest(url: str) -> None:
    database = opened(url)
    store = GrantStore(database=database, divide=divide_reported)
    grants = {"a": 0.0, "b": 0.0}
    for _ in range(3):
        for node, able in (("a", None), ("b", 0.5)):
            said = GrantReport(node, grants[node], 1.0, curve(1.0), able=able, spent=0.4)
            answer = await store.report(said, lambda _: ["a", "b"], 8.0)
            grants[node] = answer.grant
            assert abs(answer.clock_ahead) < 2.0, "both clocks are this machine's"
    assert grants == {"a": pytest.approx(7.5), "b": pytest.approx(0.5)}
    status = await store.status()
    assert [(row.able, row.spent) for row in status.nodes] == [(None, 0.4), (0.5, 0.4)]
    assert all(0 <= status.at - row.reported_at < 60 for row in status.nodes)
    await database.close()


async def test_a_node_whose_session_comes_back_in_time_keeps_what_it_has(url: str) -> None:
    database, now, living = opened(url), 100.0, ["a", "b"]
    store = GrantStore(database=database, divide=divide_reported, clock=lambda _: now)

    async def report(node: str, spending: float) -> float:
        return (await store.report(GrantReport(node, spending, 1.0, curve(1.0)), lambda _: living, 8.0)).grant

    await report("a", 0.0)
    living.remove("a")
    await report("b", 0.0)
    living.append("a")
    now += 100.0
    await report("b", 0.0)
    living.remove("a")
    assert await report("b", 0.0) == 0.0  # missed anew: the time before does not count
    await database.close()


async def test_a_damaged_curve_of_one_node_does_not_stop_the_others(url: str) -> None:
    database = opened(url)
    store = GrantStore(database=database, divide=divide_reported)
    await store.report(GrantReport("a", 0.0, 1.0, b"\xff of a later version"), lambda _: ["a"], 8.0)
    answer = await store.report(GrantReport("b", 0.0, 1.0, curve(1.0)), lambda _: ["a", "b"], 8.0)
    assert answer.target > 0
    await database.close()


async def test_a_division_stays_while_it_hardly_differs(url: str) -> None:
    """Curves that move by a little move no grant."""
    database, rate = opened(url), {"a": 0.0, "b": 0.0}
    store = GrantStore(database=database, divide=divide_reported)
    targets: list[float] = []
    for turn in range(20):
        for node in rate:
            said = GrantReport(node, rate[node], 1.0, curve(1.0 + 0.01 * (turn % 3)))
            answer = await store.report(said, lambda _: list(rate), 8.0)
            rate[node] = answer.grant
            targets.append(answer.target)
    assert len(set(targets[2:])) <= 2
    await database.close()


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_reports_of_no_number_are_refused(value: float) -> None:
    with pytest.raises(InvalidValueError, match="spending"):
        GrantReport("a", value, 1.0)
    with pytest.raises(InvalidValueError, match="cost"):
        GrantReport("a", 1.0, value)
    with pytest.raises(InvalidValueError, match="node"):
        GrantReport("", 1.0, 1.0)


async def test_a_budget_out_of_range_is_refused(url: str) -> None:
    database = opened(url)
    store = GrantStore(database=database, divide=divide_reported)
    with pytest.raises(InvalidValueError, match="budget"):
        await store.set_budget(0.0)
    with pytest.raises(InvalidValueError, match="budget"):
        await store.report(GrantReport("a", 0.0, 1.0), lambda _: ["a"], 1e9)
    assert (await store.status()).budget is None
    await database.close()


def divided_too_much(
    budget: float, cost: NDArray[np.float64], curves: Sequence[bytes | None], *_: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    return 0.0, np.full(len(cost), budget)


async def test_the_sum_is_kept_whatever_the_division_says(url: str) -> None:
    database = opened(url)
    store = GrantStore(database=database, divide=divided_too_much)
    living = ["a", "b", "c"]
    grants = [(await store.report(GrantReport(name, 0.0, 1.0), lambda _: living, 0.3)).grant for name in living]
    assert sum(grants) <= 0.3
    assert grants[1:] == [pytest.approx(0.0, abs=1e-5)] * 2
    await database.close()
