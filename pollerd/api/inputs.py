"""Settings of sites and tags as calls give them.

Settings that a site has, or that a tag gives its sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from msgspec.structs import replace
from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema, create_model
from typing_extensions import TypeAliasType

from pollerd.api.access import AccessFields, check_access
from pollerd.api.common import Given
from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN
from pollerd.quantities import per_second, seconds, share
from pollerd.ranges import BUDGET, SOURCE, Range
from pollerd.rendering.plan import SEALED, join_secrets, split_secrets
from pollerd.rendering.settings import DEFAULT_RENDER_COST
from pollerd.scheduling.windows import MAX_WINDOWS, windows_of
from pollerd.site_settings import (
    DAYS,
    INHERITED,
    SITE,
    SITE_SETTINGS,
    Kind,
    RespectTtl,
    Setting,
    SiteSpec,
    TagSettings,
    Windows,
)
from pollerd.storage.values import Rebase as StoredRebase
from pollerd.texts import _, n_
from pollerd.urls import normalise_url, spelling_of

# Numbers of settings: ranges and notations.

_DURATION = r"^[1-9][0-9]{0,3}(\.[0-9]{1,3})?(s|m|min|h|d)?$"
_PACE = (
    r"^([1-9][0-9]{0,3}(/s)?|[1-9][0-9]{0,4}/min|(3[6-9]|[4-9][0-9]|[1-9][0-9]{2,6})/h"
    r"|(86[4-9]|8[7-9][0-9]|9[0-9]{2}|[1-9][0-9]{3,7})/d)$"
)
_SHARE = r"^(0(\.[0-9]{1,9})?|[1-9]?[0-9](\.[0-9]{1,9})?%)$"


def _bounds(allowed: Range) -> dict[str, Any]:
    """Returns the range in OpenAPI's terms."""
    return {
        "exclusiveMinimum" if allowed.above else "minimum": allowed.lowest,
        "exclusiveMaximum" if allowed.below else "maximum": allowed.highest,
        **({"description": allowed.unit} if allowed.unit else {}),
    }


def _written(read: Callable[[str], float], allowed: Range, pattern: str) -> tuple[BeforeValidator, WithJsonSchema]:
    """Accepts a number, or a text that `read` parses; the pattern covers only texts that are certainly in range."""
    text = {"type": "string", "pattern": pattern}
    return (
        BeforeValidator(lambda value: read(value) if isinstance(value, str) else value),
        WithJsonSchema({"anyOf": [{"type": "number", **_bounds(allowed)}, text]}),
    )


def number_notes(setting: Setting) -> tuple[Any, ...]:
    """Returns what `Annotated` says of a setting that is a number: its range, its notation, its description."""
    assert setting.range is not None, f"{setting.name} is a number without a range"
    described = (Field(description=setting.help),) if setting.help else ()
    match setting.kind:
        case Kind.SECONDS:
            return *_written(seconds, setting.range, _DURATION), *described
        case Kind.SHARE:
            return *_written(share, setting.range, _SHARE), *described
    return Field(json_schema_extra=_bounds(setting.range)), *described


Weight = Annotated[float, *number_notes(SITE_SETTINGS["weight"])]
Deadline = Annotated[float, *number_notes(SITE_SETTINGS["deadline"])]
ListLimit = Annotated[int, Field(json_schema_extra=_bounds(SOURCE["limit"]))]
ReadInterval = Annotated[float, *_written(seconds, SOURCE["interval"], r"^[1-9][0-9]{0,2}(min|h)$")]
ShrinkShare = Annotated[float, Field(json_schema_extra=_bounds(SOURCE["max_shrink"]))]
Budget = Annotated[float, *_written(per_second, BUDGET, _PACE)]


# Windows of sites and tags: input and output.

_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
# Any name of the IANA's is taken; these are certainly known everywhere.
_ZONES = "^(UTC|Europe/(Berlin|London|Paris|Madrid|Rome)|America/(New_York|Chicago|Sao_Paulo)|Asia/(Tokyo|Kolkata))$"
_DAY = {"pattern": f"^({'|'.join(DAYS)})$"}
_TO = "no longer in it; not after `from`: on the next day"


class DayWindowSchema(Given):
    """Hours of days; without days: of every day."""

    days: list[Annotated[str, Field(json_schema_extra=_DAY)]] = Field(list(DAYS), json_schema_extra={"minItems": 1})
    begins: str = Field(alias="from", json_schema_extra={"pattern": f"^{_CLOCK}$"})
    ends: str = Field(alias="to", description=_TO, json_schema_extra={"pattern": f"^({_CLOCK}|24:00)$"})


class WindowsSchema(Given):
    """When a site may be polled, in the time of a zone."""

    zone: str = Field(description="a name of the IANA's, as Europe/Berlin", json_schema_extra={"pattern": _ZONES})
    open: list[DayWindowSchema] = Field(json_schema_extra={"minItems": 1, "maxItems": MAX_WINDOWS})


EXAMPLE: dict[str, Any] = {"zone": "Europe/Berlin", "open": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]}


def windows_as_given(windows: Windows | None) -> dict[str, Any] | None:
    """Returns windows as they are given."""
    if windows is None:
        return None
    opened = [{"days": list(window.days), "from": window.begins, "to": window.ends} for window in windows.open]
    return {"zone": windows.zone, "open": opened}


# Validates a site's settings, for all sources.

MAX_TAGS = 64
MAX_TAG_LENGTH = 64
MAX_TITLE_LENGTH = 200
_numbers = attrgetter(*SITE)
_UNSET = (None,) * len(SITE)


def check_spec(spec: SiteSpec) -> SiteSpec:
    """Returns the spec with its URL normalised and its tags trimmed and deduplicated.

    Numbers are in the ranges of `SITE`, min_interval at most max_interval; 64 tags of 64 characters; access as in
    `check_access`. Raises `InvalidValueError`, naming the field.
    """
    numbers = _numbers(spec)
    if numbers != _UNSET:  # most sites of a list have only a URL
        for allowed, value in zip(SITE.values(), numbers, strict=True):
            if value is not None:
                allowed.check(value)
        _check_intervals(spec)
    tags = _tags(spec.tags) if spec.tags else ()
    access = check_access(spec.access) if spec.access else spec.access
    selections = check_selections(orjson.loads(spec.selections)) if spec.selections else ""
    if len(spec.title) > MAX_TITLE_LENGTH or not (spec.title.isprintable() or not spec.title):
        raise InvalidValueError(
            "title",
            _("at most {max_title_length} printable characters", max_title_length=MAX_TITLE_LENGTH),
            spec.title[:100],
        )
    cost = DEFAULT_RENDER_COST if spec.render and spec.cost is None else spec.cost
    url = normalise_url(spec.url, fragment=bool(spec.render))
    spelling = spec.spelling if spec.url == url else spelling_of(spec.url, url)
    return replace(spec, url=url, spelling=spelling, cost=cost, tags=tags, access=access, selections=selections)


def check_tag_settings(tag: TagSettings) -> TagSettings:
    """Returns the settings of a tag, checked as those of a site. Raises `InvalidValueError`, naming the field."""
    settings: dict[str, Any] = {name: tag.settings[name] for name in INHERITED if name in tag.settings}
    checked = check_spec(SiteSpec("http://tag/", access=tag.access, **settings))
    if checked.render:
        settings["cost"] = checked.cost
    return replace(tag, name=check_tag(tag.name, "name"), settings=settings, access=checked.access)


def _check_intervals(spec: SiteSpec) -> None:
    if spec.min_interval is not None and spec.max_interval is not None and spec.min_interval > spec.max_interval:
        raise InvalidValueError(
            "max_interval",
            _("at least min_interval ({min_interval:g} s)", min_interval=spec.min_interval),
            spec.max_interval,
        )


def check_selections(selections: object) -> str:
    """Returns settings of selections by name as `SiteSpec` holds them. Raises `InvalidValueError` with the position."""
    if selections is None or selections == {}:
        return ""
    from pollerd.detection.selection.selection import canonical  # loaded with the first site that has some

    return canonical(selections)


def _tags(texts: Iterable[str]) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag.strip() for tag in texts))
    if len(tags) > MAX_TAGS:
        raise InvalidValueError(
            "tags", _("at most {max_tags}", max_tags=MAX_TAGS), n_("{count} tag", "{count} tags", len(tags))
        )
    for tag in tags:
        check_tag(tag, "tags")
    return tags


def check_tag(text: str, field: str = "tag") -> str:
    """Returns the tag, trimmed. Raises `InvalidValueError` for an invalid one."""
    tag = text.strip()
    # A semicolon separates tags in CSV.
    if not (0 < len(tag) <= MAX_TAG_LENGTH and tag.isprintable() and ";" not in tag):
        allowed = _("words of 1 to {max_tag_length} printable characters without ';'", max_tag_length=MAX_TAG_LENGTH)
        raise InvalidValueError(field, allowed, tag[: MAX_TAG_LENGTH + 1])
    return tag


# Validates how a browser renders a site's page: its plan, what it costs, and the secrets that its steps type.

BROWSER = "browser"
MAX_BYTES = 64 * 1024


def check_render(render: object, typed: Any = None) -> tuple[str, tuple[str, ...]]:
    """Returns a plan as `SiteSpec.render` holds it, and its secrets. `browser`: the usual plan; None: no browser.

    typed: secrets that stand apart from the plan, as in an export; empty: they were left out of it. None: the plan
    holds them itself.

    Raises `InvalidValueError`, naming the field with its position and never a secret.
    """
    if render is None:
        return "", ()
    from pollerd.rendering.plan import compile_plan  # loaded with the first site that has a plan

    document: Any = {} if render == BROWSER else render
    if typed and isinstance(document, dict):
        document = _joined(document, typed)
    compile_plan("render", document)
    plan, secrets = split_secrets(document)
    if typed is not None and not typed:
        secrets = ()
    if SEALED in secrets:
        allowed = _("with its secrets: those that are shown as sealed must be given again")
        raise InvalidValueError("render.steps", allowed, SEALED)
    written = orjson.dumps(plan, option=orjson.OPT_SORT_KEYS).decode()
    if len(written) > MAX_BYTES:
        raise InvalidValueError(
            "render",
            _("at most {max_bytes:,} bytes as JSON", max_bytes=MAX_BYTES),
            n_("{count} byte", "{count} bytes", len(written)),
        )
    return written, secrets


def _joined(document: dict[str, Any], typed: Any) -> dict[str, Any]:
    if not (isinstance(typed, list | tuple) and all(isinstance(text, str) for text in typed)):
        raise InvalidValueError("typed", _("a list of texts"), NOT_SHOWN)
    try:
        return join_secrets(document, typed)
    except ValueError as error:
        raise InvalidValueError(
            "typed", _("as many secrets as the plan has ({error})", error=error), NOT_SHOWN
        ) from error


def shown_render(render: str) -> Any:
    """Returns the plan as it is shown: without secrets."""
    if not render:
        return None
    plan = orjson.loads(render)
    return plan or BROWSER


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
    "if this call changes selections or render: `keep` compares the next poll with the previous content, so that a "
    "difference is reported; `anew` starts over, without a change; null: `keep` if nothing was selected last, "
    "else `anew`"
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
    for name, setting in settings.items():
        if setting.kind in _TYPES:
            fields[name] = _TYPES[setting.kind] | None, Field(None, description=setting.help if described else None)
        else:
            fields[name] = Annotated[float, *number_notes(setting)] | None, None
    return fields


def shown_fields(settings: Mapping[str, Setting], *, in_force: bool) -> dict[str, Any]:
    """Returns fields of answers for `create_model`; null: not set. in_force: what holds, so that a default does."""
    fields: dict[str, Any] = {}
    for name, setting in settings.items():
        shown = RespectTtlShown if setting.kind is Kind.TRUST else _TYPES.get(setting.kind, float)
        always = in_force and (setting.kind is Kind.SWITCH or isinstance(setting.default, float))
        fields[name] = (shown if always else shown | None), ...
    return fields


class _Inheritable(AccessFields):
    """Settings; null: what the tags say, else the default."""

    def inheritable(self) -> dict[str, Any]:
        """Returns the values that are given, but for headers, credentials and proxy. Raises `InvalidValueError`."""
        values = {}
        for name in INHERITED:
            if name in self.model_fields_set and name != "render":
                values[name] = getattr(self, name)
        if values.get("windows") is not None:
            values["windows"] = windows_of(values["windows"].model_dump(by_alias=True))
        if "selections" in values:
            values["selections"] = check_selections(values["selections"])
        return values


if TYPE_CHECKING:

    class SettingsFields(_Inheritable):
        """Settings; null: what the tags say, else the default."""

        render: Render | None = None
else:
    SettingsFields = create_model(
        "SettingsFields", __base__=_Inheritable, __module__=__name__, **input_fields(INHERITED)
    )
