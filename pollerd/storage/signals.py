"""Signal sources in the database: the last signal of each for each site, and when it was news."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.shown import SHOWN, Moment
from pollerd.storage.encoding import storable_word
from pollerd.storage.engine import Database
from pollerd.storage.schema import signal_page, signal_source, site, site_state
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.texts import N_, _

SignalKind = Literal["sitemap", "feed", "list", "links", "push"]
"""How a signal source says that pages changed; "push": programs report to the API."""
SignalHosts = Literal["same", "any"]


class SignalOrigin(StrEnum):
    """Who said that a signal source is one."""

    API = "api"
    FILE = "file"
    """The list that the daemon runs with; it wins."""
    INDEX = "index"
    """The index of sitemaps in which it stands."""


class ListedSignalSource(Struct, frozen=True):
    """A signal source as a list or export names it: by the normalised URL of its site, or a name."""

    kind: SignalKind
    url: str | None = None
    name: str | None = None
    hosts: SignalHosts = "same"

    @property
    def key(self) -> str:
        """Its URL or name: no two have the same."""
        return self.url or self.name or ""


class SignalSourceSpec(Struct, frozen=True):
    """A signal source as given: a site that is polled for it, or, for kind "push", a name."""

    kind: SignalKind
    site_id: int | None = None
    name: str | None = None
    hosts: SignalHosts = "same"
    """Which pages it may speak for: those of its own host, or any. A pushed one has no host: any."""


class SignalSource(Struct, frozen=True):
    """A signal source as stored. Times are UTC epoch seconds."""

    id: int
    spec: SignalSourceSpec
    url: str | None
    """URL of its site; None: pushed."""
    created_at: float
    last_read_at: float | None
    """When it was last read successfully, or a pushed one reported last."""
    last_signal_at: float | None
    signals: int
    """Number of signals of known sites since it was added."""
    pages: int
    """Number of sites that it speaks for."""
    last_detail: str
    origin: SignalOrigin = SignalOrigin.API
    index_id: int | None = None
    """Id of the source in whose index of sitemaps it stands, if that made it one."""
    made_site: bool = False
    """Whether its site was added for that."""

    @property
    def key(self) -> str:
        """Its URL or name: no two have the same."""
        return self.url or self.spec.name or ""


class ListedDate(Struct, frozen=True, gc=False):
    """What a document or report says of a URL: changed at `date`, UTC epoch s, None: no date given."""

    url: str
    date: float | None = None


class StoredSignal(Struct, frozen=True, gc=False):
    """What a source said last of a site. date: as it was said. signalled_at: epoch s when it was news, None: never."""

    site_id: int
    date: float | None
    signalled_at: float | None


@dataclass(frozen=True, slots=True)
class SourceOfSite:
    """What a signal source said last of a site."""

    __pydantic_config__ = SHOWN
    source_id: int
    source: str
    """URL of the source's site, or its name."""
    date: Moment | None
    """Of the change, as it was said; None: none was given."""
    signalled_at: Moment | None
    """When that was last news; None: never."""
    waiting: bool
    """Whether no poll that saw the page has followed it."""
    signals: int
    """Of this site since the source was added."""


def waits(signalled_at: float | None, last_seen_at: float | None) -> bool:
    """Returns whether a signal waits for a poll: no informative one has followed it. Times are epoch s; None: never."""
    return signalled_at is not None and (last_seen_at is None or signalled_at > last_seen_at)


_SPEC = ("kind", "site_id", "name", "hosts")
_SHOWN = ("created_at", "last_read_at", "last_signal_at", "signals", "last_detail", "index_id", "made_site")


class SignalStore(Subject):
    """Signal sources and their signals."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql

    @reads
    def all(self, connection: Connection) -> list[SignalSource]:
        """Returns all signal sources, by id."""
        return [_source(row) for row in connection.execute(_sources())]

    @reads
    def some(self, connection: Connection, source_ids: Collection[int]) -> list[SignalSource]:
        """Returns those of the signal sources that are there, by id."""
        statement = _sources().where(self._sql.in_list(signal_source.c.id, "ids"))
        parameters = {"ids": self._sql.id_list(source_ids)}
        return [_source(row) for row in connection.execute(statement, parameters)]

    @reads
    def get(self, connection: Connection, source_id: int) -> SignalSource:
        """Returns the signal source. Raises `NotFoundError`."""
        row = connection.execute(_sources().where(signal_source.c.id == source_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("signal source"), source_id)
        return _source(row)

    @reads
    def named(self, connection: Connection, name: str) -> int:
        """Returns the id of the pushed source of this name. Raises `InvalidValueError`."""
        source_id = connection.execute(select(signal_source.c.id).where(signal_source.c.name == name)).scalar()
        if source_id is None:
            raise InvalidValueError("source", _("the name of a signal source of kind push"), name)
        return int(source_id)

    @writes
    def add(
        self,
        connection: Connection,
        spec: SignalSourceSpec,
        now: float,
        *,
        origin: SignalOrigin = SignalOrigin.API,
        index_id: int | None = None,
        made_site: bool = False,
    ) -> SignalSource:
        """Adds a signal source. index_id, made_site: of one that stands in an index of sitemaps.

        Raises `DuplicateError` if its site or name is one, `InvalidValueError` without the site.
        """
        c = signal_source.c
        same = c.site_id == spec.site_id if spec.site_id is not None else c.name == spec.name
        existing = connection.execute(select(c.id).where(same)).scalar()
        if existing is not None:
            raise DuplicateError(N_("signal source"), str(spec.name or spec.site_id), existing)
        known = connection.execute(select(site.c.id).where(site.c.id == spec.site_id)).scalar()
        if spec.site_id is not None and known is None:
            raise InvalidValueError("site_id", _("the id of a site"), spec.site_id)
        values = {**{name: getattr(spec, name) for name in _SPEC}, "created_at": now, "origin": origin.value}
        values |= {"index_id": index_id, "made_site": made_site}
        new = connection.execute(insert(signal_source).values(values).returning(c.id)).scalar_one()
        return self.get.within(connection, new)

    @writes
    def change(
        self, connection: Connection, source_id: int, kind: str, hosts: str, origin: SignalOrigin
    ) -> SignalSource:
        """Sets kind, hosts and origin of a signal source; what it said stays. Raises `NotFoundError`.

        One that a list names is no longer an index's.
        """
        values: dict[str, Any] = {"kind": kind, "hosts": hosts, "origin": origin.value}
        if origin is not SignalOrigin.INDEX:
            values |= {"index_id": None, "made_site": False}
        connection.execute(update(signal_source).where(signal_source.c.id == source_id).values(values))
        return self.get.within(connection, source_id)

    @writes
    def delete(self, connection: Connection, source_id: int) -> None:
        """Deletes the signal source and what it said. Raises `NotFoundError`."""
        if not connection.execute(delete(signal_source).where(signal_source.c.id == source_id)).rowcount:
            raise NotFoundError(N_("signal source"), source_id)

    @reads
    def sites_at(self, connection: Connection, urls: Collection[str]) -> dict[str, int]:
        """Returns the ids of the sites at those of the normalised URLs that have one."""
        statement = select(site.c.url, site.c.id).where(self._sql.in_list(site.c.url, "urls"))
        return {row.url: row.id for row in connection.execute(statement, {"urls": self._sql.text_list(urls)})}

    @reads
    def said(self, connection: Connection, source_id: int) -> list[StoredSignal]:
        """Returns what the source said last of each of its sites, by site id."""
        c = signal_page.c
        statement = select(c.site_id, c.said, c.signalled_at).where(c.source_id == source_id).order_by(c.site_id)
        return [StoredSignal(*row) for row in connection.execute(statement)]

    @reads
    def said_since(self, connection: Connection, source_id: int, since: float) -> list[StoredSignal]:
        """Returns what was news at or after epoch s `since`, by site id."""
        c = signal_page.c
        news = (c.source_id == source_id) & (c.signalled_at >= since)
        statement = select(c.site_id, c.said, c.signalled_at).where(news).order_by(c.site_id)
        return [StoredSignal(*row) for row in connection.execute(statement)]

    @reads
    def sum_of_sites(self, connection: Connection, source_id: int) -> tuple[int, int]:
        """Returns the number of sites for which a source speaks, and the sum of their ids: whether others came."""
        c = signal_page.c
        statement = select(func.count(), func.coalesce(func.sum(c.site_id), 0)).where(c.source_id == source_id)
        number, total = connection.execute(statement).one()
        return int(number), int(total)

    @reads
    def of_site(self, connection: Connection, site_id: int) -> list[SourceOfSite]:
        """Returns the signal sources that speak for a site, by id."""
        c, source = signal_page.c, signal_source.c
        key = func.coalesce(site.c.url, source.name, "")
        columns = (c.source_id, key, c.said, c.signalled_at, c.signals, site_state.c.last_seen_at)
        joined = signal_page.join(signal_source, source.id == c.source_id).outerjoin(site, site.c.id == source.site_id)
        joined = joined.outerjoin(site_state, site_state.c.site_id == c.site_id)
        statement = select(*columns).select_from(joined).where(c.site_id == site_id).order_by(c.source_id)
        rows = connection.execute(statement)
        return [SourceOfSite(id_, of, date, at, waits(at, seen), n) for id_, of, date, at, n, seen in rows]

    @writes
    def note(
        self,
        connection: Connection,
        source_id: int,
        listed: Sequence[ListedDate],
        now: float,
        *,
        undated_is_news: bool,
        later_only: bool = False,
    ) -> tuple[list[StoredSignal], list[int]]:
        """Stores what a source that is read says of URLs, distinct and normalised; unknown ones are ignored.

        Returns what is news, with `signalled_at` = now, and the ids of sites of which it spoke for the first time. News
        is a date that differs from the one that it said last; of a site of which it speaks for the first time only a
        date later than its last informative poll, or, with undated_is_news, none. later_only: of a date that differs,
        only a later one is news, so that what is sent again brings none. A repeated call returns no news: it is stored.
        One transaction; no news if the source is gone.
        """
        dates = {entry.url: entry.date for entry in listed}
        new, moved = list[StoredSignal](), list[StoredSignal]()
        for row in self._known(connection, source_id, dates):
            date = dates[row.url]
            if row.source_id is None:
                later = date is not None and row.last_seen_at is not None and date > row.last_seen_at
                news = later or (date is None and undated_is_news)
                new.append(StoredSignal(row.id, date, now if news else None))
            elif date is not None and (row.said is None or date > row.said or (date < row.said and not later_only)):
                moved.append(StoredSignal(row.id, date, now))
        return self._store(connection, source_id, new, moved)

    @writes
    def reported(
        self, connection: Connection, source_id: int, reports: Sequence[ListedDate], now: float
    ) -> tuple[list[StoredSignal], list[int]]:
        """Stores reports of a pushed source, URLs distinct and normalised; unknown ones are ignored.

        Each is news unless it has the date of the last one of its site; one without a date is news unless the last one
        had none either and no informative poll has followed it. Returns as `note` does, in one transaction.
        """
        dates = {report.url: report.date for report in reports}
        new, moved = list[StoredSignal](), list[StoredSignal]()
        for row in self._known(connection, source_id, dates):
            date = dates[row.url]
            if row.source_id is None:
                new.append(StoredSignal(row.id, date, now))
            elif date != row.said or (date is None and not waits(row.signalled_at, row.last_seen_at)):
                moved.append(StoredSignal(row.id, date, now))
        return self._store(connection, source_id, new, moved)

    @writes
    def speak_only_for(self, connection: Connection, source_id: int, urls: Collection[str]) -> list[int]:
        """Forgets what the source said of sites at other URLs; returns their ids."""
        c = signal_page.c
        statement = select(c.site_id, site.c.url).join(site, site.c.id == c.site_id).where(c.source_id == source_id)
        gone = [row.site_id for row in connection.execute(statement) if row.url not in urls]
        if gone:
            those = delete(signal_page).where(c.source_id == source_id, self._sql.in_list(c.site_id, "ids"))
            connection.execute(those, {"ids": self._sql.id_list(gone)})
        return gone

    @writes
    def end_read(
        self, connection: Connection, source_id: int, now: float, *, signals: int = 0, detail: str | None = None
    ) -> None:
        """Notes that the source was read, or a pushed one reported, and how many signals that brought.

        detail: what was found; None: nothing was sent, and the last one stays.
        """
        c = signal_source.c
        values: dict[str, Any] = {
            "last_read_at": now,
            "signals": c.signals + signals,
            **({} if detail is None else {"last_detail": storable_word(detail)}),
            **({"last_signal_at": now} if signals else {}),
        }
        connection.execute(update(signal_source).where(c.id == source_id).values(values))

    def _known(self, connection: Connection, source_id: int, urls: Mapping[str, float | None]) -> Sequence[Any]:
        """Returns the sites at these URLs, each with what the source said of it; none if the source is gone."""
        if connection.execute(select(signal_source.c.id).where(signal_source.c.id == source_id)).scalar() is None:
            return []
        page = signal_page.c
        condition = (page.site_id == site.c.id) & (page.source_id == source_id)
        columns = (site.c.id, site.c.url, site_state.c.last_seen_at, page.source_id, page.said, page.signalled_at)
        joined = site.outerjoin(site_state, site_state.c.site_id == site.c.id).outerjoin(signal_page, condition)
        statement = select(*columns).select_from(joined).where(self._sql.in_list(site.c.url, "urls"))
        return connection.execute(statement, {"urls": self._sql.text_list(urls)}).all()

    def _store(
        self, connection: Connection, source_id: int, new: Sequence[StoredSignal], moved: Sequence[StoredSignal]
    ) -> tuple[list[StoredSignal], list[int]]:
        """Stores what is said of sites for the first time, and anew; returns all news, and the ids of the first."""
        c = signal_page.c
        if new:
            rows = [
                {
                    "source_id": source_id,
                    "site_id": row.site_id,
                    "said": row.date,
                    "signalled_at": row.signalled_at,
                    "signals": int(row.signalled_at is not None),
                }
                for row in new
            ]
            # Another node may read a push of the same source.
            connection.execute(self._sql.insert_for(signal_page).on_conflict_do_nothing(), rows)
        if moved:
            here = (c.source_id == source_id) & (c.site_id == bindparam("of_site"))
            values = {"said": bindparam("date"), "signalled_at": bindparam("now"), "signals": c.signals + 1}
            rows = [{"of_site": row.site_id, "date": row.date, "now": row.signalled_at} for row in moved]
            connection.execute(update(signal_page).where(here).values(values), rows)
        news = [row for row in (*new, *moved) if row.signalled_at is not None]
        return news, [row.site_id for row in new]


def _sources() -> Select[Any]:
    c = signal_source.c
    pages = select(func.count()).where(signal_page.c.source_id == c.id).scalar_subquery().label("pages")
    columns = [c[name] for name in ("id", *_SPEC, *_SHOWN, "origin")]
    return select(*columns, site.c.url, pages).outerjoin(site, site.c.id == c.site_id).order_by(c.id)


def _source(row: Any) -> SignalSource:
    spec = SignalSourceSpec(**{name: getattr(row, name) for name in _SPEC})
    shown = {name: getattr(row, name) for name in _SHOWN}
    return SignalSource(id=row.id, spec=spec, url=row.url, pages=row.pages, origin=SignalOrigin(row.origin), **shown)
