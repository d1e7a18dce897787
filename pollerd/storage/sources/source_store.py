"""Sources in the database: each method is one transaction."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from pollerd.errors import DuplicateError, NotFoundError
from pollerd.model import Validators
from pollerd.storage.db.engine import Database
from pollerd.storage.db.schema.sources import source, source_site
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding import cursors
from pollerd.storage.encoding.text_encoding import decode_header, encode_header, storable_word
from pollerd.storage.sources import membership
from pollerd.storage.sources.source_values import (
    Member,
    MemberState,
    ReadDocument,
    Source,
    SourceRead,
    SourceSpec,
    StoredMember,
)
from pollerd.storage.values import ListPage

_TABLE = source
_SHOWN = [column for column in source.c if column.name != "documents"]
_PLAIN = ("url", "kind", "weight", "site_limit", "pattern", "hosts", "interval", "most_shrink", "paused")


class SourceStore:
    """Sources, and which sites they list.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql

    async def all(self) -> list[Source]:
        """Returns all sources, by id, without the numbers of their sites."""
        return await self._database.read(
            lambda c: [_source(row) for row in c.execute(select(*_SHOWN).order_by(source.c.id))]
        )

    async def page(self, limit: int = 100, cursor: str | None = None) -> ListPage[Source]:
        """Returns sources by id. Raises `InvalidValueError` for a bad cursor or limit (1 to 1000)."""

        def work(connection: Connection) -> ListPage[Source]:
            wanted = select(*_SHOWN).order_by(source.c.id).limit(cursors.check_limit(limit) + 1)
            last = cursors.decode("q", cursor)
            rows = connection.execute(wanted if last is None else wanted.where(source.c.id > last)).all()
            counts = _counts(connection, self._sql, [row.id for row in rows[:limit]])
            items = [_source(row, counts[row.id]) for row in rows[:limit]]
            return ListPage(items, cursors.encode("q", items[-1].id) if len(rows) > limit else None)

        return await self._database.read(work)

    async def get(self, source_id: int) -> Source:
        """Returns the source. Raises `NotFoundError`."""
        return await self._database.read(lambda c: _one(c, self._sql, source_id))

    async def at(self, urls: Sequence[str]) -> dict[str, Source]:
        """Returns the sources at these URLs, by URL."""
        wanted = select(*_SHOWN).where(self._sql.among(source.c.url, "urls"))

        def work(connection: Connection) -> dict[str, Source]:
            return {row.url: _source(row) for row in connection.execute(wanted, {"urls": self._sql.texts(urls)})}

        return await self._database.read(work)

    async def add(self, spec: SourceSpec, now: float, *, read_at: float) -> Source:
        """Adds a source, to be read at `read_at` (epoch s). Raises `DuplicateError`."""

        def work(connection: Connection) -> Source:
            there = connection.execute(select(source.c.id).where(source.c.url == spec.url)).scalar()
            if there is not None:
                raise DuplicateError("source", spec.url, there)
            values = {**_values(spec), "created_at": now, "next_read_at": read_at}
            new = connection.execute(insert(source).values(values).returning(source.c.id)).scalar_one()
            return _one(connection, self._sql, new)

        return await self._database.write(work)

    async def update(self, source_id: int, spec: SourceSpec, *, read_at: float | None) -> Source:
        """Sets the settings, but for the URL. read_at: when to read all of it next, None: as before.

        Raises `NotFoundError`.
        """

        def work(connection: Connection) -> Source:
            values = _values(spec)
            del values["url"]
            if read_at is not None:
                values |= {"next_read_at": read_at, "documents": None}
            connection.execute(update(source).where(source.c.id == source_id).values(values))
            return _one(connection, self._sql, source_id)

        return await self._database.write(work)

    async def delete(self, source_id: int) -> None:
        """Deletes the source; its sites stay as they are. Raises `NotFoundError`."""

        def work(connection: Connection) -> None:
            membership.bequeath(connection, source_id)
            if not connection.execute(delete(source).where(source.c.id == source_id)).rowcount:
                raise NotFoundError("source", source_id)

        await self._database.write(work)

    async def removable(self, source_id: int, limit: int) -> list[int]:
        """Returns ids of at most `limit` sites that the source added, and that no other source lists."""
        return await self._database.read(lambda c: membership.removable(c, source_id, limit))

    async def ask_read(self, source_id: int, now: float) -> Source:
        """Makes the source due now. Raises `NotFoundError`."""

        def work(connection: Connection) -> Source:
            connection.execute(update(source).where(source.c.id == source_id).values(next_read_at=now))
            return _one(connection, self._sql, source_id)

        return await self._database.write(work)

    # Readings.

    async def documents(self, source_id: int) -> list[ReadDocument]:
        """Returns what the last complete reading fetched."""
        wanted = select(source.c.documents).where(source.c.id == source_id)
        return await self._database.read(lambda c: _documents(c.execute(wanted).scalar() or b""))

    async def members(self, source_id: int) -> list[Member]:
        """Returns all pages of the source."""
        return await self._database.read(lambda c: membership.members(c, source_id))

    async def vanish(self, source_id: int, urls: Sequence[str], now: float) -> list[int]:
        """Notes pages as no longer listed; returns ids of the sites that this pauses."""
        return await self._database.write(lambda c: membership.vanish(c, self._sql, source_id, urls, now))

    async def come_back(self, source_id: int, urls: Sequence[str], now: float) -> list[int]:
        """Notes pages as listed again; returns ids of the sites that this resumes."""
        return await self._database.write(lambda c: membership.come_back(c, self._sql, source_id, urls, now))

    async def end_read(self, source: Source, read: SourceRead) -> bool:
        """Notes the end of a reading of the source as it was; returns False if it is gone.

        If its settings have changed meanwhile, it is due at once, and read whole.
        """
        values: dict[str, Any] = {
            "last_read_at": read.at,
            "next_read_at": read.next_at,
            "pace": read.pace,
            "entries": read.entries,
            "failures": read.failures,
            "last_detail": storable_word(read.detail),
            **({} if read.documents is None else {"documents": _written(read.documents)}),
        }

        def work(connection: Connection) -> bool:
            row = connection.execute(select(*_SHOWN).where(_TABLE.c.id == source.id)).one_or_none()
            if row is None:
                return False
            anew = {} if _source(row).spec == source.spec else {"next_read_at": read.at, "documents": None}
            connection.execute(update(_TABLE).where(_TABLE.c.id == source.id).values({**values, **anew}))
            return True

        return await self._database.write(work)

    # Exports.

    async def stored_members(self, source_id: int, after: str, limit: int) -> list[StoredMember]:
        """Returns pages of the source by URL, after `after`."""
        return await self._database.read(lambda c: membership.stored(c, source_id, after, limit))

    async def put_members(self, pieces: Callable[[], Iterator[Sequence[tuple[str, StoredMember]]]]) -> tuple[int, int]:
        """Notes pages of the sources at these URLs, all or none; known ones stay. Returns how many: new, others."""

        def work(connection: Connection) -> tuple[int, int]:
            counts = [membership.put(connection, self._sql, piece) for piece in pieces()]
            return sum(new for new, _ in counts), sum(others for _, others in counts)

        return await self._database.write(work)

    async def known_members(self, given: Sequence[tuple[str, StoredMember]]) -> int:
        """Returns how many of these pages, each with the URL of its source, are noted already."""
        return await self._database.read(lambda c: len(membership.known(c, self._sql, given)))

    async def sites_of(
        self, source_id: int, state: MemberState | None = None, limit: int = 100, cursor: str | None = None
    ) -> ListPage[Member]:
        """Returns pages of a source by the ids of their sites.

        Raises `NotFoundError`, and `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """

        def work(connection: Connection) -> ListPage[Member]:
            _one(connection, self._sql, source_id)
            c, last = source_site.c, cursors.decode("m", cursor)
            wanted = select(c.url, c.site_id, c.state, c.since, c.paused).where(c.source_id == source_id)
            wanted = wanted.where(c.site_id > last) if last is not None else wanted
            wanted = wanted.where(c.state == state.value) if state is not None else wanted
            rows = connection.execute(wanted.order_by(c.site_id).limit(cursors.check_limit(limit) + 1)).all()
            items = [Member(url, at, kept == MemberState.JOINED, *rest) for url, at, kept, *rest in rows]
            return ListPage(items[:limit], cursors.encode("m", items[limit - 1].id) if len(items) > limit else None)

        return await self._database.read(work)


def _values(spec: SourceSpec) -> dict[str, Any]:
    return {**{name: getattr(spec, name) for name in _PLAIN}, "tags": json.dumps(spec.tags)}


def _written(documents: Sequence[ReadDocument]) -> bytes:
    return msgspec.msgpack.encode(
        [
            (one.url, encode_header(one.validators.etag), encode_header(one.validators.last_modified), *_rest(one))
            for one in documents
        ]
    )


def _rest(one: ReadDocument) -> tuple[tuple[str, ...], int, bytes]:
    return one.sitemaps, one.entries, one.keys


def _documents(data: bytes) -> list[ReadDocument]:
    if not data:
        return []
    return [
        ReadDocument(url, Validators(decode_header(etag), decode_header(modified)), tuple(sitemaps), entries, keys)
        for url, etag, modified, sitemaps, entries, keys in msgspec.msgpack.decode(data)
    ]


def _one(connection: Connection, sql: Statements, source_id: int) -> Source:
    row = connection.execute(select(*_SHOWN).where(source.c.id == source_id)).one_or_none()
    if row is None:
        raise NotFoundError("source", source_id)
    return _source(row, _counts(connection, sql, [source_id])[source_id])


def _counts(connection: Connection, sql: Statements, source_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Returns numbers of pages by source and state."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    c = source_site.c
    wanted = select(c.source_id, c.state, func.count()).where(sql.among(c.source_id, "ids"))
    for at, state, number in connection.execute(wanted.group_by(c.source_id, c.state), {"ids": sql.many(source_ids)}):
        counts[at][state] = number
    return counts


def _source(row: Any, counts: Mapping[str, int] | None = None) -> Source:
    counts = counts or {}
    spec = SourceSpec(**{name: getattr(row, name) for name in _PLAIN}, tags=tuple(json.loads(row.tags)))
    return Source(
        id=row.id,
        spec=spec,
        created_at=row.created_at,
        last_read_at=row.last_read_at,
        next_read_at=row.next_read_at,
        pace=row.pace,
        entries=row.entries,
        failures=row.failures,
        last_detail=row.last_detail,
        joined=counts.get(MemberState.JOINED, 0),
        vanished=counts.get(MemberState.VANISHED, 0),
    )
