"""The daemon's state at its start: sites, hosts, learned states. Streamed in pieces, as columns."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import compress
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, ColumnElement, Connection, Select, case, func, or_, select
from zstandard import ZstdError

from pollerd.errors import InvalidValueError, SchemaError
from pollerd.model import STATE_CODE, SiteState
from pollerd.site_settings import NUMERIC_SETTINGS, Windows
from pollerd.storage.encoding import Field, number, unpack
from pollerd.storage.hosts import read_override
from pollerd.storage.schema import host, host_override, interest, learned, site, site_state, site_tag
from pollerd.storage.soft_delete import any_soft_deleted, is_soft_deleted
from pollerd.storage.statements import Statements
from pollerd.storage.values import HostRow, ScheduleRows, StoredRobots, StoredTtls

# Polling windows as stored: JSON, of which equal ones are read once.


class WindowsRead(dict[str | None, int]):
    """Number of each text of windows, from 1, and 0 for none; reads those that are new.

    Raises ValueError for a text that cannot be read.
    """

    def __init__(self) -> None:
        super().__init__({None: 0})
        self._values: list[Windows] = []

    def __missing__(self, text: str | None) -> int:
        self._values.append(decode_windows(text))
        self[text] = len(self._values)
        return len(self._values)

    def field(self) -> Field:
        """Returns the column of these numbers."""
        return Field("windows", np.int32, "windows, as a site has them", 0, self)

    def of_sites(self, site_ids: NDArray[np.int64], numbers: NDArray[np.int32]) -> dict[int, Windows]:
        """Returns the windows of sites int64[k] with these numbers, by site id; others are missing."""
        some = np.flatnonzero(numbers)
        pairs = zip(site_ids[some].tolist(), numbers[some].tolist(), strict=True)
        return {site_id: self._values[number - 1] for site_id, number in pairs}


def decode_windows(text: str | None) -> Windows:
    """Returns stored windows. Raises ValueError, also for a zone that is not known any more."""
    try:
        return usable_windows(msgspec.json.decode(text or "", type=Windows))
    except (msgspec.MsgspecError, TypeError) as error:
        raise ValueError(str(error)) from error


def usable_windows(windows: Windows) -> Windows:
    """Returns the windows, which the scheduler can go by. Raises ValueError."""
    from pollerd.scheduling.windows import opening_times  # not for who has none

    try:
        opening_times(windows)
    except InvalidValueError as error:
        raise ValueError(str(error)) from error
    return windows


def encode_windows(windows: Windows | None) -> str | None:
    """Returns windows as they are stored."""
    return None if windows is None else msgspec.json.encode(windows).decode()


PIECE = 20_000
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
OF_SITE = (Field("paused", np.bool_, "true or false", 0), *(Field(name, np.float64) for name in NUMERIC_SETTINGS))
"""Columns of a site's settings."""
_OF_INTEREST = (Field("learned_half_life", np.float64),)


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
    return ScheduleRows(**columns, windows=windows), faults


def schedule_of(
    connection: Connection, sql: Statements, site_ids: Sequence[int]
) -> tuple[ScheduleRows, dict[int, str]]:
    """Returns those of these sites that are there, as `schedule_piece` does."""
    faults: dict[int, str] = {}
    read = WindowsRead()
    of_site = (*OF_SITE, read.field())
    wanted = select(site.c.id, site.c.host_id).where(sql.in_list(site.c.id, "sites"), ~is_soft_deleted(site.c.id))
    rows = connection.execute(wanted.order_by(site.c.id), {"sites": sql.id_list(site_ids)}).all()
    ids, given = list(zip(*rows, strict=True)) or [(), ()]
    columns = {"site_id": np.array(ids, np.int64), "host_id": _HOST.column(given, ids, faults)}
    tables = ((of_site, site.c.id), (_OF_STATE, site_state.c.site_id), (_OF_INTEREST, interest.c.site_id))
    for fields, key in tables:
        columns |= _unusual(connection, fields, key, columns["site_id"], key.in_(ids), faults)
    windows = read.of_sites(columns["site_id"], columns.pop("windows"))
    return ScheduleRows(**columns, windows=windows), faults


def _ids_and_hosts(connection: Connection, after: int, faults: dict[int, str]) -> dict[str, NDArray[Any]]:
    """Returns `site_id` and `host_id` of some sites with ids above `after`, int64[k], by id.

    SQLite concatenates them: fetching the rows one by one takes three times as long.
    """
    statement = select(site.c.id, site.c.host_id)
    if any_soft_deleted(connection):
        statement = statement.where(~is_soft_deleted(site.c.id))
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
    found, *values = list(zip(*rows, strict=True)) or [()] * (1 + len(fields))
    places = np.searchsorted(site_ids, np.array(found, np.int64))
    out = {}
    for field, given in zip(fields, values, strict=True):
        out[field.name] = np.repeat(field.column([_USUAL.get(field.name)], [0], faults), len(site_ids))
        out[field.name][places] = field.column(given, found, faults)
    return out


def _of(site_ids: NDArray[np.int64], rows: Sequence[Any]) -> Sequence[Any]:
    """Returns the rows, by site id, of these sites."""
    there = np.isin(np.array([row[0] for row in rows], np.int64), site_ids)
    return rows if there.all() else list(compress(rows, there))


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
    plain = _piece(connection, select(host.c.id, host.c.name), host.c.id, after)
    return _with_what_is_known(connection, plain, host.c.id.between(plain[0][0], plain[-1][0])) if plain else []


def hosts_among(connection: Connection, sql: Statements, host_ids: Sequence[int]) -> list[HostRow]:
    """Returns those of these hosts that are there, by id."""
    wanted = select(host.c.id, host.c.name).where(sql.in_list(host.c.id, "hosts")).order_by(host.c.id)
    plain = connection.execute(wanted, {"hosts": sql.id_list(host_ids)}).all()
    return _with_what_is_known(connection, plain, host.c.id.in_([row[0] for row in plain]))


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


def learned_of(
    connection: Connection, sql: Statements, allocator: str, site_ids: Sequence[int]
) -> list[tuple[int, bytes]]:
    """Returns (site id, state) of those of these sites of which the allocator has learned, by id."""
    c = learned.c
    wanted = select(c.site_id, c.state).where(c.allocator == allocator, sql.in_list(c.site_id, "sites"))
    rows = connection.execute(wanted.order_by(c.site_id), {"sites": sql.id_list(site_ids)})
    return [(site_id, bytes(state)) for site_id, state in rows]


_TTLS = select(site_state.c.site_id, site_state.c.ttl, site_state.c.ttl_broken).where(
    or_(site_state.c.ttl.is_not(None), site_state.c.ttl_broken)
)


def announced_ttls(connection: Connection, after: int) -> StoredTtls:
    """Returns what some sites with ids above `after` announced, by id; none: there are no more."""
    return _ttls(_piece(connection, _TTLS, site_state.c.site_id, after))


def announced_ttls_of(connection: Connection, sql: Statements, site_ids: Sequence[int]) -> StoredTtls:
    """Returns what these sites announced, as `announced_ttls` does."""
    wanted = _TTLS.where(sql.in_list(site_state.c.site_id, "sites"))
    return _ttls(connection.execute(wanted, {"sites": sql.id_list(site_ids)}).all())


def _ttls(rows: Sequence[Any]) -> StoredTtls:
    """Returns the columns of rows; a TTL damaged by hand counts as none."""
    ids, ttls, broken = list(zip(*rows, strict=True)) or [(), (), ()]
    numbers = [number(ttl, 0.0) for ttl in ttls]
    return StoredTtls(np.array(ids, np.int64), np.array(numbers, np.float64), np.array(broken, np.bool_))


def ids_piece(connection: Connection, tag: str | None, after: int) -> NDArray[np.int64]:
    """Returns some ids above `after` of all sites, or of those with this tag, int64[k], ascending; k = 0: no more."""
    c = site_tag.c
    if tag is None:
        rows = _piece(connection, select(site.c.id).where(~is_soft_deleted(site.c.id)), site.c.id, after)
    else:
        tagged = select(c.site_id).where(c.tag == tag, ~is_soft_deleted(c.site_id))
        rows = _piece(connection, tagged, c.site_id, after)
    return np.array([row[0] for row in rows], np.int64)


def _piece(connection: Connection, statement: Select[Any], key: Any, after: int) -> Sequence[Any]:
    """Returns the first rows above `after` in order of `key`, the statement's first column, as the driver's tuples.

    `Result.all` would build a `Row` for each: 1.6 of the 10 s that reading a million sites takes.
    """
    with connection.execute(statement.where(key > after).order_by(key).limit(PIECE)) as result:
        return result.cursor.fetchall()
