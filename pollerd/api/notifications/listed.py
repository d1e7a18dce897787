"""Compares the channels and rules of a list with those that it named before: the rest of `pollerd sites diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import Depends

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.lists import (
    ChannelsOfList,
    FieldDifference,
    NamedDifference,
    RulesOfList,
    SettingsDifference,
)
from pollerd.errors import InvalidValueError
from pollerd.notifications.delivery.stored import shown
from pollerd.notifications.specs import channels_of, rules_of
from pollerd.storage import ChannelSpec, Origin, RuleSpec

router = api_router(tag="notifications")
_JSON = [Depends(json_body)]
_SECRETS_DIFFER = "secrets differ"
Listed = ChannelSpec | RuleSpec


@router.post("/channels/diff", dependencies=_JSON, summary="What a list would change of channels")
async def diff_channels(daemon: Daemon, body: ChannelsOfList) -> SettingsDifference:
    """Changes nothing. A list is the truth about its own channels; secrets are compared and never shown."""
    there = [one.spec for one in await daemon.store.notifications.channels()]
    return _difference("channels", there, channels_of(body.channels))


@router.post("/rules/diff", dependencies=_JSON, summary="What a list would change of rules")
async def diff_rules(daemon: Daemon, body: RulesOfList) -> SettingsDifference:
    """Changes nothing. A list is the truth about its own rules."""
    there = [one.spec for one in await daemon.store.notifications.rules()]
    return _difference("rules", there, rules_of(body.rules))


def _difference(section: str, there: Sequence[Listed], listed: Sequence[Listed]) -> SettingsDifference:
    before = {spec.name: spec for spec in there}
    found = SettingsDifference(added=[], changed=[], removed=[])
    for spec in listed:
        known = before.get(spec.name)
        if known is None:
            found.added.append(spec.name)
        elif known.origin is not Origin.FILE:
            raise InvalidValueError(f"{section}.{spec.name}", "a name not taken by one of the API", spec.name)
        elif known != spec:
            found.changed.append(NamedDifference(name=spec.name, fields=_fields(known, spec)))
    names = {spec.name for spec in listed}
    found.removed = sorted(spec.name for spec in there if spec.origin is Origin.FILE and spec.name not in names)
    return found


def _fields(before: Listed, after: Listed) -> list[FieldDifference]:
    old, new = _settings(before), _settings(after)
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    found = [FieldDifference(field=name, before=old.get(name), after=new.get(name), note=None) for name in names]
    if isinstance(before, ChannelSpec) and isinstance(after, ChannelSpec) and before.secrets != after.secrets:
        found = [one for one in found if one.field != "secrets"]
        secrets = old.get("secrets"), new.get("secrets")
        note = _SECRETS_DIFFER if secrets[0] == secrets[1] else None
        found.append(FieldDifference(field="secrets", before=secrets[0], after=secrets[1], note=note))
    return found


def _settings(spec: Listed) -> Mapping[str, Any]:
    if isinstance(spec, RuleSpec):
        rule: dict[str, Any] = orjson.loads(spec.settings)
        return {name: value for name, value in rule.items() if name != "name"}
    try:
        settings = shown(spec)
    except InvalidValueError as error:  # as stored: of an older version
        settings = {"fault": str(error)}
    return {"kind": spec.kind, "enabled": spec.enabled, **settings}
