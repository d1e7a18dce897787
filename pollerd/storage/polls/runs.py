"""The daemon's runs and the current allocation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from pollerd.storage.db.rows import run_each
from pollerd.storage.db.schema.history import poll
from pollerd.storage.db.schema.runs import allocation, daemon_run, last_batch
from pollerd.storage.db.schema.sites import learned
from pollerd.storage.db.statements import Statements, run
from pollerd.storage.encoding.text_encoding import split_names
from pollerd.storage.polls.commit import HoldsPartitions
from pollerd.storage.values import AllocationRow, RunInfo

_PIECE = 2_000


def start_run(connection: Connection, version: str, now: float, writer: str = "") -> RunInfo:
    """Records the start of a daemon; returns how the writer's previous run ended."""
    c = daemon_run.c
    mine = select(c.stopped_at).where(c.writer == writer)
    last = connection.execute(mine.order_by(c.id.desc()).limit(1)).one_or_none()
    clean = last is None or last.stopped_at is not None
    started = insert(daemon_run).values(started_at=now, version=version, writer=writer).returning(c.id)
    return RunInfo(connection.execute(started).scalar_one(), clean, None if last is None else last.stopped_at)


def end_run(connection: Connection, run_id: int, now: float, writer: str = "") -> None:
    """Records that the run stopped cleanly; then none of the writer's batches is repeated."""
    connection.execute(update(daemon_run).where(daemon_run.c.id == run_id).values(stopped_at=now))
    if writer:
        connection.execute(delete(last_batch).where(last_batch.c.writer == writer))


def load_allocation(connection: Connection) -> AllocationRow | None:
    """Returns the current allocation; None before the first."""
    c = allocation.c
    columns = c.allocator, c.objective, c.budget, c.shared_state, c.learned_through, c.deadline
    row = connection.execute(select(*columns, c.shadows)).one_or_none()
    return None if row is None else AllocationRow(*row[:-1], shadows=split_names(row.shadows))


def last_poll_id(connection: Connection) -> int:
    """Returns the id of the last committed poll, 0 before the first."""
    last: int | None = connection.execute(select(func.max(poll.c.id))).scalar_one()
    return last or 0


def save_allocation(connection: Connection, sql: Statements, row: AllocationRow) -> None:
    """Stores the current allocation. Its shared state, if given, includes all polls committed so far."""
    values: dict[str, Any] = {
        "allocator": row.allocator,
        "objective": row.objective,
        "budget": row.budget,
        "shadows": ",".join(row.shadows),
    }
    if row.deadline is not None:
        values["deadline"] = row.deadline
    if row.shared_state is not None:
        values |= {"shared_state": row.shared_state, "learned_through": last_poll_id(connection)}
    statement = sql.insert_for(allocation).values(id=1, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))


def replace_learned(
    connection: Connection, sql: Statements, row: AllocationRow, states: Iterable[tuple[int, bytes]]
) -> None:
    """Stores another allocation, with the learned states, (site id, state), of sites that still exist."""
    save_allocation(connection, sql, row)
    connection.execute(delete(learned))
    # In pieces: the loop runs between them.
    for piece in _pieces(states):
        living = {r[0] for r in connection.exec_driver_sql(sql.living_sites, (sql.many(dict(piece)),))}
        rows = [(site_id, row.allocator, state) for site_id, state in piece if site_id in living]
        run_each(connection, sql.upsert_learned, rows)


def replace_learned_here(
    connection: Connection,
    sql: Statements,
    node: HoldsPartitions,
    row: AllocationRow,
    states: Iterable[tuple[int, bytes]],
) -> None:
    """Stores what a node learned with another allocator: of those of its sites that it still holds, and in common."""
    run_each(connection, sql.upsert_node_state, [(node.info.name, row.allocator, row.shared_state, time.time())])
    held = sql.many(node.held)
    for piece in _pieces(states):
        here = {r[0] for r in run(connection, sql.held_sites, sql.many(dict(piece)), held)}
        run_each(connection, sql.upsert_learned, [(i, row.allocator, state) for i, state in piece if i in here])


def _pieces(states: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    left = iter(states)
    while piece := list(islice(left, _PIECE)):
        yield piece


def last_poll_at(connection: Connection) -> float | None:
    """Returns when the last stored poll began (epoch s); None: there is none."""
    found = connection.execute(select(poll.c.at).order_by(poll.c.id.desc()).limit(1)).scalar()
    return None if found is None else float(found)
