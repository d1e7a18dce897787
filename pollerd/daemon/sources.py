"""The reader of sources, which reads each when it is due. Without sources it never wakes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from pollerd.daemon.faults import RETRY_CAP_SECONDS
from pollerd.daemon.runtime import Runtime
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.sources import Source, SourceStore

MAX_AT_ONCE = 4
"""Maximum number of sources that are read at the same time."""
_LONGEST_SLEEP_SECONDS = 600.0
"""The loop's clock stops while the machine is suspended."""
_CLOCK_SLACK_SECONDS = 0.01


ReadSource = Callable[[int], Awaitable[tuple[float, bool] | None]]
"""Reads a source once: when it is due again (epoch s), and whether it fails; None if it is gone or paused."""


class SourceReader:
    """Knows when each source is due, and reads those that are."""

    def __init__(self, *, store: SourceStore, make_reading: Callable[[], ReadSource], runtime: Runtime) -> None:
        """`make_reading`: called when the first source is due."""
        self._store, self._make_reading = store, make_reading
        self._read_source: ReadSource | None = None
        self._clock, self._failing = runtime.clock, runtime.instruments.sources_failing
        self._due: dict[int, float] = {}
        self._failed: set[int] = set()
        self._under_way: set[int] = set()
        self._again: set[int] = set()
        self._changed = asyncio.Event()
        self._runs = False
        self._log = structlog.get_logger("pollerd.sources")

    def follow(self, source: Source) -> None:
        """Takes in a new or changed source: it is read when it says. Does nothing before `run`, which takes in all."""
        if not self._runs:
            return
        self.forget(source.id)
        if source.failures:
            self._failed.add(source.id)
        if not source.spec.paused:
            self._due[source.id] = source.next_read_at or 0.0
        if source.id in self._under_way:
            self._again.add(source.id)
        self._failing.set(len(self._failed))
        self._changed.set()

    def forget(self, source_id: int) -> None:
        """Stops reading a source that is gone or paused; a reading under way ends by itself."""
        self._due.pop(source_id, None)
        self._failed.discard(source_id)
        self._failing.set(len(self._failed))

    async def look_again(self) -> None:
        """Takes in all sources as they are stored: another node may have changed some. Does nothing before `run`."""
        if not self._runs:
            return
        stored = {source.id: source for source in await self._store.all()}
        for source_id in self._due.keys() - stored.keys():
            self.forget(source_id)
        for source in stored.values():
            if source.id not in self._under_way:
                self.follow(source)

    async def run(self) -> None:
        """Reads sources until cancelled. One query at the start; after that nothing while there is no source."""
        self._runs = True
        try:
            for source in await self._all():
                self.follow(source)
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    self._start_due(group)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._sleep()):
                            await self._changed.wait()
        finally:
            self._runs = False
            # Another node may read them from here on; readings that were called off before they began left their marks.
            for known in (self._due, self._failed, self._under_way, self._again):
                known.clear()
            self._failing.set(0)

    async def _all(self) -> list[Source]:
        while True:
            try:
                return await self._store.all()
            except DatabaseUnavailableError as error:
                self._log.warning("sources_put_off", reason=str(error))
                await asyncio.sleep(RETRY_CAP_SECONDS)

    def _sleep(self) -> float | None:
        """Returns the seconds until a source is due; None: until something changes."""
        if len(self._under_way) >= MAX_AT_ONCE:
            return None
        waiting = [at for source_id, at in self._due.items() if source_id not in self._under_way]
        if not waiting:
            return None
        return min(max(min(waiting) - self._clock(), 0.0) + _CLOCK_SLACK_SECONDS, _LONGEST_SLEEP_SECONDS)

    def _start_due(self, group: asyncio.TaskGroup) -> None:
        now = self._clock()
        due = sorted((at, source_id) for source_id, at in self._due.items() if at <= now)
        for _, source_id in due:
            if source_id not in self._under_way and len(self._under_way) < MAX_AT_ONCE:
                self._under_way.add(source_id)
                group.create_task(self._read(source_id), name=f"source-{source_id}")

    async def _read(self, source_id: int) -> None:
        try:
            self._read_source = self._read_source or self._make_reading()
            ended = await self._read_source(source_id)
        except DatabaseUnavailableError as error:
            self._log.warning("source_put_off", source_id=source_id, reason=str(error))
            ended = (self._clock() + RETRY_CAP_SECONDS, source_id in self._failed)
        finally:
            self._under_way.discard(source_id)
            self._changed.set()
        if source_id in self._again:  # changed meanwhile: it says anew when it is due
            self._again.discard(source_id)
        elif ended is None:
            self.forget(source_id)
        elif source_id in self._due:
            self._note(source_id, *ended)

    def _note(self, source_id: int, due_at: float, failing: bool) -> None:
        self._due[source_id] = due_at
        (self._failed.add if failing else self._failed.discard)(source_id)
        self._failing.set(len(self._failed))
