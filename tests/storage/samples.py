"""Sites, polls and batches for the tests."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import make_url

from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState, Validators
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, HostRow, PollRecord, ScheduleRows, SiteContext

T = TypeVar("T")


def fingerprint(content: bytes) -> bytes:
    return content[:16].rjust(16, b".")


async def add(store: Store, count: int = 1, hosts: int = 2, **spec: Any) -> list[int]:
    """Sites http://h<i mod hosts>/<i>; their ids."""
    numbers = range(count)
    specs = [SiteSpec(f"http://h{i % hosts}/{i}", **spec) for i in numbers]
    names = [f"h{i % hosts}:80" for i in numbers]
    result = await store.sites.add(specs, names, 1.0, respect_deleted=True)
    return [site_id for site_id, _, _ in result.added]


async def schedule_of(store: Store) -> ScheduleRows:
    """All sites, of which there is one at least, put together from their pieces."""
    pieces = [rows async for rows, _ in store.sites.schedule.all()]
    names = [field.name for field in fields(ScheduleRows) if field.name != "windows"]
    windows = {site_id: its for piece in pieces for site_id, its in piece.windows.items()}
    columns = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}
    return ScheduleRows(**columns, windows=windows)


async def hosts_of(store: Store) -> list[HostRow]:
    """All hosts."""
    return [host async for piece in store.sites.hosts.all() for host in piece]


async def learned_of(store: Store, allocator: str) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Ids and states of all sites that the allocator left."""
    pieces = [piece async for piece in store.sites.schedule.learned(allocator)]
    if not pieces:
        return np.empty(0, np.int64), np.empty((0, 0), np.uint8)
    return np.concatenate([ids for ids, _ in pieces]), np.concatenate([states for _, states in pieces])


def record(
    context: SiteContext,
    at: float,
    content: bytes | None = None,
    *,
    changed: bool = False,
    learned: bytes | None = None,
    **poll: Any,
) -> PollRecord:
    """A poll of this site; with content it is a changed one (or the first)."""
    baseline = context.baseline
    if content is not None:
        baseline = Baseline(fingerprint(content), fingerprint(content)[::-1], Media.HTML, b"12345678", 5.0, 2, 1)
    outcome = OutcomeKind.CHANGED if changed else OutcomeKind.UNCHANGED
    after = SiteContext(
        context.site_id,
        context.url,
        Validators('"e"', "Sat, 21 Nov 2026 12:00:00 GMT"),
        baseline,
        polls_since_full=context.polls_since_full + 1,
        settings_changed_at=context.settings_changed_at,
        content_type="text/html",
    )
    values: dict[str, Any] = {"elapsed": 10.0, "status": 200, "duration": 0.0, "bytes": 100, **poll}
    return PollRecord(
        Poll(site_id=context.site_id, at=at, outcome=outcome, changed=changed, **values),
        after,
        SiteState.ACTIVE,
        last_seen_at=at,
        content=content,
        change=ChangeDraft(Media.HTML, f"at {at}", at - 10) if changed else None,
        learned=learned,
    )


async def poll_all(
    store: Store, sites: Sequence[int], at: float, content: bytes | None = None, *, changed: bool = False
) -> Batch:
    """Commit one poll of each site; the batch."""
    contexts = await store.sites.contexts(sites)
    batch = Batch([record(contexts[s], at, content, changed=changed) for s in sites])
    await store.commit(batch)
    return batch


async def retry_while_unavailable(call: Callable[[], Awaitable[T]]) -> T:
    """What it gives once the database takes it: a connection just cut may be noticed only when it is used."""
    for _ in range(600):
        try:
            return await call()
        except DatabaseUnavailableError:
            await asyncio.sleep(0.1)
    return await call()


async def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a database, read without pollerd."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(parsed.database))
        try:
            rows = connection.execute(sql).fetchall()
            connection.commit()
            return rows
        finally:
            connection.close()
    server = await asyncpg.connect(parsed.set(drivername="postgresql").render_as_string(hide_password=False))
    try:
        return [tuple(row) for row in await server.fetch(sql)]
    finally:
        await server.close()


def file_of(url: str) -> Path:
    return Path(str(make_url(url).database))
