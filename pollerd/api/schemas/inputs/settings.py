"""Settings that a site has, or that a tag gives its sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from pydantic import BeforeValidator, Field, PlainValidator, create_model
from typing_extensions import TypeAliasType

from pollerd.api.http.limits import check_selections
from pollerd.api.http.rendered import shown_render
from pollerd.api.schemas.inputs.numbers import number_notes
from pollerd.api.schemas.inputs.site_access import AccessFields
from pollerd.api.schemas.inputs.windows import WindowsSchema, windows_as_given
from pollerd.model import RespectTtl
from pollerd.scheduling.windows import windows_of
from pollerd.site_settings import INHERITED, Kind, Setting
from pollerd.storage import Rebase as StoredRebase

# Named, so that generated clients have pleasant names for them.
SelectionSettings = TypeAliasType("SelectionSettings", dict[str, Any])
Selections = TypeAliasType(
    "Selections", Annotated[dict[str, SelectionSettings], Field(json_schema_extra={"maxProperties": 20})]
)
RenderDefault = TypeAliasType("RenderDefault", Literal["browser"])
RenderPlanSettings = TypeAliasType("RenderPlanSettings", dict[str, Any])
Render = RenderDefault | RenderPlanSettings
RespectTtlWord = TypeAliasType("RespectTtlWord", Literal["off", "hint", "strict"])
RespectTtlInput = Annotated[RespectTtl, PlainValidator(RespectTtl.of, json_schema_input_type=bool | RespectTtlWord)]
RespectTtlShown = Annotated[
    bool | Literal["hint"], BeforeValidator(lambda value: value.shown if isinstance(value, RespectTtl) else value)
]
"""As it is shown: true, strict, and false, off, are what they were before there were hints."""


_SHOWN: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.TAGS: list,
    Kind.TRUST: lambda value: value.shown,
    Kind.WINDOWS: windows_as_given,
    Kind.SELECTIONS: orjson.loads,
    Kind.RENDER: shown_render,
}
"""Writers of settings that are stored otherwise than they are given."""


def shown_setting(setting: Setting, value: Any) -> Any:
    """Returns a setting's value as answers, lists and exports have it, without secrets; None: it is not set."""
    if setting.kind not in _SHOWN:
        return value
    return None if value is None or value == "" else _SHOWN[setting.kind](value)


REBASE = (
    "if this call changes selections or render: keep compares the next poll with the content from before, so that a "
    "difference is reported; anew begins anew, without a change; null: keep if nothing was selected last, else anew"
)
Rebase = TypeAliasType("Rebase", StoredRebase)
RebaseChoice = Annotated[Rebase | None, Field(description=REBASE)]


_TYPES: Mapping[Kind, Any] = {
    Kind.SWITCH: bool,
    Kind.TRUST: RespectTtlInput,
    Kind.WINDOWS: WindowsSchema,
    Kind.SELECTIONS: Selections,
    Kind.RENDER: Render,
}
"""Types of settings that are no plain numbers."""


def input_fields(settings: Mapping[str, Setting], *, described: bool = True) -> dict[str, Any]:
    """Returns fields for `create_model`; described: with their descriptions, where the type has none."""
    fields: dict[str, Any] = {}
    for name, one in settings.items():
        if one.kind in _TYPES:
            fields[name] = _TYPES[one.kind] | None, Field(None, description=one.help if described else None)
        else:
            fields[name] = Annotated[float, *number_notes(one)] | None, None
    return fields


class _Inheritable(AccessFields):
    """Settings; null: what the tags say, else the default."""

    def inheritable(self) -> dict[str, Any]:
        """Returns the values that are given, but for headers, credentials and proxy. Raises `InvalidValueError`."""
        given = {name: getattr(self, name) for name in INHERITED if name in self.model_fields_set - {"render"}}
        if given.get("windows") is not None:
            given["windows"] = windows_of(given["windows"].model_dump(by_alias=True))
        if "selections" in given:
            given["selections"] = check_selections(given["selections"])
        return given


if TYPE_CHECKING:

    class SettingsFields(_Inheritable):
        """Settings; null: what the tags say, else the default."""

        render: Render | None = None
else:
    SettingsFields = create_model(
        "SettingsFields", __base__=_Inheritable, __module__=__name__, **input_fields(INHERITED)
    )
