"""Subscriptions at WebSub hubs in the database: their states, requests and verifications."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, case, delete, insert, select, update

from pollerd.errors import ConfigError
from pollerd.shown import SHOWN, Moment
from pollerd.storage.encoding import storable_word
from pollerd.storage.encryption import Encryption
from pollerd.storage.engine import Database
from pollerd.storage.schema import hub_subscription, signal_source
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.texts import _

SILENT_GAPS = 3.0
"""A hub from which nothing came for this many times its longest gap counts as silent."""


class HubState(StrEnum):
    """How far a subscription is."""

    PENDING = "pending"
    """Not verified yet, or its lease ended."""
    ACTIVE = "active"
    """Verified by the hub, and within its lease."""
    DENIED = "denied"
    """The hub refused, or ended it."""
    LEAVING = "leaving"
    """No longer wanted; goes when the hub has verified that, or does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedHub:
    """The subscription at the WebSub hub that a source's answers offer."""

    __pydantic_config__ = SHOWN
    hub: str
    topic: str
    """As its publisher writes it."""
    state: HubState
    """pending; active: verified; denied; leaving."""
    lease_ends_at: Moment | None
    last_received_at: Moment | None
    """When it last sent something with a right signature."""
    received: int
    """How often it did."""
    last_detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSubscription(OfferedHub):
    """A subscription as stored. Times are UTC epoch seconds, None: not yet."""

    id: int
    source_id: int | None
    """Id of the signal source whose answers offer the hub; None: it is gone, or offers another one."""
    callback: str
    """End of the URL that the hub calls; nobody guesses it."""
    next_at: float
    """When something is to be done."""
    attempts: int
    """Requests since the hub last verified one."""
    asked_at: float | None
    """When the hub was asked last."""
    verified_at: float | None
    longest_gap: float
    """Longest time between two messages with a right signature, s; 0 before the second one."""

    def is_alive(self, now: float) -> bool:
        """Returns whether its hub is expected to say what is new: within the lease, and not silent."""
        if self.state is not HubState.ACTIVE or (self.lease_ends_at or 0.0) <= now:
            return False
        return now < self.silent_at

    @property
    def silent_at(self) -> float:
        """Epoch s from which on the hub counts as silent, if it sends nothing until then; infinite without a gap."""
        if self.last_received_at is None or self.longest_gap <= 0:
            return float("inf")
        return self.last_received_at + SILENT_GAPS * self.longest_gap


_FIELD = "hub_secret"
_SECRET_BYTES = 32
_COLUMNS = tuple(hub_subscription.c[field.name] for field in fields(HubSubscription))


class HubStore(Subject):
    """Subscriptions at hubs."""

    def __init__(self, *, database: Database, encryption: Encryption) -> None:
        self._database, self._encryption = database, encryption

    @reads
    def all(self, connection: Connection) -> list[HubSubscription]:
        """Returns all subscriptions, by id."""
        statement = select(*_COLUMNS).order_by(hub_subscription.c.id)
        return [_subscription(row) for row in connection.execute(statement)]

    @reads
    def at_callback(self, connection: Connection, callback: str) -> HubSubscription | None:
        """Returns the subscription with this end of its callback URL."""
        statement = select(*_COLUMNS).where(hub_subscription.c.callback == callback)
        row = connection.execute(statement).one_or_none()
        return None if row is None else _subscription(row)

    @reads
    def of_source(self, connection: Connection, source_id: int) -> HubSubscription | None:
        """Returns the subscription at the hub that a source offers."""
        statement = select(*_COLUMNS).where(hub_subscription.c.source_id == source_id)
        row = connection.execute(statement).one_or_none()
        return None if row is None else _subscription(row)

    @reads
    def secret_of(self, connection: Connection, subscription_id: int) -> bytes | None:
        """Returns the secret that the hub signs with; None if the subscription is gone, or the key is another."""
        statement = select(hub_subscription.c.secret).where(hub_subscription.c.id == subscription_id)
        stored = connection.execute(statement).scalar()
        return None if stored is None else self._opened(stored)

    @writes
    def offered(self, connection: Connection, source_id: int, topic: str, hubs: tuple[str, ...], now: float) -> bool:
        """Notes what a source's answer offers: a subscription is asked for, unless there is one at one of the hubs.

        One for another topic or hub is left. Returns whether that made a difference. Raises `InvalidValueError` if
        there is no key for the secret.
        """
        c = hub_subscription.c
        row = connection.execute(select(c.hub, c.topic).where(c.source_id == source_id)).one_or_none()
        known = select(signal_source.c.id).where(signal_source.c.id == source_id)
        if (row is not None and row.topic == topic and row.hub in hubs) or not connection.scalar(known):
            return False
        secret = self._encryption.encrypt_text(secrets.token_urlsafe(_SECRET_BYTES), _FIELD)
        _leave(connection, c.source_id == source_id, now)
        values = {
            "source_id": source_id,
            "hub": hubs[0],
            "topic": topic,
            "callback": secrets.token_urlsafe(_SECRET_BYTES),
            "secret": secret,
            "state": HubState.PENDING.value,
            "created_at": now,
            "next_at": now,
        }
        connection.execute(insert(hub_subscription).values(values))
        return True

    @writes
    def withdrawn(self, connection: Connection, source_id: int, now: float) -> bool:
        """Notes that a source's answer offers no hub; returns whether there was a subscription, which is left."""
        of_source = hub_subscription.c.source_id == source_id
        return _leave(connection, of_source, now) > 0

    @writes
    def leave_gone(self, connection: Connection, now: float) -> None:
        """Leaves the subscriptions of sources that are gone."""
        c = hub_subscription.c
        gone = c.source_id.is_(None) & (c.state != HubState.LEAVING.value)
        _leave(connection, gone, now)

    @writes
    def delete_unreadable(self, connection: Connection) -> None:
        """Deletes the subscriptions whose secret the key does not open: they are asked for anew."""
        c = hub_subscription.c
        closed = [id_ for id_, secret in connection.execute(select(c.id, c.secret)) if self._opened(secret) is None]
        if closed:
            connection.execute(delete(hub_subscription).where(c.id.in_(closed)))

    @writes
    def ask(self, connection: Connection, subscription_id: int, now: float, next_at: float) -> bool:
        """Notes that the hub is about to be asked, and when again if it does not verify; False if there is no such."""
        c = hub_subscription.c
        values = {"asked_at": now, "attempts": c.attempts + 1, "next_at": next_at}
        return _set(connection, subscription_id, values)

    @writes
    def answered(self, connection: Connection, subscription_id: int, detail: str, next_at: float | None) -> None:
        """Notes what the hub answered to a request, in words, unless it verified meanwhile.

        next_at: when it asked to be asked again, at the earliest; None: it did not say.
        """
        c = hub_subscription.c
        later = case((c.next_at < next_at, next_at), else_=c.next_at) if next_at is not None else c.next_at
        those = (c.id == subscription_id) & (c.attempts > 0)
        values = {"last_detail": storable_word(detail), "next_at": later}
        connection.execute(update(hub_subscription).where(those).values(values))

    @writes
    def expire(self, connection: Connection, now: float) -> None:
        """Makes subscriptions whose lease ended pending again."""
        c = hub_subscription.c
        ended = (c.state == HubState.ACTIVE.value) & (c.lease_ends_at <= now)
        values = {"state": HubState.PENDING.value, "next_at": now, "last_detail": _("the lease ended")}
        connection.execute(update(hub_subscription).where(ended).values(values))

    @writes
    def verified(
        self, connection: Connection, subscription_id: int, now: float, lease_seconds: float, next_at: float
    ) -> bool:
        """Notes that the hub verified the subscription. next_at: when it is renewed. False if there is no such."""
        values = {
            "state": HubState.ACTIVE.value,
            "attempts": 0,
            "verified_at": now,
            "lease_ends_at": now + lease_seconds,
            "next_at": next_at,
            "last_detail": _("the hub verified it"),
        }
        return _set(connection, subscription_id, values)

    @writes
    def denied(self, connection: Connection, subscription_id: int, reason: str, next_at: float) -> bool:
        """Notes that the hub denies the subscription. next_at: when it is asked again. False if there is no such."""
        values = {
            "state": HubState.DENIED.value,
            "lease_ends_at": None,
            "attempts": 0,
            "next_at": next_at,
            "last_detail": storable_word(_("the hub denies it: {reason}", reason=reason)),
        }
        return _set(connection, subscription_id, values)

    @writes
    def received(self, connection: Connection, subscription_id: int, now: float) -> None:
        """Notes that the hub sent something new with a right signature."""
        c = hub_subscription.c
        row = connection.execute(select(c.last_received_at, c.longest_gap).where(c.id == subscription_id)).one_or_none()
        if row is None:
            return
        gap = 0.0 if row.last_received_at is None else now - row.last_received_at
        values = {"last_received_at": now, "longest_gap": max(row.longest_gap, gap), "received": c.received + 1}
        connection.execute(update(hub_subscription).where(c.id == subscription_id).values(values))

    @writes
    def delete(self, connection: Connection, subscription_id: int) -> None:
        """Deletes a subscription; an unknown one is ignored."""
        connection.execute(delete(hub_subscription).where(hub_subscription.c.id == subscription_id))

    def _opened(self, secret: bytes) -> bytes | None:
        """Returns a stored secret; None if the key is another."""
        try:
            return self._encryption.decrypt_text(secret).encode()
        except ConfigError:
            return None


def _set(connection: Connection, subscription_id: int, values: Mapping[str, Any]) -> bool:
    """Changes a subscription; returns whether it is there."""
    those = update(hub_subscription).where(hub_subscription.c.id == subscription_id).values(values)
    return connection.execute(those).rowcount > 0


def _leave(connection: Connection, those: Any, now: float) -> int:
    """Has subscriptions unsubscribed, from now on."""
    values = {"source_id": None, "state": HubState.LEAVING.value, "attempts": 0, "next_at": now, "asked_at": None}
    return connection.execute(update(hub_subscription).where(those).values(values)).rowcount


def _subscription(row: Any) -> HubSubscription:
    values = row._asdict()
    return HubSubscription(**{**values, "state": HubState(values["state"])})
