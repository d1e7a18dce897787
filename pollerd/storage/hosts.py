"""Hosts: read and listed, with the operator's actions on them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, delete, select, update

from pollerd.errors import NotFoundError
from pollerd.model import HostOverride, OutcomeKind, SiteState
from pollerd.storage import encoding
from pollerd.storage.encoding import number
from pollerd.storage.schema import host, host_override, site, site_state
from pollerd.storage.statements import Statements
from pollerd.storage.values import KnownHost, ListPage

PIECE = 2_000
_FIELDS = (host.c.id, host.c.name, host.c.robots_detail)
_REVIVED: dict[str, Any] = {"state": SiteState.ACTIVE.value, "not_before": None, "failures": 0}


def list_hosts(
    connection: Connection,
    sql: Statements,
    q: str | None,
    ids: NDArray[np.int64] | None,
    limit: int,
    cursor: str | None,
) -> ListPage[KnownHost]:
    """Returns hosts by id. `q`: part of the name, any case; `ids`: only these, int64[k]."""
    last = encoding.decode("h", cursor) or 0
    statement = select(*_FIELDS).where(host.c.id > last).order_by(host.c.id)
    if q:
        statement = statement.where(host.c.name.icontains(q, autoescape=True))
    wanted = encoding.check_limit(limit) + 1
    if ids is None:
        found = [KnownHost(*row) for row in connection.execute(statement.limit(wanted))]
    else:
        found = _among(connection, sql, statement, np.sort(ids[ids > last]), wanted)
    more = len(found) > limit
    return ListPage(found[:limit], encoding.encode("h", found[limit - 1].id) if more else None)


def _among(
    connection: Connection, sql: Statements, statement: Select[Any], ids: NDArray[np.int64], wanted: int
) -> list[KnownHost]:
    """Returns the statement's first rows with these ids; usually reads only a few of a million ids."""
    statement = statement.where(sql.in_list(host.c.id, "ids"))
    found: list[KnownHost] = []
    for start in range(0, len(ids), PIECE):
        rows = connection.execute(statement, {"ids": sql.id_list(ids[start : start + PIECE])})
        found += [KnownHost(*row) for row in rows]
        if len(found) >= wanted:
            break
    return found[:wanted]


def get_host(connection: Connection, name: str) -> KnownHost:
    """Returns the host "name:port". Raises `NotFoundError`."""
    row = connection.execute(select(*_FIELDS).where(host.c.name == name)).one_or_none()
    if row is None:
        raise NotFoundError("host", name)
    return KnownHost(*row)


def override_host(
    connection: Connection, sql: Statements, host_id: int, override: HostOverride, backing_off: Collection[int]
) -> list[int]:
    """Stores the operator's action on the host.

    If it ends the pause, the host's own pause ends, too, and so do the backoffs of those of its sites `backing_off`
    that were refused as too many requests; returns their ids.
    """
    values = {name: getattr(override, name) for name in ("at", "by", "paused", "until")}
    upsert = sql.insert_for(host_override).values(host_id=host_id, **values)
    connection.execute(upsert.on_conflict_do_update(index_elements=["host_id"], set_=values))
    if override.paused:
        return []
    connection.execute(update(host).where(host.c.id == host_id).values(paused_until=None, throttles=0))
    t = site_state.c
    revive = (
        update(site_state)
        .where(sql.in_list(t.site_id, "sites"), t.last_outcome == OutcomeKind.THROTTLED.value)
        .values(_REVIVED)
        .returning(t.site_id)
    )
    return list(connection.execute(revive, {"sites": sql.id_list(backing_off)}).scalars())


def read_override(at: Any, by: Any, paused: Any, until: Any) -> HostOverride:
    """Returns the override of a row; times damaged by hand become the earliest, or none."""
    return HostOverride(number(at, 0.0), str(by), bool(paused), number(until))


def drop_empty_hosts(connection: Connection) -> int:
    """Deletes hosts without sites; returns how many. Only while nothing polls: the daemon caches host ids.

    Hosts paused by hand stay: the pause also applies to future sites.
    """
    used = select(site.c.id).where(site.c.host_id == host.c.id).exists()
    held = select(host_override.c.host_id).where(host_override.c.host_id == host.c.id, host_override.c.paused).exists()
    return connection.execute(delete(host).where(~used, ~held)).rowcount
