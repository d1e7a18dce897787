"""Routes of screenshots: rendered pages as their contents were seen."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import ChangeId, SiteId
from pollerd.errors import NotFoundError

router = APIRouter()
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}, "description": "the picture"}
}


class ChangeSide(StrEnum):
    """One of the two contents of a change."""

    BEFORE = "before"
    AFTER = "after"


@router.get(
    "/changes/{change_id:id}/screenshot",
    response_class=Response,
    responses=_ANSWERS,
    tags=["changes"],
    summary="The page before or after a change",
)
async def change_screenshot(
    daemon: Daemon,
    change_id: ChangeId,
    side: Annotated[ChangeSide, Query(description="which content")] = ChangeSide.AFTER,
) -> Response:
    """A PNG, where the site is rendered and says `keep_screenshots`; 404 where none was kept, or it was pruned."""
    change = await daemon.store.history.get_change(change_id)
    content_id = change.before_content_id if side is ChangeSide.BEFORE else change.after_content_id
    if content_id is None:
        raise NotFoundError("screenshot of change", change_id)
    return _picture(await daemon.store.history.get_screenshot(content_id), f"change-{change_id}-{side}")


@router.get(
    "/sites/{site_id:id}/screenshot",
    response_class=Response,
    responses=_ANSWERS,
    tags=["sites"],
    summary="The page as last kept",
)
async def site_screenshot(daemon: Daemon, site_id: SiteId) -> Response:
    """A PNG with the newest content that has one; 404 where none was kept."""
    await daemon.store.sites.get(site_id)
    return _picture(await daemon.store.history.last_screenshot(site_id), f"site-{site_id}")


def _picture(png: bytes, name: str) -> Response:
    # What it shows is the page's: a browser saves it, and shows it where a page of ours asks for an image.
    return Response(png, media_type="image/png", headers={"Content-Disposition": f'attachment; filename="{name}.png"'})
