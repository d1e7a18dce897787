"""Settings that a site has, or that a tag gives its sites."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypeAliasType

from pollerd.api.http.limits import check_selections
from pollerd.api.schemas.inputs.numbers import Cost, Deadline, HalfLife, MaxInterval, MinInterval, MinYield, Weight
from pollerd.api.schemas.inputs.site_access import AccessFields
from pollerd.api.schemas.inputs.windows import WINDOWS, WindowsSchema
from pollerd.model import RespectTtl
from pollerd.scheduling.windows import windows_of
from pollerd.site_settings import INHERITED
from pollerd.storage import Rebase

_RENDER = (
    "browser, or a plan of what a browser does (docs/rendering.md): the page is rendered, at a cost of 20 unless cost "
    "says another; secrets of its steps are sealed; null: the page is fetched"
)
_KEEP_SCREENSHOTS = (
    "keep a PNG of the rendered page with each new content, GET /contents/{id}/screenshot; a site that is not rendered "
    "cannot say it; null: the default, no"
)
_SELECTIONS = (
    "what of the page counts, by name: steps, values, least and conditions (docs/selections.md); a site has at least "
    "`default`; null or {}: the whole page"
)
# Named, so that generated clients have pleasant names for them.
SelectionSettings = TypeAliasType("SelectionSettings", dict[str, Any])
Selections = TypeAliasType(
    "Selections", Annotated[dict[str, SelectionSettings], Field(json_schema_extra={"maxProperties": 20})]
)
RenderDefault = TypeAliasType("RenderDefault", Literal["browser"])
RenderPlanSettings = TypeAliasType("RenderPlanSettings", dict[str, Any])
Render = RenderDefault | RenderPlanSettings
_RESPECT_TTL = (
    "leave the site alone for as long as its max-age, Expires or feed's ttl says: strict (or true), at most a day; "
    "hint, at most an hour, and no more once a change was found inside such a time; off (or false), never; null: the "
    "default"
)
_RESPECT_TTL_SCHEMA = {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["off", "hint", "strict"]}]}
RespectTtlInput = Annotated[
    RespectTtl, BeforeValidator(RespectTtl.of), WithJsonSchema(_RESPECT_TTL_SCHEMA, mode="validation")
]
RespectTtlShown = Annotated[
    bool | Literal["hint"], BeforeValidator(lambda value: value.shown if isinstance(value, RespectTtl) else value)
]
"""As it is shown: true, strict, and false, off, are what they were before there were hints."""


REBASE = (
    "if this call changes selections or render: keep compares the next poll with the content from before, so that a "
    "difference is reported; anew begins anew, without a change; null: keep if nothing was selected last, else anew"
)
RebaseChoice = Annotated[Rebase | None, Field(description=REBASE)]


class SettingsFields(AccessFields):
    """Settings; null: what the tags say, else the default."""

    weight: Weight | None = None
    cost: Cost | None = None
    min_interval: MinInterval | None = None
    max_interval: MaxInterval | None = None
    min_yield: MinYield | None = None
    respect_ttl: RespectTtlInput | None = Field(None, description=_RESPECT_TTL)
    half_life: HalfLife | None = None
    deadline: Deadline | None = None
    windows: WindowsSchema | None = Field(None, description=WINDOWS)
    selections: Selections | None = Field(None, description=_SELECTIONS)
    render: Render | None = Field(None, description=_RENDER)
    keep_screenshots: bool | None = Field(None, description=_KEEP_SCREENSHOTS)

    def inheritable(self) -> dict[str, Any]:
        """Returns the values that are given, but for headers, credentials and proxy. Raises `InvalidValueError`."""
        given = {name: getattr(self, name) for name in INHERITED if name in self.model_fields_set - {"render"}}
        if self.windows is not None:
            given["windows"] = windows_of(self.windows.model_dump(by_alias=True))
        if "selections" in given:
            given["selections"] = check_selections(self.selections)
        return given
