"""Routes of the screenshots that are kept with contents of rendered pages."""

from __future__ import annotations

from fastapi import Request, Response

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import ContentId, SiteId
from pollerd.api.http.pictures import picture, picture_answers
from pollerd.api.http.routing import api_router

router = api_router(tag="changes")
_MEDIA = "image/png"
_ANSWERS = picture_answers(_MEDIA, "PNG")


@router.get(
    "/contents/{content_id:id}/screenshot",
    response_class=Response,
    responses=_ANSWERS,
    summary="The screenshot kept with a content",
)
async def get_screenshot(request: Request, daemon: Daemon, content_id: ContentId) -> Response:
    """Of the page at the poll that found the content first. A change names its contents.

    404 where none was kept: `keep_screenshots` was not said then, the picture was above 4 MiB, or the content was
    pruned.
    """
    body = await daemon.store.history.get_screenshot(content_id)
    return picture(body, _MEDIA, f"content-{content_id}.png", request.headers.get("accept", ""))


@router.get(
    "/sites/{site_id:id}/screenshot",
    response_class=Response,
    responses=_ANSWERS,
    summary="The screenshot kept with a site's current content",
)
async def get_site_screenshot(request: Request, daemon: Daemon, site_id: SiteId) -> Response:
    """Of a site with selections: with the content of its first, `default`. 404 where none was kept."""
    await daemon.store.sites.get(site_id)
    body = await daemon.store.history.current_screenshot(site_id)
    return picture(body, _MEDIA, f"site-{site_id}.png", request.headers.get("accept", ""))
