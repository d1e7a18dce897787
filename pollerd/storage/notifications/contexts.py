"""What messages need to know of their notices: sites, changes with their contents, values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from pollerd.model import Change
from pollerd.storage.db.schema import reading, site, site_tag
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.compression import PackedRow
from pollerd.storage.notifications.notification_values import NamedSite, StoredNotice
from pollerd.storage.polls import changes, contents


class ReadContexts(NamedTuple):
    """What the database has of some notices; contents are unpacked outside of its thread."""

    sites: dict[int, NamedSite]
    changes: dict[int, Change]
    packed: list[PackedRow]
    values: dict[int, dict[str, str]]
    """By id of the change."""


def read_contexts(
    connection: Connection, sql: Statements, found: Sequence[StoredNotice], *, with_contents: bool
) -> ReadContexts:
    """Returns what is known of the notices; with_contents: also the contents of changes and their values."""
    of_sites = _sites(connection, sql, [one.site_id for one in found if one.site_id is not None])
    of_changes = changes.by_ids(connection, sql, [one.change_id for one in found if one.change_id is not None])
    packed: list[PackedRow] = []
    if with_contents:
        pairs = [(one.before_content_id, one.after_content_id) for one in of_changes.values()]
        wanted = [content_id for pair in pairs for content_id in pair if content_id is not None]
        packed = contents.packed_contents(connection, sql, wanted) if wanted else []
    read = of_changes if with_contents else {}
    values = {change_id: _values(connection, change) for change_id, change in read.items()}
    return ReadContexts(of_sites, of_changes, packed, values)


def _sites(connection: Connection, sql: Statements, ids: Sequence[int]) -> dict[int, NamedSite]:
    if not ids:
        return {}
    given, t = {"ids": sql.many(set(ids))}, site_tag.c
    tags: defaultdict[int, list[str]] = defaultdict(list)
    for site_id, tag in connection.execute(
        select(t.site_id, t.tag).where(sql.among(t.site_id, "ids")).order_by(t.site_id, t.position), given
    ):
        tags[site_id].append(tag)
    wanted = select(site.c.id, site.c.url, site.c.title).where(sql.among(site.c.id, "ids"))
    rows = connection.execute(wanted, given)
    return {row.id: NamedSite(row.id, row.url, row.title or "", tuple(tags[row.id])) for row in rows}


def _values(connection: Connection, change: Change) -> dict[str, str]:
    """Returns the values of the change's selection, as read last until then."""
    r = reading.c
    mine = (r.site_id == change.site_id, r.selection == change.selection, r.at <= change.detected_at)
    rows = connection.execute(select(r.name, r.text, r.problem).where(*mine).order_by(r.id)).all()
    return {row.name: row.text for row in rows if not row.problem}
