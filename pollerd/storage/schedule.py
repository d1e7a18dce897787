"""What the daemon reads at its start: sites, hosts, what was learned. Streamed in pieces, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, select

from pollerd.errors import NotFoundError, SchemaError
from pollerd.model import STATE_CODE
from pollerd.storage.compression import unpack
from pollerd.storage.schema import host, learned, site, site_state
from pollerd.storage.values import HostRobots, HostRow, ScheduleRows

PIECE = 20_000
_CODES = {state.value: code for state, code in STATE_CODE.items()}


def schedule_piece(connection: Connection, after: int) -> ScheduleRows:
    """Some sites with ids above `after`, ordered by id; none: there are no more."""
    s, t = site.c, site_state.c
    statement = select(
        s.id,
        s.host_id,
        s.paused,
        t.state,
        s.weight,
        s.cost,
        s.min_interval,
        s.max_interval,
        s.half_life,
        t.last_poll_at,
        t.last_seen_at,
        t.not_before,
        t.failures,
        t.polls,
        t.changes,
    ).join_from(site, site_state)
    kinds: list[Any] = [np.int64, np.int64, np.bool_, np.int8, *[np.float64] * 8, *[np.int64] * 3]
    rows = _piece(connection, statement, s.id, after)
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(kinds)
    columns[3] = [_CODES[state] for state in columns[3]]
    return ScheduleRows(*(np.array(c, dtype=kind) for c, kind in zip(columns, kinds, strict=True)))


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
    )
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
) -> HostRow:
    robots = None
    if kind is not None and robots_at is not None:
        text = None if body is None else unpack(body)
        robots = HostRobots(kind=kind, at=robots_at, body=text, detail=detail, crawl_delay=crawl_delay)
    return HostRow(host_id, name, last_start_at, paused_until, throttles, robots)


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


def _piece(connection: Connection, statement: Select[Any], key: Any, after: int) -> Sequence[Any]:
    """The first rows above `after` in order of `key`, the statement's first column."""
    return connection.execute(statement.where(key > after).order_by(key).limit(PIECE)).all()


def host_id(connection: Connection, name: str) -> int:
    """The id of the host "name:port". Raises `NotFoundError`."""
    found = connection.execute(select(host.c.id).where(host.c.name == name)).scalar_one_or_none()
    if found is None:
        raise NotFoundError("host", name)
    return int(found)
