"""Hosts: what is stored of each, lists of them, and the operator's actions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Select, delete, or_, select, update
from zstandard import ZstdError

from pollerd.errors import NotFoundError
from pollerd.model import HostOverride, OutcomeKind, SiteState
from pollerd.storage import encoding
from pollerd.storage.encoding import number, unpack
from pollerd.storage.engine import Database
from pollerd.storage.schema import host, host_override, site, site_state
from pollerd.storage.site_rows import rows_after
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, in_pieces, reads, writes
from pollerd.storage.values import HostRow, KnownHost, ListPage, StoredRobots
from pollerd.texts import N_

PIECE = 2_000
_FIELDS = (host.c.id, host.c.name, host.c.robots_detail)
_REVIVED: dict[str, Any] = {"state": SiteState.ACTIVE.value, "not_before": None, "failures": 0}


class HostStore(Subject):
    """Hosts of sites: their robots.txt and backoff, and the operator's actions on them."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql
        self._named = sql.rows_at(host.c.name, "names", host.c.name, host.c.id)

    def all(self) -> AsyncIterator[list[HostRow]]:
        """Yields all hosts, ordered by id, in pieces."""
        return in_pieces(self._after, lambda rows: [row.id for row in rows[-1:]])

    @reads
    def _after(self, connection: Connection, after: int) -> list[HostRow]:
        plain = rows_after(connection, select(host.c.id, host.c.name), host.c.id, after)
        return _with_what_is_known(connection, plain, host.c.id.between(plain[0][0], plain[-1][0])) if plain else []

    @reads
    def among(self, connection: Connection, host_ids: Sequence[int]) -> list[HostRow]:
        """Returns those of these hosts that are there, by id."""
        statement = select(host.c.id, host.c.name).where(self._sql.in_list(host.c.id, "hosts")).order_by(host.c.id)
        plain = connection.execute(statement, {"hosts": self._sql.id_list(host_ids)}).all()
        return _with_what_is_known(connection, plain, host.c.id.in_([row[0] for row in plain]))

    @reads
    def get(self, connection: Connection, name: str) -> KnownHost:
        """Returns the host "name:port". Raises `NotFoundError`."""
        row = connection.execute(select(*_FIELDS).where(host.c.name == name)).one_or_none()
        if row is None:
            raise NotFoundError(N_("host"), name)
        return KnownHost(*row)

    @reads
    def ids(self, connection: Connection, names: Sequence[str]) -> dict[str, int]:
        """Returns the ids of the hosts "name:port"; unknown ones are missing."""
        rows = connection.execute(self._named, {"names": self._sql.text_list(names)}).all()
        return dict(map(tuple, rows))

    @reads
    def page(
        self,
        connection: Connection,
        q: str | None = None,
        ids: NDArray[np.int64] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListPage[KnownHost]:
        """Returns hosts by id. `q`: part of the name, any case; `ids`: only these, int64[k].

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        last = encoding.decode("h", cursor) or 0
        statement = select(*_FIELDS).where(host.c.id > last).order_by(host.c.id)
        if q:
            statement = statement.where(host.c.name.icontains(q, autoescape=True))
        count = encoding.check_limit(limit) + 1
        if ids is None:
            hosts = [KnownHost(*row) for row in connection.execute(statement.limit(count))]
        else:
            hosts = self._among(connection, statement, np.sort(ids[ids > last]), count)
        more = len(hosts) > limit
        return ListPage(hosts[:limit], encoding.encode("h", hosts[limit - 1].id) if more else None)

    def _among(
        self, connection: Connection, statement: Select[Any], ids: NDArray[np.int64], count: int
    ) -> list[KnownHost]:
        """Returns the statement's first rows with these ids; usually reads only a few of a million ids."""
        statement = statement.where(self._sql.in_list(host.c.id, "ids"))
        hosts: list[KnownHost] = []
        for start in range(0, len(ids), PIECE):
            rows = connection.execute(statement, {"ids": self._sql.id_list(ids[start : start + PIECE])})
            hosts += [KnownHost(*row) for row in rows]
            if len(hosts) >= count:
                break
        return hosts[:count]

    @writes
    def override(
        self, connection: Connection, host_id: int, override: HostOverride, backing_off: Collection[int]
    ) -> list[int]:
        """Stores the operator's action on the host; returns ids of the sites whose backoff it ends.

        `backing_off`: sites of the host. Ending the pause ends only backoffs after refusals by status 429 or 503.
        """
        values = {name: getattr(override, name) for name in ("at", "by", "paused", "until")}
        upsert = self._sql.insert_for(host_override).values(host_id=host_id, **values)
        connection.execute(upsert.on_conflict_do_update(index_elements=["host_id"], set_=values))
        if override.paused:
            return []
        connection.execute(update(host).where(host.c.id == host_id).values(paused_until=None, throttles=0))
        t = site_state.c
        revive = (
            update(site_state)
            .where(self._sql.in_list(t.site_id, "sites"), t.last_outcome == OutcomeKind.THROTTLED.value)
            .values(_REVIVED)
            .returning(t.site_id)
        )
        return list(connection.execute(revive, {"sites": self._sql.id_list(backing_off)}).scalars())

    @writes
    def drop_empty(self, connection: Connection) -> int:
        """Deletes hosts without sites; returns how many. Only while nothing polls: the daemon caches host ids.

        Hosts paused by hand stay: the pause also applies to future sites.
        """
        used = select(site.c.id).where(site.c.host_id == host.c.id).exists()
        held = (
            select(host_override.c.host_id).where(host_override.c.host_id == host.c.id, host_override.c.paused).exists()
        )
        return connection.execute(delete(host).where(~used, ~held)).rowcount


def _override(at: Any, by: Any, paused: Any, until: Any) -> HostOverride:
    """Returns the override of a row; times damaged by hand become the earliest, or none."""
    return HostOverride(number(at, 0.0), str(by), bool(paused), number(until))


def _with_what_is_known(connection: Connection, plain: Sequence[Any], among: ColumnElement[bool]) -> list[HostRow]:
    """Returns hosts, (id, name) each and by id, with what is stored of them; among: which rows those are."""
    c = host.c
    statement = select(
        c.id,
        c.name,
        c.last_start_at,
        c.paused_until,
        c.throttles,
        c.robots_kind,
        c.robots_at,
        c.robots_body,
        c.robots_detail,
        c.crawl_delay,
        host_override.c.at,
        host_override.c.by,
        host_override.c.paused,
        host_override.c.until,
    ).outerjoin_from(host, host_override, host_override.c.host_id == c.id)
    known = (c.last_start_at, c.paused_until, c.robots_kind, c.robots_at, host_override.c.host_id)
    anything_known = or_(c.throttles.is_distinct_from(0), *(column.is_not(None) for column in known))
    statement = statement.where(among, anything_known)
    with connection.execute(statement) as result:  # hosts of a new list have only names
        rows = {row[0]: _host(*row) for row in result.cursor.fetchall()}
    return [rows.get(host_id) or HostRow(host_id, name) for host_id, name in plain]


def _host(  # noqa: PLR0913 (the columns of a row)
    host_id: int,
    name: str,
    last_start_at: float | None,
    paused_until: float | None,
    throttles: int,
    kind: str | None,
    robots_at: float | None,
    body: bytes | None,
    detail: str,
    crawl_delay: float | None,
    overridden_at: float | None,
    *overridden: Any,
) -> HostRow:
    """Returns the host of a row; numbers damaged by hand become unset, a damaged robots.txt unknown."""
    robots = None
    fetched_at = number(robots_at)
    if kind is not None and fetched_at is not None:
        with contextlib.suppress(ZstdError, TypeError):
            text = None if body is None else unpack(body)
            robots = StoredRobots(kind=kind, at=fetched_at, body=text, detail=detail, crawl_delay=number(crawl_delay))
    override = None if overridden_at is None else _override(overridden_at, *overridden)
    return HostRow(host_id, name, number(last_start_at), number(paused_until), number(throttles, 0), robots, override)
