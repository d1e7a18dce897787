"""Tells of what concerns the whole daemon: blind periods, a budget that cannot hold the intervals, channels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import orjson
import structlog

from pollerd.daemon.process.blindness import BlindCause, BlindPeriod
from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.daemon.state.runtime import Runtime
from pollerd.errors import DatabaseUnavailableError
from pollerd.events import EventKind, Notice
from pollerd.storage import NotificationStore, StoredChannel
from pollerd.timestamps import rfc3339

BLIND_LEAST_SECONDS = 60.0
"""Shorter periods are not told."""
LATE_SECONDS = 60.0
_LATE_LOOKS = 3
"""Looks in a row at which sites must be late, or none, before it is told."""
_RETRY_SECONDS = 5.0


class DaemonEvents:
    """Puts events of no site into the outbox."""

    def __init__(
        self,
        *,
        store: NotificationStore,
        announcer: Announcer,
        late_sites: Callable[[], int],
        filled: asyncio.Event,
        runtime: Runtime,
    ) -> None:
        """`late_sites`: returns how many sites are past their max_interval; `filled`: set when notices were added."""
        self._store, self._announcer, self._blindness = store, announcer, runtime.blindness
        self._late_sites, self._filled, self._clock = late_sites, filled, runtime.clock
        self._log = structlog.get_logger("pollerd.notifications")

    async def run(self) -> None:
        """Watches until cancelled. Without rules it looks at nothing."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_blindness(), name="blindness")
            group.create_task(self._watch_budget(), name="over-budget")

    async def tell(self, kind: EventKind, data: Mapping[str, object], *, at: float, event_id: str) -> None:
        """Puts an event into the outbox, for each channel of the rules that want it; repeats while the database fails.

        event_id: the same event told twice is told once.
        """
        notices = self._notices(kind, data, at=at, event_id=event_id)
        while notices:
            try:
                await self._store.put(notices)
            except DatabaseUnavailableError as error:
                self._log.warning("notice_put_off", kind=kind.value, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._filled.set()
                return

    def of_channel(self, channel: StoredChannel, detail: str, *, over: bool) -> tuple[Notice, ...]:
        """Returns what other channels are told of one that was paused, or works again."""
        now, name = self._clock(), channel.spec.name
        data = {"channel": name, "channel_kind": channel.spec.kind, "detail": detail, "over": over}
        event_id = f"channel-{channel.id}-{now:.0f}-{'up' if over else 'down'}"
        found = self._notices(EventKind.CHANNEL_DOWN, data, at=now, event_id=event_id)
        return tuple(one for one in found if one.channel_id != channel.id)

    def _notices(self, kind: EventKind, data: Mapping[str, object], *, at: float, event_id: str) -> tuple[Notice, ...]:
        rules = self._announcer.rules
        if not rules or not rules.rules.listens(kind):
            return ()
        from pollerd.daemon.results.announcing.rules_in_force import notice_of_daemon

        notice = notice_of_daemon(kind, event_id, at, orjson.dumps(data).decode())
        return rules.notices_of_daemon(notice, self._clock())

    async def _watch_blindness(self) -> None:
        while True:
            period = await self._blindness.next()
            if period.until - period.since >= BLIND_LEAST_SECONDS:
                await self._tell_of(period)

    async def _tell_of(self, period: BlindPeriod) -> None:
        data = {"from": rfc3339(period.since), "to": rfc3339(period.until), "detail": period.cause.value}
        event_id = f"blind-{BlindCause(period.cause).name.lower()}-{period.since:.0f}"
        await self.tell(EventKind.BLIND, data, at=period.until, event_id=event_id)

    async def _watch_budget(self) -> None:
        over: bool | None = None
        looks = 0
        while True:
            await asyncio.sleep(LATE_SECONDS)
            rules = self._announcer.rules
            if not rules or not rules.rules.listens(EventKind.OVER_BUDGET):
                continue
            if over is None:
                over = await self._was_over_budget()
            late = self._late_sites()
            looks = looks + 1 if (late > 0) is not over else 0
            if looks >= _LATE_LOOKS:
                over, looks = late > 0, 0
                now = self._clock()
                data = {"over": not over, "late_sites": late}
                await self.tell(EventKind.OVER_BUDGET, data, at=now, event_id=f"budget-{now:.0f}")

    async def _was_over_budget(self) -> bool:
        """Returns whether the last that was said of the budget, perhaps by an earlier run, is that it is too small."""
        while True:
            try:
                last = await self._store.last_notice(EventKind.OVER_BUDGET)
            except DatabaseUnavailableError as error:
                self._log.warning("watch_put_off", kind=EventKind.OVER_BUDGET.value, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return last is not None and not orjson.loads(last.data)["over"]
