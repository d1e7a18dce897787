"""Sites as rows, read and changed for the API and the command line."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, bindparam, delete, exists, func, insert, select, text, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.inheritance import inherit
from pollerd.model import OutcomeKind, Site, SiteState
from pollerd.site_settings import COLUMNS, NO_ACCESS, USABLE, Kind, RespectTtl, SiteSpec, Tags, Windows
from pollerd.storage.encoding import number, storable
from pollerd.storage.encryption import Encryption
from pollerd.storage.schedule import decode_windows, encode_windows, ids_piece
from pollerd.storage.schema import (
    deleted_url,
    host,
    interest,
    learned,
    mask,
    page,
    reading,
    selection_state,
    signal_source,
    site,
    site_mark,
    site_reads,
    site_state,
    site_tag,
    source_site,
)
from pollerd.storage.selection_states import edit_of, follow_edit
from pollerd.storage.site_lists import Count, SiteListing
from pollerd.storage.site_order import SiteOrder, text_update
from pollerd.storage.soft_delete import forget_site, is_soft_deleted, purge_at
from pollerd.storage.sources import forget_pauses
from pollerd.storage.statements import Statements, run_each
from pollerd.storage.tags import names_among
from pollerd.storage.values import CHANGEABLE, NewSettings, SiteChanges, SiteFilter, SitePage

_numbers = attrgetter(*USABLE)
_UNSET = (None,) * len(USABLE)


def check_spec(spec: SiteSpec) -> None:
    """Raises `InvalidValueError`, naming the field, if a spec cannot be stored."""
    numbers = _numbers(spec)
    if numbers != _UNSET:  # most sites of a list have only a URL
        for usable, value in zip(USABLE.values(), numbers, strict=True):
            if value is not None:
                usable.check(value)
        if None not in (spec.min_interval, spec.max_interval) and spec.min_interval > spec.max_interval:  # type: ignore[operator]
            raise InvalidValueError("max_interval", f"at least min_interval ({spec.min_interval})", spec.max_interval)
    if not spec.url or storable(spec.url) != spec.url:
        raise InvalidValueError("url", "a URL without NUL or lone surrogates", spec.url)
    for field in ("selections", "render", "title"):
        given: str = getattr(spec, field)
        if storable(given) != given:
            raise InvalidValueError(field, "without NUL or lone surrogates", "others")
    for tag in spec.tags:
        if not tag or storable(tag) != tag:
            raise InvalidValueError("tags", "words without NUL or lone surrogates", tag)


PIECE = 5_000
_STATES = {state.value: state for state in SiteState}
_REDIRECTING = 10
"""Sites that redirect to one URL, of which one may report its changes."""
_TTL_TRUST = {float(one): one for one in RespectTtl}
_OUTCOMES = {kind.value: kind for kind in OutcomeKind}
# Resuming a site restarts it, whatever its state.
_REVIVED: dict[str, Any] = {"state": SiteState.ACTIVE.value, "not_before": None, "failures": 0}
# What was known of the page at the old URL does not apply to the new one.
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
    "ttl": None,
    "ttl_broken": False,
    "items_shown": None,
    "feed_window": None,
    "rate": -1.0,
    "last_change_at": 0.0,
}


ROBOTS = exists().where(page.c.site_id == site.c.id, page.c.own)
"""Whether a site belongs to the focused crawler, not to the user."""
_BROUGHT = exists().where(source_site.c.site_id == site.c.id, source_site.c.added)
_LISTED_BY_INDEX = site.c.id.in_(select(signal_source.c.site_id).where(signal_source.c.made_site))
"""Whether a source added the site; it goes with its source."""


class Sites:
    """The site table and its dependent tables."""

    def __init__(self, sql: Statements, encryption: Encryption) -> None:
        self._sql, self._encryption = sql, encryption
        self.listing = SiteListing(sql)
        """Which sites a list shows, and in which order."""
        self._tags_of = (
            select(site_tag.c.site_id, site_tag.c.tag)
            .where(sql.in_list(site_tag.c.site_id, "sites"))
            .order_by(site_tag.c.site_id, site_tag.c.position, site_tag.c.tag)
        )
        self._at = _sites().where(sql.in_list(site.c.url, "urls")).order_by(site.c.id)
        self._urls_at = select(site.c.url).where(sql.in_list(site.c.url, "urls"), ~is_soft_deleted(site.c.id))
        self._with_ids = _sites().where(sql.in_list(site.c.id, "ids")).order_by(site.c.id)
        self._deleted_at = select(deleted_url.c.url).where(sql.in_list(deleted_url.c.url, "urls"))
        self._living = select(site.c.id, site.c.selections, site.c.title, site.c.render).where(
            sql.in_list(site.c.id, "sites")
        )
        self._untag = delete(site_tag).where(sql.in_list(site_tag.c.site_id, "sites"))
        self._revive = update(site_state).where(sql.in_list(site_state.c.site_id, "sites")).values(_REVIVED)
        among = sql.in_list(site.c.id, "sites")
        self._pause = update(site).where(among, site.c.paused.is_(False)).values(paused=True)
        self._resume = update(site).where(among, site.c.paused.is_(True)).values(paused=False)
        self._delete_many = delete(site).where(sql.in_list(site.c.id, "sites"))

    def get(self, connection: Connection, site_id: int) -> Site:
        """Returns the site. Raises `NotFoundError`."""
        found = self._read(connection, _sites().where(site.c.id == site_id))
        if not found:
            raise NotFoundError("site", site_id)
        return found[0]

    def find(self, connection: Connection, url: str) -> Site | None:
        """Returns the site at exactly this URL, or None."""
        found = self._read(connection, _sites().where(site.c.url == url))
        return found[0] if found else None

    def at(self, connection: Connection, urls: Sequence[str]) -> dict[str, Site]:
        """Returns the sites at these URLs, by URL."""
        found = self._read(connection, self._at, {"urls": self._sql.text_list(urls)})
        return {one.spec.url: one for one in found}

    def redirecting_to(self, connection: Connection, urls: Sequence[str]) -> dict[str, list[int]]:
        """Returns the ids of sites that redirect permanently to these URLs, ascending, by URL; some of very many."""
        c, found = site_state.c, defaultdict[str, list[int]](list)
        for url in urls:
            wanted = select(c.site_id).where(c.redirect_url == url).order_by(c.site_id).limit(_REDIRECTING)
            found[url] = list(connection.execute(wanted).scalars())
        return found

    def urls_at(self, connection: Connection, urls: Sequence[str]) -> set[str]:
        """Returns those of the URLs at which there are sites."""
        return set(connection.execute(self._urls_at, {"urls": self._sql.text_list(urls)}).scalars())

    def get_many(self, connection: Connection, site_ids: Sequence[int]) -> list[Site]:
        """Returns the sites with these ids, by id."""
        return self._read(connection, self._with_ids, {"ids": self._sql.id_list(site_ids)})

    def users(self, connection: Connection, after: int, limit: int) -> list[Site]:
        """Returns sites with ids above `after`, by id, without those of the focused crawler."""
        return self._read(connection, _sites().where(site.c.id > after, ~ROBOTS).order_by(site.c.id).limit(limit))

    def deleted(self, connection: Connection, urls: Sequence[str]) -> set[str]:
        """Returns the URLs among these that a user deleted."""
        return set(connection.execute(self._deleted_at, {"urls": self._sql.text_list(urls)}).scalars())

    def page(
        self,
        connection: Connection,
        wanted: SiteFilter,
        order: SiteOrder | None,
        limit: int,
        cursor: str | None,
        *,
        count: bool,
    ) -> SitePage:
        """Returns a page of a list of sites, as `SiteListing.page` finds it."""
        found = self.listing.page(connection, wanted, order, limit, cursor, count=count)
        there = {one.id: one for one in self.get_many(connection, found.ids)} if found.ids else {}
        counted = found.count or Count(0, is_exact=True)
        return SitePage(
            items=[there[site_id] for site_id in found.ids if site_id in there],
            next_cursor=found.next_cursor,
            previous_cursor=found.previous_cursor,
            count=None if found.count is None else counted.sites,
            count_is_exact=counted.is_exact,
        )

    def _read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any] | None = None
    ) -> list[Site]:
        rows = connection.execute(statement, parameters).all()
        tags: dict[int, list[str]] = defaultdict(list)
        if rows:
            sites = self._sql.id_list(row[0] for row in rows)
            for site_id, tag in connection.execute(self._tags_of, {"sites": sites}):
                tags[site_id].append(tag)
        return [_site(row, tuple(tags[row[0]]), self._encryption) for row in rows]

    def update(
        self,
        connection: Connection,
        host_id_of: Callable[[str], int],
        before: Site,
        changes: SiteChanges,
        now: float,
        tags: Tags,
    ) -> Site:
        """Changes settings. before: the site as it was read; tags: those that have some.

        Raises `NotFoundError`, `InvalidValueError`, and `DuplicateError` for a URL in use.
        """
        site_id = before.id
        unknown = changes.keys() - CHANGEABLE
        if unknown or ("url" in changes) != ("host" in changes):
            allowed = "among " + ", ".join(sorted(CHANGEABLE)) + "; url and host together"
            raise InvalidValueError("changes", allowed, sorted(changes))
        given: dict[str, Any] = {k: v for k, v in changes.items() if k in SiteSpec.__struct_fields__}
        spec = replace(before.spec, **given)
        check_spec(spec)
        # Only what changes: another node may have changed the rest since it was read.
        values = {name: value for name, value in stored_settings(spec).items() if name in changes}
        values["settings_changed_at"] = now
        if "access" in changes:
            values["access"] = self._encryption.encrypt(spec.access) if spec.access else None
        if "paused" in changes:
            values["paused"] = bool(changes["paused"])
            forget_pauses(connection, self._sql, [site_id])
            if not values["paused"]:
                connection.execute(update(site_state).where(site_state.c.site_id == site_id).values(_REVIVED))
        edit = edit_of(inherit(before.spec, tags), inherit(spec, tags), changes.get("rebase"))
        if edit is not None:
            follow_edit(connection, self._sql, [site_id], edit)
        if spec.url != before.spec.url:
            self._require_free(connection, spec.url)
            self._forget(connection, site_id)
            values |= {"url": spec.url, "host_id": host_id_of(changes["host"])}
        living = update(site).where(site.c.id == site_id, ~is_soft_deleted(site.c.id))
        if not connection.execute(living.values(values)).rowcount:
            raise NotFoundError("site", site_id)
        renamed = [text_update(site_id, spec)] if changes.keys() & {"url", "title"} else []
        run_each(connection, self._sql.update_text, renamed)
        if "tags" in changes:
            self._set_tags(connection, site_id, spec.tags)
        if changes.keys() & {"url", "paused"}:  # which change its state, too
            return self.get(connection, site_id)
        return dataclasses.replace(before, spec=spec)

    @staticmethod
    def _forget(connection: Connection, site_id: int) -> None:
        forget_site(connection, site_id, "its site was moved")
        connection.execute(update(site_state).where(site_state.c.site_id == site_id).values(_FORGOTTEN))
        for table in (learned, mask, selection_state, reading, site_reads, interest):
            connection.execute(delete(table).where(table.c.site_id == site_id))

    def pause_piece(
        self, connection: Connection, tag: str | None, paused: bool, after: int
    ) -> tuple[NDArray[np.int64], int]:
        """Pauses or resumes some sites with ids above `after`, all or those with this tag.

        Returns their ids, int64[k], ascending, and how many of them changed; k = 0: there are no more.
        """
        ids = ids_piece(connection, tag, after)
        changed = self._pause if paused else self._resume
        forget_pauses(connection, self._sql, ids)
        return ids, connection.execute(changed, {"sites": self._sql.id_list(ids)}).rowcount if len(ids) else 0

    def pause_some(self, connection: Connection, site_ids: Sequence[int], paused: bool) -> None:
        """Pauses or resumes these sites, and changes nothing else."""
        forget_pauses(connection, self._sql, site_ids)
        connection.execute(self._pause if paused else self._resume, {"sites": self._sql.id_list(site_ids)})

    def crawled_among(self, connection: Connection, site_ids: Sequence[int]) -> list[int]:
        """Returns those of the sites that belong to the focused crawler."""
        wanted = select(site.c.id).where(self._sql.in_list(site.c.id, "sites"), ROBOTS)
        return list(connection.execute(wanted, {"sites": self._sql.id_list(site_ids)}).scalars())

    def _require_free(self, connection: Connection, url: str) -> None:
        other = self.find(connection, url)
        if other is not None:
            raise DuplicateError("site", url, other.id)
        purge_at(connection, url)
        connection.execute(delete(deleted_url).where(deleted_url.c.url == url))

    def put_settings(self, connection: Connection, settings: Sequence[NewSettings], now: float, tags: Tags) -> None:
        """Sets the settings of each site exactly; sites deleted meanwhile are skipped. tags: those that have some."""
        for start in range(0, len(settings), PIECE):
            self._put_piece(connection, settings[start : start + PIECE], now, tags)

    def _put_piece(self, connection: Connection, settings: Sequence[NewSettings], now: float, tags: Tags) -> None:
        ids = self._sql.id_list(one.site_id for one in settings)
        living = {
            row[0]: SiteSpec("", selections=row[1] or "", title=row[2] or "", render=row[3] or "")
            for row in connection.execute(self._living, {"sites": ids})
        }
        tagged = names_among(connection, self._sql, list(living), list(tags)) if tags else {}
        settings = [one for one in settings if one.site_id in living]
        if not settings:
            return
        for one in settings:
            check_spec(one.spec)
            before = replace(living[one.site_id], tags=tuple(tagged.get(one.site_id, ())))
            edit = edit_of(inherit(before, tags), inherit(one.spec, tags), None)
            if edit is not None:
                follow_edit(connection, self._sql, [one.site_id], edit)
        rows = [{"key": one.site_id, **self._values(one.spec, now)} for one in settings]
        columns: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name != "key"}
        connection.execute(update(site).where(site.c.id == bindparam("key")).values(columns), rows)
        renamed = [one for one in settings if one.spec.title != living[one.site_id].title]
        run_each(connection, self._sql.update_text, [text_update(one.site_id, one.spec) for one in renamed])
        connection.execute(self._untag, {"sites": ids})
        tag_rows = [row for one in settings for row in _tag_rows(one.site_id, one.spec.tags)]
        if tag_rows:
            connection.execute(insert(site_tag), tag_rows)
        resumed = [one.site_id for one in settings if one.resumed]
        connection.execute(self._revive, {"sites": self._sql.id_list(resumed)})
        forget_pauses(connection, self._sql, resumed)

    def _values(self, spec: SiteSpec, now: float) -> dict[str, Any]:
        sealed = self._encryption.encrypt(spec.access) if spec.access else None
        return {**stored_settings(spec), "paused": spec.paused, "access": sealed, "settings_changed_at": now}

    @staticmethod
    def _set_tags(connection: Connection, site_id: int, tags: Sequence[str]) -> None:
        connection.execute(delete(site_tag).where(site_tag.c.site_id == site_id))
        if tags:
            connection.execute(insert(site_tag), _tag_rows(site_id, tags))

    def delete(self, connection: Connection, site_id: int, now: float) -> None:
        """Deletes a site and all its rows, and marks its URL as deleted. Raises `NotFoundError`."""
        gone = delete(site).where(site.c.id == site_id, ~is_soft_deleted(site.c.id)).returning(site.c.url)
        url = connection.execute(gone).scalar_one_or_none()
        if url is None:
            raise NotFoundError("site", site_id)
        forget_site(connection, site_id, "its site was deleted")
        remember = self._sql.insert_for(deleted_url).values(url=url, deleted_at=now)
        connection.execute(remember.on_conflict_do_update(index_elements=["url"], set_={"deleted_at": now}))

    def discard(self, connection: Connection, site_ids: Sequence[int]) -> None:
        """Deletes sites with all their rows, without marking their URLs as deleted."""
        for site_id in site_ids:
            forget_site(connection, site_id, "its source was removed")
        connection.execute(self._delete_many, {"sites": self._sql.id_list(site_ids)})

    @staticmethod
    def missing(connection: Connection, urls: Iterable[str]) -> list[tuple[int, str]]:
        """Returns id and URL of every site whose URL is not among these, by id.

        Those of the focused crawler, those that sources added, and sitemaps that an index lists, are left out.
        """
        wanted = urls if isinstance(urls, Set) else set(urls)
        rows = connection.execute(
            select(site.c.id, site.c.url)
            .where(~ROBOTS, ~_BROUGHT, ~_LISTED_BY_INDEX, ~is_soft_deleted(site.c.id))
            .order_by(site.c.id)
        )
        return [(site_id, url) for site_id, url in rows if url not in wanted]

    def delete_missing(self, connection: Connection, urls: Iterable[str]) -> list[int]:
        """Deletes sites whose URL is not among these; the list may add them again. Returns their ids.

        Sites of the focused crawler stay, those that sources added, and sitemaps that an index lists.
        """
        gone = [site_id for site_id, _ in self.missing(connection, urls)]
        for start in range(0, len(gone), PIECE):
            connection.execute(self._delete_many, {"sites": self._sql.id_list(gone[start : start + PIECE])})
        return gone


def _tag_rows(site_id: int, tags: Iterable[str]) -> list[dict[str, Any]]:
    return [{"site_id": site_id, "tag": tag, "position": place} for place, tag in enumerate(dict.fromkeys(tags))]


def _windows(text: str | None) -> Windows | None:
    """Returns stored windows; none in place of those damaged by hand, which the daemon reports."""
    try:
        return None if text is None else decode_windows(text)
    except ValueError:
        return None


def count_sites(connection: Connection) -> int:
    """Returns the number of sites."""
    there = select(func.count()).select_from(site_state)
    marked = connection.execute(select(func.count()).select_from(site_mark)).scalar_one()
    return int(connection.execute(there).scalar_one()) - int(marked)


def counts_by_state(connection: Connection) -> dict[SiteState, int]:
    """Returns the number of sites by state, with every state."""
    statement = (
        select(site.c.paused, site_state.c.state, func.count())
        .join_from(site, site_state)
        .where(~is_soft_deleted(site.c.id))
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
            *(s[name] for name in COLUMNS),
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
        .where(~is_soft_deleted(s.id))
    )


def stored_settings(spec: SiteSpec) -> dict[str, Any]:
    """Returns the values of `COLUMNS`: empty texts as NULL."""
    values = {name: value if (value := getattr(spec, name)) != "" else None for name in COLUMNS}
    return {**values, "windows": encode_windows(spec.windows)}


def _setting(kind: Kind, value: Any) -> Any:
    """Returns the value of a column as `SiteSpec` holds it."""
    match kind:
        case Kind.NUMBER | Kind.SECONDS | Kind.SHARE:
            return number(value)
        case Kind.TRUST:
            return _TTL_TRUST.get(number(value))
        case Kind.WINDOWS:
            return _windows(value)
        case Kind.SWITCH:
            return value
    return value or ""


def _site(row: Any, tags: tuple[str, ...], encryption: Encryption) -> Site:
    """Returns the site of a row; values damaged by hand become those of a new site."""
    access = NO_ACCESS if row.access is None else encryption.decrypt(row.access)
    settings = {name: _setting(one.kind, getattr(row, name)) for name, one in COLUMNS.items()}
    return Site(
        id=row.id,
        spec=SiteSpec(row.url, tags=tags, access=access, paused=row.paused, **settings),
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


# Requests to the node that polls a site to poll it at once.

NEWS_CHANNEL = "pollerd_news"
"""Channel on which PostgreSQL tells the nodes of a database what happens."""
POLL_REQUEST = "poll_request"
SETTINGS_POLL = "settings_poll"
"""The same for a site whose settings have changed: it is not left alone because it failed before."""
_ASK = text(f"SELECT pg_notify('{NEWS_CHANNEL}', current_schema() || ' ' || :request || ' ' || :site_id)")


def ask_to_poll(connection: Connection, site_id: int, *, anew: bool = False) -> None:
    """Notifies all nodes with the commit of this transaction. anew: its settings have changed."""
    connection.execute(_ASK, {"request": SETTINGS_POLL if anew else POLL_REQUEST, "site_id": str(site_id)})
