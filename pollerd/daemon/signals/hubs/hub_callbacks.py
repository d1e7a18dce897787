"""Answers hubs: confirms subscriptions that were asked for, and reads what they send."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from enum import StrEnum

import structlog

from pollerd.crawling.sources.hub_verification import HubVerification
from pollerd.daemon.signals.document_signals import DocumentSignals, SignalDocument
from pollerd.daemon.signals.hubs.hub_signature import is_signed
from pollerd.daemon.signals.hubs.hub_subscriber import LEASE_SECONDS, HubSubscriber
from pollerd.daemon.signals.signal_settings import SignalSettings
from pollerd.daemon.state.runtime import Runtime
from pollerd.errors import NotFoundError, TooManyError
from pollerd.storage import HubState, HubStore, HubSubscription, SignalSource, SignalStore

VERIFY_SECONDS = 3_600.0
"""How long after a request a hub may verify it."""
LEAST_LEASE_SECONDS, MOST_LEASE_SECONDS = 60.0, 365 * 86_400.0
RENEW_AT = 0.75
"""Share of a lease after which it is renewed."""
DENIED_SECONDS = 86_400.0
"""Time after which a hub that denied a subscription is asked again."""
_CALLBACK = re.compile(r"[A-Za-z0-9_-]{43}")
_LONGEST_CHALLENGE = 1_000
_MOST_AT_ONCE, _MOST_WAITING = 2, 16
_BODY_SECONDS = 30.0
"""How long a hub may take to send a body."""
_RECENT = 1_000
"""Deliveries that are remembered, to recognise repeats."""


class HubDelivery(StrEnum):
    """What became of something that was sent to a callback."""

    ACCEPTED = "accepted"
    FORGED = "forged"
    """Its signature is missing or wrong."""
    REPEATED = "repeated"
    UNREADABLE = "unreadable"
    """It is no document of the source's kind."""
    UNWANTED = "unwanted"
    """There is no active subscription."""


class HubCallbacks:
    """Confirms and reads. Knows subscriptions by their callbacks, from the database: any node answers."""

    def __init__(
        self,
        *,
        hubs: HubStore,
        signals: SignalStore,
        documents: DocumentSignals,
        subscriber: HubSubscriber,
        settings: SignalSettings,
        runtime: Runtime,
    ) -> None:
        self._hubs, self._signals, self._documents, self._subscriber = hubs, signals, documents, subscriber
        self._settings, self._clock, self._instruments = settings, runtime.clock, runtime.instruments
        self._reading = asyncio.Semaphore(_MOST_AT_ONCE)
        self._waiting = 0
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        self._log = structlog.get_logger("pollerd.hubs")

    async def at(self, callback: str) -> HubSubscription | None:
        """Returns the subscription with this end of its callback URL; None if there is none, or hubs are off."""
        if self._settings.callback_url is None or _CALLBACK.fullmatch(callback) is None:
            return None
        return await self._hubs.at_callback(callback)

    async def verify(self, callback: str, asked: HubVerification) -> str | None:
        """Returns what is answered to a hub that verifies or denies; None: it is refused with 404.

        Only what was asked for is confirmed: a request that was sent within an hour, of the same topic. Raises
        DatabaseUnavailableError.
        """
        one = await self.at(callback)
        if one is None or not hmac.compare_digest(one.topic.encode(), asked.topic.encode("utf-8", "replace")):
            return None
        if asked.mode == "denied":
            await self._deny(one, asked.reason)
            return ""
        leaves = one.state is HubState.LEAVING
        wanted = "unsubscribe" if leaves else "subscribe"
        now = self._clock()
        is_recent = one.asked_at is not None and now - one.asked_at <= VERIFY_SECONDS
        if asked.mode != wanted or not is_recent or not 0 < len(asked.challenge) <= _LONGEST_CHALLENGE:
            return None
        if leaves:
            await self._hubs.delete(one.id)
        else:
            lease = _lease(asked.lease_seconds)
            await self._hubs.verified(one.id, now, lease, now + RENEW_AT * lease)
        self._log.info("hub_verified", hub=one.hub, topic=one.topic, leaves=leaves)
        self._subscriber.look_again()
        return asked.challenge

    async def deliver(
        self, one: HubSubscription, receive: Callable[[], Awaitable[bytes]], content_type: str | None, signature: str
    ) -> HubDelivery:
        """Reads what was sent to a subscription's callback, as a poll of the source would be read.

        receive: returns the body; called only if not too many others are held. signature: the header X-Hub-Signature,
        empty if left out. Raises TooManyError before, and DatabaseUnavailableError: the hub sends it again.
        """
        if self._waiting >= _MOST_WAITING:
            raise TooManyError("deliveries", 5.0)
        self._waiting += 1
        try:
            body = await _received(receive)
            async with self._reading:
                result = HubDelivery.UNREADABLE
                if body is not None:
                    result = await self._read(one, body, content_type, signature)
        finally:
            self._waiting -= 1
        self._instruments.hub_deliveries[result.value].inc()
        if result is not HubDelivery.ACCEPTED:
            self._log.info("hub_delivery_ignored", hub=one.hub, topic=one.topic, result=result.value)
        return result

    async def _read(self, one: HubSubscription, body: bytes, content_type: str | None, signature: str) -> HubDelivery:
        secret = await self._hubs.secret_of(one.id)
        if secret is None or not await asyncio.to_thread(is_signed, body, signature, secret):
            return HubDelivery.FORGED
        source = await self._source_of(one)
        if source is None or one.state is not HubState.ACTIVE:
            return HubDelivery.UNWANTED
        digest = hashlib.sha256(one.callback.encode() + body).digest()
        if digest in self._recent:
            return HubDelivery.REPEATED
        document = SignalDocument(body, content_type, source.url or one.topic, pushed=True)
        if await self._documents.store(source, document, self._report) is None:
            return HubDelivery.UNREADABLE
        await self._hubs.received(one.id, self._clock())
        self._recent[digest] = None
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        await self._documents.pass_on()
        self._subscriber.look_again()
        return HubDelivery.ACCEPTED

    async def _source_of(self, one: HubSubscription) -> SignalSource | None:
        if one.source_id is None:
            return None
        try:
            return await self._signals.get(one.source_id)
        except NotFoundError:
            return None

    async def _deny(self, one: HubSubscription, reason: str) -> None:
        if one.state is HubState.LEAVING:
            await self._hubs.delete(one.id)
        else:
            said = " ".join(reason[:200].split()) or "no reason given"
            await self._hubs.denied(one.id, said, self._clock() + DENIED_SECONDS)
        self._log.warning("hub_denies", hub=one.hub, topic=one.topic)
        self._subscriber.look_again()

    def _report(self, error: Exception) -> None:
        """Logs a document that breaks a parser: it affects only its own subscription."""
        self._log.error("hub_delivery_fault", exc_info=error)


async def _received(receive: Callable[[], Awaitable[bytes]]) -> bytes | None:
    """Returns the body; None if it does not come in time."""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await receive()
    except TimeoutError:
        return None


def _lease(written: str) -> float:
    """Returns the lease in s that a hub grants: what was asked for if it does not say."""
    seconds = float(written) if written.isascii() and written.isdecimal() and len(written) <= 12 else LEASE_SECONDS
    return min(max(seconds, LEAST_LEASE_SECONDS), MOST_LEASE_SECONDS)
