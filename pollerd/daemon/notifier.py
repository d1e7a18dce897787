"""The notifier, which puts stored rules and channels in force, and delivers; the events and watches of the daemon.

Without rules and channels it reads them once, and sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import orjson
import structlog
from msgspec.structs import replace

from pollerd.daemon.announcer import Announcer
from pollerd.daemon.commit import Journal
from pollerd.daemon.process import BlindCause, BlindPeriod
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import SiteCache
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.events import EventKind, Incident, Notice
from pollerd.model import OutcomeKind
from pollerd.notifications.message import AnswerKind, Message, Receipt
from pollerd.partitions import NodeRole
from pollerd.storage.notification_values import ClaimedMessage, StoredChannel, StoredRule
from pollerd.storage.notifications import NotificationStore
from pollerd.storage.store import Store
from pollerd.telemetry import Instruments
from pollerd.timestamps import rfc3339

if TYPE_CHECKING:
    from pollerd.daemon.rules_in_force import RulesInForce
    from pollerd.notifications.delivery import DeliveryLoop
    from pollerd.notifications.rules import Rule


# Gauges of the outbox.

INTERVAL_SECONDS = 15.0


class OutboxGauges:
    """Sets the gauges of what waits, of what is dead, and of paused channels."""

    def __init__(self, *, store: NotificationStore, instruments: Instruments, clock: Callable[[], float]) -> None:
        self._store, self._instruments, self._clock = store, instruments, clock

    async def run(self) -> None:
        """Sets them every 15 s, until cancelled; then to 0, as another node may count from then on."""
        try:
            while True:
                await self.refresh()
                await asyncio.sleep(INTERVAL_SECONDS)
        finally:
            self._set()

    async def refresh(self) -> None:
        """Sets them once; while the database cannot be asked they keep their values."""
        try:
            counts, channels = await self._store.outbox.counts(), await self._store.channels.all()
        except DatabaseUnavailableError:
            return  # `storage_failing` reports it
        rows, now = list(counts.values()), self._clock()
        oldest = min((row.oldest for row in rows if row.oldest is not None), default=now)
        self._set(
            waiting=sum(row.waiting + row.sending for row in rows),
            dead=sum(row.dead for row in rows),
            oldest=max(0.0, now - oldest),
            paused=sum(channel.paused_at is not None for channel in channels),
        )

    def _set(self, *, waiting: int = 0, dead: int = 0, oldest: float = 0.0, paused: int = 0) -> None:
        self._instruments.notices_waiting.set(waiting)
        self._instruments.notices_dead.set(dead)
        self._instruments.oldest_notice.set(oldest)
        self._instruments.channels_paused.set(paused)


_DIGESTS_SECONDS = 2 * 86_400.0
"""How far the clock may be put back, and a zone moved, before a digest that went out takes something in again."""
_TIDY_SECONDS = 3_600.0
_RETRY_SECONDS = 5.0
_WAIT_SECONDS = 4 * 86_400.0
"""How long a notice may wait: longer than the three days of its attempts."""


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
        make_delivery: Callable[[], DeliveryLoop],
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
        self._delivery: DeliveryLoop | None = None
        """None: there is no channel, or another node delivers."""
        self._has_channels = asyncio.Event()
        self._turn = asyncio.Lock()
        self._log = structlog.get_logger("pollerd.notifications")

    async def load(self) -> None:
        """Puts in force what is stored, before the first poll. Raises DatabaseUnavailableError."""
        channels, rules = await self._store.channels.all(), await self._store.rules.all()
        self._announce_by(channels, rules)
        late = self._clock() - _DIGESTS_SECONDS
        self._announcer.restore(await self._store.rules.incidents(), await self._store.outbox.digests_sent(late))
        await self._deliver_on(channels)

    async def reload(self) -> None:
        """Puts in force what is stored. Raises DatabaseUnavailableError; then all is as before."""
        async with self._turn:
            channels, rules = await self._store.channels.all(), await self._store.rules.all()
            async with self._journal.quiesced():  # no batch holds notices of a rule or channel that is gone
                self._announce_by(channels, rules)
            await self._deliver_on(channels)

    async def begin_anew(self) -> None:
        """Has all channels of this process begin to deliver again, with what their settings are now."""
        async with self._turn:
            if self._delivery is not None:
                await self._delivery.replace(())
                await self._delivery.replace(await self._store.channels.all())

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

    async def _begin_with(self, delivery: DeliveryLoop) -> None:
        while True:
            try:
                async with self._turn:  # what is changed from here on, `reload` hands on
                    await delivery.replace(await self._store.channels.all())
                    self._delivery = delivery
            except DatabaseUnavailableError as error:
                self._log.warning("deliveries_put_off", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def try_out(self, row: StoredChannel, message: Message) -> Receipt:
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
        from pollerd.notifications.rules import parse_rule

        try:
            rule = parse_rule(orjson.loads(row.spec.settings), id=row.id)
            return replace(rule, enabled=row.spec.enabled, muted_until=row.muted_until)
        except (InvalidValueError, ValueError) as error:
            self._log.error("rule_unusable", rule=row.spec.name, reason=str(error), effect="it sends nothing")
            return None

    async def _tidy(self) -> None:
        """Gives up what waits too long, from time to time."""
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            try:
                now = self._clock()
                late = await self._store.outbox.expire(now - _WAIT_SECONDS, now)
            except DatabaseUnavailableError as error:
                self._log.warning("outbox_not_tidied", reason=str(error))
            else:
                if late:
                    self._log.warning("messages_expired", messages=sum(late.values()))


# Events of the whole daemon: blind periods, a budget that cannot hold the intervals, channels.

BLIND_LEAST_SECONDS = 60.0
"""Shorter periods are not told."""
LATE_SECONDS = 60.0
_LATE_LOOKS = 3
"""Looks in a row at which sites must be late, or none, before it is told."""


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
                await self._store.outbox.put(notices)
            except DatabaseUnavailableError as error:
                self._log.warning("alert_put_off", kind=kind.value, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._filled.set()
                return

    def of_channel(self, channel: StoredChannel, detail: str, *, over: bool) -> tuple[Notice, ...]:
        """Returns what other channels are told of one that was paused, or works again."""
        now, name = self._clock(), channel.spec.name
        data = {"channel": name, "channel_kind": channel.spec.kind, "detail": detail, "over": over}
        event_id = f"channel-{channel.id}-{now:.0f}-{'up' if over else 'down'}"
        notices = self._notices(EventKind.CHANNEL_DOWN, data, at=now, event_id=event_id)
        return tuple(notice for notice in notices if notice.channel_id != channel.id)

    def _notices(self, kind: EventKind, data: Mapping[str, object], *, at: float, event_id: str) -> tuple[Notice, ...]:
        rules = self._announcer.rules
        if not rules or not rules.rules.listens(kind):
            return ()
        from pollerd.daemon.rules_in_force import notice_of_daemon

        notice = notice_of_daemon(kind, event_id, at, orjson.dumps(data).decode())
        return rules.notices_of_daemon(notice, self._clock())

    async def _watch_blindness(self) -> None:
        while True:
            period = await self._blindness.next()
            if period.until - period.since >= BLIND_LEAST_SECONDS:
                await self._tell_of(period)

    async def _tell_of(self, period: BlindPeriod) -> None:
        data = {"from": rfc3339(period.since), "to": rfc3339(period.until), "detail": period.cause.in_words}
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
                last = await self._store.log.last_notice(EventKind.OVER_BUDGET)
            except DatabaseUnavailableError as error:
                self._log.warning("alert_put_off", kind=EventKind.OVER_BUDGET.value, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return last is not None and not orjson.loads(last.data)["over"]


# The watch on deliveries, which counts results, and notifies on other channels when one is paused.


class DeliveryWatch:
    """What senders report to."""

    def __init__(self, *, events: DaemonEvents, announcer: Announcer, instruments: Instruments) -> None:
        self._events, self._announcer, self._instruments = events, announcer, instruments

    def ended(self, claim: ClaimedMessage, answer: Receipt, *, dead: bool) -> None:
        """Counts one attempt at a message. A digest takes nothing more in from its first attempt on."""
        self._instruments.delivery_attempts["dead" if dead else answer.kind.value].inc()
        if answer.kind is AnswerKind.SENT:
            self._instruments.notices_sent.inc(len(claim.notices))
        if claim.digest:
            self._announcer.close_digests([claim.digest])

    def notices_of(
        self, channel: StoredChannel, answer: Receipt, now: float, *, was_paused: bool
    ) -> tuple[Notice, ...]:
        """Returns what other channels are told, if this one is paused now, or works again."""
        refused, sent = answer.kind is AnswerKind.REFUSED, answer.kind is AnswerKind.SENT
        if not (refused and not was_paused) and not (sent and was_paused):
            return ()
        return self._events.of_channel(channel, answer.detail if refused else "", over=sent)


# The watch on failing sites: a site backs off for up to a day, so the time that a rule sets may end between polls.

_LOOK_SECONDS = 60.0
_AT_ONCE = 500


class FailingWatch:
    """Looks at all failing sites, a minute after the last look, while a rule asks for a time."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: SchedulerState,
        announcer: Announcer,
        journal: Journal,
        site_cache: SiteCache,
        filled: asyncio.Event,
        runtime: Runtime,
    ) -> None:
        """`filled`: set when notices were added."""
        self._store, self._scheduler, self._announcer = store, scheduler, announcer
        self._journal, self._site_cache, self._filled = journal, site_cache, filled
        self._clock = runtime.clock
        self._log = structlog.get_logger("pollerd.notifications")

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            rules = self._announcer.rules
            if not rules or rules.shortest_patience is None:
                continue
            try:
                await self.look(rules, rules.shortest_patience)
            except DatabaseUnavailableError as error:
                self._log.warning("failing_sites_not_checked", reason=str(error))

    async def look(self, rules: RulesInForce, patience: float) -> None:
        """Opens incidents of sites that fail for at least `patience` seconds. Raises DatabaseUnavailableError."""
        sites, now = self._scheduler.sites, self._clock()
        failing = np.flatnonzero((sites.failures[: sites.size] > 0) & (sites.last_seen[: sites.size] <= now - patience))
        ids = [int(site_id) for site_id in sites.site_id[failing] if site_id >= 0]
        for start in range(0, len(ids), _AT_ONCE):
            await self._look_at(rules, ids[start : start + _AT_ONCE], now)

    async def _look_at(self, rules: RulesInForce, ids: list[int], now: float) -> None:
        from pollerd.daemon.rules_in_force import SiteStanding, incident_notices
        from pollerd.notifications.matching import SiteHealth

        async with self._journal.quiesced():  # else a poll could open the same incident meanwhile
            contexts = await self._site_cache.get(ids)
            notices, opened = list[Notice](), list[Incident]()
            for site in await self._store.sites.get_many(ids):
                context, slot = contexts.get(site.id), self._scheduler.sites.slot_of(site.id)
                if context is None or slot is None or not site.failures:
                    continue
                seen = float(self._scheduler.sites.last_seen[slot])
                since = seen if seen > 0 else site.created_at
                health = SiteHealth(site.failures, max(now - since, 0.0), site.last_outcome or OutcomeKind.TIMEOUT)
                incidents = incident_notices(rules, SiteStanding(context, health, since, site.last_detail, now), now)
                notices += incidents.notices
                opened += incidents.opened
            if opened:
                await self._store.notifications.outbox.put(notices, incidents=opened)
                rules.opened(opened)
        if notices:
            self._filled.set()
