"""Subscriptions at WebSub hubs: made, renewed before leases end, and ended; the sources that are pushed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from http import HTTPStatus
from urllib.parse import urlencode

import structlog
from msgspec import Struct

from pollerd.daemon.faults import RETRY_CAP_SECONDS
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.settings import SignalSettings
from pollerd.daemon.signal_reader import DocumentSignals, SignalDocument
from pollerd.daemon.signals import SignalSources
from pollerd.errors import DatabaseUnavailableError, InvalidValueError, NotFoundError, TooManyError
from pollerd.fetching.poster import Posted, Poster
from pollerd.lists.hubs import HubOffer, HubVerification, hub_offer
from pollerd.model import Outcome
from pollerd.storage.hubs import HubState, HubStore, HubSubscription
from pollerd.storage.signals import SignalSource, SignalStore
from pollerd.texts import N_, _
from pollerd.urls import join_url

# Requests to hubs, to subscribe or to end a subscription.

MAX_REDIRECTS = 3
_SECONDS = 20.0
_MAX_BYTES = 1_000
"""Of a hub's answer: the reason of a refusal is read, no more."""
_KEEPING_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class HubAnswer(Struct, frozen=True):
    """What a hub answered. accepted: it will verify. retry_after: s that it asked to wait."""

    accepted: bool
    detail: str
    retry_after: float | None = None


async def ask_hub(poster: Poster, hub: str, fields: Mapping[str, str], clock: Callable[[], float]) -> HubAnswer:
    """Posts a form to the hub at the normalised URL, through the guard of `poster`. Raises nothing for its faults.

    Follows redirects that keep the method, 307 and 308, at most three and none from https to http; each is dialled
    through the guard.
    """
    body, url = urlencode(fields).encode(), hub
    for _hop in range(MAX_REDIRECTS + 1):
        posted = await poster.post(url, _FORM, body, now=clock(), seconds=_SECONDS, most=_MAX_BYTES)
        if posted.status not in _KEEPING_METHOD:
            return _answer(posted)
        target = _target(url, posted.location)
        if target is None:
            return HubAnswer(False, _("the hub redirects ({status}) to no usable URL", status=posted.status))
        url = target
    return HubAnswer(False, _("the hub redirects more than {max_redirects} times", max_redirects=MAX_REDIRECTS))


def _target(url: str, location: str | None) -> str | None:
    if location is None:
        return None
    try:
        target = join_url(url, location)
    except InvalidValueError:
        return None
    return None if url.startswith("https:") and not target.startswith("https:") else target


def _answer(posted: Posted) -> HubAnswer:
    if posted.status is None:
        return HubAnswer(False, _("the hub cannot be asked: {detail}", detail=posted.detail))
    if HTTPStatus.OK <= posted.status < HTTPStatus.MULTIPLE_CHOICES:
        return HubAnswer(True, _("asked for; the hub has not verified it yet"))
    text = " ".join(posted.beginning.decode("utf-8", "replace").split())
    reason = f": {text[:200]}" if text.isprintable() and text else ""
    return HubAnswer(
        False,
        _("the hub refuses with status {status}{reason}", status=posted.status, reason=reason),
        posted.retry_after,
    )


LEASE_SECONDS = 10 * 86_400
"""Lease that is asked for; the hub decides."""
RETRY_SECONDS, RETRY_MOST_SECONDS = 600.0, 86_400.0
"""Time until a hub that did not verify is asked again: doubled each time, from and to."""
MAX_LEAVING = 4
"""Requests to end a subscription; after that it is forgotten, and ends with its lease."""
_LOOK_SECONDS = 60.0
"""Longest time between two looks: another node may have changed something."""
_MIN_SECONDS = 0.05


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
        alive = [subscription for subscription in stored if subscription.is_alive(now)]
        self._sources.set_pushed(
            {subscription.source_id for subscription in alive if subscription.source_id is not None}
        )
        for state, gauge in self._instruments.hub_subscriptions.items():
            gauge.set(sum(subscription.state == state for subscription in stored))
        ends = [min(subscription.silent_at, subscription.lease_ends_at or now) for subscription in alive]
        return _within(min(ends, default=now + _LOOK_SECONDS) - now)

    async def _ask_due(self, poster: Poster) -> float:
        """Asks each hub of which something is due; returns the seconds until the next one is."""
        stored = await self._store.all()
        if any(
            subscription.source_id is None and subscription.state is not HubState.LEAVING for subscription in stored
        ):
            await self._store.leave_gone(self._clock())
        if any(
            subscription.state is HubState.ACTIVE and (subscription.lease_ends_at or 0) <= self._clock()
            for subscription in stored
        ):
            await self._store.expire(self._clock())
        for subscription in await self._store.all():
            if subscription.next_at <= self._clock():
                await self._ask(poster, subscription)
        waiting, now = await self._store.all(), self._clock()
        return _within(min((subscription.next_at for subscription in waiting), default=now + _LOOK_SECONDS) - now)

    async def _ask(self, poster: Poster, subscription: HubSubscription) -> None:
        leaves = subscription.state is HubState.LEAVING
        secret = await self._store.secret_of(subscription.id)
        if secret is None or (leaves and (subscription.attempts >= MAX_LEAVING or subscription.verified_at is None)):
            await self._store.delete(subscription.id)
            return
        # Noted before: a hub may verify before it answers, and what was not asked for is not verified.
        now = self._clock()
        if not await self._store.ask(subscription.id, now, _next_at(subscription, now)):
            return
        fields = {
            "hub.mode": _mode(subscription),
            "hub.topic": subscription.topic,
            "hub.callback": self.callback(subscription.callback),
        }
        if not leaves:
            fields |= {"hub.lease_seconds": str(LEASE_SECONDS), "hub.secret": secret.decode()}
        answer = await ask_hub(poster, subscription.hub, fields, self._clock)
        self._instruments.hub_requests["accepted" if answer.accepted else "refused"].inc()
        await self._note(subscription, answer)

    async def _note(self, subscription: HubSubscription, answer: HubAnswer) -> None:
        if answer.accepted:
            self._log.info("hub_requested", hub=subscription.hub, topic=subscription.topic, mode=_mode(subscription))
        else:
            self._log.warning("hub_refuses", hub=subscription.hub, topic=subscription.topic, reason=answer.detail)
        again_at = None if answer.retry_after is None else self._clock() + min(answer.retry_after, RETRY_MOST_SECONDS)
        await self._store.answered(subscription.id, answer.detail, again_at)
        self._to_look.set()


def _next_at(subscription: HubSubscription, now: float) -> float:
    """Returns when the hub is asked again if it does not verify; no later than a lease ends."""
    again = now + min(RETRY_SECONDS * 2.0 ** min(subscription.attempts, 10), RETRY_MOST_SECONDS)
    if (
        subscription.state is HubState.ACTIVE
        and subscription.lease_ends_at is not None
        and subscription.lease_ends_at > now
    ):
        return min(again, subscription.lease_ends_at)
    return again


def _within(seconds: float) -> float:
    return min(max(seconds, _MIN_SECONDS), _LOOK_SECONDS)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


# Signatures of hubs (W3C WebSub, section 8).

METHODS = ("sha1", "sha256", "sha384", "sha512")
"""Hash functions that the protocol names. HMAC with SHA-1 counts: it does not rest on collisions, and hubs use it."""


def is_signed(body: bytes, signature: str, secret: bytes) -> bool:
    """Returns whether `signature`, the header X-Hub-Signature, is that of the body: `method=hexadecimal HMAC`.

    Compared in constant time. False for an unknown method.
    """
    method, _equals, digest = signature.strip().partition("=")
    if method.lower() not in METHODS:
        return False
    right = hmac.new(secret, body, method.lower()).hexdigest()
    return hmac.compare_digest(right.encode(), digest.strip().lower().encode("utf-8", "replace"))


# Callbacks of hubs: subscriptions that were requested are confirmed, and deliveries read.

VERIFY_SECONDS = 3_600.0
"""How long after a request a hub may verify it."""
MIN_LEASE_SECONDS, MAX_LEASE_SECONDS = 60.0, 365 * 86_400.0
RENEW_AT = 0.75
"""Share of a lease after which it is renewed."""
DENIED_SECONDS = 86_400.0
"""Time after which a hub that denied a subscription is asked again."""
_CALLBACK = re.compile(r"[A-Za-z0-9_-]{43}")
_LONGEST_CHALLENGE = 1_000
_MAX_AT_ONCE, _MAX_WAITING = 2, 16
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
        self._reading = asyncio.Semaphore(_MAX_AT_ONCE)
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
        subscription = await self.at(callback)
        if subscription is None or not hmac.compare_digest(
            subscription.topic.encode(), asked.topic.encode("utf-8", "replace")
        ):
            return None
        if asked.mode == "denied":
            await self._deny(subscription, asked.reason)
            return ""
        leaves = subscription.state is HubState.LEAVING
        mode = _mode(subscription)
        now = self._clock()
        is_recent = subscription.asked_at is not None and now - subscription.asked_at <= VERIFY_SECONDS
        if asked.mode != mode or not is_recent or not 0 < len(asked.challenge) <= _LONGEST_CHALLENGE:
            return None
        if leaves:
            await self._hubs.delete(subscription.id)
        else:
            lease = _lease(asked.lease_seconds)
            await self._hubs.verified(subscription.id, now, lease, now + RENEW_AT * lease)
        self._log.info("hub_verified", hub=subscription.hub, topic=subscription.topic, mode=mode)
        self._subscriber.look_again()
        return asked.challenge

    async def deliver(
        self,
        subscription: HubSubscription,
        receive: Callable[[], Awaitable[bytes]],
        content_type: str | None,
        signature: str,
    ) -> HubDelivery:
        """Reads what was sent to a subscription's callback, as a poll of the source would be read.

        receive: returns the body; called only if not too many others are held. signature: the header X-Hub-Signature,
        empty if left out. Raises TooManyError before, and DatabaseUnavailableError: the hub sends it again.
        """
        if self._waiting >= _MAX_WAITING:
            raise TooManyError(N_("deliveries"), 5.0)
        self._waiting += 1
        try:
            body = await _received(receive)
            async with self._reading:
                result = HubDelivery.UNREADABLE
                if body is not None:
                    result = await self._read(subscription, body, content_type, signature)
        finally:
            self._waiting -= 1
        self._instruments.hub_deliveries[result.value].inc()
        if result is not HubDelivery.ACCEPTED:
            self._log.info("hub_delivery_ignored", hub=subscription.hub, topic=subscription.topic, reason=result.value)
        return result

    async def _read(
        self, subscription: HubSubscription, body: bytes, content_type: str | None, signature: str
    ) -> HubDelivery:
        secret = await self._hubs.secret_of(subscription.id)
        if secret is None or not await asyncio.to_thread(is_signed, body, signature, secret):
            return HubDelivery.FORGED
        source = await self._source_of(subscription)
        if source is None or subscription.state is not HubState.ACTIVE:
            return HubDelivery.UNWANTED
        digest = hashlib.sha256(subscription.callback.encode() + body).digest()
        if digest in self._recent:
            return HubDelivery.REPEATED
        document = SignalDocument(body, content_type, source.url or subscription.topic, pushed=True)
        if await self._documents.store(source, document, self._report) is None:
            return HubDelivery.UNREADABLE
        await self._hubs.received(subscription.id, self._clock())
        self._recent[digest] = None
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        await self._documents.pass_on()
        self._subscriber.look_again()
        return HubDelivery.ACCEPTED

    async def _source_of(self, subscription: HubSubscription) -> SignalSource | None:
        if subscription.source_id is None:
            return None
        try:
            return await self._signals.get(subscription.source_id)
        except NotFoundError:
            return None

    async def _deny(self, subscription: HubSubscription, reason: str) -> None:
        if subscription.state is HubState.LEAVING:
            await self._hubs.delete(subscription.id)
        else:
            text = " ".join(reason[:200].split()) or _("no reason given")
            await self._hubs.denied(subscription.id, text, self._clock() + DENIED_SECONDS)
        self._log.warning("hub_denies", hub=subscription.hub, topic=subscription.topic)
        self._subscriber.look_again()

    def _report(self, error: Exception) -> None:
        """Logs a document that breaks a parser: it affects only its own subscription."""
        self._log.error("hub_delivery_fault", exc_info=error)


def _mode(subscription: HubSubscription) -> str:
    """Returns what WebSub calls the request that is sent to the hub."""
    return "unsubscribe" if subscription.state is HubState.LEAVING else "subscribe"


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
    return min(max(seconds, MIN_LEASE_SECONDS), MAX_LEASE_SECONDS)


# Offers of hubs in the answers of signal sources, noted so that they are subscribed to.

_MAX_KNOWN = 10_000
_KNOWN_SECONDS = 3_600.0
"""How long what a source offered is taken as noted: another node may have read it meanwhile."""


class HubOffers:
    """Compares what an answer offers with what the source offered last; asks the database only if it differs."""

    def __init__(self, *, store: HubStore, clock: Callable[[], float], on_change: Callable[[], None]) -> None:
        """on_change: called when a subscription is to be asked for, or left."""
        self._store, self._clock, self._on_change = store, clock, on_change
        self._known: dict[int, tuple[float, HubOffer | None]] = {}
        """What each source offered last, by its id, and until when that counts as noted."""
        self._log = structlog.get_logger("pollerd.hubs")

    async def note(self, source: SignalSource, outcome: Outcome, base: str) -> None:
        """Notes the hub that a full answer at the normalised URL `base` offers. Raises DatabaseUnavailableError."""
        offer = hub_offer(outcome.body or b"", outcome.content_type, outcome.hub_links, base)
        until, known = self._known.get(source.id, (0.0, None))
        if known == offer and self._clock() < until:
            return
        if await self._stored(source, offer):
            self._on_change()
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[source.id] = (self._clock() + _KNOWN_SECONDS, offer)

    async def _stored(self, source: SignalSource, offer: HubOffer | None) -> bool:
        now = self._clock()
        if offer is None:
            return await self._store.withdrawn(source.id, now)
        try:
            return await self._store.offered(source.id, offer.topic, offer.hubs, now)
        except InvalidValueError as error:
            self._log.warning("hub_not_subscribed", source_id=source.id, hub=offer.hubs[0], reason=str(error))
            return False
