"""An open database: commits, runs and maintenance; sites, history and the crawler's pages are separate parts.

Each method is one transaction, or several where documented.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pollerd.errors import InvalidValueError, SchemaError
from pollerd.storage import migrate
from pollerd.storage.accounts import AccountStore
from pollerd.storage.changes import ChangeListener, ChangeStore
from pollerd.storage.commit import BodyKey, Commit, check_batch
from pollerd.storage.contents import ContentStore
from pollerd.storage.crawler.collection import CollectionStore
from pollerd.storage.crawler.frontier import Frontier
from pollerd.storage.crawler.pages import PageCommit
from pollerd.storage.encoding import Base, Packed, pack, pack_all
from pollerd.storage.encryption import Encryption, check_seals, seal_of
from pollerd.storage.engine import Database, database_url
from pollerd.storage.grants import SharedAllocation
from pollerd.storage.history import HistoryStore
from pollerd.storage.hosts import HostStore
from pollerd.storage.hubs import HubStore
from pollerd.storage.jobs import JobStore
from pollerd.storage.locks import WriterLocks, place_of
from pollerd.storage.node_values import NodeInfo
from pollerd.storage.nodes import ClusterStore, HostPartitions
from pollerd.storage.notifications import NotificationStore
from pollerd.storage.poll_days import DayPartitions
from pollerd.storage.reads import ReadStore
from pollerd.storage.retention import Pruning
from pollerd.storage.runs import AllocationStore, Runs
from pollerd.storage.settings import CurrentSettings, StorageSettings
from pollerd.storage.signals import SignalStore
from pollerd.storage.site_imports import SiteImport
from pollerd.storage.sites import SiteStore
from pollerd.storage.soft_delete import SoftDeletion
from pollerd.storage.sources import SourceStore
from pollerd.storage.statements import Statements
from pollerd.storage.values import Batch, CommitResult, PruneResult
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.storage.node_session import NodeSession
    from pollerd.storage.session_lock import SessionLock


class Store:
    """All persistent state. Created by `Store.open`.

    Every method raises `DatabaseUnavailableError` if the database is locked, full, missing or not answering; nothing
    was written then, and the call may be repeated.
    """

    def __init__(
        self,
        *,
        database: Database,
        settings: StorageSettings,
        encryption: Encryption,
        writer: str = "",
        locks: WriterLocks | None = None,
        session: NodeSession | None = None,
    ) -> None:
        """writer, locks: where there are several writers, who this one is and what they wait for. session: a node's."""
        sql = Statements(database.engine.dialect, locks)
        partitions = None if session is None else HostPartitions(database=database, sql=sql)
        hosts = HostStore(database=database, sql=sql)
        soft_deletion = SoftDeletion(database=database, sql=sql)
        assign = None if partitions is None else partitions.assign
        imports = SiteImport(sql, encryption, hosts=hosts, soft_deletion=soft_deletion, assign_partitions=assign)
        self._session = session
        self.cluster: ClusterStore | None = None
        """Nodes and partitions, if this is one of several nodes."""
        self.shared: SharedAllocation | None = None
        """The allocation of all nodes, if this is one of several."""
        if session is not None and partitions is not None:
            self.shared = SharedAllocation(database=database, sql=sql, session=session)
            self.cluster = ClusterStore(database=database, sql=sql, session=session, hosts=hosts, partitions=partitions)
        self._database, self._sql = database, sql
        self._settings = CurrentSettings(settings)
        self._writer = writer
        self._bases: dict[int, Base] = {}
        """Bases of contents read since the last commit, by content id, for delta-encoding the next ones."""
        self._days = DayPartitions(database)
        self._pruning = Pruning(database=database, sql=sql, days=self._days)
        self._revision = migrate.head()
        self.sites = SiteStore(
            database=database,
            sql=sql,
            encryption=encryption,
            imports=imports,
            hosts=hosts,
            soft_deletion=soft_deletion,
        )
        """Sites, with their tags and hosts."""
        self.jobs = JobStore(database=database, sql=sql, listing=self.sites.listing)
        """What is done to many sites."""
        self.sources = SourceStore(database=database, sql=sql)
        """Sitemaps and feeds whose pages become sites."""
        self.signals = SignalStore(database=database, sql=sql)
        """Signal sources, and what they said."""
        self.reads = ReadStore(database=database, sql=sql)
        """Reads of changes, and the half-lives learned from them."""
        self.hubs = HubStore(database=database, encryption=encryption)
        """Subscriptions at WebSub hubs."""
        self.accounts = AccountStore(database=database)
        """Users, sessions, and tokens made while the daemon runs."""
        self.runs = Runs(database=database, sql=sql, writer=writer, hosts=hosts)
        """Runs of the daemon."""
        self.history = HistoryStore(database=database, sql=sql)
        """Polls and values."""
        self.allocation = AllocationStore(database=database, sql=sql, history=self.history, node=session)
        """The current allocation."""
        self.changes = ChangeStore(database=database, sql=sql)
        """Changes, and those that readers have seen."""
        self._listener = ChangeListener(database=database, locks=sql.locks, changes=self.changes)
        self.contents = ContentStore(database=database, sql=sql, settings=self._settings, bases=self._bases)
        """Contents, as far as they are kept."""
        self.notifications = NotificationStore.of(
            database=database, sql=sql, encryption=encryption, contents=self.contents
        )
        """Channels, rules, the outbox and the delivery log."""
        self.collection = CollectionStore(database=database)
        """What the focused crawler has collected, and all pages that it knows."""
        self.frontier = Frontier(database=database, sql=sql, imports=imports)
        """The pages from which it requests the next."""
        self._pages = PageCommit(sql, self.frontier)
        self.previous_schema: str | None = None
        """Revision of the schema before it was opened; None for a new database, and for one of several nodes."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        settings: StorageSettings | None = None,
        exclusive: bool = True,
        several_writers: bool = False,
        writer: str = "",
        node: NodeInfo | None = None,
    ) -> Store:
        """Opens the database at `url` and migrates its schema; creates a missing SQLite file.

        exclusive: hold the daemon's lock until `close`. Only then is a missing file created. several_writers: others
        may hold it at the same time and write, too, on PostgreSQL; `writer` says who this one is, and no other may have
        that name while it runs. node: this is one of several nodes, and writes under its name what is in its
        partitions. Raises `InvalidValueError` for a URL that is neither SQLite's nor PostgreSQL's, several writers on
        SQLite, and a missing or needless name; `DatabaseInUseError` if another daemon holds it, `SchemaError` if it is
        newer than this program, `ConfigError` if it holds secrets that the key of `settings` does not decrypt,
        `DatabaseUnavailableError`.
        """
        settings = settings or StorageSettings()
        target = database_url(url)
        if node is not None:
            several_writers, writer = True, node.name
        _check_writer(several_writers, writer, is_sqlite=target.get_backend_name() == "sqlite")
        if several_writers or not exclusive:
            # A migration needs the database for itself, which one that shares it never has.
            if several_writers:
                await migrate.upgrade_beside_others(url, settings)
            else:
                await migrate.upgrade(url, settings, create=False)
        session, node_session = _sessions(several_writers, node)
        previous = None
        database = Database(target, settings, create=exclusive, exclusive=exclusive, session=session)
        try:
            if exclusive:
                await database.lock()
                if node is None:  # the session of a node has looked at the schema, which may be a newer one
                    previous = await migrate.bring_up(database)
            locks = WriterLocks(await database.read(place_of)) if several_writers else None
            encryption = seal_of(settings.secret_key, database.path, is_server=not database.is_sqlite)
            await database.read(lambda c: check_seals(c, encryption))
            store = cls(
                database=database,
                settings=settings,
                encryption=encryption,
                writer=writer,
                locks=locks,
                session=node_session,
            )
            store.previous_schema = previous
            store.changes.announce(await store.changes.last_id())
        except BaseException:
            await database.close()
            raise
        return store

    @property
    def database(self) -> Database:
        """The database shared by all methods: its connections, and the daemon's lock."""
        return self._database

    @property
    def change_retention_seconds(self) -> float | None:
        """How long changes are kept; None: for ever."""
        return self._settings.value.change_retention_seconds

    @property
    def several_writers(self) -> bool:
        """Whether other daemons may write into the database at the same time."""
        return self._sql.locks.several

    async def listen_for_changes(self) -> None:
        """Wakes readers of changes that other writers commit, until cancelled; to be run where there are several."""
        await self._listener.run()

    async def close(self) -> None:
        """Closes the connections, then releases the lock. May be called twice."""
        await self._database.close()

    # Runs, the current allocation, settings.

    def adopt(self, settings: StorageSettings) -> None:
        """Applies new retention settings. All other settings need a restart."""
        self._settings.adopt(settings)

    # While polling.

    async def commit(self, batch: Batch) -> CommitResult:
        """Commits the batch in one transaction, entirely or not at all.

        After `DatabaseUnavailableError` the same batch may be repeated: one that was committed although its answer was
        lost is not counted twice. Raises `InvalidValueError` for an inconsistent batch, and `DatabaseInUseError` if
        another daemon took the lock.
        """
        check_batch(batch)
        fresh, shown, level = list[tuple[BodyKey, bytes, Base | None]](), 0, self._settings.value.zstd_level
        for i, record in enumerate(batch.records):
            if record.content is not None:
                fresh.append(((i, 0), record.content, self._bases.get(record.context.content_id or 0)))
            for n, selection in enumerate(record.selections, 1):
                if selection.content is not None:
                    fresh.append(((i, n), selection.content, None))
            shown += len(record.screenshot or b"")
        # Compression releases the GIL: in a thread it does not block the loop.
        bodies: dict[BodyKey, Packed] = await asyncio.to_thread(pack_all, fresh, level) if fresh else {}
        robots = dict[int, bytes]()
        for host in batch.hosts:
            if host.robots is not None and host.robots.body is not None:
                robots[host.host_id] = await asyncio.to_thread(pack, host.robots.body, level)
        if not self._database.is_sqlite:
            await self._days.make_for(record.poll.at for record in batch.records)
        work = Commit(self._sql, batch, bodies, robots, (self._writer, self.runs.run_id), self._pages, self._session)
        result = await self._database.write(work)
        if fresh or shown:
            grown = sum(len(packed.body) for packed in bodies.values())
            self._pruning.note_growth(self._settings.value, grown + shown)
        self._bases.clear()
        if result.changes:
            self.changes.announce(result.changes[-1].id)
        return result

    # Maintenance.

    async def prune(self, now: float) -> PruneResult:
        """Deletes polls, changes and contents past their retention, and contents over the cap, from busy sites first.

        Runs in short transactions, with commits in between.
        """
        return await self._pruning.prune(self._settings.value, now)

    async def crowded(self) -> None:
        """Returns once enough was committed since the last `prune` to need another."""
        await self._pruning.crowded()

    async def check(self) -> None:
        """Checks that the database is available, the same as was opened, and has our schema.

        Raises `DatabaseUnavailableError` or `SchemaError`.
        """
        self._database.verify_file()
        revision = await self._database.read(migrate.read_revision)
        if revision != self._revision and not (
            self._session is not None and await self._database.read(migrate.supports_this_program)
        ):
            raise SchemaError(
                _("the database's schema is {found}, not {needed}", found=revision, needed=self._revision)
            )


def _check_writer(several: bool, writer: str, *, is_sqlite: bool) -> None:
    """Raises `InvalidValueError`."""
    if several and is_sqlite:
        raise InvalidValueError("database", _("PostgreSQL's, which alone several daemons can share"), "sqlite")
    if several != bool(writer):
        allowed = _("the name of this writer, one of several") if several else _("None if there is one writer")
        raise InvalidValueError("writer", allowed, writer)


def _sessions(several_writers: bool, node: NodeInfo | None) -> tuple[SessionLock | None, NodeSession | None]:
    """Returns the writing session of one of several writers, and the same again if it is a node's."""
    if not several_writers:
        return None, None
    # PostgreSQL's driver: others do not need it.
    from pollerd.storage.node_session import NodeSession
    from pollerd.storage.session_lock import SessionLock

    of_node = None if node is None else NodeSession(node)
    return of_node or SessionLock(shared=True), of_node
