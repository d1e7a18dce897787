"""Group commit: finished polls are judged, learned and committed in batches, at most a second old."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from pollerd.daemon.faults import FIRST_RETRY_SECONDS, RETRY_CAP_SECONDS
from pollerd.daemon.gathering import SlowResults
from pollerd.daemon.poll_result import PollResult
from pollerd.daemon.process import BlindCause
from pollerd.daemon.processor import PreparedBatch, ResultProcessor
from pollerd.daemon.runtime import Runtime
from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError, SchemaError
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, CommitResult, PollRecord, StoredRobots

_SHARED_STATE_SECONDS = 30.0
"""Interval between two stores of the large shared state; after a crash it relearns from the polls since then."""

_BATCH_TARGET, _BATCH_TARGET_AT_SERVER = 16, 64
"""Batch size from which waiting for more gains little: a larger batch saves little per poll, and blocks the loop
longer. A commit costs a server of its own as much as forty polls (docs/limits.md)."""

T = TypeVar("T")


def _part(batch: Batch, records: tuple[PollRecord, ...]) -> Batch:
    """Returns a separate batch with some of the records."""
    return replace(batch, records=records, hosts=(), shared_state=None, notices=(), id=Batch().id)


class Journal:
    """Takes results, keeps them until they are committed, then frees their sites for the next poll.

    While the database does not accept commits the same batch is retried, and `health` reports it (so that the
    dispatcher starts nothing).
    """

    def __init__(
        self,
        *,
        processor: ResultProcessor,
        store: Store,
        runtime: Runtime,
    ) -> None:
        self._processor, self._store, self._health = processor, store, runtime.health
        self._blindness, self._clock = runtime.blindness, runtime.clock
        self._settings, self._instruments = runtime.settings, runtime.instruments
        self._company = _BATCH_TARGET if store.database.is_sqlite else _BATCH_TARGET_AT_SERVER
        self._results: list[PollResult] = []
        self._robots: dict[int, StoredRobots] = {}
        self._hosts_touched = False
        self._moved: set[int] = set()
        """Sites whose URL changed while the current batch is being committed."""
        self._due = asyncio.Event()
        self._slow = SlowResults(prepare=self._prepare_alone, hand_on=self._take, on_end=self._slow_ended)
        self._timer: asyncio.Handle | None = None
        self._flush_at = math.inf
        self._closing = False
        self._busy = asyncio.Lock()
        self._first_at = self._shared_at = -math.inf
        self._log = structlog.get_logger("pollerd.journal")

    def put(self, result: PollResult) -> None:
        """Takes a result; its site stays in flight until it is committed. One that takes long is prepared by
        itself first.
        """
        if self._processor.is_slow(result):
            self._slow.begin(result)
        else:
            self._take(result)

    def _take(self, result: PollResult) -> None:
        if not self._results:
            self._first_at = time.monotonic()
        self._results.append(result)
        waiting, settings = len(self._results), self._settings
        if waiting >= settings.flush_polls:
            self._due.set()
        elif waiting >= self._company:
            self._flush_within(self._first_at + settings.flush_seconds - time.monotonic())
        else:
            may_wait = min(self._processor.max_commit_delay(result), settings.gather_seconds)
            self._flush_within(max(may_wait, settings.flush_seconds))

    def forget(self, site_id: int) -> None:
        """Drops the waiting polls of a site whose URL changed."""
        self._results = [result for result in self._results if result.site_id != site_id]
        self._slow.drop(site_id)
        self._moved.add(site_id)

    def put_robots(self, host: int, robots: StoredRobots) -> None:
        """Takes the robots.txt result of the host slot."""
        self._robots[host] = robots
        self._flush_within(self._settings.flush_seconds)

    def put_hosts(self) -> None:
        """Has the hosts that were touched without a poll of their sites committed."""
        self._hosts_touched = True
        self._flush_within(self._settings.flush_seconds)

    def close(self) -> None:
        """Accepts no more results: `run` ends once all are committed, but for those that take too long.

        The polls of these are repeated after the next start.
        """
        self._closing = True
        asyncio.get_running_loop().call_later(self._settings.drain_seconds / 2, self._slow.cancel)
        self._due.set()

    async def run(self) -> None:
        """Commits until closed."""
        try:
            while not self._closing or self._results or self._robots or len(self._slow):
                await self._due.wait()
                self._due.clear()
                if self._slow.failure is not None:
                    raise self._slow.failure
                await self.flush()
        finally:
            self._slow.cancel()
        self._shared_at = -math.inf
        await self.flush()

    async def flush(self) -> None:
        """Commits the results so far; returns when they are in the database."""
        async with self._busy:
            await self._flush()

    @contextlib.asynccontextmanager
    async def quiesced(self) -> AsyncIterator[None]:
        """Commits the results so far; later ones wait until the block ends."""
        async with self._busy:
            await self._flush()
            yield

    async def _prepare_alone(self, result: PollResult) -> PollResult:
        return await self._retry(lambda: self._processor.prepare_alone(result))

    def _slow_ended(self) -> None:
        if self._closing or self._slow.failure is not None:
            self._due.set()

    def _flush_within(self, seconds: float) -> None:
        """Schedules a commit within `seconds`; an earlier one stays scheduled."""
        at = time.monotonic() + (0.0 if self._closing else seconds)
        if at < self._flush_at:
            self._call_off()
            self._flush_at = at
            self._timer = asyncio.get_running_loop().call_later(max(at - time.monotonic(), 0.0), self._due.set)

    def _call_off(self) -> None:
        """Cancels the scheduled commit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._flush_at = None, math.inf

    async def _flush(self) -> None:
        self._call_off()
        results, self._results = self._results, []
        self._moved.clear()
        robots, self._robots = self._robots, {}
        touched, self._hosts_touched = self._hosts_touched, False
        if not results and not robots and not touched and self._shared_at > -math.inf:
            return
        prepared = await self._retry(lambda: self._processor.prepare(results, self._moved))
        for result in prepared.slow:
            if result.site_id not in self._moved:
                self._slow.begin(result)
        batch = self._processor.batch(prepared, robots, with_shared_state=self._shared_state_due())
        started = time.perf_counter()
        try:
            committed = await self._commit(batch)
        except (DatabaseInUseError, SchemaError):
            raise
        except Exception:  # noqa: BLE001
            # One poll that the database refuses, whatever the reason, must not cost the others: each is tried alone.
            self._log.exception("batch_refused", polls=len(batch.records), instead="poll by poll")
            prepared, committed = await self._commit_singly(prepared, batch)
        self._instruments.commit.observe(time.perf_counter() - started)
        self._processor.apply_committed(prepared, committed, self._moved)
        await self._processor.pass_signals_on()

    async def _commit(self, batch: Batch) -> CommitResult:
        """Commits, retrying until the database answers."""
        return await self._retry(lambda: self._store.commit(batch))

    async def _commit_singly(self, prepared: PreparedBatch, batch: Batch) -> tuple[PreparedBatch, CommitResult]:
        """Commits each poll separately; a site whose poll is refused is set aside.

        A refusal not caused by any site also affects the final commit, and is raised.
        """
        content_ids: dict[int, int] = {}
        stale: list[int] = []
        alone = PreparedBatch((), ())
        for result, record in zip(prepared.results, prepared.records, strict=True):
            kept = PreparedBatch((result,), (record,))
            try:
                committed = await self._commit(_part(batch, kept.records))
                content_ids.update(committed.content_ids)
                stale += committed.stale_pages
            except (DatabaseInUseError, SchemaError):
                raise
            except Exception as error:  # noqa: BLE001
                # As in the batch: this is the poll that is refused. It is reported, and its site set aside.
                kept = self._processor.set_aside(result, error)
                await self._commit_if_possible(_part(batch, kept.records))
            alone = PreparedBatch(alone.results + kept.results, alone.records + kept.records, prepared.crawled)
        await self._commit(replace(batch, records=(), id=Batch().id))
        return alone, CommitResult(content_ids=content_ids, stale_pages=tuple(stale))

    async def _commit_if_possible(self, batch: Batch) -> None:
        try:
            await self._commit(batch)
        except (DatabaseInUseError, SchemaError):
            raise
        except Exception:  # noqa: BLE001
            # The site was set aside for a first refusal; that this cannot be written either is only logged.
            self._log.exception("site_state_refused", site_id=batch.records[0].poll.site_id, kept="in memory only")

    def _shared_state_due(self) -> bool:
        now = time.monotonic()
        if now - self._shared_at < _SHARED_STATE_SECONDS:
            return False
        self._shared_at = now
        return True

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Calls until the database answers."""
        wait = FIRST_RETRY_SECONDS
        while True:
            try:
                result = await call()
            except DatabaseUnavailableError as error:
                self._health.failed("commits", str(error))
                self._blindness.begin(BlindCause.DATABASE, self._clock())
                await asyncio.sleep(wait)
                wait = min(wait * 2, RETRY_CAP_SECONDS)
            else:
                self._health.works("commits")
                self._blindness.end(BlindCause.DATABASE, self._clock())
                return result
