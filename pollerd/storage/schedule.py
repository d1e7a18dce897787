"""What the daemon reads at its start: sites, hosts, what was learned. Streamed in pieces, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, bindparam, select

from pollerd.errors import NotFoundError, SchemaError
from pollerd.storage.compression import unpack
from pollerd.storage.schema import host, learned, site, site_state
from pollerd.storage.values import STATE_CODES, HostRobots, HostRow, ScheduleRows

PIECE = 20_000
_CODES = {state.value: code for code, state in enumerate(STATE_CODES)}


def load_schedule(connection: Connection) -> ScheduleRows:
    """All sites, ordered by id."""
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
    pieces: list[list[NDArray[Any]]] = []
    for rows in _pieces(connection, statement, s.id):
        columns = list(zip(*rows, strict=True))
        columns[3] = tuple(_CODES[state] for state in columns[3])
        pieces.append([np.array(c, dtype=kind) for c, kind in zip(columns, kinds, strict=True)])
    if not pieces:
        return ScheduleRows(*(np.empty(0, dtype=kind) for kind in kinds))
    return ScheduleRows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def load_hosts(connection: Connection) -> list[HostRow]:
    """All hosts, ordered by id."""
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
    return [_host(*row) for rows in _pieces(connection, statement, c.id) for row in rows]


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


def load_learned(connection: Connection, allocator: str) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Site ids [m] and states [m, width] that this allocator left; width 0 where there are none.

    Raises `SchemaError` where states differ in width.
    """
    c = learned.c
    statement = select(c.site_id, c.state).where(c.allocator == allocator)
    ids: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    blobs: list[bytes] = []
    widths: set[int] = set()
    for rows in _pieces(connection, statement, c.site_id):
        sites, states = zip(*rows, strict=True)
        ids.append(np.array(sites, dtype=np.int64))
        blobs.append(b"".join(states))
        widths.update(map(len, states))
    if len(widths) > 1:
        raise SchemaError(f"learned states of {allocator} differ in width: {sorted(widths)}")
    site_ids = np.concatenate(ids)
    states_flat = np.frombuffer(b"".join(blobs), dtype=np.uint8)
    return site_ids, states_flat.reshape(len(site_ids), widths.pop() if widths else 0)


def _pieces(connection: Connection, statement: Select[Any], key: Any) -> Iterator[Sequence[Any]]:
    """The rows in order of `key`, the statement's first column, some at a time."""
    piece = statement.where(key > bindparam("after")).order_by(key).limit(PIECE)
    after = -1
    while rows := connection.execute(piece, {"after": after}).all():
        yield rows
        after = rows[-1][0]


def host_id(connection: Connection, name: str) -> int:
    """The id of the host "name:port". Raises `NotFoundError`."""
    found = connection.execute(select(host.c.id).where(host.c.name == name)).scalar_one_or_none()
    if found is None:
        raise NotFoundError("host", name)
    return int(found)
