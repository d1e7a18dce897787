"""Signal sources of a list: read, and compared with those that there are (the rest of `pollerd sites diff`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Depends
from pydantic import ConfigDict, Field, ValidationError

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Given, first_refusal
from pollerd.api.schemas.lists import FieldDifference, NamedDifference, SettingsDifference
from pollerd.api.signals.schemas import SourceName, checked_hosts
from pollerd.errors import InvalidValueError
from pollerd.storage import ListedSignalSource, SignalHosts, SignalKind, SignalOrigin, SignalSource
from pollerd.urls import normalise_url

router = api_router(tag="signals")
MOST_LISTED = 10_000


class SignalSourceOfList(Given):
    """A signal source as a list names it: the site by its URL, or a name."""

    url: str | None = Field(None, description="of the site that is polled for it; of all kinds but push")
    name: SourceName | None = Field(None, description="of kind push only")
    kind: SignalKind = Field("sitemap", description="as POST /signal-sources takes it")
    hosts: SignalHosts | None = None

    def checked(self) -> ListedSignalSource:
        """Returns the source. Raises `InvalidValueError`."""
        pushed = self.kind == "push"
        if pushed != (self.name is not None):
            raise InvalidValueError("name", "given for kind push, and for no other", self.name)
        if pushed == (self.url is not None):
            raise InvalidValueError("url", "given for every kind but push", self.url)
        hosts = checked_hosts(self.kind, self.hosts)
        url = None if self.url is None else normalise_url(self.url)
        return ListedSignalSource(self.kind, url, self.name, hosts)


class SignalSourcesOfList(Given):
    """The signal sources of a list."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"signal_sources": [{"url": "https://example.org/map.xml"}]}]}
    )

    signal_sources: list[SignalSourceOfList] = Field(max_length=MOST_LISTED)


def signal_source_of(fields: Mapping[str, Any]) -> ListedSignalSource:
    """Returns the signal source of a list's fields, checked. Raises `InvalidValueError`."""
    try:
        return SignalSourceOfList.model_validate(fields).checked()
    except ValidationError as error:
        raise first_refusal(error, "signal_source", "as a list has it") from error


def signal_sources_of(listed: Sequence[Mapping[str, Any]]) -> list[ListedSignalSource]:
    """Returns the signal sources of a list, each once. Raises `InvalidValueError`, naming place and field."""
    found: dict[str, ListedSignalSource] = {}
    for place, fields in enumerate(listed):
        try:
            one = signal_source_of(fields)
        except InvalidValueError as error:
            raise InvalidValueError(f"signal_sources[{place}].{error.field}", error.allowed, error.given) from error
        if one.key in found:
            raise InvalidValueError(f"signal_sources[{place}]", "another than those before it", one.key)
        found[one.key] = one
    return list(found.values())


@router.post(
    "/signal-sources/diff", dependencies=[Depends(json_body)], summary="What a list would change of signal sources"
)
async def diff_signal_sources(daemon: Daemon, body: SignalSourcesOfList) -> SettingsDifference:
    """Changes nothing. A list is the truth about its own signal sources, and takes over those that it names."""
    there = {one.key: one for one in await daemon.store.signals.all()}
    listed = {one.key: one for one in signal_sources_of([one.model_dump() for one in body.signal_sources])}
    found = SettingsDifference(added=[key for key in listed if key not in there], changed=[], removed=[])
    differences = [NamedDifference(name=key, fields=_fields(there[key], listed[key])) for key in listed if key in there]
    found.changed = [one for one in differences if one.fields]
    found.removed = [key for key, one in there.items() if one.origin is SignalOrigin.FILE and key not in listed]
    return found


def _fields(before: SignalSource, after: ListedSignalSource) -> list[FieldDifference]:
    pairs = {
        "kind": (before.spec.kind, after.kind),
        "hosts": (before.spec.hosts, after.hosts),
        "origin": (before.origin.value, SignalOrigin.FILE.value),
    }
    return [FieldDifference(field=f, before=b, after=a, note=None) for f, (b, a) in pairs.items() if b != a]
