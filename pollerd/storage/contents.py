"""Contents of pages as they were stored, and the screenshots kept with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, func, select

from pollerd.errors import NotFoundError
from pollerd.model import Change, Media
from pollerd.storage.changes import of_selection
from pollerd.storage.encoding import Base, PackedRow, unpack_all
from pollerd.storage.engine import Database
from pollerd.storage.schema import change, content, content_use, screenshot, site_state
from pollerd.storage.settings import CurrentSettings
from pollerd.storage.statements import Statements, run
from pollerd.storage.transactions import Subject, reads
from pollerd.texts import N_


@dataclass(frozen=True, slots=True)
class Content:
    """A stored normalised content: UTF-8 text, or the original bytes if `media` is binary."""

    id: int
    media: Media
    body: bytes


class ContentStore(Subject):
    """Contents that polls found, as far as they are kept."""

    def __init__(
        self, *, database: Database, sql: Statements, settings: CurrentSettings, bases: dict[int, Base]
    ) -> None:
        """bases: receives the bases of contents that are read, by content id, for `Store.commit`."""
        self._database, self._sql, self._settings, self._bases = database, sql, settings, bases

    @reads
    def get(self, connection: Connection, content_id: int) -> Content:
        """Returns the content, decompressed. Raises `NotFoundError` if it was pruned."""
        c, base = content.c, content.alias("base")
        statement = select(c.media, c.body, c.base_id, base.c.body).outerjoin_from(
            content, base, base.c.id == c.base_id
        )
        row = connection.execute(statement.where(c.id == content_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("content"), content_id)
        media, body, base_id, base_body = row
        return Content(
            content_id, Media(media), unpack_all([(content_id, body, base_id, base_body)])[content_id].content
        )

    @reads
    def screenshot(self, connection: Connection, content_id: int) -> bytes:
        """Returns the PNG of the page kept with the content. Raises `NotFoundError` if there is none."""
        body = connection.execute(select(screenshot.c.body).where(screenshot.c.content_id == content_id)).scalar()
        if body is None:
            raise NotFoundError(N_("screenshot of content"), content_id)
        return bytes(body)

    @reads
    def current_screenshot(self, connection: Connection, site_id: int) -> bytes:
        """Returns the PNG of the page kept with the site's current content. Raises `NotFoundError`."""
        s, image = site_state.c, screenshot.c
        statement = select(image.body).join_from(site_state, screenshot, image.content_id == s.content_id)
        body = connection.execute(statement.where(s.site_id == site_id)).scalar()
        if body is None:
            raise NotFoundError(N_("screenshot of the current content of site"), site_id)
        return bytes(body)

    async def load(self, content_ids: Sequence[int]) -> dict[int, bytes]:
        """Returns contents by id, decompressed; pruned ones are missing."""
        packed = await self.packed(content_ids)
        # Like compression, decompression releases the GIL.
        kept = await asyncio.to_thread(unpack_all, packed) if packed else {}
        self._bases.update({content_id: stored.base for content_id, stored in kept.items()})
        return {content_id: stored.content for content_id, stored in kept.items()}

    @reads
    def packed(self, connection: Connection, content_ids: Sequence[int]) -> list[PackedRow]:
        """Returns contents as they are stored, for `unpack_all`; pruned ones are missing."""
        rows: list[Any] = run(connection, self._sql.contents, self._sql.id_list(content_ids))
        return rows

    async def versions(self, site_id: int, selection: str, limit: int) -> list[bytes]:
        """Returns the stored contents that changes of a selection led to, newest first."""
        ids = await self._versions(site_id, selection, limit)
        contents = await self.load(list(dict.fromkeys(ids))) if ids else {}
        return [contents[content_id] for content_id in ids if content_id in contents]

    async def dated_versions(self, site_id: int, limit: int) -> list[tuple[float, bytes]]:
        """Returns the contents that the last changes of a page without selections led to, and when they were found
        (epoch s), newest first; fewer if one of them is no longer stored.
        """
        rows = await self._dated_versions(site_id, limit)
        contents = await self.load([content_id for _dated_at, content_id in rows]) if rows else {}
        kept = takewhile(lambda row: row[1] in contents, rows)
        return [(at, contents[content_id]) for at, content_id in kept]

    @reads
    def _dated_versions(self, connection: Connection, site_id: int, limit: int) -> list[tuple[float, int]]:
        c = change.c
        statement = (
            select(func.coalesce(c.poll_at, c.detected_at), c.after_content_id)
            .where(c.site_id == site_id, c.selection.is_(None), c.after_content_id.is_not(None))
            .order_by(c.id.desc())
            .limit(limit)
        )
        return [(at, content_id) for at, content_id in connection.execute(statement)]

    @reads
    def _versions(self, connection: Connection, site_id: int, selection: str, limit: int) -> list[int]:
        c = change.c
        statement = (
            select(content.c.id)
            .join_from(change, content, content.c.id == c.after_content_id)
            .where(c.site_id == site_id, of_selection(selection))
            .order_by(c.id.desc())
            .limit(limit)
        )
        return list(connection.execute(statement).scalars())

    @reads
    def limit_passed(self, connection: Connection, change: Change) -> tuple[str, float]:
        """Returns why a content of this change was dropped: the setting, and its present value (s, bytes, contents)."""
        u, settings = content_use.c, self._settings.value
        statement = select(u.expired_through, u.capped_through).where(u.site_id == change.site_id)
        expired, capped = connection.execute(statement).one_or_none() or (None, None)
        if expired is not None and change.detected_at <= expired:
            return "content_retention", settings.content_retention_seconds
        if capped is not None and change.detected_at <= capped:
            return "content_cap_bytes", settings.content_cap_bytes
        return "keep_contents", settings.keep_contents  # from versions that kept exactly this number for each site
