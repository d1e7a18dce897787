"""Sites one by one and in pages: what the API and the command line ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, delete, exists, func, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.model import NO_ACCESS, OutcomeKind, Site, SiteSpec, SiteState
from pollerd.storage import cursors
from pollerd.storage.checks import check_spec
from pollerd.storage.collection import forget_site
from pollerd.storage.salvage import number
from pollerd.storage.schema import deleted_url, host, learned, mask, page, site, site_state, site_tag
from pollerd.storage.sealing import Seal
from pollerd.storage.statements import Statements
from pollerd.storage.values import Page, SiteChanges

PIECE = 5_000
_SETTINGS = {"weight": 1.0, "cost": 1.0, "min_interval": None, "max_interval": None, "half_life": None}
"""Name -> what a new site has."""
_STATES = {state.value: state for state in SiteState}
_OUTCOMES = {kind.value: kind for kind in OutcomeKind}
# To resume a site is to start it again, whatever it met before.
_REVIVED: dict[str, Any] = {"state": SiteState.ACTIVE.value, "not_before": None, "failures": 0}
# What was remembered of the page at the old URL says nothing of the page at the new one.
_FORGOTTEN: dict[str, Any] = {
    "state": SiteState.ACTIVE.value,
    "last_seen_at": None,
    "not_before": None,
    "failures": 0,
    "polls_since_full": 0,
    "content_id": None,
    "etag": None,
    "last_modified": None,
    "content_type": None,
    "fingerprint": None,
    "raw_fingerprint": None,
    "media": None,
    "lm_seen": None,
    "lm_good": 0,
    "lm_bad": 0,
    "redirect_url": None,
    "redirect_count": 0,
    "items": None,
}


class Sites:
    """The site table and what belongs to it."""

    def __init__(self, sql: Statements, seal: Seal) -> None:
        self._sql, self._seal = sql, seal
        self._tags_of = (
            select(site_tag.c.site_id, site_tag.c.tag)
            .where(sql.among(site_tag.c.site_id, "sites"))
            .order_by(site_tag.c.site_id, site_tag.c.tag)
        )
        self._delete_many = delete(site).where(sql.among(site.c.id, "sites"))

    def get(self, connection: Connection, site_id: int) -> Site:
        """Raises `NotFoundError`."""
        found = self._read(connection, _sites().where(site.c.id == site_id))
        if not found:
            raise NotFoundError("site", site_id)
        return found[0]

    def find(self, connection: Connection, url: str) -> Site | None:
        """The site at exactly this URL, or None."""
        found = self._read(connection, _sites().where(site.c.url == url))
        return found[0] if found else None

    def page(
        self,
        connection: Connection,
        q: str | None,
        tag: str | None,
        state: SiteState | None,
        host_name: str | None,
        limit: int,
        cursor: str | None,
    ) -> Page[Site]:
        """Sites by id. `q`: part of the URL, any case."""
        statement = _sites().order_by(site.c.id).limit(cursors.check_limit(limit) + 1)
        last = cursors.decode("s", cursor)
        if last is not None:
            statement = statement.where(site.c.id > last)
        if q:
            statement = statement.where(site.c.url.icontains(q, autoescape=True))
        if tag is not None:
            tagged = exists().where(site_tag.c.site_id == site.c.id, site_tag.c.tag == tag)
            statement = statement.where(tagged)
        if host_name is not None:
            statement = statement.where(host.c.name == host_name)
        if state is SiteState.PAUSED:
            statement = statement.where(site.c.paused)
        elif state is not None:
            statement = statement.where(~site.c.paused, site_state.c.state == state.value)
        found = self._read(connection, statement)
        more = len(found) > limit
        return Page(found[:limit], cursors.encode("s", found[limit - 1].id) if more else None)

    def _read(self, connection: Connection, statement: Select[Any]) -> list[Site]:
        rows = connection.execute(statement).all()
        tags: dict[int, list[str]] = defaultdict(list)
        if rows:
            sites = self._sql.many(row[0] for row in rows)
            for site_id, tag in connection.execute(self._tags_of, {"sites": sites}):
                tags[site_id].append(tag)
        return [_site(row, tuple(tags[row[0]]), self._seal) for row in rows]

    def update(
        self, connection: Connection, host_id_of: Callable[[str], int], site_id: int, changes: SiteChanges, now: float
    ) -> Site:
        """Change settings. Raises `NotFoundError`, `InvalidValueError`, and `DuplicateError` for a URL in use."""
        before = self.get(connection, site_id)
        unknown = changes.keys() - SiteChanges.__annotations__.keys()
        if unknown or ("url" in changes) != ("host" in changes):
            allowed = "among " + ", ".join(SiteChanges.__annotations__) + "; url and host together"
            raise InvalidValueError("changes", allowed, sorted(changes))
        given: dict[str, Any] = {k: v for k, v in changes.items() if k in SiteSpec.__dataclass_fields__}
        spec = replace(before.spec, **given)
        check_spec(spec)
        values: dict[str, Any] = {name: getattr(spec, name) for name in _SETTINGS}
        values["settings_changed_at"] = now
        if "access" in changes:
            values["access"] = self._seal.close(spec.access) if spec.access else None
        if "paused" in changes:
            values["paused"] = bool(changes["paused"])
            if not values["paused"]:
                connection.execute(update(site_state).where(site_state.c.site_id == site_id).values(_REVIVED))
        if spec.url != before.spec.url:
            self._require_free(connection, spec.url)
            forget_site(connection, site_id, "its site was moved")
            values |= {"url": spec.url, "host_id": host_id_of(changes["host"])}
            connection.execute(update(site_state).where(site_state.c.site_id == site_id).values(_FORGOTTEN))
            for table in (learned, mask):
                connection.execute(delete(table).where(table.c.site_id == site_id))
        connection.execute(update(site).where(site.c.id == site_id).values(values))
        if "tags" in changes:
            self._set_tags(connection, site_id, spec.tags)
        return self.get(connection, site_id)

    def _require_free(self, connection: Connection, url: str) -> None:
        other = self.find(connection, url)
        if other is not None:
            raise DuplicateError("site", url, other.id)
        connection.execute(delete(deleted_url).where(deleted_url.c.url == url))

    @staticmethod
    def _set_tags(connection: Connection, site_id: int, tags: Sequence[str]) -> None:
        connection.execute(delete(site_tag).where(site_tag.c.site_id == site_id))
        if tags:
            rows = [{"site_id": site_id, "tag": tag} for tag in dict.fromkeys(tags)]
            connection.execute(insert(site_tag), rows)

    def delete(self, connection: Connection, site_id: int, now: float) -> None:
        """Delete a site and all its rows, and remember its URL as deleted. Raises `NotFoundError`."""
        gone = delete(site).where(site.c.id == site_id).returning(site.c.url)
        url = connection.execute(gone).scalar_one_or_none()
        if url is None:
            raise NotFoundError("site", site_id)
        forget_site(connection, site_id, "its site was deleted")
        remember = self._sql.insert_for(deleted_url).values(url=url, deleted_at=now)
        connection.execute(remember.on_conflict_do_update(index_elements=["url"], set_={"deleted_at": now}))

    def delete_missing(self, connection: Connection, urls: Iterable[str]) -> list[int]:
        """Delete every site whose URL is not among these; their URLs may come back with the list. Their ids.

        Sites of the topic robot's stay.
        """
        wanted = urls if isinstance(urls, Set) else set(urls)
        robots = exists().where(page.c.site_id == site.c.id, page.c.own)
        rows = connection.execute(select(site.c.id, site.c.url).where(~robots).order_by(site.c.id))
        gone = [site_id for site_id, url in rows if url not in wanted]
        for start in range(0, len(gone), PIECE):
            connection.execute(self._delete_many, {"sites": self._sql.many(gone[start : start + PIECE])})
        return gone


def count_sites(connection: Connection) -> int:
    """How many sites there are."""
    return int(connection.execute(select(func.count()).select_from(site_state)).scalar_one())


def counts_by_state(connection: Connection) -> dict[SiteState, int]:
    """How many sites stand where; every state is there."""
    statement = (
        select(site.c.paused, site_state.c.state, func.count())
        .join_from(site, site_state)
        .group_by(site.c.paused, site_state.c.state)
    )
    counts = dict.fromkeys(SiteState, 0)
    for paused, state, sites in connection.execute(statement):
        counts[SiteState.PAUSED if paused else _STATES.get(state, SiteState.ACTIVE)] += sites
    return counts


def _sites() -> Select[Any]:
    s, t = site.c, site_state.c
    return (
        select(
            s.id,
            s.url,
            host.c.name.label("host"),
            s.created_at,
            s.paused,
            *(s[name] for name in _SETTINGS),
            s.access,
            t.state,
            t.last_poll_at,
            t.not_before,
            t.polls,
            t.changes,
            t.failures,
            t.last_outcome,
            t.last_detail,
            t.redirect_url,
            t.redirect_count,
        )
        .join_from(site, site_state)
        .outerjoin(host, host.c.id == s.host_id)
    )


def _site(row: Any, tags: tuple[str, ...], seal: Seal) -> Site:
    """The site of a row; values that somebody spoiled by hand are shown as those of a new site."""
    access = NO_ACCESS if row.access is None else seal.open(row.access)
    numbers = {name: number(getattr(row, name), instead) for name, instead in _SETTINGS.items()}
    return Site(
        id=row.id,
        spec=SiteSpec(row.url, tags=tags, access=access, paused=row.paused, **numbers),
        host=row.host or "",
        state=SiteState.PAUSED if row.paused else _STATES.get(row.state, SiteState.ACTIVE),
        created_at=number(row.created_at, 0.0),
        last_poll_at=number(row.last_poll_at),
        next_poll_at=number(row.not_before),
        polls=number(row.polls, 0),
        changes=number(row.changes, 0),
        failures=number(row.failures, 0),
        last_outcome=_OUTCOMES.get(row.last_outcome),
        last_detail=row.last_detail,
        redirect_url=row.redirect_url,
        redirect_count=number(row.redirect_count, 0),
    )
