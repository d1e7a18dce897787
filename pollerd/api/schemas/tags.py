"""Tags with settings: input and output."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pollerd import model
from pollerd.api.http import limits
from pollerd.api.http.rendered import check_render
from pollerd.api.schemas.common import Moment
from pollerd.api.schemas.inputs.settings import (
    RebaseChoice,
    Render,
    RespectTtlShown,
    Selections,
    SettingsFields,
    shown_setting,
)
from pollerd.api.schemas.inputs.windows import EXAMPLE, WindowsSchema
from pollerd.errors import InvalidValueError
from pollerd.fetching import without_userinfo
from pollerd.rendering.settings import DEFAULT_RENDER_COST
from pollerd.site_settings import INHERITED


class NewTag(SettingsFields):
    """All settings of a tag: what is left out or null is taken away.

    But for headers, credentials and proxy, which are never shown: left out they stay, and null takes them away.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"weight": 2.0, "min_interval": 900.0}, {"windows": EXAMPLE}]}
    )

    rebase: RebaseChoice = None

    def tag(self, name: str, before: model.TagSettings | None) -> model.TagSettings:
        """Returns the checked settings. Raises `InvalidValueError`."""
        render, typed = check_render(self.render)
        kept = model.NO_ACCESS if before is None else before.access
        access = dataclasses.replace(self.access(kept), typed=typed)
        return _checked(name, {**self.inheritable(), "render": render}, access)


class TagPatch(SettingsFields):
    """New values for a tag; what is left out stays. null takes a setting away. `headers` replaces all of them."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"weight": 5.0}, {"min_interval": "15m", "windows": None}]}
    )

    rebase: RebaseChoice = None

    def tag(self, name: str, before: model.TagSettings | None) -> model.TagSettings:
        """Returns the checked settings, over those that the tag has. Raises `InvalidValueError`."""
        if before is None:
            before = model.TagSettings(name)
        if before.fault:
            raise InvalidValueError("name", "a tag whose settings can be read: PUT replaces them", before.fault)
        settings = {**before.settings, **self.inheritable()}
        access = self.access(before.access)
        if "render" in self.model_fields_set:
            settings["render"], typed = check_render(self.render)
            access = dataclasses.replace(access, typed=typed)
            if "cost" not in self.model_fields_set and settings.get("cost") == DEFAULT_RENDER_COST:
                settings["cost"] = None  # what a rendered poll costs belongs to its plan
        return _checked(name, settings, access)


def _checked(name: str, settings: Mapping[str, Any], access: model.Access) -> model.TagSettings:
    given = {key: value for key, value in settings.items() if value not in (None, "")}
    return limits.check_tag_settings(model.TagSettings(name, given, access))


class Tag(BaseModel):
    """A tag with settings; null: it does not say."""

    name: str
    weight: float | None
    cost: float | None
    min_interval: float | None
    max_interval: float | None
    min_yield: float | None
    respect_ttl: RespectTtlShown | None
    half_life: float | None
    deadline: float | None
    windows: WindowsSchema | None
    selections: Selections | None
    render: Render | None
    keep_screenshots: bool | None
    header_names: tuple[str, ...] = Field(description="of the headers that its sites send; their values are secret")
    has_credentials: bool
    proxy: str | None = Field(description="its sites' proxy, without user name and password")
    changed_at: Moment | None
    fault: str | None = Field(description="why what is stored cannot be used; its sites are not polled then")

    @classmethod
    def of(cls, tag: model.TagSettings) -> Tag:
        """Returns the tag, without its secrets."""
        said = {name: shown_setting(one, tag.settings.get(name)) for name, one in INHERITED.items()}
        proxy = tag.access.proxy
        return cls(
            **said,
            name=tag.name,
            header_names=tag.access.header_names,
            has_credentials=tag.access.credentials is not None,
            proxy=None if proxy is None else without_userinfo(proxy),
            changed_at=tag.changed_at,
            fault=tag.fault or None,
        )
