"""Which sites a source lists, and what its readings change of them. Works within the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, and_, exists, select, update

from pollerd.errors import NotFoundError
from pollerd.model import SiteSpec, SiteState
from pollerd.storage.db.schema.sites import site, site_state
from pollerd.storage.db.schema.sources import source, source_site
from pollerd.storage.db.statements import Statements
from pollerd.storage.sources.source_values import Member, MemberState, StoredMember
from pollerd.storage.values import AddResult

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
        raise NotFoundError("source", source_id)
    added = {i: site_id for site_id, i, _ in result.added}
    there = added | {i: site_id for site_id, i in result.existing}
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
        for i, site_id in there.items()
    ]
    if rows:
        connection.execute(sql.insert_for(source_site).on_conflict_do_nothing(), rows)


def members(connection: Connection, source_id: int) -> list[Member]:
    """Returns all pages of the source."""
    c = source_site.c
    rows = connection.execute(select(c.url, c.site_id, c.state, c.since, c.paused).where(c.source_id == source_id))
    return [Member(url, site_id, state == _JOINED, *rest) for url, site_id, state, *rest in rows]


def vanish(connection: Connection, sql: Statements, source_id: int, urls: Sequence[str], now: float) -> list[int]:
    """Notes pages as no longer listed; returns ids of the sites that this pauses.

    Those are sites that a source added, that no source lists, and that are not paused yet.
    """
    ids = _turned(connection, sql, source_id, urls, {"state": _VANISHED, "since": now})
    here = source_site.c
    listed = exists().where(here.site_id == site.c.id, here.state == _JOINED)
    added = exists().where(here.site_id == site.c.id, here.added)
    wanted = and_(sql.among(site.c.id, "ids"), site.c.paused.is_(False), added, ~listed)
    parameters = {"ids": sql.many(ids)}
    paused = list(connection.execute(select(site.c.id).where(wanted), parameters).scalars())
    if paused:
        parameters = {"ids": sql.many(paused)}
        connection.execute(update(site).where(sql.among(site.c.id, "ids")).values(paused=True), parameters)
        own = and_(here.source_id == source_id, sql.among(here.site_id, "ids"))
        connection.execute(update(source_site).where(own).values(paused=True), parameters)
    return paused


def come_back(connection: Connection, sql: Statements, source_id: int, urls: Sequence[str], now: float) -> list[int]:
    """Notes pages as listed again; returns ids of the sites that this resumes: those that a source had paused.

    They begin anew, without the backoff that they had.
    """
    ids = _turned(connection, sql, source_id, urls, {"state": _JOINED, "since": now})
    here = source_site.c
    by_source = exists().where(here.site_id == site.c.id, here.paused)
    wanted = and_(sql.among(site.c.id, "ids"), site.c.paused.is_(True), by_source)
    resumed = list(connection.execute(select(site.c.id).where(wanted), {"ids": sql.many(ids)}).scalars())
    if resumed:
        parameters = {"ids": sql.many(resumed)}
        connection.execute(update(site).where(sql.among(site.c.id, "ids")).values(paused=False), parameters)
        anew = {"state": SiteState.ACTIVE.value, "not_before": None, "failures": 0}
        connection.execute(update(site_state).where(sql.among(site_state.c.site_id, "ids")).values(anew), parameters)
        forget_pauses(connection, sql, resumed)
    return resumed


def _turned(
    connection: Connection, sql: Statements, source_id: int, urls: Sequence[str], values: Mapping[str, Any]
) -> list[int]:
    """Sets the state of these pages of the source; returns the ids of their sites."""
    c = source_site.c
    wanted = and_(c.source_id == source_id, sql.among(c.url, "urls"), c.state != values["state"])
    changed = update(source_site).where(wanted).values(values).returning(c.site_id)
    return list(dict.fromkeys(connection.execute(changed, {"urls": sql.texts(urls)}).scalars()))


def forget_pauses(connection: Connection, sql: Statements, site_ids: Sequence[int] | NDArray[np.int64]) -> None:
    """Notes that what these sites' pauses are is the user's doing: no source resumes them."""
    wanted = and_(sql.among(source_site.c.site_id, "ids"), source_site.c.paused)
    connection.execute(update(source_site).where(wanted).values(paused=False), {"ids": sql.many(site_ids)})


def removable(connection: Connection, source_id: int, limit: int) -> list[int]:
    """Returns ids of sites that the source added, and that no other source lists."""
    here, other = source_site.c, _OTHER.c
    elsewhere = exists().where(other.site_id == here.site_id, other.source_id != source_id, other.state == _JOINED)
    wanted = select(here.site_id).where(here.source_id == source_id, here.added, ~elsewhere).distinct().limit(limit)
    return list(connection.execute(wanted).scalars())


def bequeath(connection: Connection, source_id: int) -> None:
    """Hands on to other sources of its sites what a source that goes has added or paused."""
    here, other = source_site.c, _OTHER.c
    for flag in ("added", "paused"):
        own = exists().where(other.site_id == here.site_id, other.source_id == source_id, other[flag])
        connection.execute(update(source_site).where(here.source_id != source_id, own).values({flag: True}))


def stored(connection: Connection, source_id: int, after: str, limit: int) -> list[StoredMember]:
    """Returns pages of the source by URL, after `after`."""
    c = source_site.c
    wanted = (
        select(c.url, site.c.url.label("site"), c.state, c.added, c.paused, c.since)
        .join_from(source_site, site, site.c.id == c.site_id)
        .where(c.source_id == source_id, c.url > after)
        .order_by(c.url)
        .limit(limit)
    )
    return [
        StoredMember(url, at, state == _JOINED, added, paused, since)
        for url, at, state, added, paused, since in connection.execute(wanted)
    ]


def known(connection: Connection, sql: Statements, given: Sequence[tuple[str, StoredMember]]) -> set[tuple[str, str]]:
    """Returns (URL of the source, URL of the page) of those that are noted already."""
    c = source_site.c
    wanted = select(source.c.url, c.url).join_from(source_site, source, source.c.id == c.source_id)
    wanted = wanted.where(sql.among(c.url, "urls"), sql.among(source.c.url, "sources"))
    parameters = {"urls": sql.texts(one.url for _, one in given), "sources": sql.texts({at for at, _ in given})}
    there = {(at, url) for at, url in connection.execute(wanted, parameters)}
    return there & {(at, one.url) for at, one in given}


def put(connection: Connection, sql: Statements, given: Sequence[tuple[str, StoredMember]]) -> tuple[int, int]:
    """Notes pages of sources and sites that are there; returns how many are new, and how many are not noted anew."""
    sources = _ids(connection, sql, source, [at for at, _ in given])
    sites = _ids(connection, sql, site, [one.site for _, one in given])
    there = known(connection, sql, given)
    rows = [
        {
            "source_id": sources[at],
            "url": one.url,
            "site_id": sites[one.site],
            "state": _JOINED if one.joined else _VANISHED,
            "since": one.since,
            "added": one.added,
            "paused": one.paused,
        }
        for at, one in {(at, one.url): (at, one) for at, one in given}.values()
        if at in sources and one.site in sites and (at, one.url) not in there
    ]
    if rows:
        connection.execute(sql.insert_for(source_site).on_conflict_do_nothing(), rows)
    return len(rows), len(given) - len(rows)


def _ids(connection: Connection, sql: Statements, table: Table, urls: Sequence[str]) -> dict[str, int]:
    found = select(table.c.url, table.c.id).where(sql.among(table.c.url, "urls"))
    return {row.url: row.id for row in connection.execute(found, {"urls": sql.texts(dict.fromkeys(urls))})}
