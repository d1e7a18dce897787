"""Sources of sites in the database, and the sites that each lists. Times are epoch seconds, durations seconds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, and_, delete, exists, func, insert, select, update

from pollerd.errors import DuplicateError, NotFoundError
from pollerd.model import SiteState, Validators
from pollerd.shown import SHOWN, Moment, OneOf
from pollerd.site_settings import SiteSpec
from pollerd.storage import encoding
from pollerd.storage.encoding import decode_header, encode_header, storable_word
from pollerd.storage.engine import Database
from pollerd.storage.schema import site, site_state, source, source_site
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.values import AddResult, ListPage
from pollerd.texts import N_

_NO_VALIDATORS = Validators()


class MemberState(StrEnum):
    """Where a page of a source stands: listed by it, or no longer."""

    JOINED = "joined"
    VANISHED = "vanished"


class SourceSpec(Struct, frozen=True):
    """User settings of a source."""

    url: str
    kind: str = "sitemap"
    """"sitemap" or "feed"."""
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    """Tags and weight of the sites that it adds."""
    site_limit: int = 100_000
    """Maximum number of sites that it may have."""
    pattern: str | None = None
    hosts: str = "same"
    """"same": pages of its own host, and of hosts whose robots.txt names it; "any"."""
    interval: float | None = None
    """Seconds between two readings; None: learned."""
    most_shrink: float = 0.5
    """Largest share by which the list may shrink and still be believed."""
    paused: bool = False


class ReadDocument(Struct, frozen=True):
    """A document that a reading fetched, with the validators of its answer."""

    url: str
    validators: Validators = _NO_VALIDATORS
    sitemaps: tuple[str, ...] = ()
    """Further documents that it lists."""
    entries: int = 0
    """Number of pages that it lists, before the pattern."""
    keys: bytes = b""
    """64-bit hashes of the pages that it brought: a document that did not change is not read again to know them."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source as stored."""

    id: int
    spec: SourceSpec
    created_at: float
    last_read_at: float | None = None
    next_read_at: float | None = None
    pace: float | None = None
    """The learned interval; None: not read yet."""
    entries: int | None = None
    """Number of pages that the last believed reading listed, before the pattern."""
    failures: int = 0
    """Consecutive readings that failed or were not believed."""
    last_detail: str = ""
    joined: int = 0
    vanished: int = 0
    """Numbers of its pages, by state; both 0 where they were not asked for."""


class Member(Struct, frozen=True, gc=False):
    """A page of a source, and its site, as a reading needs it."""

    url: str
    site_id: int
    joined: bool


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of a source, and its site."""

    __pydantic_config__ = SHOWN
    site_id: int
    url: str
    """As listed; the site may have been moved since."""
    state: Annotated[MemberState, OneOf("joined", "vanished")]
    since: Moment
    paused: bool
    """Whether the source paused the site; it resumes it when the page is listed again."""


class StoredMember(Struct, frozen=True, gc=False):
    """A page of a source as an export has it: by URLs, as ids are those of one database."""

    url: str
    site: str
    """URL of its site."""
    joined: bool
    added: bool
    paused: bool
    since: float

    def fields(self) -> dict[str, str | bool | float]:
        """Returns the values by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The end of a reading, to store after all that it changed."""

    at: float
    next_at: float
    pace: float | None
    entries: int | None
    failures: int
    detail: str
    documents: Sequence[ReadDocument] | None
    """None: those of the reading before stay."""


# Members: the sites that a source lists. These work within the transactions of sites that are added and changed.

_OTHER = source_site.alias("other")
_JOINED, _VANISHED = MemberState.JOINED.value, MemberState.VANISHED.value


def join(
    connection: Connection, sql: Statements, source_id: int, specs: Sequence[SiteSpec], result: AddResult, now: float
) -> None:
    """Notes the added and the existing sites as listed by the source.

    Raises `NotFoundError` if it is gone or was paused: nothing joins then.
    """
    living = select(source.c.id).where(source.c.id == source_id, source.c.paused.is_(False))
    if connection.execute(living).scalar() is None:
        raise NotFoundError(N_("source"), source_id)
    added = {i: site_id for site_id, i, _host_id in result.added}
    site_ids = added | {i: site_id for site_id, i in result.existing}
    rows = [
        {
            "source_id": source_id,
            "url": specs[i].url,
            "site_id": site_id,
            "state": _JOINED,
            "since": now,
            "added": i in added,
            "paused": False,
        }
        for i, site_id in site_ids.items()
    ]
    if rows:
        connection.execute(sql.insert_for(source_site).on_conflict_do_nothing(), rows)


def forget_pauses(connection: Connection, sql: Statements, site_ids: Sequence[int] | NDArray[np.int64]) -> None:
    """Notes that what these sites' pauses are is the user's doing: no source resumes them."""
    condition = and_(sql.in_list(source_site.c.site_id, "ids"), source_site.c.paused)
    connection.execute(update(source_site).where(condition).values(paused=False), {"ids": sql.id_list(site_ids)})


def _ids(connection: Connection, sql: Statements, table: Table, urls: Sequence[str]) -> dict[str, int]:
    statement = select(table.c.url, table.c.id).where(sql.in_list(table.c.url, "urls"))
    return {row.url: row.id for row in connection.execute(statement, {"urls": sql.text_list(dict.fromkeys(urls))})}


_TABLE = source
_SHOWN = [column for column in source.c if column.name != "documents"]
_PLAIN = ("url", "kind", "weight", "site_limit", "pattern", "hosts", "interval", "most_shrink", "paused")


class SourceStore(Subject):
    """Sources, and which sites they list."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql

    @reads
    def all(self, connection: Connection) -> list[Source]:
        """Returns all sources, by id, without the numbers of their sites."""
        return [_source(row) for row in connection.execute(select(*_SHOWN).order_by(source.c.id))]

    @reads
    def page(self, connection: Connection, limit: int = 100, cursor: str | None = None) -> ListPage[Source]:
        """Returns sources by id. Raises `InvalidValueError` for a bad cursor or limit (1 to 1000)."""
        statement = select(*_SHOWN).order_by(source.c.id).limit(encoding.check_limit(limit) + 1)
        last = encoding.decode("q", cursor)
        rows = connection.execute(statement if last is None else statement.where(source.c.id > last)).all()
        counts = _counts(connection, self._sql, [row.id for row in rows[:limit]])
        items = [_source(row, counts[row.id]) for row in rows[:limit]]
        return ListPage(items, encoding.encode("q", items[-1].id) if len(rows) > limit else None)

    @reads
    def get(self, connection: Connection, source_id: int) -> Source:
        """Returns the source. Raises `NotFoundError`."""
        row = connection.execute(select(*_SHOWN).where(source.c.id == source_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("source"), source_id)
        return _source(row, _counts(connection, self._sql, [source_id])[source_id])

    @reads
    def at(self, connection: Connection, urls: Sequence[str]) -> dict[str, Source]:
        """Returns the sources at these URLs, by URL."""
        statement = select(*_SHOWN).where(self._sql.in_list(source.c.url, "urls"))
        return {row.url: _source(row) for row in connection.execute(statement, {"urls": self._sql.text_list(urls)})}

    @writes
    def add(self, connection: Connection, spec: SourceSpec, now: float, *, read_at: float) -> Source:
        """Adds a source, to be read at `read_at` (epoch s). Raises `DuplicateError`."""
        existing = connection.execute(select(source.c.id).where(source.c.url == spec.url)).scalar()
        if existing is not None:
            raise DuplicateError(N_("source"), spec.url, existing)
        values = {**_values(spec), "created_at": now, "next_read_at": read_at}
        new = connection.execute(insert(source).values(values).returning(source.c.id)).scalar_one()
        return self.get.within(connection, new)

    @writes
    def update(self, connection: Connection, source_id: int, spec: SourceSpec, *, read_at: float | None) -> Source:
        """Sets the settings, but for the URL. read_at: when to read all of it next, None: as before.

        Raises `NotFoundError`.
        """
        values = _values(spec)
        del values["url"]
        if read_at is not None:
            values |= {"next_read_at": read_at, "documents": None}
        connection.execute(update(source).where(source.c.id == source_id).values(values))
        return self.get.within(connection, source_id)

    @writes
    def delete(self, connection: Connection, source_id: int) -> None:
        """Deletes the source; its sites stay as they are. Raises `NotFoundError`."""
        # What it has added or paused is handed on to other sources of these sites.
        here, other = source_site.c, _OTHER.c
        for flag in ("added", "paused"):
            own = exists().where(other.site_id == here.site_id, other.source_id == source_id, other[flag])
            connection.execute(update(source_site).where(here.source_id != source_id, own).values({flag: True}))
        if not connection.execute(delete(source).where(source.c.id == source_id)).rowcount:
            raise NotFoundError(N_("source"), source_id)

    @reads
    def removable(self, connection: Connection, source_id: int, limit: int) -> list[int]:
        """Returns ids of at most `limit` sites that the source added, and that no other source lists."""
        here, other = source_site.c, _OTHER.c
        elsewhere = exists().where(other.site_id == here.site_id, other.source_id != source_id, other.state == _JOINED)
        statement = (
            select(here.site_id).where(here.source_id == source_id, here.added, ~elsewhere).distinct().limit(limit)
        )
        return list(connection.execute(statement).scalars())

    @writes
    def ask_read(self, connection: Connection, source_id: int, now: float) -> Source:
        """Makes the source due now. Raises `NotFoundError`."""
        connection.execute(update(source).where(source.c.id == source_id).values(next_read_at=now))
        return self.get.within(connection, source_id)

    # Readings.

    @reads
    def documents(self, connection: Connection, source_id: int) -> list[ReadDocument]:
        """Returns what the last complete reading fetched."""
        statement = select(source.c.documents).where(source.c.id == source_id)
        data = connection.execute(statement).scalar()
        if not data:
            return []
        return [
            ReadDocument(url, Validators(decode_header(etag), decode_header(modified)), tuple(sitemaps), entries, keys)
            for url, etag, modified, sitemaps, entries, keys in msgspec.msgpack.decode(data)
        ]

    @reads
    def members(self, connection: Connection, source_id: int) -> list[Member]:
        """Returns all pages of the source."""
        c = source_site.c
        rows = connection.execute(select(c.url, c.site_id, c.state).where(c.source_id == source_id))
        return [Member(url, site_id, state == _JOINED) for url, site_id, state in rows]

    @writes
    def vanish(self, connection: Connection, source_id: int, urls: Sequence[str], now: float) -> list[int]:
        """Notes pages as no longer listed; returns ids of the sites that this pauses.

        Those are sites that a source added, that no source lists, and that are not paused yet.
        """
        ids = self._turned(connection, source_id, urls, {"state": _VANISHED, "since": now})
        here = source_site.c
        listed = exists().where(here.site_id == site.c.id, here.state == _JOINED)
        added = exists().where(here.site_id == site.c.id, here.added)
        condition = and_(self._sql.in_list(site.c.id, "ids"), site.c.paused.is_(False), added, ~listed)
        parameters = {"ids": self._sql.id_list(ids)}
        paused = list(connection.execute(select(site.c.id).where(condition), parameters).scalars())
        if paused:
            parameters = {"ids": self._sql.id_list(paused)}
            connection.execute(update(site).where(self._sql.in_list(site.c.id, "ids")).values(paused=True), parameters)
            own = and_(here.source_id == source_id, self._sql.in_list(here.site_id, "ids"))
            connection.execute(update(source_site).where(own).values(paused=True), parameters)
        return paused

    @writes
    def come_back(self, connection: Connection, source_id: int, urls: Sequence[str], now: float) -> list[int]:
        """Notes pages as listed again; returns ids of the sites that this resumes: those that a source had paused.

        They begin anew, without the backoff that they had.
        """
        ids = self._turned(connection, source_id, urls, {"state": _JOINED, "since": now})
        here = source_site.c
        by_source = exists().where(here.site_id == site.c.id, here.paused)
        condition = and_(self._sql.in_list(site.c.id, "ids"), site.c.paused.is_(True), by_source)
        resumed = list(
            connection.execute(select(site.c.id).where(condition), {"ids": self._sql.id_list(ids)}).scalars()
        )
        if resumed:
            parameters = {"ids": self._sql.id_list(resumed)}
            connection.execute(update(site).where(self._sql.in_list(site.c.id, "ids")).values(paused=False), parameters)
            anew = {"state": SiteState.ACTIVE.value, "not_before": None, "failures": 0}
            connection.execute(
                update(site_state).where(self._sql.in_list(site_state.c.site_id, "ids")).values(anew), parameters
            )
            forget_pauses(connection, self._sql, resumed)
        return resumed

    def _turned(
        self, connection: Connection, source_id: int, urls: Sequence[str], values: Mapping[str, Any]
    ) -> list[int]:
        """Sets the state of these pages of the source; returns the ids of their sites."""
        c = source_site.c
        condition = and_(c.source_id == source_id, self._sql.in_list(c.url, "urls"), c.state != values["state"])
        changed = update(source_site).where(condition).values(values).returning(c.site_id)
        return list(dict.fromkeys(connection.execute(changed, {"urls": self._sql.text_list(urls)}).scalars()))

    @writes
    def end_read(self, connection: Connection, source: Source, read: SourceRead) -> bool:
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
        row = connection.execute(select(*_SHOWN).where(_TABLE.c.id == source.id)).one_or_none()
        if row is None:
            return False
        anew = {} if _source(row).spec == source.spec else {"next_read_at": read.at, "documents": None}
        connection.execute(update(_TABLE).where(_TABLE.c.id == source.id).values({**values, **anew}))
        return True

    # Exports.

    @reads
    def stored_members(self, connection: Connection, source_id: int, after: str, limit: int) -> list[StoredMember]:
        """Returns pages of the source by URL, after `after`."""
        c = source_site.c
        statement = (
            select(c.url, site.c.url.label("site"), c.state, c.added, c.paused, c.since)
            .join_from(source_site, site, site.c.id == c.site_id)
            .where(c.source_id == source_id, c.url > after)
            .order_by(c.url)
            .limit(limit)
        )
        return [
            StoredMember(url, at, state == _JOINED, added, paused, since)
            for url, at, state, added, paused, since in connection.execute(statement)
        ]

    @writes
    def put_members(
        self, connection: Connection, pieces: Callable[[], Iterator[Sequence[tuple[str, StoredMember]]]]
    ) -> tuple[int, int]:
        """Notes pages of the sources at these URLs, all or none; known ones stay. Returns how many: new, others."""
        counts = [self._put_piece(connection, piece) for piece in pieces()]
        return sum(new for new, _others in counts), sum(others for _new, others in counts)

    def _put_piece(self, connection: Connection, members: Sequence[tuple[str, StoredMember]]) -> tuple[int, int]:
        """Returns how many are new, and how many are not noted anew."""
        sources = _ids(connection, self._sql, source, [at for at, _member in members])
        sites = _ids(connection, self._sql, site, [member.site for _source_url, member in members])
        known = self._known(connection, members)
        rows = [
            {
                "source_id": sources[at],
                "url": member.url,
                "site_id": sites[member.site],
                "state": _JOINED if member.joined else _VANISHED,
                "since": member.since,
                "added": member.added,
                "paused": member.paused,
            }
            for at, member in {(at, member.url): (at, member) for at, member in members}.values()
            if at in sources and member.site in sites and (at, member.url) not in known
        ]
        if rows:
            connection.execute(self._sql.insert_for(source_site).on_conflict_do_nothing(), rows)
        return len(rows), len(members) - len(rows)

    def _known(self, connection: Connection, members: Sequence[tuple[str, StoredMember]]) -> set[tuple[str, str]]:
        """Returns (URL of the source, URL of the page) of those that are noted already."""
        c, sql = source_site.c, self._sql
        statement = select(source.c.url, c.url).join_from(source_site, source, source.c.id == c.source_id)
        statement = statement.where(sql.in_list(c.url, "urls"), sql.in_list(source.c.url, "sources"))
        urls, sources = (member.url for _source_url, member in members), {at for at, _member in members}
        rows = connection.execute(statement, {"urls": sql.text_list(urls), "sources": sql.text_list(sources)})
        return {(at, url) for at, url in rows} & {(at, member.url) for at, member in members}

    @reads
    def known_members(self, connection: Connection, members: Sequence[tuple[str, StoredMember]]) -> int:
        """Returns how many of these pages, each with the URL of its source, are noted already."""
        return len(self._known(connection, members))

    @reads
    def sites_of(
        self,
        connection: Connection,
        source_id: int,
        state: MemberState | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListPage[ListedPage]:
        """Returns pages of a source by the ids of their sites.

        Raises `NotFoundError`, and `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        self.get.within(connection, source_id)
        c, last = source_site.c, encoding.decode("m", cursor)
        statement = select(c.site_id, c.url, c.state, c.since, c.paused).where(c.source_id == source_id)
        statement = statement.where(c.site_id > last) if last is not None else statement
        statement = statement.where(c.state == state.value) if state is not None else statement
        rows = connection.execute(statement.order_by(c.site_id).limit(encoding.check_limit(limit) + 1)).all()
        items = [ListedPage(at, url, MemberState(kept), *rest) for at, url, kept, *rest in rows]
        more = encoding.encode("m", items[limit - 1].site_id) if len(items) > limit else None
        return ListPage(items[:limit], more)


def _values(spec: SourceSpec) -> dict[str, Any]:
    return {**{name: getattr(spec, name) for name in _PLAIN}, "tags": json.dumps(spec.tags)}


def _written(documents: Sequence[ReadDocument]) -> bytes:
    return msgspec.msgpack.encode(
        [
            (
                document.url,
                encode_header(document.validators.etag),
                encode_header(document.validators.last_modified),
                *_rest(document),
            )
            for document in documents
        ]
    )


def _rest(document: ReadDocument) -> tuple[tuple[str, ...], int, bytes]:
    return document.sitemaps, document.entries, document.keys


def _counts(connection: Connection, sql: Statements, source_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Returns numbers of pages by source and state."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    c = source_site.c
    statement = select(c.source_id, c.state, func.count()).where(sql.in_list(c.source_id, "ids"))
    for at, state, number in connection.execute(
        statement.group_by(c.source_id, c.state), {"ids": sql.id_list(source_ids)}
    ):
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
