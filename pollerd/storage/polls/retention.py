"""Deletes old rows, in small pieces so that polling never waits long."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from pollerd.storage.db.schema.history import change, poll
from pollerd.storage.db.schema.notifications import attempt, outbox
from pollerd.storage.db.schema.sites import host, host_override, site

PIECE = 5_000


def prune_polls(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the oldest polls made before that time; returns how many."""
    oldest = select(poll.c.id).where(poll.c.at < before).order_by(poll.c.at).limit(PIECE)
    return connection.execute(delete(poll).where(poll.c.id.in_(oldest))).rowcount


def prune_changes(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the oldest changes detected before that time; returns how many."""
    oldest = select(change.c.id).where(change.c.detected_at < before).order_by(change.c.detected_at).limit(PIECE)
    return connection.execute(delete(change).where(change.c.id.in_(oldest))).rowcount


def prune_notices(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the notices that ended first, before that time; returns how many."""
    c = outbox.c
    oldest = select(c.id).where(c.ended_at.is_not(None), c.ended_at < before).order_by(c.ended_at).limit(PIECE)
    return connection.execute(delete(outbox).where(c.id.in_(oldest))).rowcount


def prune_attempts(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the oldest attempts to send made before that time; returns how many."""
    oldest = select(attempt.c.id).where(attempt.c.at < before).order_by(attempt.c.at).limit(PIECE)
    return connection.execute(delete(attempt).where(attempt.c.id.in_(oldest))).rowcount


def drop_empty_hosts(connection: Connection) -> int:
    """Deletes hosts without sites; returns how many. Only while nothing polls: the daemon caches host ids.

    Hosts paused by hand stay: the pause also applies to future sites.
    """
    used = select(site.c.id).where(site.c.host_id == host.c.id).exists()
    held = select(host_override.c.host_id).where(host_override.c.host_id == host.c.id, host_override.c.paused).exists()
    return connection.execute(delete(host).where(~used, ~held)).rowcount
