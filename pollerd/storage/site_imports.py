"""Imports of sites, from one to hundreds of thousands, within the transactions of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import Connection, delete, exists, select

from pollerd.errors import InvalidValueError
from pollerd.site_settings import SiteSpec
from pollerd.storage.encryption import Encryption
from pollerd.storage.hosts import HostStore
from pollerd.storage.schema import deleted_url, site
from pollerd.storage.site_order import WordIndex, text_row
from pollerd.storage.site_rows import check_spec, encode_windows
from pollerd.storage.soft_delete import SoftDeletion, any_soft_deleted
from pollerd.storage.statements import SITE_COLUMNS, Statements, run, run_each
from pollerd.storage.values import AddResult
from pollerd.texts import _

# Small enough for the event loop to run between two pieces.
PIECE = 2_000
_columns = attrgetter(*SITE_COLUMNS)


class SiteImport:
    """Adds sites and reports the result of each."""

    def __init__(
        self,
        sql: Statements,
        encryption: Encryption,
        *,
        hosts: HostStore,
        soft_deletion: SoftDeletion,
        assign_partitions: Callable[[Connection, Mapping[str, int]], None] | None = None,
    ) -> None:
        """assign_partitions: gives new hosts, name -> id, their partitions, where several nodes add sites."""
        self._sql, self._encryption, self._words = sql, encryption, WordIndex(sql)
        self._hosts, self._soft_deletion, self._assign_partitions = hosts, soft_deletion, assign_partitions
        self._sites_at = sql.rows_at(site.c.url, "urls", site.c.url, site.c.id)
        self._deleted_at = sql.rows_at(deleted_url.c.url, "urls", deleted_url.c.url)
        self._any_deleted = select(exists().select_from(deleted_url))
        self._restore = delete(deleted_url).where(sql.in_list(deleted_url.c.url, "urls"))

    def add(
        self,
        connection: Connection,
        specs: Sequence[SiteSpec],
        hosts: Sequence[str],
        now: float,
        *,
        respect_deleted: bool,
    ) -> AddResult:
        """Adds new sites; `hosts` names the host of each spec.

        A URL that a user deleted is left out if `respect_deleted` is true, and restored otherwise; a site that a job
        deleted is brought back.
        """
        if len(specs) != len(hosts):
            raise InvalidValueError("hosts", _("one for each of {count} specs", count=len(specs)), len(hosts))
        result = AddResult([], [], [], at=now)
        self._sql.locks.add_sites(connection)
        any_deleted = bool(connection.execute(self._any_deleted).scalar_one())
        for start in range(0, len(specs), PIECE):
            positions = list(range(start, min(start + PIECE, len(specs))))
            if any_deleted:
                positions = self._without_deleted(connection, specs, positions, respect_deleted, result)
            self._add_piece(connection, specs, hosts, positions, now, result)
        return result

    def host_id(self, connection: Connection, name: str) -> int:
        """Returns the id of a host; adds a new one."""
        return self._host_ids(connection, [name])[name]

    def _add_piece(
        self,
        connection: Connection,
        specs: Sequence[SiteSpec],
        hosts: Sequence[str],
        positions: list[int],
        now: float,
        result: AddResult,
    ) -> None:
        urls = []
        for i in positions:
            check_spec(specs[i])
            urls.append(specs[i].url)
        known = self._ids(connection, self._sites_at, {"urls": self._sql.text_list(urls)})
        if known and any_soft_deleted(connection):
            result.returned.extend(self._soft_deletion.unmark.within(connection, list(known.values())))
        first: dict[str, int] = {}
        for i in positions:
            if specs[i].url not in known:
                first.setdefault(specs[i].url, i)
        host_ids = self._host_ids(connection, [*map(hosts.__getitem__, first.values())])
        new = [(specs[i], host_ids[hosts[i]]) for i in first.values()]
        ids = known | self._insert(connection, new, now)
        self._insert_rest(connection, new, ids)
        for i in positions:
            url = specs[i].url
            if first.get(url) == i:
                result.added.append((ids[url], i, host_ids[hosts[i]]))
            else:
                result.existing.append((ids[url], i))

    def _without_deleted(
        self,
        connection: Connection,
        specs: Sequence[SiteSpec],
        positions: list[int],
        respect_deleted: bool,
        result: AddResult,
    ) -> list[int]:
        """Returns the wanted sites that no user deleted; if `respect_deleted` is false, all, and forgets their
        deletion.
        """
        urls = self._sql.text_list(specs[i].url for i in positions)
        if not respect_deleted:
            connection.execute(self._restore, {"urls": urls})
            return positions
        deleted = set(connection.execute(self._deleted_at, {"urls": urls}).scalars())
        result.deleted.extend(i for i in positions if specs[i].url in deleted)
        return [i for i in positions if specs[i].url not in deleted]

    def _host_ids(self, connection: Connection, names: list[str]) -> dict[str, int]:
        """Returns ids of hosts by name; adds new hosts."""
        unique = list(dict.fromkeys(names))
        if not unique:
            return {}
        self._sql.locks.add_sites(connection)
        known = self._hosts.ids.within(connection, unique)
        missing = [name for name in unique if name not in known]
        if missing:
            new = dict(run(connection, self._sql.insert_hosts, self._sql.text_list(missing)))
            if self._assign_partitions is not None:
                self._assign_partitions(connection, new)
            known |= new
        return known

    @staticmethod
    def _ids(connection: Connection, statement: Any, parameters: dict[str, Any]) -> dict[str, int]:
        return dict(map(tuple, connection.execute(statement, parameters).all()))

    def _insert(self, connection: Connection, sites: list[tuple[SiteSpec, int]], now: float) -> dict[str, int]:
        """Inserts new sites and their states; returns URL -> id."""
        if not sites:
            return {}
        rows = []
        for spec, host_id in sites:
            settings = [None if value == "" else value for value in _columns(spec)]
            rows.append((now, spec.paused, *settings, spec.url, host_id))
        first = run(connection, self._sql.last_site_id)[0][0] + 1 if self._sql.is_sqlite else 0
        inserted: list[tuple[Any, ...]] = []
        for parameters in self._sql.site_insertions(first, rows):
            inserted += run(connection, self._sql.insert_sites, *parameters)
        if self._sql.is_sqlite:
            run(connection, self._sql.insert_states, first)
            run(connection, self._sql.insert_times, first)
            return dict(zip(map(itemgetter(-2), rows), count(first), strict=False))
        ids: dict[str, int] = dict(inserted)
        run(connection, self._sql.insert_states, list(ids.values()))
        run(connection, self._sql.insert_times, list(ids.values()))
        return ids

    def _insert_rest(
        self, connection: Connection, sites: Sequence[tuple[SiteSpec, int]], ids: Mapping[str, int]
    ) -> None:
        texts, sealed, windows, tags = [], [], [], []
        for spec, _host_id in sites:
            site_id = ids[spec.url]
            texts.append(text_row(site_id, spec.url, spec.title))
            if spec.access:
                sealed.append((self._encryption.encrypt(spec.access), site_id))
            if spec.windows is not None:
                windows.append((encode_windows(spec.windows), site_id))
            for place, tag in enumerate(dict.fromkeys(spec.tags)):
                tags.append((site_id, tag, place))
        self._words.insert(connection, texts)
        run_each(connection, self._sql.set_access, sealed)
        run_each(connection, self._sql.set_windows, windows)
        run_each(connection, self._sql.insert_tag, tags)
