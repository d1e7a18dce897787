"""The façade: one database, open. Every method is one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from pollerd.errors import SchemaError
from pollerd.model import Change, HostOverride, PageState, Poll, Site, SiteSpec, SiteState
from pollerd.storage.crawler import collection
from pollerd.storage.crawler.collection import CollectionStatus, StoredPage
from pollerd.storage.crawler.frontier import Frontier
from pollerd.storage.crawler.pages import PageCommit
from pollerd.storage.db import migrate
from pollerd.storage.db.engine import Database, database_url
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.compression import Base, pack, pack_all, unpack_all
from pollerd.storage.encoding.cursors import Order
from pollerd.storage.encoding.encryption import Encryption, check_seals, seal_of
from pollerd.storage.page_values import CollectionRow, PageRow, Trial
from pollerd.storage.polls import changes, content_use, history, retention, runs, site_context
from pollerd.storage.polls.changes import ChangeFilter, ChangesRead, Content
from pollerd.storage.polls.commit import Commit, check_batch
from pollerd.storage.polls.notify import ChangeNotifier
from pollerd.storage.polls.pruning import Pruning
from pollerd.storage.settings import StorageSettings
from pollerd.storage.sites import hosts as stored_hosts
from pollerd.storage.sites import restore, schedule
from pollerd.storage.sites.imports import SiteImport
from pollerd.storage.sites.restore import Admit, Restore
from pollerd.storage.sites.sites import Sites, count_sites, counts_by_state
from pollerd.storage.values import (
    AddResult,
    AllocationRow,
    Batch,
    CommitResult,
    HostRow,
    KnownHost,
    ListPage,
    NewSettings,
    PollColumns,
    PruneResult,
    RestoreResult,
    RunInfo,
    ScheduleRows,
    SiteChanges,
    SiteContext,
    SiteRestore,
)


class Store:
    """Everything that outlives the process. Get one from `Store.open`.

    Every method raises `DatabaseUnavailableError` where the database is locked, full, vanished or not answering;
    nothing was written then, and the same call may be made again.
    """

    def __init__(self, database: Database, settings: StorageSettings, encryption: Encryption) -> None:
        self._database = database
        self._settings = settings
        self._sql = Statements(database.engine.dialect)
        self._encryption = encryption
        self._import = SiteImport(self._sql, encryption)
        self._sites = Sites(self._sql, encryption)
        self._restore = Restore(self._sql, self._sites, self._import)
        self._frontier = Frontier(self._sql, self._import)
        self._pages = PageCommit(self._sql, self._frontier)
        self._news = ChangeNotifier()
        self._bases: dict[int, Base] = {}
        """What contents read since the last commit lean on, or are, by their ids: the next are compared with that."""
        self._run_id: int | None = None
        self._pruning = Pruning(database=database, sql=self._sql)
        self._revision = migrate.head()

    @classmethod
    async def open(cls, url: str, *, settings: StorageSettings | None = None, exclusive: bool = True) -> Store:
        """Open the database at `url`, its schema brought up to date; a missing SQLite file is created.

        exclusive: hold the daemon's lock until `close`. Only then is a missing file created.

        Raises `InvalidValueError` for a URL that is not SQLite's or PostgreSQL's, `DatabaseInUseError` where
        another daemon holds it, `SchemaError` where it is newer than this program, `ConfigError` where it holds
        secrets that the key of `settings` does not open, `DatabaseUnavailableError`.
        """
        settings = settings or StorageSettings()
        if not exclusive:
            await migrate.upgrade(url, settings, create=False)
        database = Database(database_url(url), settings, create=exclusive, exclusive=exclusive)
        try:
            if exclusive:
                await database.lock()
                await migrate.bring_up(database)
            encryption = seal_of(settings.secret_key, database.path, is_server=not database.is_sqlite)
            await database.read(lambda c: check_seals(c, encryption))
        except BaseException:
            await database.close()
            raise
        return cls(database, settings, encryption)

    @property
    def database(self) -> Database:
        """The database that all methods share: its connections, and the daemon's lock."""
        return self._database

    async def close(self) -> None:
        """Close the connections, then let go of the lock. May be called twice."""
        await self._database.close()

    # At the daemon's start.

    async def schedule(self) -> AsyncIterator[tuple[ScheduleRows, dict[int, str]]]:
        """All sites as columns, ordered by id, some at a time: a million need not be held twice.

        With each piece what is wrong with rows of which a value could not be read, by site id.
        """
        after = -1
        while True:
            rows, faults = await self._database.read(lambda c, a=after: schedule.schedule_piece(c, a))  # type: ignore[misc]
            if not len(rows):
                return
            yield rows, faults
            after = int(rows.site_id[-1])

    async def hosts(self) -> AsyncIterator[list[HostRow]]:
        """All hosts, ordered by id, some at a time."""
        after = -1
        while rows := await self._database.read(lambda c, a=after: schedule.hosts_piece(c, a)):  # type: ignore[misc]
            yield rows
            after = rows[-1].id

    async def learned(self, allocator: str) -> AsyncIterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
        """Site ids [m] and states [m, width] that this allocator left, ordered by id, some at a time.

        Raises `SchemaError` where states differ in width.
        """
        after = -1
        while True:
            piece = await self._database.read(lambda c, a=after: schedule.learned_piece(c, allocator, a))  # type: ignore[misc]
            if not len(piece[0]):
                return
            yield piece
            after = int(piece[0][-1])

    async def load_allocation(self) -> AllocationRow | None:
        """The allocation in force; None before the first."""
        return await self._database.read(runs.load_allocation)

    async def save_allocation(self, row: AllocationRow) -> None:
        """Put an allocation in force; `Batch.shared_state` is kept only for its allocator.

        Without `shared_state` the stored one stays; one that is given is taken to know all polls committed so far.
        """
        await self._database.write(lambda c: runs.save_allocation(c, self._sql, row))

    async def replace_learned(self, row: AllocationRow, states: Iterable[tuple[int, bytes]]) -> None:
        """Put another allocator in force with all it learned, (site id, state) for each site."""
        await self._database.write(lambda c: runs.replace_learned(c, self._sql, row, states))

    async def start_run(self, version: str, now: float) -> RunInfo:
        """Note that a daemon starts, and how the one before ended. Hosts without sites go."""

        def work(connection: Connection) -> RunInfo:
            retention.drop_empty_hosts(connection)
            return runs.start_run(connection, version, now)

        info = await self._database.write(work)
        self._run_id = info.run_id
        return info

    async def end_run(self, now: float) -> None:
        """Note that the run stopped cleanly; without `start_run` there is nothing to note."""
        run_id = self._run_id
        if run_id is not None:
            await self._database.write(lambda c: runs.end_run(c, run_id, now))

    def adopt(self, settings: StorageSettings) -> None:
        """What is kept, and for how long, follows other settings from now on; the rest of them stays as it was."""
        self._settings = replace(
            self._settings,
            keep_contents=settings.keep_contents,
            content_retention_seconds=settings.content_retention_seconds,
            content_cap_bytes=settings.content_cap_bytes,
            change_retention_seconds=settings.change_retention_seconds,
            poll_retention_seconds=settings.poll_retention_seconds,
        )

    # While polling.

    async def load_contexts(self, site_ids: Sequence[int]) -> dict[int, SiteContext]:
        """Memories by site id, in one query; a site that was deleted is missing."""
        return await self._database.read(lambda c: site_context.load_contexts(c, self._sql, self._encryption, site_ids))

    async def load_contents(self, content_ids: Sequence[int]) -> dict[int, bytes]:
        """Contents by id, decompressed; a pruned one is missing."""
        packed = await self._database.read(lambda c: site_context.packed_contents(c, self._sql, content_ids))
        # As compression does, decompression lets go of the interpreter.
        kept = await asyncio.to_thread(unpack_all, packed) if packed else {}
        self._bases.update({content_id: one.base for content_id, one in kept.items()})
        return {content_id: one.content for content_id, one in kept.items()}

    async def load_content_before(self, site_id: int, content_id: int) -> bytes | None:
        """The content of the site that was seen last before the one named; None where none is kept."""
        before = await self._database.read(lambda c: site_context.content_before(c, site_id, content_id))
        return None if before is None else (await self.load_contents([before])).get(before)

    async def commit(self, batch: Batch) -> CommitResult:
        """Keep the batch whole, in one transaction, or nothing of it.

        After `DatabaseUnavailableError` the same batch may be given again: one that did go in, although its answer
        was lost, is not counted twice. Raises `InvalidValueError` for a batch that contradicts itself, and
        `DatabaseInUseError` where the daemon's lock was lost to another.
        """
        check_batch(batch)
        bases = self._bases
        fresh = [
            (i, r.content, bases.get(r.context.content_id or 0))
            for i, r in enumerate(batch.records)
            if r.content is not None
        ]
        rules = [(h.host_id, h.robots.body) for h in batch.hosts if h.robots is not None and h.robots.body is not None]
        # Compression lets go of the interpreter: beside the loop it costs the loop nothing.
        level = self._settings.zstd_level
        bodies = await asyncio.to_thread(pack_all, fresh, level) if fresh else {}
        robots = {host_id: await asyncio.to_thread(pack, text, level) for host_id, text in rules}
        work = Commit(self._sql, batch, bodies, robots, self._run_id, self._pages)
        result = await self._database.write(work)
        self._pruning.note_growth(self._settings, sum(len(packed.body) for packed in bodies.values()))
        bases.clear()
        if result.changes:
            self._news.announce(result.changes[-1].id)
        return result

    # Sites.

    async def add_sites(
        self, specs: Sequence[SiteSpec], hosts: Sequence[str], now: float, *, respect_deleted: bool
    ) -> AddResult:
        """Add what is new; `hosts` names ("host:port") the host of each spec.

        A URL that a user deleted is left out where `respect_deleted` is true, and restored otherwise.
        """
        return await self._database.write(
            lambda c: self._import.add(c, specs, hosts, now, respect_deleted=respect_deleted)
        )

    async def get_site(self, site_id: int) -> Site:
        """Raises `NotFoundError`."""
        return await self._database.read(lambda c: self._sites.get(c, site_id))

    async def find_site(self, url: str) -> Site | None:
        """The site at exactly this URL, or None."""
        return await self._database.read(lambda c: self._sites.find(c, url))

    async def list_sites(
        self,
        q: str | None = None,
        tag: str | None = None,
        state: SiteState | None = None,
        host: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListPage[Site]:
        """Sites by id. `q`: part of the URL, any case; `host`: "host:port".

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        return await self._database.read(lambda c: self._sites.page(c, q, tag, state, host, limit, cursor))

    async def iter_sites(self) -> AsyncIterator[Site]:
        """All sites by id, read some at a time."""
        cursor: str | None = None
        while True:
            page = await self.list_sites(limit=1000, cursor=cursor)
            for site in page.items:
                yield site
            cursor = page.next_cursor
            if cursor is None:
                return

    async def update_site(self, site_id: int, changes: SiteChanges, now: float) -> Site:
        """Change settings; the next poll will be a full one. A new URL forgets what was known of the old page, and
        `paused` False ends a backoff and brings back a site that was gone.

        Raises `NotFoundError`, `InvalidValueError`, and `DuplicateError` for a URL in use.
        """

        def work(connection: Connection) -> Site:
            host_id_of = partial(self._import.host_id, connection)
            return self._sites.update(connection, host_id_of, site_id, changes, now)

        return await self._database.write(work)

    async def sites_at(self, urls: Sequence[str]) -> dict[str, Site]:
        """The sites at these URLs, by URL; a URL that is none is missing."""
        return await self._database.read(lambda c: self._sites.at(c, urls))

    async def user_sites(self, after: int, limit: int) -> list[Site]:
        """Sites with ids above `after`, by id, without those that the focused crawler made."""
        return await self._database.read(lambda c: self._sites.users(c, after, limit))

    async def deleted_urls(self, after: str, limit: int) -> Sequence[tuple[str, float]]:
        """URLs that a user deleted, and when (epoch s), by URL, from the first behind `after`."""
        return await self._database.read(lambda c: restore.deleted_urls(c, after, limit))

    async def mark_deleted(self, pieces: Callable[[], Iterator[list[tuple[str, float]]]]) -> tuple[int, int, int]:
        """Mark URLs as deleted by a user, all or none; those that are sites are passed over.

        How many were added, changed (none) and left as they are.
        """
        return await self._database.write(lambda c: self._restore.mark_deleted(c, pieces()))

    async def restore_sites(
        self, pieces: Callable[[], Iterator[list[SiteRestore]]], admit: Admit, now: float
    ) -> RestoreResult:
        """Add sites, and give those that are there the settings of the export, all or none.

        Raises `InvalidValueError`, and what `admit` raises of a piece; nothing was written then.
        """
        asked = self._database.in_loop(admit)
        return await self._database.write(lambda c: self._restore.sites(c, pieces(), asked, now))

    async def get_sites(self, site_ids: Sequence[int]) -> list[Site]:
        """The sites with these ids, by id; those that are gone are left out."""
        return await self._database.read(lambda c: self._sites.get_many(c, site_ids))

    async def host_ids(self, names: Sequence[str]) -> dict[str, int]:
        """The ids of the hosts "name:port"; one that is none is missing."""
        return await self._database.read(lambda c: self._import.known_hosts(c, names))

    async def deleted_among(self, urls: Sequence[str]) -> set[str]:
        """Which of these URLs a user deleted."""
        return await self._database.read(lambda c: self._sites.deleted(c, urls))

    async def sites_missing_from(self, urls: Iterable[str]) -> list[tuple[int, str]]:
        """Id and URL of what `delete_missing` would delete."""
        return await self._database.read(lambda c: self._sites.missing(c, urls))

    async def put_settings(self, settings: Sequence[NewSettings], now: float) -> None:
        """Give every site exactly these settings; their next polls will be full ones. Sites that are gone are left out.

        Raises `InvalidValueError`; nothing was written then.
        """
        await self._database.write(lambda c: self._sites.put_settings(c, settings, now))

    async def delete_site(self, site_id: int, now: float) -> None:
        """Delete a site and all its rows, and remember its URL as deleted. Raises `NotFoundError`."""
        await self._database.write(lambda c: self._sites.delete(c, site_id, now))

    async def delete_missing(self, urls: Iterable[str]) -> list[int]:
        """Delete every site whose URL is not among these; their ids. Such a URL is added again when listed."""
        return await self._database.write(lambda c: self._sites.delete_missing(c, urls))

    async def pause_sites(self, tag: str | None, paused: bool) -> AsyncIterator[tuple[NDArray[np.int64], int]]:
        """Pauses or resumes every site, or every one with this tag, some at a time, so that commits come in between.

        The ids of each piece, int64[k], and how many of them were not so before. Nothing else of them changes: a
        backoff goes on, and a site that was gone stays so.
        """
        after = 0
        while True:
            ids, changed = await self._database.write(
                lambda c, a=after: self._sites.pause_piece(c, tag, paused, a)  # type: ignore[misc]
            )
            if not len(ids):
                return
            yield ids, changed
            after = int(ids[-1])

    # Hosts.

    async def host_id(self, name: str) -> int:
        """The id of the host "name:port". Raises `NotFoundError`."""
        return (await self.get_host(name)).id

    async def get_host(self, name: str) -> KnownHost:
        """The host "name:port". Raises `NotFoundError`."""
        return await self._database.read(lambda c: stored_hosts.get_host(c, name))

    async def list_hosts(
        self, q: str | None = None, ids: NDArray[np.int64] | None = None, limit: int = 100, cursor: str | None = None
    ) -> ListPage[KnownHost]:
        """Hosts by id. `q`: part of the name, any case; `ids`: only these, int64[k].

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        return await self._database.read(lambda c: stored_hosts.list_hosts(c, self._sql, q, ids, limit, cursor))

    async def override_host(self, host_id: int, override: HostOverride, backing_off: Collection[int]) -> list[int]:
        """Keeps what an operator did to the host; ids of those sites of `backing_off` whose backoff ends with that.

        `backing_off`: sites of the host. Only what an end of the host's pause is good for ends: refusals by status 429
        or 503.
        """
        return await self._database.write(
            lambda c: stored_hosts.override_host(c, self._sql, host_id, override, backing_off)
        )

    async def count_sites(self) -> int:
        """How many sites there are."""
        return await self._database.read(count_sites)

    async def counts_by_state(self) -> dict[SiteState, int]:
        """How many sites stand where; every state is there."""
        return await self._database.read(counts_by_state)

    # History.

    async def list_polls(
        self, site_id: int, limit: int = 100, cursor: str | None = None, order: Order | None = None
    ) -> ListPage[Poll]:
        """The site's polls, newest first where neither cursor nor `order` say otherwise; no cursor after the last.

        Raises `InvalidValueError` for a bad cursor, an order that is not the cursor's, or a bad limit (1 to 1000).
        """
        return await self._database.read(lambda c: history.list_polls(c, site_id, limit, cursor, order))

    async def list_changes(
        self,
        since: float | None = None,
        site_id: int | None = None,
        tag: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Change]:
        """Changes that fit the filter, newest first where neither cursor nor `order` say otherwise.

        No cursor after the last; of a list read oldest first the last cursor may be given again, for what came since.

        Raises `InvalidValueError` for a bad cursor, an order that is not the cursor's, or a bad limit (1 to 1000).
        """
        wanted = ChangeFilter(since, site_id, tag)
        return await self._database.read(lambda c: changes.list_changes(c, wanted, limit, cursor, order))

    async def changes_after(self, wanted: ChangeFilter, after: int, limit: int = 100) -> ChangesRead:
        """Changes that fit the filter and have larger ids than `after`, oldest first, `limit` (1 to 1000) at most.

        To follow the changes without a gap, go on from `reached` each time, and wait with `news` once it is `whole`.
        """
        return await self._database.read(lambda c: changes.changes_after(c, wanted, after, limit))

    async def last_change_id(self) -> int:
        """The largest id of a change that is kept; 0 before the first."""
        return await self._database.read(changes.last_change_id)

    async def news(self, after: int) -> None:
        """Returns once this store committed a change with a larger id than `after`."""
        await self._news.after(after)

    async def get_change(self, change_id: int) -> Change:
        """Raises `NotFoundError`."""
        return await self._database.read(lambda c: changes.get_change(c, change_id))

    async def get_content(self, content_id: int) -> Content:
        """The content, decompressed. Raises `NotFoundError` where it was pruned."""
        return await self._database.read(lambda c: changes.get_content(c, content_id))

    async def limit_passed(self, change: Change) -> tuple[str, float]:
        """Why a content of this change is not kept any more: the setting, and its value now (s, bytes, contents)."""
        name = await self._database.read(lambda c: content_use.limit_passed(c, change))
        s = self._settings
        values = {"content_retention": s.content_retention_seconds, "content_cap_bytes": s.content_cap_bytes}
        return name, values.get(name, s.keep_contents)

    async def last_poll_id(self) -> int:
        """The id of the last poll committed, 0 before the first."""
        return await self._database.read(runs.last_poll_id)

    async def recent_polls(
        self, per_site: int = 64, piece: int = 2_000, *, after: int = 0, through: int | None = None
    ) -> AsyncIterator[PollColumns]:
        """The last `per_site` informative polls of every site, in time order, `piece` at a time.

        after, through: only polls with ids above the first, and up to the second.
        """
        async for rows in self._database.stream(history.recent_polls(per_site, after, through), piece):
            yield history.poll_columns(rows)

    # The focused crawler's collection.

    async def has_collection(self) -> bool:
        """Whether there is, or ever was, a collection."""
        return await self._database.read(collection.exists)

    async def collection_status(self) -> CollectionStatus | None:
        """How the collection stands; None where there never was one."""
        return await self._database.read(collection.read_status)

    async def list_pages(
        self,
        state: PageState | None = None,
        host: str | None = None,
        min_relevance: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListPage[StoredPage]:
        """Pages that the crawler knows, by id. `host`: "name:port".

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        return await self._database.read(lambda c: collection.list_pages(c, state, host, min_relevance, limit, cursor))

    async def iter_pages(self) -> AsyncIterator[StoredPage]:
        """All pages that the crawler knows, by id, read some at a time."""
        after = 0
        while rows := await self._database.read(lambda c, a=after: collection.pages_piece(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1].id

    async def iter_page_links(self) -> AsyncIterator[tuple[int, int, float]]:
        """All links between them, (source id, target id, score of the link's text), in order, read some at a time."""
        after = (0, 0)
        while rows := await self._database.read(lambda c, a=after: collection.links_piece(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1][:2]

    # The focused crawler at work.

    async def begin_collection(self, topic: str, now: float, words: str = "") -> CollectionRow:
        """The collection on this topic, begun where there is none. Raises `ConfigError` where it is on another.

        words: tells apart what pages are scored by. What is held is unread from when it changed until it is seen.
        """
        return await self._database.write(lambda c: self._frontier.begin(c, topic, words, now))

    async def recall_trials(self) -> int:
        """Without the crawler: sites on trial go, and their pages back to the frontier; how many they were."""
        return await self._database.write(self._frontier.recall)

    async def add_seeds(self, urls: Sequence[str], now: float) -> int:
        """Adds pages to begin with, to be asked for before others, where they are new; how many they were."""
        return await self._database.write(lambda c: self._frontier.add_seeds(c, urls, now))

    async def known_pages(self, urls: Sequence[str]) -> set[str]:
        """Which of the normalised URLs are pages that the crawler knows."""
        return await self._database.read(lambda c: self._frontier.known(c, urls))

    async def held_pages(self) -> AsyncIterator[Trial]:
        """All pages that are sites, on trial or in the collection, read some at a time."""
        after = 0
        while rows := await self._database.read(lambda c, a=after: self._frontier.held(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1].page_id

    async def sweep_frontier(self, after: int) -> tuple[list[PageRow], int]:
        """Some pages of the frontier with ids above `after`; where to go on, 0: from the beginning."""
        return await self._database.read(lambda c: self._frontier.sweep(c, after))

    async def pages_around(self, page_ids: Sequence[int]) -> list[PageRow]:
        """What is known around the pages now, in no order."""
        return await self._database.read(lambda c: self._frontier.link_context.rows(c, page_ids))

    async def write_values(self, values: Sequence[tuple[PageRow, float]]) -> None:
        """Writes how valuable pages are, where they are still on the frontier."""
        await self._database.write(lambda c: self._frontier.write_values(c, values))

    async def promote_pages(
        self, wanted: int, per_host: int, pages_per_host: int, weight: float, now: float, at: float | None = None
    ) -> list[Trial]:
        """Makes sites on trial, of this weight, of the best pages of the frontier: one a host, `wanted` at most.

        Hosts with `per_host` pages on trial are left out, and those of which `pages_per_host` were asked for. A page
        that is a site already comes back as held. `at`: takes one page of a host instead that lies so far in the list
        of hosts, 0 to 1.
        """
        return await self._database.write(
            lambda c: self._frontier.promote(c, wanted, per_host, pages_per_host, weight, now, at)
        )

    # Care.

    async def prune(self, now: float) -> PruneResult:
        """Delete polls, changes and contents past their retention, and contents over the cap, the busiest sites' first.

        Runs in short transactions, between which commits go through.
        """
        return await self._pruning.prune(self._settings, now)

    async def crowded(self) -> None:
        """Returns once so much was committed since `prune` ran that it should run again."""
        await self._pruning.crowded()

    async def check(self) -> None:
        """Is the database there, the same as was opened, and its schema ours?

        Raises `DatabaseUnavailableError` or `SchemaError`.
        """
        self._database.verify_file()
        revision = await self._database.read(migrate.read_revision)
        if revision != self._revision:
            raise SchemaError(f"the database's schema is {revision}, not {self._revision}")
