"""Reads contents: one for a client, several for a batch of polls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from pollerd.errors import NotFoundError
from pollerd.model import Media
from pollerd.storage.db.schema.history import content, screenshot
from pollerd.storage.db.schema.sites import site_state
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
    """Returns the PNG kept with a content. Raises `NotFoundError` if none was, or it was pruned with its content."""
    body = connection.execute(select(screenshot.c.body).where(screenshot.c.content_id == content_id)).scalar()
    if body is None:
        raise NotFoundError("screenshot of content", content_id)
    return bytes(body)


def current_screenshot(connection: Connection, site_id: int) -> bytes:
    """Returns the PNG kept with a site's current content. Raises `NotFoundError` if none was."""
    s, one = site_state.c, screenshot.c
    wanted = select(one.body).join_from(site_state, screenshot, one.content_id == s.content_id)
    body = connection.execute(wanted.where(s.site_id == site_id)).scalar()
    if body is None:
        raise NotFoundError("screenshot of the current content of site", site_id)
    return bytes(body)


def packed_contents(connection: Connection, sql: Statements, content_ids: Sequence[int]) -> list[PackedRow]:
    """Returns the stored contents, for `unpack_all`; pruned ones are missing."""
    rows: list[Any] = run(connection, sql.contents, sql.many(content_ids))
    return rows
