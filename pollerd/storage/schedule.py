"""What the daemon reads at its start: sites, hosts, what was learned. Streamed in pieces, as columns."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, select
from zstandard import ZstdError

from pollerd.errors import SchemaError
from pollerd.model import NUMERIC_SETTINGS, STATE_CODE, SiteState
from pollerd.storage.compression import unpack
from pollerd.storage.hosts import read_override
from pollerd.storage.salvage import Field, number
from pollerd.storage.schema import host, host_override, learned, site, site_state, site_tag
from pollerd.storage.values import HostRobots, HostRow, ScheduleRows

PIECE = 20_000
_CODES = {state.value: code for state, code in STATE_CODE.items()}
_NUMBERS = (*NUMERIC_SETTINGS, "last_poll_at", "last_seen_at", "not_before")
_FIELDS = (
    Field("host_id", np.int64, "a whole number", 0),
    Field("paused", np.bool_, "true or false", 0),
    Field("state", np.int8, f"one of {', '.join(_CODES)}", STATE_CODE[SiteState.ACTIVE], _CODES),
    *(Field(name, np.float64) for name in _NUMBERS),
    *(Field(name, np.int64, "a whole number", 0) for name in ("failures", "polls", "changes")),
)
"""What `ScheduleRows` holds after the sites' ids, in its order."""
_COLUMN = {column.name: column for column in (*site_state.c, *site.c)}


def schedule_piece(connection: Connection, after: int) -> tuple[ScheduleRows, dict[int, str]]:
    """Some sites with ids above `after`, ordered by id; none: there are no more.

    Beside them what is wrong with rows of which a value could not be read, by site id; something else stands in for it.
    """
    statement = select(site.c.id, *(_COLUMN[field.name] for field in _FIELDS))
    rows = _piece(connection, statement.join_from(site, site_state), site.c.id, after)
    ids, *columns = list(zip(*rows, strict=True)) or [()] * (1 + len(_FIELDS))
    faults: dict[int, str] = {}
    arrays = [field.column(values, ids, faults) for field, values in zip(_FIELDS, columns, strict=True)]
    return ScheduleRows(np.array(ids, np.int64), *arrays), faults


def hosts_piece(connection: Connection, after: int) -> list[HostRow]:
    """Some hosts with ids above `after`, ordered by id; none: there are no more."""
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
    return [_host(*row) for row in _piece(connection, statement, c.id, after)]


def _host(
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
    """The host of a row; numbers that somebody spoiled by hand count as unset, such a robots.txt as never asked for."""
    robots = None
    fetched_at = number(robots_at)
    if kind is not None and fetched_at is not None:
        with contextlib.suppress(ZstdError, TypeError):
            text = None if body is None else unpack(body)
            robots = HostRobots(kind=kind, at=fetched_at, body=text, detail=detail, crawl_delay=number(crawl_delay))
    override = None if overridden_at is None else read_override(overridden_at, *overridden)
    return HostRow(host_id, name, number(last_start_at), number(paused_until), number(throttles, 0), robots, override)


def learned_piece(connection: Connection, allocator: str, after: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Some site ids [m] above `after`, ascending, and states [m, width] that this allocator left; m = 0: no more.

    Raises `SchemaError` where states differ in width.
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
    """Some ids above `after` of all sites, or of those with this tag, int64[k], ascending; k = 0: there are no more."""
    c = site_tag.c
    if tag is None:
        rows = _piece(connection, select(site.c.id), site.c.id, after)
    else:
        rows = _piece(connection, select(c.site_id).where(c.tag == tag), c.site_id, after)
    return np.array([row[0] for row in rows], np.int64)


def _piece(connection: Connection, statement: Select[Any], key: Any, after: int) -> Sequence[Any]:
    """The first rows above `after` in order of `key`, the statement's first column, as the driver gives them.

    `Result.all` would make a `Row` of each: of the 10 s in which a million sites are read it took 1.6.
    """
    with connection.execute(statement.where(key > after).order_by(key).limit(PIECE)) as result:
        return result.cursor.fetchall()
