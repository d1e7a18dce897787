"""Subscribes at hubs, renews before leases end, and leaves; says which sources are pushed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from pollerd.daemon.signals.hubs.hub_requests import HubAnswer, ask_hub
from pollerd.daemon.signals.signal_settings import SignalSettings
from pollerd.daemon.signals.signal_sources import SignalSources
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.storage_health import RETRY_CAP_SECONDS
from pollerd.errors import DatabaseUnavailableError
from pollerd.fetching import Poster
from pollerd.storage import HubState, HubStore, HubSubscription

LEASE_SECONDS = 10 * 86_400
"""Lease that is asked for; the hub decides."""
RETRY_SECONDS, RETRY_MOST_SECONDS = 600.0, 86_400.0
"""Time until a hub that did not verify is asked again: doubled each time, from and to."""
MOST_LEAVING = 4
"""Requests to end a subscription; after that it is forgotten, and ends with its lease."""
_LOOK_SECONDS = 60.0
"""Longest time between two looks: another node may have changed something."""
_LEAST_SECONDS = 0.05


class HubSubscriber:
    """Asks hubs, one at a time. Where there are several nodes one of them does, and each looks for itself who is
    pushed.
    """

    def __init__(
        self,
        *,
        store: HubStore,
        sources: SignalSources,
        settings: SignalSettings,
        make_poster: Callable[[], Poster],
        runtime: Runtime,
    ) -> None:
        """make_poster: opens what requests to hubs are sent with, through the guard."""
        self._store, self._sources, self._settings, self._make_poster = store, sources, settings, make_poster
        self._clock, self._instruments = runtime.clock, runtime.instruments
        self._to_ask, self._to_look = asyncio.Event(), asyncio.Event()
        self._log = structlog.get_logger("pollerd.hubs")

    def look_again(self) -> None:
        """Looks soon at what is stored: it changed."""
        self._to_ask.set()
        self._to_look.set()

    def callback(self, end: str) -> str:
        """Returns the URL that a hub calls, with this end."""
        return self._settings.callback(end)

    async def run(self) -> None:
        """Asks hubs when that is due, until cancelled; ends at once if no callback URL is set."""
        if self._settings.callback_url is None:
            return
        readable = False
        async with self._make_poster() as poster:
            while True:
                self._to_ask.clear()
                try:
                    if not readable:
                        await self._store.delete_unreadable()
                        readable = True
                    wait = await self._ask_due(poster)
                except DatabaseUnavailableError as error:
                    self._log.warning("hubs_put_off", reason=str(error))
                    wait = RETRY_CAP_SECONDS
                await _wait_for(self._to_ask, wait)

    async def follow(self) -> None:
        """Says to the signal sources which of them hubs push, until cancelled; ends at once without a callback URL."""
        if self._settings.callback_url is None:
            return
        while True:
            self._to_look.clear()
            try:
                wait = await self._look()
            except DatabaseUnavailableError as error:
                self._log.warning("hubs_put_off", reason=str(error))
                wait = RETRY_CAP_SECONDS
            await _wait_for(self._to_look, wait)

    async def _look(self) -> float:
        """Returns the seconds until a hub that is alive may fall silent."""
        now, stored = self._clock(), await self._store.all()
        alive = [one for one in stored if one.is_alive(now)]
        self._sources.set_pushed({one.source_id for one in alive if one.source_id is not None})
        for state, gauge in self._instruments.hub_subscriptions.items():
            gauge.set(sum(one.state == state for one in stored))
        ends = [min(one.silent_at, one.lease_ends_at or now) for one in alive]
        return _within(min(ends, default=now + _LOOK_SECONDS) - now)

    async def _ask_due(self, poster: Poster) -> float:
        """Asks each hub of which something is due; returns the seconds until the next one is."""
        stored = await self._store.all()
        if any(one.source_id is None and one.state is not HubState.LEAVING for one in stored):
            await self._store.leave_gone(self._clock())
        if any(one.state is HubState.ACTIVE and (one.lease_ends_at or 0) <= self._clock() for one in stored):
            await self._store.expire(self._clock())
        for one in await self._store.all():
            if one.next_at <= self._clock():
                await self._ask(poster, one)
        waiting, now = await self._store.all(), self._clock()
        return _within(min((one.next_at for one in waiting), default=now + _LOOK_SECONDS) - now)

    async def _ask(self, poster: Poster, one: HubSubscription) -> None:
        leaves = one.state is HubState.LEAVING
        secret = await self._store.secret_of(one.id)
        if secret is None or (leaves and (one.attempts >= MOST_LEAVING or one.verified_at is None)):
            await self._store.delete(one.id)
            return
        # Noted before: a hub may verify before it answers, and what was not asked for is not verified.
        now = self._clock()
        if not await self._store.ask(one.id, now, _next_at(one, now)):
            return
        fields = {
            "hub.mode": "unsubscribe" if leaves else "subscribe",
            "hub.topic": one.topic,
            "hub.callback": self.callback(one.callback),
        }
        if not leaves:
            fields |= {"hub.lease_seconds": str(LEASE_SECONDS), "hub.secret": secret.decode()}
        answer = await ask_hub(poster, one.hub, fields, self._clock)
        self._instruments.hub_requests["accepted" if answer.accepted else "refused"].inc()
        await self._note(one, answer)

    async def _note(self, one: HubSubscription, answer: HubAnswer) -> None:
        if answer.accepted:
            self._log.info("hub_asked", hub=one.hub, topic=one.topic, leaves=one.state is HubState.LEAVING)
        else:
            self._log.warning("hub_refuses", hub=one.hub, topic=one.topic, detail=answer.detail)
        again_at = None if answer.retry_after is None else self._clock() + min(answer.retry_after, RETRY_MOST_SECONDS)
        await self._store.answered(one.id, answer.detail, again_at)
        self._to_look.set()


def _next_at(one: HubSubscription, now: float) -> float:
    """Returns when the hub is asked again if it does not verify; no later than a lease ends."""
    again = now + min(RETRY_SECONDS * 2.0 ** min(one.attempts, 10), RETRY_MOST_SECONDS)
    if one.state is HubState.ACTIVE and one.lease_ends_at is not None and one.lease_ends_at > now:
        return min(again, one.lease_ends_at)
    return again


def _within(seconds: float) -> float:
    return min(max(seconds, _LEAST_SECONDS), _LOOK_SECONDS)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
