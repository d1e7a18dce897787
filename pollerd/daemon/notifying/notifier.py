"""Puts rules and channels in force as they are stored, and delivers. Without either it reads them once, and sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import orjson
import structlog
from msgspec.structs import replace

from pollerd.cluster.roles import NodeRole
from pollerd.daemon.notifying.outbox_gauges import OutboxGauges
from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.notifications.message import Answer, Message
from pollerd.storage import NotificationStore, StoredChannel, StoredRule

if TYPE_CHECKING:  # a daemon without rules loads none of it
    from pollerd.notifications.rules.rule import Rule

_DIGESTS_SECONDS = 2 * 86_400.0
"""How far the clock may be put back, and a zone moved, before a digest that went out takes something in again."""
_TIDY_SECONDS = 3_600.0
_RETRY_SECONDS = 5.0
_WAIT_SECONDS = 4 * 86_400.0
"""How long a notice may wait: longer than the three days of its attempts."""


class Delivers(Protocol):
    """Sends what the outbox holds."""

    async def run(self) -> None:
        """Delivers until cancelled."""

    async def replace(self, rows: Iterable[StoredChannel]) -> None:
        """Puts these channels in place of those before."""

    async def try_out(self, row: StoredChannel, message: Message) -> Answer:
        """Sends one message on a channel with these settings."""

    async def close(self) -> None:
        """Closes every connection; may be repeated."""


class Watcher(Protocol):
    """Looks for what no poll tells."""

    async def run(self) -> None:
        """Looks until cancelled."""


class Notifier:
    """Keeps rules, channels and delivery in step with the database."""

    def __init__(
        self,
        *,
        store: NotificationStore,
        announcer: Announcer,
        journal: Journal,
        site_cache: SiteCache,
        make_delivery: Callable[[], Delivers],
        watchers: Sequence[Watcher],
        runtime: Runtime,
    ) -> None:
        """make_delivery: called whenever this process begins to deliver, and for a trial; watchers: run meanwhile, and
        where another node delivers, too.
        """
        self._store, self._announcer, self._journal, self._site_cache = store, announcer, journal, site_cache
        self._make_delivery, self._watchers, self._clock = make_delivery, watchers, runtime.clock
        self._roles = runtime.roles
        self._gauges = OutboxGauges(store=store, instruments=runtime.instruments, clock=runtime.clock)
        self._delivery: Delivers | None = None
        """None: there is no channel, or another node delivers."""
        self._has_channels = asyncio.Event()
        self._turn = asyncio.Lock()
        self._log = structlog.get_logger("pollerd.notifications")

    async def load(self) -> None:
        """Puts in force what is stored, before the first poll. Raises DatabaseUnavailableError."""
        channels, rules = await self._store.channels(), await self._store.rules()
        self._announce_by(channels, rules)
        late = self._clock() - _DIGESTS_SECONDS
        self._announcer.restore(await self._store.incidents(), await self._store.digests_sent(late))
        await self._deliver_on(channels)

    async def reload(self) -> None:
        """Puts in force what is stored. Raises DatabaseUnavailableError; then all is as before."""
        async with self._turn:
            channels, rules = await self._store.channels(), await self._store.rules()
            async with self._journal.quiesced():  # no batch holds notices of a rule or channel that is gone
                self._announce_by(channels, rules)
            await self._deliver_on(channels)

    async def run(self) -> None:
        """Delivers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watcher in self._watchers:
                group.create_task(watcher.run(), name=type(watcher).__name__)
            await self._has_channels.wait()
            await self._roles.while_held(NodeRole.DELIVERY, self._deliver)

    async def _deliver(self) -> None:
        """Delivers until cancelled. Knows nothing of an earlier time: another node may have delivered meanwhile."""
        delivery = self._make_delivery()
        try:
            await self._begin_with(delivery)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._gauges.run(), name="outbox-gauges")
                group.create_task(self._tidy(), name="outbox-tidy")
                group.create_task(delivery.run(), name="delivery")
        finally:
            self._delivery = None
            await delivery.close()

    async def _begin_with(self, delivery: Delivers) -> None:
        while True:
            try:
                async with self._turn:  # what is changed from here on, `reload` hands on
                    await delivery.replace(await self._store.channels())
                    self._delivery = delivery
            except DatabaseUnavailableError as error:
                self._log.warning("deliveries_put_off", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def try_out(self, row: StoredChannel, message: Message) -> Answer:
        """Sends one message on a channel with these settings, at once, whichever node delivers."""
        delivery = self._make_delivery()
        try:
            return await delivery.try_out(row, message)
        finally:
            await delivery.close()

    def _announce_by(self, channels: Sequence[StoredChannel], rules: Sequence[StoredRule]) -> None:
        names = {row.spec.name: row.id for row in channels if row.spec.enabled}
        usable = [rule for row in rules if (rule := self._parsed(row)) is not None]
        self._announcer.put_in_force(usable, names)
        self._site_cache.forget_all()  # contexts know the tags that rules name

    async def _deliver_on(self, channels: Sequence[StoredChannel]) -> None:
        if channels:
            self._has_channels.set()
        if self._delivery is not None:
            await self._delivery.replace(channels)

    def _parsed(self, row: StoredRule) -> Rule | None:
        from pollerd.notifications.rules.parsing import parse_rule

        try:
            rule = parse_rule(orjson.loads(row.spec.settings), id=row.id)
            return replace(rule, enabled=row.spec.enabled, muted_until=row.muted_until)
        except (InvalidValueError, ValueError) as error:
            self._log.error("rule_unusable", rule=row.spec.name, reason=str(error), instead="it tells nothing")
            return None

    async def _tidy(self) -> None:
        """Gives up what waits too long, from time to time."""
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            try:
                now = self._clock()
                late = await self._store.expire(now - _WAIT_SECONDS, now)
            except DatabaseUnavailableError as error:
                self._log.warning("outbox_not_tidied", reason=str(error))
            else:
                if late:
                    self._log.warning("notices_expired", number=sum(late.values()))
