"""Sites: read, listed, added, changed and deleted, with what hangs on them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby, zip_longest
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, and_, bindparam, delete, exists, func, insert, select, text, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.inheritance import inherit
from pollerd.model import Site, SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.encoding import number, unpack_all
from pollerd.storage.encryption import Encryption
from pollerd.storage.engine import Database
from pollerd.storage.hosts import HostStore
from pollerd.storage.node_values import NEWS_CHANNEL, POLL_REQUEST, SETTINGS_POLL
from pollerd.storage.schedule import ScheduleStore
from pollerd.storage.schema import (
    deleted_url,
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
    site_text,
    site_times,
    source_site,
)
from pollerd.storage.selection_states import edit_of, follow_edit
from pollerd.storage.site_context import load_contexts
from pollerd.storage.site_imports import SiteImport
from pollerd.storage.site_lists import Count, SiteListing
from pollerd.storage.site_order import SiteOrder, retitle
from pollerd.storage.site_rows import check_spec, select_sites, site_of, stored_settings, tag_rows
from pollerd.storage.soft_delete import SoftDeletion, forget_site, is_soft_deleted, purge_at
from pollerd.storage.sources import forget_pauses, join
from pollerd.storage.statements import Statements, run, run_each
from pollerd.storage.tags import TagStore, names_among
from pollerd.storage.transactions import Subject, in_pieces, reads, writes
from pollerd.storage.undo import KeptCopy, KeptKind, keep, kept_copies
from pollerd.storage.values import (
    CHANGEABLE,
    AddResult,
    NewSettings,
    RestoreResult,
    SiteChanges,
    SiteContext,
    SiteFilter,
    SitePage,
    SiteRestore,
    StoredForecast,
)
from pollerd.texts import N_, _
from pollerd.urls import host_of

PIECE = 5_000
TROUBLED = 1_000
"""Sites in trouble are counted so far."""
_TROUBLES = (SiteState.BACKING_OFF, SiteState.BLOCKED, SiteState.GONE)
_REDIRECTING = 10
"""Sites that redirect to one URL, of which one may report its changes."""
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
    "reader": None,
    "no_text": None,
    "media": None,
    "lm_seen": None,
    "lm_good": 0,
    "lm_bad": 0,
    "redirect_url": None,
    "redirect_count": 0,
    "hidden_changes": 0,
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
Admit = Callable[[Sequence[SiteRestore], Mapping[str, Site]], None]
"""Called with every piece of an export and the existing sites by URL; raises if it cannot be accepted."""

_ASK = text(f"SELECT pg_notify('{NEWS_CHANNEL}', current_schema() || ' ' || :request || ' ' || :site_id)")


class SiteStore(Subject):
    """Sites: read, listed and changed."""

    def __init__(
        self,
        *,
        database: Database,
        sql: Statements,
        encryption: Encryption,
        imports: SiteImport,
        hosts: HostStore,
        soft_deletion: SoftDeletion,
    ) -> None:
        self._database, self._sql, self._encryption, self._import = database, sql, encryption, imports
        self.hosts = hosts
        """Hosts of sites."""
        self.tags = TagStore(database=database, sql=sql, encryption=encryption)
        """Tags of sites, and their settings."""
        self.schedule = ScheduleStore(database=database, sql=sql, tags=self.tags)
        """What sites are scheduled by."""
        self.soft_deletion = soft_deletion
        """Sites that a job deleted, and can bring back."""
        self.listing = SiteListing(sql)
        """Which sites fit a filter."""
        self._tags_of = (
            select(site_tag.c.site_id, site_tag.c.tag)
            .where(sql.in_list(site_tag.c.site_id, "sites"))
            .order_by(site_tag.c.site_id, site_tag.c.position, site_tag.c.tag)
        )
        self._at = select_sites().where(sql.in_list(site.c.url, "urls")).order_by(site.c.id)
        self._urls_at = select(site.c.url).where(sql.in_list(site.c.url, "urls"), ~is_soft_deleted(site.c.id))
        self._with_ids = select_sites().where(sql.in_list(site.c.id, "ids")).order_by(site.c.id)
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

    @reads
    def contexts(self, connection: Connection, site_ids: Sequence[int]) -> dict[int, SiteContext]:
        """Returns contexts by site id, in one query; deleted sites are missing."""
        tags, named = self.tags.in_force, self.tags.of_rules  # before the rows: see `TagStore.put`
        return load_contexts(connection, self._sql, self._encryption, site_ids, tags, named)

    @reads
    def get(self, connection: Connection, site_id: int) -> Site:
        """Returns the site. Raises `NotFoundError`."""
        sites = self._read(connection, select_sites().where(site.c.id == site_id))
        if not sites:
            raise NotFoundError(N_("site"), site_id)
        return sites[0]

    @reads
    def get_many(self, connection: Connection, site_ids: Sequence[int]) -> list[Site]:
        """Returns the sites with these ids, by id; missing ones are left out."""
        return self._read(connection, self._with_ids, {"ids": self._sql.id_list(site_ids)})

    @reads
    def find(self, connection: Connection, url: str) -> Site | None:
        """Returns the site at exactly this URL, or None."""
        sites = self._read(connection, select_sites().where(site.c.url == url))
        return sites[0] if sites else None

    @writes
    def keep_edit(self, connection: Connection, site_id: int, before: str, after: str, now: float) -> None:
        """Keeps for a day what counted on a site before an edit of its selections, and after it."""
        keep(connection, KeptKind.COUNTS, "", {"site": site_id, "before": before, "after": after}, now)

    @reads
    def last_edit(self, connection: Connection, site_id: int, selections: str, now: float) -> KeptCopy | None:
        """Returns the last edit that led to these selections of the site, if it can be undone."""
        of_site = (copy for copy in kept_copies(connection, [KeptKind.COUNTS], now) if copy.document["site"] == site_id)
        last = next(of_site, None)
        return last if last is not None and last.document["after"] == selections else None

    @reads
    def at(self, connection: Connection, urls: Sequence[str]) -> dict[str, Site]:
        """Returns the sites at these URLs, by URL; other URLs are missing."""
        sites = self._read(connection, self._at, {"urls": self._sql.text_list(urls)})
        return {row.spec.url: row for row in sites}

    @reads
    def redirecting_to(self, connection: Connection, urls: Sequence[str]) -> dict[str, list[int]]:
        """Returns the ids of sites that redirect permanently to these URLs, ascending, by URL; some of very many."""
        c, by_url = site_state.c, defaultdict[str, list[int]](list)
        for url in urls:
            statement = select(c.site_id).where(c.redirect_url == url).order_by(c.site_id).limit(_REDIRECTING)
            by_url[url] = list(connection.execute(statement).scalars())
        return by_url

    @reads
    def urls_at(self, connection: Connection, urls: Sequence[str]) -> set[str]:
        """Returns those of the URLs at which there are sites."""
        return set(connection.execute(self._urls_at, {"urls": self._sql.text_list(urls)}).scalars())

    @reads
    def crawled_among(self, connection: Connection, site_ids: Sequence[int]) -> list[int]:
        """Returns those of the sites that belong to the focused crawler."""
        statement = select(site.c.id).where(self._sql.in_list(site.c.id, "sites"), ROBOTS)
        return list(connection.execute(statement, {"sites": self._sql.id_list(site_ids)}).scalars())

    @reads
    def in_trouble(self, connection: Connection, limit: int, confirmations: int) -> tuple[list[Site], int]:
        """Returns sites that may need their user, `limit` at most, and how many there are, counted up to `TROUBLED`.

        Those of each kind by turns: redirected for good at `confirmations` polls in a row, without text, failing,
        blocked, gone. Paused ones need nobody.
        """
        c = site_state.c
        kinds = (
            (and_(c.redirect_url.is_not(None), c.redirect_count >= confirmations), c.redirect_url),
            (c.no_text.is_not(None), c.site_id),
            *((c.state == state.value, c.site_id) for state in _TROUBLES),
        )
        # Each in the order of its index: in another one databases would rather look at all sites.
        found = [
            connection.execute(
                select(c.site_id)
                .join(site, site.c.id == c.site_id)
                .where(fits, ~site.c.paused, ~is_soft_deleted(c.site_id))
                .order_by(order)
                .limit(TROUBLED)
            )
            .scalars()
            .all()
            for fits, order in kinds
        ]
        ids = list(dict.fromkeys(site_id for turn in zip_longest(*found) for site_id in turn if site_id is not None))
        sites = {known.id: known for known in self.get_many.within(connection, ids[:limit])}
        return [sites[site_id] for site_id in ids[:limit] if site_id in sites], min(len(ids), TROUBLED)

    @reads
    def titles(self, connection: Connection, site_ids: Iterable[int]) -> dict[int, str]:
        """Returns what the sites are called, by id: by the user, else by the page itself; those without are missing."""
        title = func.coalesce(site.c.title, site_text.c.page_title)
        statement = select(site.c.id, title).outerjoin(site_text, site_text.c.site_id == site.c.id)
        statement = statement.where(self._sql.in_list(site.c.id, "sites"))
        rows = connection.execute(statement, {"sites": self._sql.id_list(site_ids)})
        return {site_id: named for site_id, named in rows if named}

    @reads
    def of_users(self, connection: Connection, after: int, limit: int) -> list[Site]:
        """Returns sites with ids above `after`, by id, without those of the focused crawler."""
        return self._read(connection, select_sites().where(site.c.id > after, ~ROBOTS).order_by(site.c.id).limit(limit))

    @reads
    def stored_forecasts(self, connection: Connection, site_ids: Sequence[int]) -> dict[int, StoredForecast]:
        """Returns what was stored with their last polls of those of these sites that are there, by id."""
        s, state, times = site.c, site_state.c, site_times.c
        statement = select(s.id, s.paused, state.rate, times.next_poll_at, interest.c.learned_half_life)
        statement = statement.join_from(site, site_state).join(site_times, times.site_id == s.id)
        statement = statement.outerjoin(interest, interest.c.site_id == s.id)
        rows = connection.execute(
            statement.where(self._sql.in_list(s.id, "sites")), {"sites": self._sql.id_list(site_ids)}
        )
        forecasts = {}
        for row in rows:
            rate = number(row.rate, -1.0)
            forecasts[row.id] = StoredForecast(
                None if rate < 0 else rate,
                None if row.paused else number(row.next_poll_at, 0.0),
                number(row.learned_half_life),
            )
        return forecasts

    @reads
    def count(self, connection: Connection) -> int:
        """Returns the number of sites."""
        statement = select(func.count()).select_from(site_state)
        marked = connection.execute(select(func.count()).select_from(site_mark)).scalar_one()
        return int(connection.execute(statement).scalar_one()) - int(marked)

    @reads
    def any_selections(self, connection: Connection) -> bool:
        """Returns whether one of the newest 10,000 sites has selections of its own."""
        newest = select(site.c.selections).order_by(site.c.id.desc()).limit(10_000).subquery()
        some = select(exists().where(newest.c.selections.is_not(None)))
        return bool(connection.execute(some).scalar_one())

    def _read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any] | None = None
    ) -> list[Site]:
        rows = connection.execute(statement, parameters).all()
        tags: dict[int, list[str]] = defaultdict(list)
        if rows:
            sites = self._sql.id_list(row[0] for row in rows)
            for site_id, tag in connection.execute(self._tags_of, {"sites": sites}):
                tags[site_id].append(tag)
        return [site_of(row, tuple(tags[row[0]]), self._encryption) for row in rows]

    @reads
    def tags_of(self, connection: Connection, site_ids: Sequence[int]) -> dict[int, list[str]]:
        """Returns the tags of these sites in their order; sites without any are missing."""
        rows = connection.execute(self._tags_of, {"sites": self._sql.id_list(site_ids)})
        return {site_id: [tag for _, tag in of] for site_id, of in groupby(rows, key=lambda row: row[0])}

    # Lists.

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

    @reads
    def listed(
        self,
        connection: Connection,
        site_filter: SiteFilter,
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
        listed = self.listing.page(connection, site_filter, order, limit, cursor, count=count)
        by_id = {row.id: row for row in self.get_many.within(connection, listed.ids)} if listed.ids else {}
        counted = listed.count or Count(0, is_exact=True)
        return SitePage(
            items=[by_id[site_id] for site_id in listed.ids if site_id in by_id],
            next_cursor=listed.next_cursor,
            previous_cursor=listed.previous_cursor,
            count=None if listed.count is None else counted.sites,
            count_is_exact=counted.is_exact,
        )

    async def iterate(self) -> AsyncIterator[Site]:
        """Yields all sites by id, read in pieces."""
        cursor: str | None = None
        while True:
            page = await self.page(limit=1000, cursor=cursor)
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    # Sites that are added and changed.

    @writes
    def add(
        self,
        connection: Connection,
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
        result = self._import.add(connection, specs, hosts, now, respect_deleted=respect_deleted)
        if source is not None:
            join(connection, self._sql, source, specs, result, now)
        return result

    @writes
    def update(self, connection: Connection, before: Site | int, changes: SiteChanges, now: float) -> Site:
        """Changes settings; the next poll will be a full one. A new URL resets what was known of the old page, and
        `paused` False ends a backoff and brings back a gone site.

        before: the site as it was read, or its id.

        Raises `NotFoundError`, `InvalidValueError`, and `DuplicateError` for a URL in use.
        """
        stored = self.get.within(connection, before) if isinstance(before, int) else before
        site_id, tags = stored.id, self.tags.in_force
        unknown = changes.keys() - CHANGEABLE
        if unknown or ("url" in changes) != ("host" in changes):
            allowed = "among " + ", ".join(sorted(CHANGEABLE)) + _("; url and host together")
            raise InvalidValueError("changes", allowed, sorted(changes))
        fields: dict[str, Any] = {k: v for k, v in changes.items() if k in SiteSpec.__struct_fields__}
        spec = replace(stored.spec, **fields)
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
        edit = edit_of(inherit(stored.spec, tags), inherit(spec, tags), changes.get("rebase"))
        if edit is not None:
            follow_edit(connection, self._sql, [site_id], edit)
        if spec.url != stored.spec.url:
            self._require_free(connection, spec.url)
            self._forget(connection, site_id)
            values |= {"url": spec.url, "host_id": self._import.host_id(connection, changes["host"])}
        living = update(site).where(site.c.id == site_id, ~is_soft_deleted(site.c.id))
        if not connection.execute(living.values(values)).rowcount:
            raise NotFoundError(N_("site"), site_id)
        retitle(connection, self._sql, {site_id: None})
        if "tags" in changes:
            self._set_tags(connection, site_id, spec.tags)
        if changes.keys() & {"url", "paused"}:  # which change its state, too
            return self.get.within(connection, site_id)
        return dataclasses.replace(stored, spec=spec)

    @writes
    def edit_masks(
        self,
        connection: Connection,
        site_id: int,
        edit: Callable[[SiteContext, Mapping[int, bytes]], SiteContext | None],
        now: float,
    ) -> bool:
        """Changes what of a site is masked as noise, and what its next poll, a full one, is held against with it.

        edit: given the site's context and the contents that it names, as far as stored, returns what becomes of it;
        None changes nothing, which is returned as False. Raises `NotFoundError`.
        """
        locked = select(site.c.id).where(site.c.id == site_id).with_for_update()  # no commit in between
        connection.execute(locked)
        context = self.contexts.within(connection, [site_id]).get(site_id)
        if context is None:
            raise NotFoundError(N_("site"), site_id)
        named = (context.content_id, *(state.content_id for state in context.states))
        content_ids = sorted({content_id for content_id in named if content_id is not None})
        packed: list[Any] = run(connection, self._sql.contents, self._sql.id_list(content_ids))
        after = edit(context, {content_id: stored.content for content_id, stored in unpack_all(packed).items()})
        if after is None:
            return False
        if after.baseline.mask != context.baseline.mask:
            run_each(connection, self._sql.upsert_known_mask, [(site_id, after.baseline.mask, 0.0)])
        held = {"fingerprint": after.baseline.fingerprint, "raw_fingerprint": None, "etag": None, "last_modified": None}
        connection.execute(update(site_state).where(site_state.c.site_id == site_id).values(held))
        s = selection_state.c
        for state in after.states:
            known = {"mask": state.baseline.mask or None, "fingerprint": state.baseline.fingerprint}
            connection.execute(update(selection_state).where(s.site_id == site_id, s.name == state.name).values(known))
        connection.execute(update(site).where(site.c.id == site_id).values(settings_changed_at=now))
        return True

    @staticmethod
    def _forget(connection: Connection, site_id: int) -> None:
        forget_site(connection, site_id, _("its site was moved"))
        connection.execute(update(site_state).where(site_state.c.site_id == site_id).values(_FORGOTTEN))
        connection.execute(update(site_text).where(site_text.c.site_id == site_id).values(page_title=""))
        for table in (learned, mask, selection_state, reading, site_reads, interest):
            connection.execute(delete(table).where(table.c.site_id == site_id))

    def _require_free(self, connection: Connection, url: str) -> None:
        other = self.find.within(connection, url)
        if other is not None:
            raise DuplicateError(N_("site"), url, other.id)
        purge_at(connection, url)
        connection.execute(delete(deleted_url).where(deleted_url.c.url == url))

    @staticmethod
    def _set_tags(connection: Connection, site_id: int, tags: Sequence[str]) -> None:
        connection.execute(delete(site_tag).where(site_tag.c.site_id == site_id))
        if tags:
            connection.execute(insert(site_tag), tag_rows(site_id, tags))

    @writes
    def put_settings(self, connection: Connection, settings: Sequence[NewSettings], now: float) -> None:
        """Sets the settings of each site exactly; their next polls will be full ones. Missing sites are skipped.

        Raises `InvalidValueError` without writing anything.
        """
        for start in range(0, len(settings), PIECE):
            self._put_piece(connection, settings[start : start + PIECE], now)

    def _put_piece(self, connection: Connection, settings: Sequence[NewSettings], now: float) -> None:
        tags = self.tags.in_force
        ids = self._sql.id_list(setting.site_id for setting in settings)
        living = {
            row[0]: SiteSpec("", selections=row[1] or "", title=row[2] or "", render=row[3] or "")
            for row in connection.execute(self._living, {"sites": ids})
        }
        tagged = names_among(connection, self._sql, list(living), list(tags)) if tags else {}
        settings = [setting for setting in settings if setting.site_id in living]
        if not settings:
            return
        for entry in settings:
            check_spec(entry.spec)
            before = replace(living[entry.site_id], tags=tuple(tagged.get(entry.site_id, ())))
            edit = edit_of(inherit(before, tags), inherit(entry.spec, tags), None)
            if edit is not None:
                follow_edit(connection, self._sql, [entry.site_id], edit)
        rows = [{"key": setting.site_id, **self._values(setting.spec, now)} for setting in settings]
        columns: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name != "key"}
        connection.execute(update(site).where(site.c.id == bindparam("key")).values(columns), rows)
        renamed = (setting for setting in settings if setting.spec.title != living[setting.site_id].title)
        retitle(connection, self._sql, dict.fromkeys(setting.site_id for setting in renamed))
        connection.execute(self._untag, {"sites": ids})
        new_tags = [row for setting in settings for row in tag_rows(setting.site_id, setting.spec.tags)]
        if new_tags:
            connection.execute(insert(site_tag), new_tags)
        resumed = [setting.site_id for setting in settings if setting.resumed]
        connection.execute(self._revive, {"sites": self._sql.id_list(resumed)})
        forget_pauses(connection, self._sql, resumed)

    def _values(self, spec: SiteSpec, now: float) -> dict[str, Any]:
        sealed = self._encryption.encrypt(spec.access) if spec.access else None
        return {**stored_settings(spec), "paused": spec.paused, "access": sealed, "settings_changed_at": now}

    def pause(self, tag: str | None, paused: bool) -> AsyncIterator[tuple[NDArray[np.int64], int]]:
        """Pauses or resumes all sites, or all with this tag, in pieces, so that commits can run in between.

        Yields the ids of each piece, int64[k], and how many of them changed. Changes nothing else: a backoff continues,
        and a gone site stays gone.
        """
        return in_pieces(lambda after: self._pause_after(tag, paused, after), lambda piece: piece[0], after=0)

    @writes
    def _pause_after(
        self, connection: Connection, tag: str | None, paused: bool, after: int
    ) -> tuple[NDArray[np.int64], int]:
        ids = self.tags.ids_after.within(connection, tag, after)
        changed = self._pause if paused else self._resume
        forget_pauses(connection, self._sql, ids)
        return ids, connection.execute(changed, {"sites": self._sql.id_list(ids)}).rowcount if len(ids) else 0

    @writes
    def pause_some(self, connection: Connection, site_ids: Sequence[int], paused: bool) -> None:
        """Pauses or resumes these sites, and changes nothing else."""
        forget_pauses(connection, self._sql, site_ids)
        connection.execute(self._pause if paused else self._resume, {"sites": self._sql.id_list(site_ids)})

    @writes
    def ask_to_poll(self, connection: Connection, site_id: int, *, anew: bool = False) -> None:
        """Asks the node that polls the site to poll it before all others; forgotten if none does now."""
        connection.execute(_ASK, {"request": SETTINGS_POLL if anew else POLL_REQUEST, "site_id": str(site_id)})

    # Sites that are deleted, and URLs that users deleted.

    @writes
    def delete(self, connection: Connection, site_id: int, now: float) -> None:
        """Deletes a site and all its rows, and marks its URL as deleted. Raises `NotFoundError`."""
        gone = delete(site).where(site.c.id == site_id, ~is_soft_deleted(site.c.id)).returning(site.c.url)
        url = connection.execute(gone).scalar_one_or_none()
        if url is None:
            raise NotFoundError(N_("site"), site_id)
        forget_site(connection, site_id, _("its site was deleted"))
        remember = self._sql.insert_for(deleted_url).values(url=url, deleted_at=now)
        connection.execute(remember.on_conflict_do_update(index_elements=["url"], set_={"deleted_at": now}))

    @writes
    def discard(self, connection: Connection, site_ids: Sequence[int]) -> None:
        """Deletes these sites with all their rows; a list or source adds them again. Missing ones are skipped."""
        for site_id in site_ids:
            forget_site(connection, site_id, _("its source was removed"))
        connection.execute(self._delete_many, {"sites": self._sql.id_list(site_ids)})

    @reads
    def missing_from(self, connection: Connection, urls: Iterable[str]) -> list[tuple[int, str]]:
        """Returns id and URL of the sites that `delete_missing` would delete, by id.

        Those of the focused crawler, those that sources added, and sitemaps that an index lists, are left out.
        """
        url_set = urls if isinstance(urls, Set) else set(urls)
        rows = connection.execute(
            select(site.c.id, site.c.url)
            .where(~ROBOTS, ~_BROUGHT, ~_LISTED_BY_INDEX, ~is_soft_deleted(site.c.id))
            .order_by(site.c.id)
        )
        return [(site_id, url) for site_id, url in rows if url not in url_set]

    @writes
    def delete_missing(self, connection: Connection, urls: Iterable[str]) -> list[int]:
        """Deletes sites whose URL is not among these; returns their ids. Such a URL is added again when listed."""
        gone = [site_id for site_id, _url in self.missing_from.within(connection, urls)]
        for start in range(0, len(gone), PIECE):
            connection.execute(self._delete_many, {"sites": self._sql.id_list(gone[start : start + PIECE])})
        return gone

    @reads
    def deleted_among(self, connection: Connection, urls: Sequence[str]) -> set[str]:
        """Returns the URLs among these that a user deleted."""
        return set(connection.execute(self._deleted_at, {"urls": self._sql.text_list(urls)}).scalars())

    @reads
    def deleted_urls(self, connection: Connection, after: str, limit: int) -> Sequence[tuple[str, float]]:
        """Returns URLs that a user deleted, with times (epoch s), by URL, after `after`."""
        c = deleted_url.c
        rows = connection.execute(select(c.url, c.deleted_at).where(c.url > after).order_by(c.url).limit(limit))
        return [(url, at) for url, at in rows]

    @writes
    def mark_deleted(
        self, connection: Connection, pieces: Callable[[], Iterator[list[tuple[str, float]]]]
    ) -> tuple[int, int, int]:
        """Marks URLs as deleted by a user, all or none; those that are sites are skipped.

        Returns how many were added, changed (none) and unchanged.
        """
        added = unchanged = 0
        for piece in pieces():
            urls = [url for url, _deleted_at in piece]
            known = self.at.within(connection, urls).keys() | self.deleted_among.within(connection, urls)
            rows = [{"url": url, "deleted_at": at} for url, at in dict(piece).items() if url not in known]
            if rows:
                connection.execute(self._sql.insert_for(deleted_url).on_conflict_do_nothing(), rows)
            added, unchanged = added + len(rows), unchanged + len(piece) - len(rows)
        return added, 0, unchanged

    # An export is restored, each kind of its contents in one transaction: all or nothing.

    async def restore(
        self, pieces: Callable[[], Iterator[list[SiteRestore]]], admit: Admit, now: float
    ) -> RestoreResult:
        """Adds sites, and applies the settings of the export to existing ones, all or none.

        Raises `InvalidValueError`, and what `admit` raises for a piece, without writing anything.
        """
        return await self._restore(pieces, self._database.in_loop(admit), now)

    @writes
    def _restore(
        self, connection: Connection, pieces: Callable[[], Iterator[list[SiteRestore]]], admit: Admit, now: float
    ) -> RestoreResult:
        result = RestoreResult()
        for piece in pieces():
            existing = self.at.within(connection, [restore.spec.url for restore in piece])
            admit(piece, existing)
            fresh = [restore.spec for restore in piece if restore.spec.url not in existing]
            hosts = [host_of(spec.url) for spec in fresh]
            added = self._import.add(connection, fresh, hosts, now, respect_deleted=False)
            back = set(added.returned)
            returned = [NewSettings(id_, fresh[i], resumed=False) for id_, i in added.existing if id_ in back]
            self.put_settings.within(connection, returned, now)
            result.touched.extend(back)
            result.added += len(back)
            differing = [
                _settled(existing[restore.spec.url], restore) for restore in piece if _differs(existing, restore)
            ]
            self.put_settings.within(connection, differing, now)
            result.touched.extend(site_id for site_id, _i, _host_id in added.added)
            result.touched.extend(restore.site_id for restore in differing)
            result.added += len(added.added)
            result.changed += len(differing)
            result.unchanged += len(piece) - len(added.added) - len(back) - len(differing)
        return result


def _differs(existing: dict[str, Site], restore: SiteRestore) -> bool:
    site = existing.get(restore.spec.url)
    return site is not None and restore.changes(site.spec)


def _settled(site: Site, restore: SiteRestore) -> NewSettings:
    spec = restore.over(site.spec)
    return NewSettings(site.id, spec, resumed=site.spec.paused and not spec.paused)
