"""Routes of tags: what their sites inherit."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Response

from pollerd.api.http.context import Caller, Daemon
from pollerd.api.http.limits import check_tag
from pollerd.api.http.parameters import Words, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.tags import NewTag, Tag, TagPatch

router = api_router("/tags", tag="tags")
TagName = Annotated[
    Words, Path(description="the tag, percent-encoded", json_schema_extra={"pattern": r"^[\w-]{1,64}$"})
]


@router.get("", summary="Tags that have settings")
async def list_tags(daemon: Daemon) -> Listing[Tag]:
    """By name. Tags that no settings were given are not among them: they need none."""
    return Listing.of((Tag.of(tag) for _, tag in sorted(daemon.control.tags.all().items())), None)


@router.get("/{name:path}", summary="A tag's settings")
async def get_tag(daemon: Daemon, name: TagName) -> Tag:
    """What its sites inherit where they do not say it themselves, without secrets."""
    return Tag.of(daemon.control.tags.get(check_tag(name, "name")))


@router.put("/{name:path}", dependencies=[Depends(json_body)], summary="Give a tag settings")
async def put_tag(daemon: Daemon, name: TagName, body: NewTag, caller: Caller) -> Tag:
    """In place of those that it had; every site of the tag that does not say them itself is polled by them at once.

    A site's own settings go before those of its tags, in the order in which it names them, and those before defaults.
    Headers are joined name by name. Headers and credentials are sent to the origin of **every** site that has the tag,
    or gets it later.
    """
    async with daemon.turn:
        name = check_tag(name, "name")
        tag = body.tag(name, daemon.control.tags.all().get(name))
        return Tag.of(await daemon.control.tags.put(tag, by=caller, rebase=body.rebase))


@router.patch("/{name:path}", dependencies=[Depends(json_body)], summary="Change a tag's settings")
async def change_tag(daemon: Daemon, name: TagName, patch: TagPatch, caller: Caller) -> Tag:
    """What is left out stays, also of a tag that has no settings yet; the rest is as for PUT."""
    async with daemon.turn:
        name = check_tag(name, "name")
        tag = patch.tag(name, daemon.control.tags.all().get(name))
        return Tag.of(await daemon.control.tags.put(tag, by=caller, rebase=patch.rebase))


@router.delete(
    "/{name:path}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Take a tag's settings away"
)
async def delete_tag(daemon: Daemon, name: TagName, caller: Caller) -> None:
    """Its sites keep the tag, and are polled by what is left to them."""
    async with daemon.turn:
        await daemon.control.tags.delete(check_tag(name, "name"), by=caller)
