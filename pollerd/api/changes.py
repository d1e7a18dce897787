"""Changes.

Routes of changes.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from xml.etree import ElementTree

from fastapi import Request, Response

from pollerd.api.common import Listing
from pollerd.api.http import (
    Announced,
    ChangeId,
    ContentId,
    Cursor,
    Daemon,
    GivenOrder,
    Limit,
    SiteId,
    Wanted,
    api_router,
    picture,
    picture_answers,
)
from pollerd.model import Change
from pollerd.timestamps import rfc3339

router = api_router("/changes", tag="changes")


@router.get("", summary="Changes of all sites")
async def list_changes(
    daemon: Daemon, change_filter: Wanted, limit: Limit = 100, cursor: Cursor = None, order: GivenOrder = None
) -> Listing[Change]:
    """Newest first, or oldest first. Going through the pages newest first ends, whatever is found meanwhile.

    To follow the changes read them oldest first, and repeat the last cursor: its page then grows at its end. `/events`
    reports them as they are found.
    """
    page = await daemon.store.changes.page(change_filter, limit, cursor, order)
    return Listing.of(page.items, page.next_cursor)


@router.get("/{change_id:id}", summary="One change")
async def get_change(daemon: Daemon, change_id: ChangeId) -> Change:
    """A change by its id."""
    return await daemon.store.changes.get(change_id)


# The changes as an Atom feed (RFC 4287), newest first.

atom_router = api_router(tag="changes")
MEDIA_TYPE = "application/atom+xml"
_NAMESPACE = "http://www.w3.org/2005/Atom"
_IDS = uuid.UUID("0c1f3a52-6f0e-4d4b-9a53-5b6d3c1c7a10")
"""Namespace of entry ids; must never change."""
_TITLE_CHARACTERS = 120
# Characters that XML 1.0 cannot contain, even escaped.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_EXAMPLE = f'<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="{_NAMESPACE}">…</feed>'
_PLAIN_XML = "text/xml"
"""For clients that do not support Atom, on request."""
_CONTENT = {"schema": {"type": "string"}, "example": _EXAMPLE}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "the feed", "content": {MEDIA_TYPE: _CONTENT, _PLAIN_XML: _CONTENT}},
    304: {"description": "nothing new since the answer with this ETag or Last-Modified"},
}


@atom_router.get("/changes.atom", response_class=Response, responses=_ANSWERS, summary="Changes as a feed")
async def changes_feed(request: Request, daemon: Daemon, change_filter: Announced, limit: Limit = 100) -> Response:
    """Atom, newest first. Readers that send `If-None-Match` or `If-Modified-Since` get 304 while nothing is new."""
    changes = (await daemon.store.changes.page(change_filter, limit)).items
    body = _document(changes, str(request.url), str(request.base_url), request.app.version)
    headers = {
        "Cache-Control": "private, no-cache",
        "Vary": "Accept",
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    }
    if changes:
        headers["Last-Modified"] = formatdate(changes[0].detected_at, usegmt=True)
    if _known(request, headers):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type=_media(request.headers.get("accept", "")), headers=headers)


def _media(accept: str) -> str:
    """Returns text/xml if the client accepts it and not Atom's own type."""
    named = {media_range.partition(";")[0].strip().lower() for media_range in accept.split(",")}
    return _PLAIN_XML if _PLAIN_XML in named and MEDIA_TYPE not in named else MEDIA_TYPE


def _known(request: Request, headers: dict[str, str]) -> bool:
    """Returns whether the client already has this answer.

    A date counts only if equal to ours: a change that is committed late may be older than the last.
    """
    tags = request.headers.get("if-none-match")
    if tags is not None:
        etags = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
        return "*" in etags or headers["ETag"] in etags
    return "Last-Modified" in headers and request.headers.get("if-modified-since") == headers["Last-Modified"]


def _document(changes: Sequence[Change], url: str, root: str, version: str) -> bytes:
    feed = ElementTree.Element("feed", {"xmlns": _NAMESPACE})
    _add(feed, "id", url)
    _add(feed, "title", "Changes")
    _add(feed, "updated", rfc3339(changes[0].detected_at if changes else 0.0))
    _add(feed, "link", rel="self", type=MEDIA_TYPE, href=url)
    _add(feed, "generator", "pollerd", version=version)
    _add(ElementTree.SubElement(feed, "author"), "name", "pollerd")
    for change in changes:
        _add_entry(feed, change, root)
    document: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return document


def _add_entry(feed: ElementTree.Element, change: Change, root: str) -> None:
    entry = ElementTree.SubElement(feed, "entry")
    # The time distinguishes entries of different databases; a site's URL may change, an entry's id may not.
    name = f"{change.id}/{change.site_id}/{change.detected_at!r}"
    _add(entry, "id", uuid.uuid5(_IDS, name).urn)
    _add(entry, "title", _title(change))
    _add(entry, "updated", rfc3339(change.detected_at))
    _add(entry, "published", rfc3339(change.detected_at))
    _add(entry, "link", rel="alternate", href=change.url)
    _add(entry, "link", rel="related", type="text/plain", href=f"{root}api/v1/changes/{change.id}/diff")
    _add(entry, "category", term=change.kind.value)
    _add(entry, "summary", change.summary)


def _title(change: Change) -> str:
    first_line = change.summary.strip().partition("\n")[0]
    short = first_line if len(first_line) <= _TITLE_CHARACTERS else first_line[:_TITLE_CHARACTERS] + "…"
    name = change.title or change.url
    return f"{name}: {short}" if short else name


def _add(parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: str) -> None:
    plain = {name: _speakable(value) for name, value in attributes.items()}
    child = ElementTree.SubElement(parent, tag, plain)
    child.text = None if text is None else _speakable(text)


def _speakable(text: str) -> str:
    return _UNSPEAKABLE.sub("\N{REPLACEMENT CHARACTER}", text)


# Routes of the screenshots that are kept with contents of rendered pages.

screenshots_router = api_router(tag="changes")
_MEDIA = "image/png"
_SCREENSHOTS_ANSWERS = picture_answers(_MEDIA, "PNG")


@screenshots_router.get(
    "/contents/{content_id:id}/screenshot",
    response_class=Response,
    responses=_SCREENSHOTS_ANSWERS,
    summary="The screenshot kept with a content",
)
async def get_screenshot(request: Request, daemon: Daemon, content_id: ContentId) -> Response:
    """Of the page at the poll that found the content first. A change names its contents.

    404 where none was kept: `keep_screenshots` was not said then, the picture was above 4 MiB, or the content was
    pruned.
    """
    body = await daemon.store.contents.screenshot(content_id)
    return picture(body, _MEDIA, f"content-{content_id}.png", request.headers.get("accept", ""))


@screenshots_router.get(
    "/sites/{site_id:id}/screenshot",
    response_class=Response,
    responses=_SCREENSHOTS_ANSWERS,
    summary="The screenshot kept with a site's current content",
)
async def get_site_screenshot(request: Request, daemon: Daemon, site_id: SiteId) -> Response:
    """Of a site with selections: with the content of its first, `default`. 404 where none was kept."""
    await daemon.store.sites.get(site_id)
    body = await daemon.store.contents.current_screenshot(site_id)
    return picture(body, _MEDIA, f"site-{site_id}.png", request.headers.get("accept", ""))


ROUTERS = (router, atom_router, screenshots_router)
