"""The route of previews."""

from __future__ import annotations

import dataclasses

from fastapi import Depends

from pollerd.api.http.context import Daemon
from pollerd.api.http.limits import check_selections, check_spec
from pollerd.api.http.parameters import json_body
from pollerd.api.http.rendered import check_render
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.selections import PreviewRequest, PreviewSchema
from pollerd.errors import InvalidValueError
from pollerd.model import NO_ACCESS, SiteSpec

router = api_router(tag="sites")


@router.post("/preview", dependencies=[Depends(json_body)], summary="What selections would keep of a page")
async def preview_page(daemon: Daemon, wanted: PreviewRequest) -> PreviewSchema:
    """Gets `url` as a poll would, or takes the stored content of a site, and changes nothing.

    Of a site's page it also says what the conditions would have said of the last stored changes, as far as they were
    kept by the same steps and values.
    """
    if (wanted.url is None) == (wanted.site_id is None):
        raise InvalidValueError("url", "given, or site_id: one of the two", "both" if wanted.url else "none")
    selections = check_selections(wanted.selections or {"default": {}})
    if wanted.site_id is not None:
        return PreviewSchema.of(await daemon.control.preview.of_stored(wanted.site_id, selections))
    render, typed = check_render(wanted.render)
    access = dataclasses.replace(wanted.access(NO_ACCESS), typed=typed)
    spec = check_spec(SiteSpec(wanted.url or "", access=access, selections=selections, render=render))
    return PreviewSchema.of(await daemon.control.preview.of_url(spec))
