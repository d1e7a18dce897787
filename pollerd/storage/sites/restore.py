"""Restores the contents of an export, each kind in one transaction: all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, select

from pollerd.model import Site, Tags
from pollerd.storage.db.schema.sites import deleted_url
from pollerd.storage.db.statements import Statements
from pollerd.storage.sites.imports import SiteImport
from pollerd.storage.sites.sites import Sites
from pollerd.storage.values import NewSettings, RestoreResult, SiteRestore
from pollerd.urls import host_of

Admit = Callable[[Sequence[SiteRestore], Mapping[str, Site]], None]
"""Called with every piece and the existing sites by URL; raises if it cannot be accepted."""


class Restore:
    """Restores sites and marks of deleted URLs, in pieces within one transaction."""

    def __init__(self, sql: Statements, sites: Sites, imports: SiteImport) -> None:
        self._sql, self._sites, self._imports = sql, sites, imports

    def sites(
        self, connection: Connection, pieces: Iterator[list[SiteRestore]], admit: Admit, now: float, tags: Tags
    ) -> RestoreResult:
        """Adds new sites; existing ones get the settings of the export. An exception of `admit` ends it.

        tags: those that have settings.
        """
        result = RestoreResult()
        for piece in pieces:
            there = self._sites.at(connection, [one.spec.url for one in piece])
            admit(piece, there)
            fresh = [one.spec for one in piece if one.spec.url not in there]
            hosts = [host_of(spec.url) for spec in fresh]
            added = self._imports.add(connection, fresh, hosts, now, respect_deleted=False)
            back = set(added.returned)
            returned = [NewSettings(id_, fresh[i], resumed=False) for id_, i in added.existing if id_ in back]
            self._sites.put_settings(connection, returned, now, tags)
            result.touched.extend(back)
            result.added += len(back)
            differing = [_settled(there[one.spec.url], one) for one in piece if _differs(there, one)]
            self._sites.put_settings(connection, differing, now, tags)
            result.touched.extend(site_id for site_id, _, _ in added.added)
            result.touched.extend(one.site_id for one in differing)
            result.added += len(added.added)
            result.changed += len(differing)
            result.unchanged += len(piece) - len(added.added) - len(back) - len(differing)
        return result

    def mark_deleted(self, connection: Connection, pieces: Iterator[list[tuple[str, float]]]) -> tuple[int, int, int]:
        """Marks URLs that are no sites as deleted; returns how many were added, changed (none) and unchanged."""
        added = unchanged = 0
        for piece in pieces:
            urls = [url for url, _ in piece]
            known = self._sites.at(connection, urls).keys() | self._sites.deleted(connection, urls)
            rows = [{"url": url, "deleted_at": at} for url, at in dict(piece).items() if url not in known]
            if rows:
                connection.execute(self._sql.insert_for(deleted_url).on_conflict_do_nothing(), rows)
            added, unchanged = added + len(rows), unchanged + len(piece) - len(rows)
        return added, 0, unchanged


def deleted_urls(connection: Connection, after: str, limit: int) -> Sequence[tuple[str, float]]:
    """Returns URLs that a user deleted, with times (epoch s), by URL, after `after`."""
    c = deleted_url.c
    rows = connection.execute(select(c.url, c.deleted_at).where(c.url > after).order_by(c.url).limit(limit))
    return [(url, at) for url, at in rows]


def _differs(there: dict[str, Site], one: SiteRestore) -> bool:
    site = there.get(one.spec.url)
    return site is not None and one.changes(site.spec)


def _settled(site: Site, one: SiteRestore) -> NewSettings:
    spec = one.over(site.spec)
    return NewSettings(site.id, spec, resumed=site.spec.paused and not spec.paused)
