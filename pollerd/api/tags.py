"""Tags with settings.

Routes of tags: what their sites inherit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Path, Response
from pydantic import BaseModel, ConfigDict, Field, create_model

from pollerd import site_settings
from pollerd.api import inputs
from pollerd.api.common import Listing
from pollerd.api.http import Caller, Daemon, Words, api_router, json_body
from pollerd.api.inputs import (
    EXAMPLE,
    RebaseChoice,
    SettingsFields,
    check_render,
    check_tag,
    shown_fields,
    shown_setting,
)
from pollerd.errors import InvalidValueError
from pollerd.fetching.settings import without_userinfo
from pollerd.rendering.settings import DEFAULT_RENDER_COST
from pollerd.shown import Moment
from pollerd.site_settings import INHERITED
from pollerd.texts import _

# Tags with settings: input and output.


class NewTag(SettingsFields):
    """All settings of a tag: missing ones and null are removed. Headers, credentials and proxy are never shown: missing
    ones stay, and null removes them.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"weight": 2.0, "min_interval": 900.0}, {"windows": EXAMPLE}]}
    )

    rebase: RebaseChoice = None

    def tag(self, name: str, before: site_settings.TagSettings | None) -> site_settings.TagSettings:
        """Returns the checked settings. Raises `InvalidValueError`."""
        render, typed = check_render(self.render)
        kept = site_settings.NO_ACCESS if before is None else before.access
        access = dataclasses.replace(self.access(kept), typed=typed)
        return _checked(name, {**self.inheritable(), "render": render}, access)


class TagPatch(SettingsFields):
    """New values for a tag; missing fields stay. null removes a setting. `headers` replaces all of them."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"weight": 5.0}, {"min_interval": "15m", "windows": None}]}
    )

    rebase: RebaseChoice = None

    def tag(self, name: str, before: site_settings.TagSettings | None) -> site_settings.TagSettings:
        """Returns the checked settings, over those that the tag has. Raises `InvalidValueError`."""
        if before is None:
            before = site_settings.TagSettings(name)
        if before.fault:
            raise InvalidValueError("name", _("a tag whose settings can be read: PUT replaces them"), before.fault)
        settings = {**before.settings, **self.inheritable()}
        access = self.access(before.access)
        if "render" in self.model_fields_set:
            settings["render"], typed = check_render(self.render)
            access = dataclasses.replace(access, typed=typed)
            if "cost" not in self.model_fields_set and settings.get("cost") == DEFAULT_RENDER_COST:
                settings["cost"] = None  # what a rendered poll costs belongs to its plan
        return _checked(name, settings, access)


def _checked(name: str, settings: Mapping[str, Any], access: site_settings.Access) -> site_settings.TagSettings:
    values = {key: value for key, value in settings.items() if value not in (None, "")}
    return inputs.check_tag_settings(site_settings.TagSettings(name, values, access))


class _NamedTag(BaseModel):
    name: str


if TYPE_CHECKING:
    _ShownTag = _NamedTag
else:
    _ShownTag = create_model("_ShownTag", __base__=_NamedTag, **shown_fields(INHERITED, in_force=False))


class Tag(_ShownTag):
    """A tag with settings; null: it does not say."""

    header_names: tuple[str, ...] = Field(description="of the headers that its sites send; their values are secret")
    has_credentials: bool
    proxy: str | None = Field(description="its sites' proxy, without user name and password")
    changed_at: Moment | None
    fault: str | None = Field(description="why what is stored cannot be used; its sites are not polled then")

    @classmethod
    def of(cls, tag: site_settings.TagSettings) -> Tag:
        """Returns the tag, without its secrets."""
        settings = {name: shown_setting(setting, tag.settings.get(name)) for name, setting in INHERITED.items()}
        proxy = tag.access.proxy
        return cls(
            **settings,
            name=tag.name,
            header_names=tag.access.header_names,
            has_credentials=tag.access.credentials is not None,
            proxy=None if proxy is None else without_userinfo(proxy),
            changed_at=tag.changed_at,
            fault=tag.fault or None,
        )


router = api_router("/tags", tag="tags")
TagName = Annotated[
    Words, Path(description="the tag, percent-encoded", json_schema_extra={"pattern": r"^[\w-]{1,64}$"})
]


@router.get("", summary="Tags that have settings")
async def list_tags(daemon: Daemon) -> Listing[Tag]:
    """By name. Tags that no settings were given are not among them: they need none."""
    return Listing.of((Tag.of(tag) for _name, tag in sorted(daemon.control.tags.all().items())), None)


@router.get("/{name:path}", summary="A tag's settings")
async def get_tag(daemon: Daemon, name: TagName) -> Tag:
    """What its sites inherit where they do not say it themselves, without secrets."""
    return Tag.of(daemon.control.tags.get(check_tag(name, "name")))


@router.put("/{name:path}", dependencies=[Depends(json_body)], summary="Give a tag settings")
async def put_tag(daemon: Daemon, name: TagName, body: NewTag, caller: Caller) -> Tag:
    """They replace the previous ones; every site of the tag that does not say them itself is polled by them at once.

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
    """Missing fields stay, also of a tag that has no settings yet; the rest is as for PUT."""
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


ROUTERS = (router,)
