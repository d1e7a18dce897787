"""Settings of tags: one row per tag, and the settings that their sites inherit, as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from pollerd.storage.schedule import OF_SITE, WindowsRead, ids_piece, numbers_of, usable_windows
from pollerd.storage.schema import site, site_tag, tag
from pollerd.storage.selection_states import SettingsEdit, edit_of, follow_edit
from pollerd.storage.statements import Statements
from pollerd.storage.values import Rebase, ScheduleRows, SettingsColumns


def load_tags(connection: Connection, encryption: Encryption) -> dict[str, TagSettings]:
    """Returns all tags that have settings, by name."""
    c = tag.c
    rows = connection.execute(select(c.name, c.settings, c.access, c.changed_at).order_by(c.name))
    return {row.name: _tag(row, encryption) for row in rows}


def put_tag(
    connection: Connection, sql: Statements, encryption: Encryption, given: TagSettings, *, sends: bool
) -> None:
    """Stores the settings of a tag in place of those that it had.

    sends: what its sites send has changed, so that their next polls must be full ones.
    """
    values = {
        "settings": msgspec.json.encode(given.settings).decode(),
        "access": encryption.encrypt(given.access) if given.access else None,
        "changed_at": given.changed_at,
    }
    statement = sql.insert_for(tag).values(name=given.name, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))
    if sends:
        _mark(connection, given.name, given.changed_at)


def delete_tag(connection: Connection, name: str, now: float, *, sends: bool) -> None:
    """Deletes the settings of a tag; its sites keep it."""
    connection.execute(delete(tag).where(tag.c.name == name))
    if sends:
        _mark(connection, name, now)


def follow_tag(
    connection: Connection, sql: Statements, name: str, before: Tags, after: Tags, rebase: Rebase | None
) -> None:
    """Makes the sites of a tag follow an edit of its selections and its `render`."""
    tag_before, tag_after = (tags[name].settings if name in tags else {} for tags in (before, after))
    if all(tag_before.get(one) == tag_after.get(one) for one in ("selections", "render")):
        return
    known, last = {**before, **after}, -1
    while len(ids := ids_piece(connection, name, last)):
        last = int(ids[-1])
        tagged = dict(names_of(connection, int(ids[0]), last, known))
        own = select(site.c.id, site.c.selections, site.c.render).where(sql.in_list(site.c.id, "sites"))
        alike: defaultdict[SettingsEdit, list[int]] = defaultdict(list)
        for site_id, selections, render in connection.execute(own, {"sites": sql.id_list(ids)}):
            spec = SiteSpec("", selections=selections or "", render=render or "", tags=tagged.get(site_id, ()))
            edit = edit_of(inherit(spec, before), inherit(spec, after), rebase)
            if edit is not None:
                alike[edit].append(site_id)
        for edit, site_ids in alike.items():
            follow_edit(connection, sql, site_ids, edit)


def tagged_piece(
    connection: Connection, sql: Statements, tags: Tags, name: str, after: int
) -> tuple[SettingsColumns, dict[int, str]]:
    """Returns what some sites with this tag and ids above `after` are polled by, by id; none: there are no more.

    Also returns what is wrong with unreadable rows, by site id.
    """
    faults: dict[int, str] = {}
    read, ids = WindowsRead(), ids_piece(connection, name, after)
    fields = (*(field for field in OF_SITE if field.name in NUMERIC_SETTINGS), read.field())
    columns = [site.c[field.name] for field in fields]
    statement = select(site.c.id, *columns).where(sql.in_list(site.c.id, "sites")).order_by(site.c.id)
    with connection.execute(statement, {"sites": sql.id_list(ids)}) as result:
        rows = result.cursor.fetchall()
    found, *values = list(zip(*rows, strict=True)) or [()] * (1 + len(fields))
    numbers = {field.name: field.column(given, found, faults) for field, given in zip(fields, values, strict=True)}
    site_ids = np.array(found, np.int64)
    piece = SettingsColumns(site_ids, numbers, read.of_sites(site_ids, numbers.pop("windows")))
    fill_in(connection, piece, tags)
    return piece, faults


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
    wanted = c.site_id.between(first, last), c.tag.in_(list(tags))
    with connection.execute(select(c.site_id, c.tag).where(*wanted).order_by(c.site_id, c.position, c.tag)) as result:
        rows = result.cursor.fetchall()
    return [(site_id, tuple(name for _, name in group)) for site_id, group in groupby(rows, key=lambda row: row[0])]


def names_among(
    connection: Connection, sql: Statements, site_ids: Sequence[int], names: Sequence[str]
) -> dict[int, list[str]]:
    """Returns which of the tags these sites have, in their order, by site id."""
    c = site_tag.c
    statement = select(c.site_id, c.tag).where(sql.in_list(c.site_id, "sites"), c.tag.in_(names))
    found: defaultdict[int, list[str]] = defaultdict(list)
    rows = connection.execute(statement.order_by(c.site_id, c.position, c.tag), {"sites": sql.id_list(site_ids)})
    for site_id, name in rows:
        found[site_id].append(name)
    return found


def tags_among(connection: Connection, sql: Statements, site_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Returns the tags of these sites, a row for each site and tag."""
    c = site_tag.c
    statement = select(c.site_id, c.tag).where(sql.in_list(c.site_id, "sites"))
    with connection.execute(statement, {"sites": sql.id_list(site_ids)}) as result:
        return [(site_id, name) for site_id, name in result.cursor.fetchall()]


def _mark(connection: Connection, name: str, now: float | None) -> None:
    tagged = exists().where(site_tag.c.site_id == site.c.id, site_tag.c.tag == name)
    connection.execute(update(site).where(tagged).values(settings_changed_at=now))


def _tag(row: Any, encryption: Encryption) -> TagSettings:
    try:
        given = msgspec.json.decode(row.settings, type=dict[str, Any])
        settings = {name: _value(name, value) for name, value in given.items()}
        access = NO_ACCESS if row.access is None else encryption.decrypt(row.access)
    except (ValueError, TypeError, KeyError, msgspec.MsgspecError, PermanentError) as error:
        fault = f"the settings of its tag {row.name} cannot be read: {error}"
        return TagSettings(row.name, changed_at=row.changed_at, fault=fault)
    return TagSettings(row.name, settings, access, row.changed_at)


def _value(name: str, value: Any) -> Any:
    setting = INHERITED.get(name)
    if setting is None:
        return value
    found = msgspec.convert(value, setting.type)
    return usable_windows(found) if isinstance(found, Windows) else found
