"""The daemon's state at its start: sites, hosts, learned states. Streamed in pieces, as columns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, ColumnElement, Connection, case, func, or_, select

from pollerd.errors import SchemaError
from pollerd.model import STATE_CODE, SiteState
from pollerd.storage import site_rows
from pollerd.storage.encoding import Field, number
from pollerd.storage.engine import Database
from pollerd.storage.schema import interest, learned, site, site_state
from pollerd.storage.site_rows import OF_SITE, WindowsRead, rows_after
from pollerd.storage.soft_delete import any_soft_deleted, is_soft_deleted
from pollerd.storage.statements import Statements
from pollerd.storage.tags import TagStore, with_inherited
from pollerd.storage.transactions import Subject, in_pieces, reads
from pollerd.storage.values import ScheduleRows, StoredTtls
from pollerd.texts import _

_CODES = {state.value: code for state, code in STATE_CODE.items()}
_HOST = Field("host_id", np.int64, "a whole number", 0)
_OF_STATE = (
    Field("state", np.int8, f"one of {', '.join(_CODES)}", STATE_CODE[SiteState.ACTIVE], _CODES),
    *(Field(name, np.float64) for name in ("last_poll_at", "last_seen_at", "not_before", "items_shown")),
    *(Field(name, np.int64, "a whole number", 0) for name in ("failures", "polls", "changes")),
)
_USUAL: dict[str, Any] = {
    "paused": False,
    "state": SiteState.ACTIVE.value,
    "failures": 0,
    "polls": 0,
    "changes": 0,
}
"""Value of a column in most rows, if it is not NULL."""
_OF_INTEREST = (Field("learned_half_life", np.float64),)
_TTLS = select(site_state.c.site_id, site_state.c.ttl, site_state.c.ttl_broken).where(
    or_(site_state.c.ttl.is_not(None), site_state.c.ttl_broken)
)


class ScheduleStore(Subject):
    """What a daemon schedules sites by, at its start and when it takes sites over. Read in pieces, as columns."""

    def __init__(self, *, database: Database, sql: Statements, tags: TagStore) -> None:
        self._database, self._sql, self._tags = database, sql, tags

    def all(self) -> AsyncIterator[tuple[ScheduleRows, dict[int, str]]]:
        """Yields all sites as columns, with what they inherit, ordered by id, in pieces: a million are not held twice.

        Each piece comes with what is wrong with rows that hold an unreadable value, by site id.
        """
        return in_pieces(self._after, lambda piece: piece[0].site_id)

    @reads
    def _after(self, connection: Connection, after: int) -> tuple[ScheduleRows, dict[int, str]]:
        """Reads only ids and hosts of each site; settings and states only where they differ from the usual values: the
        database checks that in a tenth of the time that reading takes. A value that cannot be read is replaced.
        """
        faults: dict[int, str] = {}
        read = WindowsRead()
        of_site = (*OF_SITE, read.field())
        columns = _ids_and_hosts(connection, after, faults)
        if len(columns["site_id"]):
            ids = columns["site_id"]
            here = int(ids[0]), int(ids[-1])
            columns |= _unusual(connection, of_site, site.c.id, ids, site.c.id.between(*here), faults)
            of_state = site_state.c.site_id
            columns |= _unusual(connection, _OF_STATE, of_state, ids, of_state.between(*here), faults)
            told = interest.c.site_id
            columns |= _unusual(connection, _OF_INTEREST, told, ids, told.between(*here), faults)
            columns = _with_states(connection, columns)
        else:
            columns |= {field.name: np.empty(0, field.kind) for field in (*of_site, *_OF_STATE, *_OF_INTEREST)}
        windows = read.of_sites(columns["site_id"], columns.pop("windows"))
        schedule = ScheduleRows(**columns, windows=windows)
        with_inherited(connection, schedule, self._tags.in_force)
        return schedule, faults

    @reads
    def of(self, connection: Connection, site_ids: Sequence[int]) -> tuple[ScheduleRows, dict[int, str]]:
        """Returns these sites as `all` yields them; missing ones are left out."""
        faults: dict[int, str] = {}
        read = WindowsRead()
        of_site = (*OF_SITE, read.field())
        statement = select(site.c.id, site.c.host_id).where(
            self._sql.in_list(site.c.id, "sites"), ~is_soft_deleted(site.c.id)
        )
        rows = connection.execute(statement.order_by(site.c.id), {"sites": self._sql.id_list(site_ids)}).all()
        ids, host_ids = list(zip(*rows, strict=True)) or [(), ()]
        columns = {"site_id": np.array(ids, np.int64), "host_id": _HOST.column(host_ids, ids, faults)}
        tables = ((of_site, site.c.id), (_OF_STATE, site_state.c.site_id), (_OF_INTEREST, interest.c.site_id))
        for fields, key in tables:
            columns |= _unusual(connection, fields, key, columns["site_id"], key.in_(ids), faults)
        windows = read.of_sites(columns["site_id"], columns.pop("windows"))
        schedule = ScheduleRows(**columns, windows=windows)
        with_inherited(connection, schedule, self._tags.in_force)
        return schedule, faults

    def learned(self, allocator: str) -> AsyncIterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
        """Yields site ids [m] and the allocator's states [m, width], ordered by id, in pieces.

        Raises `SchemaError` if states differ in width.
        """
        return in_pieces(lambda after: self._learned_after(allocator, after), lambda piece: piece[0])

    @reads
    def _learned_after(
        self, connection: Connection, allocator: str, after: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        c = learned.c
        statement = select(c.site_id, c.state).where(c.allocator == allocator)
        rows = rows_after(connection, statement, c.site_id, after)
        widths = {len(state) for _site_id, state in rows}
        if len(widths) > 1:
            raise SchemaError(
                _("learned states of {allocator} differ in width: {widths}", allocator=allocator, widths=sorted(widths))
            )
        ids = np.array([site_id for site_id, _state in rows], dtype=np.int64)
        flat = np.frombuffer(b"".join(state for _site_id, state in rows), dtype=np.uint8)
        return ids, flat.reshape(len(ids), widths.pop() if widths else 0)

    @reads
    def learned_of(self, connection: Connection, allocator: str, site_ids: Sequence[int]) -> list[tuple[int, bytes]]:
        """Returns (site id, state) of those of these sites of which the allocator has learned, by id."""
        c = learned.c
        statement = select(c.site_id, c.state).where(c.allocator == allocator, self._sql.in_list(c.site_id, "sites"))
        rows = connection.execute(statement.order_by(c.site_id), {"sites": self._sql.id_list(site_ids)})
        return [(site_id, bytes(state)) for site_id, state in rows]

    def announced_ttls(self) -> AsyncIterator[StoredTtls]:
        """Yields what sites announced, by id, in pieces."""
        return in_pieces(self._ttls_after, lambda piece: piece.site_id)

    @reads
    def _ttls_after(self, connection: Connection, after: int) -> StoredTtls:
        return _ttls(rows_after(connection, _TTLS, site_state.c.site_id, after))

    @reads
    def announced_ttls_of(self, connection: Connection, site_ids: Sequence[int]) -> StoredTtls:
        """Returns what these sites announced."""
        statement = _TTLS.where(self._sql.in_list(site_state.c.site_id, "sites"))
        return _ttls(connection.execute(statement, {"sites": self._sql.id_list(site_ids)}).all())


def _ids_and_hosts(connection: Connection, after: int, faults: dict[int, str]) -> dict[str, NDArray[Any]]:
    """Returns `site_id` and `host_id` of some sites with ids above `after`, int64[k], by id.

    SQLite concatenates them: fetching the rows one by one takes three times as long.
    """
    statement = select(site.c.id, site.c.host_id)
    if any_soft_deleted(connection):
        statement = statement.where(~is_soft_deleted(site.c.id))
    if connection.dialect.name == "sqlite":
        some = statement.where(site.c.id > after).order_by(site.c.id).limit(site_rows.PIECE).subquery()
        whole = func.sum(case((func.typeof(some.c.host_id) == "integer", 0), else_=1))
        joined = select(func.group_concat(some.c.id), func.group_concat(some.c.host_id), whole)
        ids, hosts, spoiled = connection.execute(joined).one()
        if not spoiled:  # else they are read below, which reports the faults
            return {"site_id": _numbers(ids), "host_id": _numbers(hosts)}
    rows = rows_after(connection, statement, site.c.id, after)
    ids, host_ids = list(zip(*rows, strict=True)) or [(), ()]
    return {"site_id": np.array(ids, np.int64), "host_id": _HOST.column(host_ids, ids, faults)}


def _numbers(text: str | None) -> NDArray[np.int64]:
    """Parses whole numbers, int64[k], separated by commas; None: there are none."""
    return np.fromstring(text, np.int64, sep=",") if text else np.empty(0, np.int64)


def _unusual(
    connection: Connection,
    fields: Sequence[Field],
    key: Column[Any],
    site_ids: NDArray[np.int64],
    among: ColumnElement[bool],
    faults: dict[int, str],
) -> dict[str, NDArray[Any]]:
    """Returns the fields of sites int64[k], ascending, [k] each, by name; reads only rows with an unusual value.

    among: of which rows; those of other sites are left out.
    """
    columns = [key.table.c[field.name] for field in fields]
    unusual = or_(*(column.is_distinct_from(_USUAL.get(column.name)) for column in columns))
    with connection.execute(select(key, *columns).where(among, unusual).order_by(key)) as result:
        rows = result.cursor.fetchall()
    rows = _of(site_ids, rows)
    ids, *values = list(zip(*rows, strict=True)) or [()] * (1 + len(fields))
    places = np.searchsorted(site_ids, np.array(ids, np.int64))
    out = {}
    for field, cells in zip(fields, values, strict=True):
        out[field.name] = np.repeat(field.column([_USUAL.get(field.name)], [0], faults), len(site_ids))
        out[field.name][places] = field.column(cells, ids, faults)
    return out


def _of(site_ids: NDArray[np.int64], rows: Sequence[Any]) -> Sequence[Any]:
    """Returns the rows, by site id, of these sites."""
    listed = np.isin(np.array([row[0] for row in rows], np.int64), site_ids)
    return rows if listed.all() else list(compress(rows, listed))


def _with_states(connection: Connection, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Returns the columns without sites whose state row is missing because of a manual deletion."""
    ids, key = columns["site_id"], site_state.c.site_id
    among = key.between(int(ids[0]), int(ids[-1]))
    if connection.execute(select(func.count()).select_from(site_state).where(among)).scalar_one() == len(ids):
        return columns
    listed = np.isin(ids, np.array(connection.execute(select(key).where(among)).scalars().all(), np.int64))
    return {name: values[listed] for name, values in columns.items()}


def _ttls(rows: Sequence[Any]) -> StoredTtls:
    """Returns the columns of rows; a TTL damaged by hand counts as none."""
    ids, ttls, broken = list(zip(*rows, strict=True)) or [(), (), ()]
    numbers = [number(ttl, 0.0) for ttl in ttls]
    return StoredTtls(np.array(ids, np.int64), np.array(numbers, np.float64), np.array(broken, np.bool_))
