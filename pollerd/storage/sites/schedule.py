"""Reads the daemon's state at its start: sites, hosts, learned states. Streamed in pieces, as columns."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, Connection, Select, case, func, or_, select
from zstandard import ZstdError

from pollerd.errors import SchemaError
from pollerd.model import NUMERIC_SETTINGS, STATE_CODE, SiteState
from pollerd.storage.db.schema import host, host_override, learned, site, site_state, site_tag
from pollerd.storage.encoding.compression import unpack
from pollerd.storage.encoding.row_repair import Field, number
from pollerd.storage.sites.hosts import read_override
from pollerd.storage.sites.windows import WindowsRead
from pollerd.storage.values import HostRow, ScheduleRows, StoredRobots

PIECE = 20_000
_CODES = {state.value: code for state, code in STATE_CODE.items()}
_HOST = Field("host_id", np.int64, "a whole number", 0)
_OF_STATE = (
    Field("state", np.int8, f"one of {', '.join(_CODES)}", STATE_CODE[SiteState.ACTIVE], _CODES),
    *(Field(name, np.float64) for name in ("last_poll_at", "last_seen_at", "not_before")),
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
OF_SITE = (Field("paused", np.bool_, "true or false", 0), *(Field(name, np.float64) for name in NUMERIC_SETTINGS))
"""Columns of a site's settings."""


def schedule_piece(connection: Connection, after: int) -> tuple[ScheduleRows, dict[int, str]]:
    """Returns some sites with ids above `after`, ordered by id; none: there are no more.

    Also returns what is wrong with rows that hold an unreadable value, by site id; the value is replaced. Only ids and
    hosts are read of each site; settings and states only where they differ from the usual values: the database checks
    that in a tenth of the time that reading takes.
    """
    faults: dict[int, str] = {}
    read = WindowsRead()
    of_site = (*OF_SITE, read.field())
    columns = _ids_and_hosts(connection, after, faults)
    if len(columns["site_id"]):
        columns |= _unusual(connection, of_site, site.c.id, columns["site_id"], faults)
        columns |= _unusual(connection, _OF_STATE, site_state.c.site_id, columns["site_id"], faults)
        columns = _with_states(connection, columns)
    else:
        columns |= {field.name: np.empty(0, field.kind) for field in (*of_site, *_OF_STATE)}
    windows = read.of_sites(columns["site_id"], columns.pop("windows"))
    return ScheduleRows(**columns, windows=windows), faults


def _ids_and_hosts(connection: Connection, after: int, faults: dict[int, str]) -> dict[str, NDArray[Any]]:
    """Returns `site_id` and `host_id` of some sites with ids above `after`, int64[k], by id.

    SQLite concatenates them: fetching the rows one by one takes three times as long.
    """
    statement = select(site.c.id, site.c.host_id)
    if connection.dialect.name == "sqlite":
        some = statement.where(site.c.id > after).order_by(site.c.id).limit(PIECE).subquery()
        whole = func.sum(case((func.typeof(some.c.host_id) == "integer", 0), else_=1))
        joined = select(func.group_concat(some.c.id), func.group_concat(some.c.host_id), whole)
        ids, hosts, spoiled = connection.execute(joined).one()
        if not spoiled:  # else they are read below, which reports the faults
            return {"site_id": _numbers(ids), "host_id": _numbers(hosts)}
    rows = _piece(connection, statement, site.c.id, after)
    ids, given = list(zip(*rows, strict=True)) or [(), ()]
    return {"site_id": np.array(ids, np.int64), "host_id": _HOST.column(given, ids, faults)}


def _numbers(text: str | None) -> NDArray[np.int64]:
    """Parses whole numbers, int64[k], separated by commas; None: there are none."""
    return np.fromstring(text, np.int64, sep=",") if text else np.empty(0, np.int64)


def _unusual(
    connection: Connection,
    fields: Sequence[Field],
    key: Column[Any],
    site_ids: NDArray[np.int64],
    faults: dict[int, str],
) -> dict[str, NDArray[Any]]:
    """Returns the fields of sites int64[k], ascending, [k] each, by name; reads only rows with an unusual value."""
    columns = [key.table.c[field.name] for field in fields]
    unusual = or_(*(column.is_distinct_from(_USUAL.get(column.name)) for column in columns))
    among = key.between(int(site_ids[0]), int(site_ids[-1]))
    with connection.execute(select(key, *columns).where(among, unusual).order_by(key)) as result:
        rows = result.cursor.fetchall()
    found, *values = list(zip(*rows, strict=True)) or [()] * (1 + len(fields))
    places = np.searchsorted(site_ids, np.array(found, np.int64))
    out = {}
    for field, given in zip(fields, values, strict=True):
        out[field.name] = np.repeat(field.column([_USUAL.get(field.name)], [0], faults), len(site_ids))
        out[field.name][places] = field.column(given, found, faults)
    return out


def _with_states(connection: Connection, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Returns the columns without sites whose state row is missing because of a manual deletion."""
    ids, key = columns["site_id"], site_state.c.site_id
    among = key.between(int(ids[0]), int(ids[-1]))
    if connection.execute(select(func.count()).select_from(site_state).where(among)).scalar_one() == len(ids):
        return columns
    there = np.isin(ids, np.array(connection.execute(select(key).where(among)).scalars().all(), np.int64))
    return {name: values[there] for name, values in columns.items()}


def numbers_of(rows: ScheduleRows) -> dict[str, NDArray[np.float64]]:
    """Returns the columns of settings, by name."""
    return {name: getattr(rows, name) for name in NUMERIC_SETTINGS}


def hosts_piece(connection: Connection, after: int) -> list[HostRow]:
    """Returns some hosts with ids above `after`, ordered by id; none: there are no more."""
    c = host.c
    plain = _piece(connection, select(c.id, c.name), c.id, after)
    if not plain:
        return []
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
    statement = statement.where(c.id.between(plain[0][0], plain[-1][0]), anything_known)
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
    override = None if overridden_at is None else read_override(overridden_at, *overridden)
    return HostRow(host_id, name, number(last_start_at), number(paused_until), number(throttles, 0), robots, override)


def learned_piece(connection: Connection, allocator: str, after: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Returns some site ids [m] above `after`, ascending, and the allocator's states [m, width]; m = 0: no more.

    Raises `SchemaError` if states differ in width.
    """
    c = learned.c
    statement = select(c.site_id, c.state).where(c.allocator == allocator)
    rows = _piece(connection, statement, c.site_id, after)
    widths = {len(state) for _, state in rows}
    if len(widths) > 1:
        raise SchemaError(f"learned states of {allocator} differ in width: {sorted(widths)}")
    ids = np.array([site_id for site_id, _ in rows], dtype=np.int64)
    flat = np.frombuffer(b"".join(state for _, state in rows), dtype=np.uint8)
    return ids, flat.reshape(len(ids), widths.pop() if widths else 0)


def ids_piece(connection: Connection, tag: str | None, after: int) -> NDArray[np.int64]:
    """Returns some ids above `after` of all sites, or of those with this tag, int64[k], ascending; k = 0: no more."""
    c = site_tag.c
    if tag is None:
        rows = _piece(connection, select(site.c.id), site.c.id, after)
    else:
        rows = _piece(connection, select(c.site_id).where(c.tag == tag), c.site_id, after)
    return np.array([row[0] for row in rows], np.int64)


def _piece(connection: Connection, statement: Select[Any], key: Any, after: int) -> Sequence[Any]:
    """Returns the first rows above `after` in order of `key`, the statement's first column, as the driver's tuples.

    `Result.all` would build a `Row` for each: 1.6 of the 10 s that reading a million sites takes.
    """
    with connection.execute(statement.where(key > after).order_by(key).limit(PIECE)) as result:
        return result.cursor.fetchall()
