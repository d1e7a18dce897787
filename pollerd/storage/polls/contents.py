"""Reads contents: one for a client, several for a batch of polls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from pollerd.errors import NotFoundError
from pollerd.model import Media
from pollerd.storage.db.schema import content, screenshot
from pollerd.storage.db.statements import Statements, run
from pollerd.storage.encoding.compression import PackedRow, unpack_all


@dataclass(frozen=True, slots=True)
class Content:
    """A stored normalised content: UTF-8 text, or the original bytes if `media` is binary."""

    id: int
    media: Media
    body: bytes


def get_content(connection: Connection, content_id: int) -> Content:
    """Returns the content, decompressed. Raises `NotFoundError` if it was pruned."""
    c, base = content.c, content.alias("base")
    wanted = select(c.media, c.body, c.base_id, base.c.body).outerjoin_from(content, base, base.c.id == c.base_id)
    row = connection.execute(wanted.where(c.id == content_id)).one_or_none()
    if row is None:
        raise NotFoundError("content", content_id)
    media, body, base_id, base_body = row
    return Content(content_id, Media(media), unpack_all([(content_id, body, base_id, base_body)])[content_id].content)


def get_screenshot(connection: Connection, content_id: int) -> bytes:
    """Returns the PNG kept with the content. Raises `NotFoundError` if there is none."""
    png = connection.execute(select(screenshot.c.png).where(screenshot.c.content_id == content_id)).scalar()
    if png is None:
        raise NotFoundError("screenshot", content_id)
    return bytes(png)


def last_screenshot(connection: Connection, site_id: int) -> bytes:
    """Returns the PNG of the site's newest content that has one. Raises `NotFoundError` if none has."""
    c = content.c
    newest = select(screenshot.c.png).join_from(screenshot, content, c.id == screenshot.c.content_id)
    png = connection.execute(newest.where(c.site_id == site_id).order_by(c.last_seen_at.desc()).limit(1)).scalar()
    if png is None:
        raise NotFoundError("screenshot of site", site_id)
    return bytes(png)


def packed_contents(connection: Connection, sql: Statements, content_ids: Sequence[int]) -> list[PackedRow]:
    """Returns the stored contents, for `unpack_all`; pruned ones are missing."""
    rows: list[Any] = run(connection, sql.contents, sql.many(content_ids))
    return rows
