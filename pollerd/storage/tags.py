"""Settings of tags: one row per tag, and the settings that their sites inherit, as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, exists, select, update

from pollerd.errors import PermanentError
from pollerd.inheritance import inherit, of_tags
from pollerd.site_settings import INHERITED, NO_ACCESS, NUMERIC_SETTINGS, SiteSpec, Tags, TagSettings, Windows
from pollerd.storage.encryption import Encryption
from pollerd.storage.engine import Database
from pollerd.storage.schema import site, site_tag, tag
from pollerd.storage.selection_states import SettingsEdit, edit_of, follow_edit
from pollerd.storage.site_rows import OF_SITE, WindowsRead, numbers_of, rows_after, usable_windows
from pollerd.storage.soft_delete import is_soft_deleted
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, in_pieces, reads, writes
from pollerd.storage.values import Rebase, ScheduleRows, SettingsColumns
from pollerd.texts import _


class TagStore(Subject):
    """Tags: which sites have them, and the settings that some of them have."""

    def __init__(self, *, database: Database, sql: Statements, encryption: Encryption) -> None:
        self._database, self._sql, self._encryption = database, sql, encryption
        self.in_force: Tags = {}
        """The tags that have settings, since `load`; read, and never written, by everybody else."""
        self.of_rules: frozenset[str] = frozenset()
        """Tags of which contexts say whether their sites have them."""

    async def load(self) -> Tags:
        """Reads the settings of all tags, by name; from then on `in_force` holds them."""
        self.in_force = await self._stored()
        return self.in_force

    @reads
    def _stored(self, connection: Connection) -> dict[str, TagSettings]:
        c = tag.c
        rows = connection.execute(select(c.name, c.settings, c.access, c.changed_at).order_by(c.name))
        return {row.name: _tag(row, self._encryption) for row in rows}

    async def put(self, settings: TagSettings, *, sends: bool, rebase: Rebase | None = None) -> None:
        """Stores the settings of a tag in place of those that it had.

        sends: what its sites send, or what of the answers counts, has changed; their next polls will be full ones.
        rebase: as for `SiteChanges`. Raises `InvalidValueError` for secrets without a key.
        """
        with self._in_force({**self.in_force, settings.name: settings}) as (before, after):
            await self._put(settings, sends, before, after, rebase if sends else None)

    @writes
    def _put(
        self,
        connection: Connection,
        settings: TagSettings,
        sends: bool,
        before: Tags,
        after: Tags,
        rebase: Rebase | None,
    ) -> None:
        values = {
            "settings": msgspec.json.encode(settings.settings).decode(),
            "access": self._encryption.encrypt(settings.access) if settings.access else None,
            "changed_at": settings.changed_at,
        }
        statement = self._sql.insert_for(tag).values(name=settings.name, **values)
        connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))
        if sends:
            _mark(connection, settings.name, settings.changed_at)
        self._follow(connection, settings.name, before, after, rebase)

    async def delete(self, name: str, now: float, *, sends: bool) -> None:
        """Deletes the settings of a tag; its sites keep it. sends: as for `put`."""
        with self._in_force({other: settings for other, settings in self.in_force.items() if other != name}) as (
            before,
            after,
        ):
            await self._delete(name, now, sends, before, after)

    @writes
    def _delete(self, connection: Connection, name: str, now: float, sends: bool, before: Tags, after: Tags) -> None:
        connection.execute(delete(tag).where(tag.c.name == name))
        if sends:
            _mark(connection, name, now)
        self._follow(connection, name, before, after, None)

    @contextmanager
    def _in_force(self, after: Tags) -> Iterator[tuple[Tags, Tags]]:
        """Puts tags in force before they are stored: a context read meanwhile is never newer than its access."""
        before, self.in_force = self.in_force, after
        try:
            yield before, after
        except BaseException:
            self.in_force = before
            raise

    def _follow(self, connection: Connection, name: str, before: Tags, after: Tags, rebase: Rebase | None) -> None:
        """Makes the sites of a tag follow an edit of its selections and its `render`."""
        tag_before, tag_after = (tags[name].settings if name in tags else {} for tags in (before, after))
        if all(tag_before.get(field) == tag_after.get(field) for field in ("selections", "render")):
            return
        known, last = {**before, **after}, -1
        while len(ids := self.ids_after.within(connection, name, last)):
            last = int(ids[-1])
            tagged = dict(names_of(connection, int(ids[0]), last, known))
            own = select(site.c.id, site.c.selections, site.c.render).where(self._sql.in_list(site.c.id, "sites"))
            alike: defaultdict[SettingsEdit, list[int]] = defaultdict(list)
            for site_id, selections, render in connection.execute(own, {"sites": self._sql.id_list(ids)}):
                spec = SiteSpec("", selections=selections or "", render=render or "", tags=tagged.get(site_id, ()))
                edit = edit_of(inherit(spec, before), inherit(spec, after), rebase)
                if edit is not None:
                    alike[edit].append(site_id)
            for edit, site_ids in alike.items():
                follow_edit(connection, self._sql, site_ids, edit)

    def tagged(self, name: str, tags: Tags) -> AsyncIterator[tuple[SettingsColumns, dict[int, str]]]:
        """Yields what the sites of a tag are polled by while tags have these settings, ordered by id, in pieces.

        Each piece comes with what is wrong with rows that hold an unreadable value, by site id.
        """
        return in_pieces(lambda after: self._tagged_after(name, tags, after), lambda piece: piece[0].site_id)

    @reads
    def _tagged_after(
        self, connection: Connection, name: str, tags: Tags, after: int
    ) -> tuple[SettingsColumns, dict[int, str]]:
        faults: dict[int, str] = {}
        read, ids = WindowsRead(), self.ids_after.within(connection, name, after)
        fields = (*(field for field in OF_SITE if field.name in NUMERIC_SETTINGS), read.field())
        columns = [site.c[field.name] for field in fields]
        statement = select(site.c.id, *columns).where(self._sql.in_list(site.c.id, "sites")).order_by(site.c.id)
        with connection.execute(statement, {"sites": self._sql.id_list(ids)}) as result:
            rows = result.cursor.fetchall()
        tagged_ids, *values = list(zip(*rows, strict=True)) or [()] * (1 + len(fields))
        numbers = {
            field.name: field.column(column, tagged_ids, faults) for field, column in zip(fields, values, strict=True)
        }
        site_ids = np.array(tagged_ids, np.int64)
        piece = SettingsColumns(site_ids, numbers, read.of_sites(site_ids, numbers.pop("windows")))
        fill_in(connection, piece, tags)
        return piece, faults

    async def ids_tagged(self, tag: str) -> NDArray[np.int64]:
        """Returns the ids of all sites with this tag, int64[k], ascending, read in pieces."""
        pieces = [ids async for ids in in_pieces(lambda after: self.ids_after(tag, after), lambda ids: ids)]
        return np.concatenate([np.empty(0, np.int64), *pieces])

    @reads
    def ids_after(self, connection: Connection, tag: str | None, after: int) -> NDArray[np.int64]:
        """Returns some ids above `after`, int64[k], ascending, of sites with this tag, or of all; k = 0: no more."""
        c = site_tag.c
        if tag is None:
            rows = rows_after(connection, select(site.c.id).where(~is_soft_deleted(site.c.id)), site.c.id, after)
        else:
            tagged = select(c.site_id).where(c.tag == tag, ~is_soft_deleted(c.site_id))
            rows = rows_after(connection, tagged, c.site_id, after)
        return np.array([row[0] for row in rows], np.int64)

    @reads
    def among(self, connection: Connection, site_ids: Sequence[int]) -> list[tuple[int, str]]:
        """Returns the tags of these sites, a row for each site and tag."""
        c = site_tag.c
        statement = select(c.site_id, c.tag).where(self._sql.in_list(c.site_id, "sites"))
        with connection.execute(statement, {"sites": self._sql.id_list(site_ids)}) as result:
            return [(site_id, name) for site_id, name in result.cursor.fetchall()]


def with_inherited(connection: Connection, rows: ScheduleRows, tags: Tags) -> None:
    """Fills what sites do not say, in the columns of `rows`, from their tags."""
    if tags and len(rows):
        fill_in(connection, SettingsColumns(rows.site_id, numbers_of(rows), rows.windows), tags)


def fill_in(connection: Connection, columns: SettingsColumns, tags: Tags) -> None:
    """Fills what sites do not say, in place, from those of their tags that have settings."""
    ids = columns.site_id
    if not len(ids) or not tags:
        return
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for site_id, names in names_of(connection, int(ids[0]), int(ids[-1]), tags):
        alike[names].append(site_id)
    for names, sites in alike.items():
        places = np.searchsorted(ids, np.array(sites, np.int64))
        places[places == len(ids)] = 0
        places = places[ids[places] == np.array(sites, np.int64)]
        _fill(columns, places, of_tags(names, tags))


def _fill(columns: SettingsColumns, places: NDArray[np.int64], inherited: Mapping[str, Any]) -> None:
    for name, column in columns.numbers.items():
        if name in inherited:
            unsaid = places[np.isnan(column[places])]
            column[unsaid] = float(inherited[name])
    if "windows" in inherited:
        for site_id in columns.site_id[places].tolist():
            columns.windows.setdefault(site_id, inherited["windows"])


def names_of(connection: Connection, first: int, last: int, tags: Tags) -> list[tuple[int, tuple[str, ...]]]:
    """Returns those of `tags` that the sites with ids from `first` to `last` have, in their order, by site id."""
    c = site_tag.c
    conditions = c.site_id.between(first, last), c.tag.in_(list(tags))
    with connection.execute(
        select(c.site_id, c.tag).where(*conditions).order_by(c.site_id, c.position, c.tag)
    ) as result:
        rows = result.cursor.fetchall()
    return [
        (site_id, tuple(name for _site_id, name in group)) for site_id, group in groupby(rows, key=lambda row: row[0])
    ]


def names_among(
    connection: Connection, sql: Statements, site_ids: Sequence[int], names: Sequence[str]
) -> dict[int, list[str]]:
    """Returns which of the tags these sites have, in their order, by site id."""
    c = site_tag.c
    statement = select(c.site_id, c.tag).where(sql.in_list(c.site_id, "sites"), c.tag.in_(names))
    by_site: defaultdict[int, list[str]] = defaultdict(list)
    rows = connection.execute(statement.order_by(c.site_id, c.position, c.tag), {"sites": sql.id_list(site_ids)})
    for site_id, name in rows:
        by_site[site_id].append(name)
    return by_site


def _tag(row: Any, encryption: Encryption) -> TagSettings:
    try:
        document = msgspec.json.decode(row.settings, type=dict[str, Any])
        settings = {name: _value(name, value) for name, value in document.items()}
        access = NO_ACCESS if row.access is None else encryption.decrypt(row.access)
    except (ValueError, TypeError, KeyError, msgspec.MsgspecError, PermanentError) as error:
        fault = _("the settings of its tag {row} cannot be read: {error}", row=row.name, error=error)
        return TagSettings(row.name, changed_at=row.changed_at, fault=fault)
    return TagSettings(row.name, settings, access, row.changed_at)


def _value(name: str, value: Any) -> Any:
    setting = INHERITED.get(name)
    if setting is None:
        return value
    converted = msgspec.convert(value, setting.type)
    return usable_windows(converted) if isinstance(converted, Windows) else converted


def _mark(connection: Connection, name: str, now: float | None) -> None:
    tagged = exists().where(site_tag.c.site_id == site.c.id, site_tag.c.tag == name)
    connection.execute(update(site).where(tagged).values(settings_changed_at=now))
