"""Sites and their hosts in the database: each method is one transaction, or several where documented."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from pollerd.model import HostOverride, Site, SiteState
from pollerd.site_settings import SiteSpec, Tags, TagSettings
from pollerd.storage import hosts as stored_hosts
from pollerd.storage import schedule, site_imports, soft_delete, tags
from pollerd.storage.encryption import Encryption
from pollerd.storage.engine import Database
from pollerd.storage.site_context import load_contexts
from pollerd.storage.site_imports import Admit, Restore, SiteImport
from pollerd.storage.site_lists import stored_forecasts
from pollerd.storage.site_order import SiteOrder
from pollerd.storage.sites import Sites, ask_to_poll, count_sites, counts_by_state
from pollerd.storage.sources import join
from pollerd.storage.statements import Statements
from pollerd.storage.tags import with_inherited
from pollerd.storage.values import (
    AddResult,
    HostRow,
    KnownHost,
    ListPage,
    NewSettings,
    Rebase,
    RestoreResult,
    ScheduleRows,
    SettingsColumns,
    SiteChanges,
    SiteContext,
    SiteFilter,
    SitePage,
    SiteRestore,
    StoredForecast,
    StoredTtls,
)

_PURGED_AT_ONCE = 200


class SiteStore:
    """Sites, their contexts, and their hosts.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, *, database: Database, sql: Statements, encryption: Encryption, imports: SiteImport) -> None:
        self._database, self._sql, self._encryption, self._import = database, sql, encryption, imports
        self._sites = Sites(sql, encryption)
        self.listing = self._sites.listing
        """Which sites fit a filter."""
        self._restore = Restore(sql, self._sites, imports)
        self.tags: Tags = {}
        """The tags that have settings, since `load_tags`; read, and never written, by everybody else."""
        self.tags_of_rules: frozenset[str] = frozenset()
        """Tags of which contexts say whether their sites have them."""

    # For the daemon: all sites at its start, then those that are polled.

    async def schedule(self) -> AsyncIterator[tuple[ScheduleRows, dict[int, str]]]:
        """Yields all sites as columns, with what they inherit, ordered by id, in pieces: a million are not held twice.

        Each piece comes with what is wrong with rows that hold an unreadable value, by site id.
        """
        after = -1
        while True:
            rows, faults = await self._database.read(lambda c, a=after: self._piece(c, a))  # type: ignore[misc]
            if not len(rows):
                return
            yield rows, faults
            after = int(rows.site_id[-1])

    def _piece(self, connection: Connection, after: int) -> tuple[ScheduleRows, dict[int, str]]:
        rows, faults = schedule.schedule_piece(connection, after)
        with_inherited(connection, rows, self.tags)
        return rows, faults

    async def hosts(self) -> AsyncIterator[list[HostRow]]:
        """Yields all hosts, ordered by id, in pieces."""
        after = -1
        while rows := await self._database.read(lambda c, a=after: schedule.hosts_piece(c, a)):  # type: ignore[misc]
            yield rows
            after = rows[-1].id

    async def contexts(self, site_ids: Sequence[int]) -> dict[int, SiteContext]:
        """Returns contexts by site id, in one query; deleted sites are missing."""
        tags, named = self.tags, self.tags_of_rules
        return await self._database.read(lambda c: load_contexts(c, self._sql, self._encryption, site_ids, tags, named))

    async def ids_tagged(self, tag: str) -> NDArray[np.int64]:
        """Returns the ids of all sites with this tag, int64[k], ascending, read in pieces."""
        pieces, after = [np.empty(0, np.int64)], -1
        while True:
            ids = await self._database.read(lambda c, a=after: schedule.ids_piece(c, tag, a))  # type: ignore[misc]
            if not len(ids):
                return np.concatenate(pieces)
            pieces.append(ids)
            after = int(ids[-1])

    async def tags_among(self, site_ids: Sequence[int]) -> list[tuple[int, str]]:
        """Returns the tags of these sites, a row for each site and tag."""
        return await self._database.read(lambda c: tags.tags_among(c, self._sql, site_ids))

    # Tags that have settings.

    async def load_tags(self) -> Tags:
        """Reads the settings of all tags; from then on `tags` holds them."""
        self.tags = await self._database.read(lambda c: tags.load_tags(c, self._encryption))
        return self.tags

    async def put_tag(self, given: TagSettings, *, sends: bool, rebase: Rebase | None = None) -> None:
        """Stores the settings of a tag in place of those that it had.

        sends: what its sites send, or what of the answers counts, has changed; their next polls will be full ones.
        rebase: as for `SiteChanges`. Raises `InvalidValueError` for secrets without a key.
        """
        put = partial(tags.put_tag, sql=self._sql, encryption=self._encryption, given=given, sends=sends)
        await self._with_tags(given.name, {**self.tags, given.name: given}, put, rebase if sends else None)

    async def delete_tag(self, name: str, now: float, *, sends: bool) -> None:
        """Deletes the settings of a tag; its sites keep it. sends: as for `put_tag`."""
        gone = partial(tags.delete_tag, name=name, now=now, sends=sends)
        await self._with_tags(name, {other: one for other, one in self.tags.items() if other != name}, gone, None)

    async def _with_tags(
        self, name: str, after: Tags, write: Callable[[Connection], None], rebase: Rebase | None
    ) -> None:
        """Writes, with `after` in force before: a context that is read meanwhile is never newer than its access."""
        before, self.tags = self.tags, after

        def work(connection: Connection) -> None:
            write(connection)
            tags.follow_tag(connection, self._sql, name, before, after, rebase)

        try:
            await self._database.write(work)
        except BaseException:
            self.tags = before
            raise

    async def tagged(self, name: str, given: Tags) -> AsyncIterator[tuple[SettingsColumns, dict[int, str]]]:
        """Yields what the sites of a tag are polled by while tags have these settings, ordered by id, in pieces.

        Each piece comes with what is wrong with rows that hold an unreadable value, by site id.
        """
        after = -1
        while True:
            piece, faults = await self._database.read(
                lambda c, a=after: tags.tagged_piece(c, self._sql, given, name, a)  # type: ignore[misc]
            )
            if not len(piece):
                return
            yield piece, faults
            after = int(piece.site_id[-1])

    # Sites.

    async def add(
        self,
        specs: Sequence[SiteSpec],
        hosts: Sequence[str],
        now: float,
        *,
        respect_deleted: bool,
        source: int | None = None,
    ) -> AddResult:
        """Adds new sites; `hosts` names ("host:port") the host of each spec.

        A URL that a user deleted is left out if `respect_deleted` is true, and restored otherwise. source: id of the
        source that lists the sites, which are noted as its own in the same transaction; raises `NotFoundError` if it is
        gone.
        """

        def work(connection: Connection) -> AddResult:
            result = self._import.add(connection, specs, hosts, now, respect_deleted=respect_deleted)
            if source is not None:
                join(connection, self._sql, source, specs, result, now)
            return result

        return await self._database.write(work)

    async def ask_to_poll(self, site_id: int, *, anew: bool = False) -> None:
        """Asks the node that polls the site to poll it before all others; forgotten if none does now."""
        await self._database.write(lambda c: ask_to_poll(c, site_id, anew=anew))

    async def discard(self, site_ids: Sequence[int]) -> None:
        """Deletes these sites with all their rows; a list or source adds them again. Missing ones are skipped."""
        await self._database.write(lambda c: self._sites.discard(c, site_ids))

    async def get(self, site_id: int) -> Site:
        """Returns the site. Raises `NotFoundError`."""
        return await self._database.read(lambda c: self._sites.get(c, site_id))

    async def get_many(self, site_ids: Sequence[int]) -> list[Site]:
        """Returns the sites with these ids, by id; missing ones are left out."""
        return await self._database.read(lambda c: self._sites.get_many(c, site_ids))

    async def find(self, url: str) -> Site | None:
        """Returns the site at exactly this URL, or None."""
        return await self._database.read(lambda c: self._sites.find(c, url))

    async def at(self, urls: Sequence[str]) -> dict[str, Site]:
        """Returns the sites at these URLs, by URL; other URLs are missing."""
        return await self._database.read(lambda c: self._sites.at(c, urls))

    async def redirecting_to(self, urls: Sequence[str]) -> dict[str, list[int]]:
        """Returns the ids of sites that redirect permanently to these URLs, ascending, by URL; some of very many."""
        return await self._database.read(lambda c: self._sites.redirecting_to(c, urls))

    async def urls_at(self, urls: Sequence[str]) -> set[str]:
        """Returns those of the URLs at which there are sites."""
        return await self._database.read(lambda c: self._sites.urls_at(c, urls))

    async def page(
        self,
        q: str | None = None,
        tag: str | None = None,
        state: SiteState | None = None,
        host: str | None = None,
        source: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> SitePage:
        """Returns sites that fit every filter (`SiteFilter`), by id. Raises as `listed` does."""
        return await self.listed(SiteFilter(q, tag, state, host, source), None, limit, cursor)

    async def listed(
        self,
        wanted: SiteFilter,
        order: SiteOrder | None = None,
        limit: int = 100,
        cursor: str | None = None,
        *,
        count: bool = False,
    ) -> SitePage:
        """Returns sites that fit, in the cursor's order, else in `order`, else by id.

        count: also count the sites that fit the filter, up to 10,000. Raises `InvalidValueError` for a bad cursor, or
        one of another order, a bad limit (1 to 1000), and more than 16 words.
        """
        return await self._database.read(lambda c: self._sites.page(c, wanted, order, limit, cursor, count=count))

    async def iterate(self) -> AsyncIterator[Site]:
        """Yields all sites by id, read in pieces."""
        cursor: str | None = None
        while True:
            page = await self.page(limit=1000, cursor=cursor)
            for site in page.items:
                yield site
            cursor = page.next_cursor
            if cursor is None:
                return

    async def of_users(self, after: int, limit: int) -> list[Site]:
        """Returns sites with ids above `after`, by id, without those of the focused crawler."""
        return await self._database.read(lambda c: self._sites.users(c, after, limit))

    async def count(self) -> int:
        """Returns the number of sites."""
        return await self._database.read(count_sites)

    async def stored_forecasts(self, site_ids: Sequence[int]) -> dict[int, StoredForecast]:
        """Returns what was stored with their last polls of those of these sites that are there, by id."""
        return await self._database.read(lambda c: stored_forecasts(c, self._sql, site_ids))

    async def counts_by_state(self) -> dict[SiteState, int]:
        """Returns the number of sites by state, with every state."""
        return await self._database.read(counts_by_state)

    async def update(self, before: Site | int, changes: SiteChanges, now: float) -> Site:
        """Changes settings; the next poll will be a full one. A new URL resets what was known of the old page, and
        `paused` False ends a backoff and brings back a gone site.

        before: the site as it was read, or its id.

        Raises `NotFoundError`, `InvalidValueError`, and `DuplicateError` for a URL in use.
        """

        def work(connection: Connection) -> Site:
            host_id_of = partial(self._import.host_id, connection)
            there = self._sites.get(connection, before) if isinstance(before, int) else before
            return self._sites.update(connection, host_id_of, there, changes, now, self.tags)

        return await self._database.write(work)

    async def put_settings(self, settings: Sequence[NewSettings], now: float) -> None:
        """Sets the settings of each site exactly; their next polls will be full ones. Missing sites are skipped.

        Raises `InvalidValueError` without writing anything.
        """
        await self._database.write(lambda c: self._sites.put_settings(c, settings, now, self.tags))

    async def pause(self, tag: str | None, paused: bool) -> AsyncIterator[tuple[NDArray[np.int64], int]]:
        """Pauses or resumes all sites, or all with this tag, in pieces, so that commits can run in between.

        Yields the ids of each piece, int64[k], and how many of them changed. Changes nothing else: a backoff continues,
        and a gone site stays gone.
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

    async def pause_some(self, site_ids: Sequence[int], paused: bool) -> None:
        """Pauses or resumes these sites, and changes nothing else."""
        await self._database.write(lambda c: self._sites.pause_some(c, site_ids, paused))

    async def crawled_among(self, site_ids: Sequence[int]) -> list[int]:
        """Returns those of the sites that belong to the focused crawler."""
        return await self._database.read(lambda c: self._sites.crawled_among(c, site_ids))

    # Sites that are marked as deleted, until they are purged.

    async def mark(self, site_ids: Sequence[int], now: float) -> list[int]:
        """Marks sites as deleted; from then on they are gone for everything but `unmark`, and for adding their URLs.

        Returns the ids of those that were not marked before.
        """
        return await self._database.write(lambda c: soft_delete.mark(c, self._sql, site_ids, now))

    async def unmark(self, site_ids: Sequence[int]) -> list[int]:
        """Brings marked sites back with all their rows; returns the ids of those among these that were marked."""
        return await self._database.write(lambda c: soft_delete.unmark(c, self._sql, site_ids))

    async def purge(self, before: float) -> int:
        """Deletes sites that were marked before that time (epoch s), in short transactions; returns how many."""
        purged = 0
        while some := await self._database.write(lambda c: soft_delete.purge(c, self._sql, before, _PURGED_AT_ONCE)):
            purged += some
        return purged

    async def schedule_of(self, site_ids: Sequence[int]) -> tuple[ScheduleRows, dict[int, str]]:
        """Returns these sites as `schedule` yields them; missing ones are left out."""

        def work(connection: Connection) -> tuple[ScheduleRows, dict[int, str]]:
            rows, faults = schedule.schedule_of(connection, self._sql, site_ids)
            with_inherited(connection, rows, self.tags)
            return rows, faults

        return await self._database.read(work)

    async def learned_of(self, allocator: str, site_ids: Sequence[int]) -> list[tuple[int, bytes]]:
        """Returns (site id, state) of those of these sites of which the allocator has learned, by id."""
        return await self._database.read(lambda c: schedule.learned_of(c, self._sql, allocator, site_ids))

    async def announced_ttls(self) -> AsyncIterator[StoredTtls]:
        """Yields what sites announced, by id, in pieces."""
        after = -1
        while True:
            piece = await self._database.read(lambda c, a=after: schedule.announced_ttls(c, a))  # type: ignore[misc]
            if not len(piece.site_id):
                return
            yield piece
            after = int(piece.site_id[-1])

    async def announced_ttls_of(self, site_ids: Sequence[int]) -> StoredTtls:
        """Returns what these sites announced."""
        return await self._database.read(lambda c: schedule.announced_ttls_of(c, self._sql, site_ids))

    async def delete(self, site_id: int, now: float) -> None:
        """Deletes a site and all its rows, and marks its URL as deleted. Raises `NotFoundError`."""
        await self._database.write(lambda c: self._sites.delete(c, site_id, now))

    async def missing_from(self, urls: Iterable[str]) -> list[tuple[int, str]]:
        """Returns id and URL of the sites that `delete_missing` would delete."""
        return await self._database.read(lambda c: self._sites.missing(c, urls))

    async def delete_missing(self, urls: Iterable[str]) -> list[int]:
        """Deletes sites whose URL is not among these; returns their ids. Such a URL is added again when listed."""
        return await self._database.write(lambda c: self._sites.delete_missing(c, urls))

    # URLs deleted by users, and the restoring of exports.

    async def deleted_among(self, urls: Sequence[str]) -> set[str]:
        """Returns the URLs among these that a user deleted."""
        return await self._database.read(lambda c: self._sites.deleted(c, urls))

    async def deleted_urls(self, after: str, limit: int) -> Sequence[tuple[str, float]]:
        """Returns URLs that a user deleted, with times (epoch s), by URL, after `after`."""
        return await self._database.read(lambda c: site_imports.deleted_urls(c, after, limit))

    async def mark_deleted(self, pieces: Callable[[], Iterator[list[tuple[str, float]]]]) -> tuple[int, int, int]:
        """Marks URLs as deleted by a user, all or none; those that are sites are skipped.

        Returns how many were added, changed (none) and unchanged.
        """
        return await self._database.write(lambda c: self._restore.mark_deleted(c, pieces()))

    async def restore(
        self, pieces: Callable[[], Iterator[list[SiteRestore]]], admit: Admit, now: float
    ) -> RestoreResult:
        """Adds sites, and applies the settings of the export to existing ones, all or none.

        Raises `InvalidValueError`, and what `admit` raises for a piece, without writing anything.
        """
        asked = self._database.in_loop(admit)
        return await self._database.write(lambda c: self._restore.sites(c, pieces(), asked, now, self.tags))

    # Hosts.

    async def host_id(self, name: str) -> int:
        """Returns the id of the host "name:port". Raises `NotFoundError`."""
        return (await self.get_host(name)).id

    async def host_ids(self, names: Sequence[str]) -> dict[str, int]:
        """Returns the ids of the hosts "name:port"; unknown ones are missing."""
        return await self._database.read(lambda c: self._import.known_hosts(c, names))

    async def get_host(self, name: str) -> KnownHost:
        """Returns the host "name:port". Raises `NotFoundError`."""
        return await self._database.read(lambda c: stored_hosts.get_host(c, name))

    async def list_hosts(
        self, q: str | None = None, ids: NDArray[np.int64] | None = None, limit: int = 100, cursor: str | None = None
    ) -> ListPage[KnownHost]:
        """Returns hosts by id. `q`: part of the name, any case; `ids`: only these, int64[k].

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        return await self._database.read(lambda c: stored_hosts.list_hosts(c, self._sql, q, ids, limit, cursor))

    async def override_host(self, host_id: int, override: HostOverride, backing_off: Collection[int]) -> list[int]:
        """Stores the operator's action on the host; returns ids of the sites whose backoff it ends.

        `backing_off`: sites of the host. Ending the pause ends only backoffs after refusals by status 429 or 503.
        """
        return await self._database.write(
            lambda c: stored_hosts.override_host(c, self._sql, host_id, override, backing_off)
        )
