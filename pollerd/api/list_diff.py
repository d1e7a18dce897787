"""Compares a list with what the daemon has.

Compares a list of sites without changing anything: the dry run of `pollerd run FILE [--sync]`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import orjson
from fastapi import Depends, Query, Request
from pydantic import ConfigDict, Field, ValidationError

from pollerd.api.common import Given, first_refusal
from pollerd.api.http import Daemon, api_router, json_body
from pollerd.api.inputs import shown_setting
from pollerd.api.list_formats import LIST_BODY, Line, may_name_a_site, tags_of
from pollerd.api.list_schemas import (
    ChannelsOfList,
    FieldDifference,
    ListDifference,
    NamedDifference,
    Rejection,
    RulesOfList,
    SettingsDifference,
    SiteDifference,
    SourcesOfList,
    TagsOfList,
)
from pollerd.api.lists import ListFormat, posted_lines
from pollerd.api.signals import SourceName, checked_hosts
from pollerd.api.sources import settings_of, sources_of
from pollerd.errors import InvalidValueError, refusal
from pollerd.fetching.settings import without_userinfo
from pollerd.masking import masked
from pollerd.model import Site
from pollerd.notifications.specs import channels_of, rules_of
from pollerd.notifications.stored_channels import shown
from pollerd.site_settings import SITE_SETTINGS, SiteSpec, TagSettings, differing
from pollerd.storage.notification_values import ChannelSpec, Origin, RuleSpec
from pollerd.storage.signals import ListedSignalSource, SignalHosts, SignalKind, SignalOrigin, SignalSource
from pollerd.storage.sites import SiteStore
from pollerd.storage.sources import SourceSpec
from pollerd.texts import N_, _
from pollerd.urls import normalise_url

router = api_router("/sites", tag="sites")
MAX_SHOWN = 100_000
_BLOCK = 1_000
_NOT_SHOWN = N_("another value, which is not shown")


@router.post("/diff", openapi_extra=LIST_BODY, summary="What a list would change")
async def diff_sites(
    daemon: Daemon,
    request: Request,
    form: ListFormat = None,
    sync: Annotated[bool, Query(description="the list is authoritative, as with run --sync")] = False,
) -> ListDifference:
    """Takes what the import takes, and changes nothing.

    Without `sync` a list only adds what is new. With `sync` it also removes what it leaves out and sets settings back
    to its own, those that it leaves out to their defaults. Secrets are compared and never shown.
    """
    return await _Comparison(daemon.store.sites, sync).of(await posted_lines(request, form))


class _Comparison:
    """Compares one list with the existing sites."""

    def __init__(self, store: SiteStore, sync: bool) -> None:
        self._store, self._sync = store, sync
        self._listed: set[str] = set()
        self._unread = 0
        self._difference = ListDifference()

    async def of(self, lines: Iterator[Line]) -> ListDifference:
        """Compares the list, block by block: it is read in a thread, so that polling continues."""
        while block := await asyncio.to_thread(list, islice(lines, _BLOCK)):
            await self._compare(self._usable(block))
        if self._sync and not self._unread and (self._listed or not self._difference.rejected_count):
            missing = await self._store.missing_from(self._listed)
            self._difference.removed_count = len(missing)
            self._difference.removed = [url for _site_id, url in missing[:MAX_SHOWN]]
        return self._difference

    def _usable(self, block: Sequence[Line]) -> list[SiteSpec]:
        specs = []
        for line, spec in block:
            if isinstance(spec, InvalidValueError):
                self._unread += may_name_a_site(spec)
                self._reject(line, str(spec))
            elif spec is None:
                continue
            elif spec.url not in self._listed:
                self._listed.add(spec.url)
                specs.append(spec)
            elif self._sync:
                self._reject(line, _("url: {url} is in the list already; the first line counts", url=spec.url))
        return specs

    def _reject(self, line: int, reason: str) -> None:
        self._difference.rejected_count += 1
        if len(self._difference.rejected) < MAX_SHOWN:
            printable = reason.encode("utf-8", "replace").decode("utf-8")
            self._difference.rejected.append(Rejection(line=line, reason=printable))

    async def _compare(self, specs: Sequence[SiteSpec]) -> None:
        urls = [spec.url for spec in specs]
        stored = await self._store.at(urls)
        new = [url for url in urls if url not in stored]
        deleted = set() if self._sync else await self._store.deleted_among(new)
        for url in new:
            self._note(url, "left_out_as_deleted" if url in deleted else "added")
        self._difference.existing += len(stored)
        if self._sync:
            for spec in specs:
                if spec.url in stored:
                    self._note_change(stored[spec.url], spec)

    def _note(self, url: str, kind: str) -> None:
        count = f"{kind}_count"
        setattr(self._difference, count, getattr(self._difference, count) + 1)
        if len(getattr(self._difference, kind)) < MAX_SHOWN:
            getattr(self._difference, kind).append(url)

    def _note_change(self, site: Site, spec: SiteSpec) -> None:
        fields = [field_difference(name, site.spec, spec) for name in differing(site.spec, spec)]
        if fields:
            self._difference.changed_count += 1
            if len(self._difference.changed) < MAX_SHOWN:
                self._difference.changed.append(SiteDifference(id=site.id, url=spec.url, fields=fields))


def field_difference(field: str, before: SiteSpec, after: SiteSpec) -> FieldDifference:
    """Returns the difference of one setting; of secrets only what routes of sites also show."""
    old, new = _shown(field, before), _shown(field, after)
    return FieldDifference(field=field, before=old, after=new, note=_(_NOT_SHOWN) if old == new else None)


def _shown(field: str, spec: SiteSpec) -> Any:
    if field == "headers":
        return sorted(spec.access.header_names) or None
    if field == "credentials":
        return None if spec.access.credentials is None else "set"
    if field == "proxy":
        return None if spec.access.proxy is None else without_userinfo(spec.access.proxy)
    if field in ("body", "typed", "pdf_password"):
        return "set" if getattr(spec.access, field) not in (None, ()) else None
    if field == "spelling":
        return spec.sent_url
    return shown_setting(SITE_SETTINGS[field], getattr(spec, field))


# Compares the tags and sources of a list with those that there are: the rest of `pollerd sites diff`.

settings_diff_router = api_router()
_JSON = [Depends(json_body)]
Sync = Annotated[bool, Query(description="the list is authoritative, as with run --sync")]


@settings_diff_router.post("/tags/diff", tags=["tags"], dependencies=_JSON, summary="What a list would change of tags")
async def diff_tags(daemon: Daemon, body: TagsOfList, sync: Sync = False) -> SettingsDifference:
    """Changes nothing. Without `sync` a list gives settings only to tags that have none.

    Secrets are compared and never shown.
    """
    stored, listed = daemon.control.tags.all(), {tag.name: tag for tag in tags_of(body.tags)}
    difference = SettingsDifference(added=sorted(listed.keys() - stored.keys()), changed=[], removed=[])
    if sync:
        difference.removed = sorted(stored.keys() - listed.keys())
        both = sorted(listed.keys() & stored.keys())
        changed = [NamedDifference(name=name, fields=_of_tag(stored[name], listed[name])) for name in both]
        difference.changed = [tag_difference for tag_difference in changed if tag_difference.fields]
    return difference


@settings_diff_router.post(
    "/sources/diff", tags=["sources"], dependencies=_JSON, summary="What a list would change of sources"
)
async def diff_sources(daemon: Daemon, body: SourcesOfList, sync: Sync = False) -> SettingsDifference:
    """Changes nothing. Without `sync` a list only adds sources that are not there."""
    stored = {source.spec.url: source.spec for source in await daemon.store.sources.all()}
    listed = {spec.url: spec for spec in sources_of(body.sources)}
    difference = SettingsDifference(added=[url for url in listed if url not in stored], changed=[], removed=[])
    if sync:
        difference.removed = [url for url in stored if url not in listed]
        both = [url for url in listed if url in stored]
        changed = [NamedDifference(name=url, fields=_of_source(stored[url], listed[url])) for url in both]
        difference.changed = [source_difference for source_difference in changed if source_difference.fields]
    return difference


def _of_tag(before: TagSettings, after: TagSettings) -> list[FieldDifference]:
    old, new = _as_site(before), _as_site(after)
    return [field_difference(name, old, new) for name in differing(old, new)]


def _as_site(tag: TagSettings) -> SiteSpec:
    settings = {name: value for name, value in tag.settings.items() if value is not None}
    return SiteSpec("http://tag/", access=tag.access, **settings)  # type: ignore[arg-type]


def _of_source(before: SourceSpec, after: SourceSpec) -> list[FieldDifference]:
    old, new = settings_of(before), settings_of(after)
    names = [name for name in new if old[name] != new[name]]
    return [FieldDifference(field=name, before=old[name], after=new[name], note=None) for name in names]


# Compares the channels and rules of a list with those that it named before: the rest of `pollerd sites diff`.

channel_list_router = api_router(tag="notifications")
_SECRETS_DIFFER = N_("secrets differ")
Listed = ChannelSpec | RuleSpec


@channel_list_router.post("/channels/diff", dependencies=_JSON, summary="What a list would change of channels")
async def diff_channels(daemon: Daemon, body: ChannelsOfList) -> SettingsDifference:
    """Changes nothing. A list is the truth about its own channels; secrets are compared and never shown."""
    stored = [channel.spec for channel in await daemon.store.notifications.channels.all()]
    return _difference("channels", stored, channels_of(body.channels))


@channel_list_router.post("/rules/diff", dependencies=_JSON, summary="What a list would change of rules")
async def diff_rules(daemon: Daemon, body: RulesOfList) -> SettingsDifference:
    """Changes nothing. A list is the truth about its own rules."""
    stored = [rule.spec for rule in await daemon.store.notifications.rules.all()]
    return _difference("rules", stored, rules_of(body.rules))


def _difference(section: str, stored: Sequence[Listed], listed: Sequence[Listed]) -> SettingsDifference:
    before = {spec.name: spec for spec in stored}
    difference = SettingsDifference(added=[], changed=[], removed=[])
    for spec in listed:
        known = before.get(spec.name)
        if known is None:
            difference.added.append(spec.name)
        elif known.origin is not Origin.FILE:
            raise InvalidValueError(f"{section}.{spec.name}", _("a name not taken by one of the API"), spec.name)
        elif known != spec:
            difference.changed.append(NamedDifference(name=spec.name, fields=_fields(known, spec)))
    names = {spec.name for spec in listed}
    difference.removed = sorted(spec.name for spec in stored if spec.origin is Origin.FILE and spec.name not in names)
    return difference


def _fields(before: Listed, after: Listed) -> list[FieldDifference]:
    old, new = _settings(before), _settings(after)
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    differences = [FieldDifference(field=name, before=old.get(name), after=new.get(name), note=None) for name in names]
    if isinstance(before, ChannelSpec) and isinstance(after, ChannelSpec) and before.secrets != after.secrets:
        differences = [difference for difference in differences if difference.field != "secrets"]
        secrets = old.get("secrets"), new.get("secrets")
        note = _(_SECRETS_DIFFER) if secrets[0] == secrets[1] else None
        differences.append(FieldDifference(field="secrets", before=secrets[0], after=secrets[1], note=note))
    return differences


def _settings(spec: Listed) -> Mapping[str, Any]:
    if isinstance(spec, RuleSpec):
        rule: dict[str, Any] = orjson.loads(spec.settings)
        return {name: value for name, value in rule.items() if name != "name"}
    try:
        settings = shown(spec)
    except InvalidValueError as error:  # as stored: of an older version
        settings = {"fault": str(error)}
    return {"kind": spec.kind, "enabled": spec.enabled, **settings}


# Signal sources of a list: read, and compared with those that there are (the rest of `pollerd sites diff`).

signal_list_router = api_router(tag="signals")
MAX_LISTED = 10_000


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
            raise InvalidValueError("name", _("given for kind push, and for no other"), self.name)
        if pushed == (self.url is not None):
            raise InvalidValueError("url", _("given for every kind but push"), self.url)
        hosts = checked_hosts(self.kind, self.hosts)
        url = None if self.url is None else normalise_url(self.url)
        return ListedSignalSource(self.kind, url, self.name, hosts)


class SignalSourcesOfList(Given):
    """The signal sources of a list."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"signal_sources": [{"url": "https://example.org/map.xml"}]}]}
    )

    signal_sources: list[SignalSourceOfList] = Field(max_length=MAX_LISTED)


def signal_source_of(fields: Mapping[str, Any]) -> ListedSignalSource:
    """Returns the signal source of a list's fields, checked. Raises `InvalidValueError`."""
    try:
        return SignalSourceOfList.model_validate(fields).checked()
    except ValidationError as error:
        raise first_refusal(error, "signal_source", _("as a list has it")) from error


def signal_sources_of(listed: Sequence[Mapping[str, Any]]) -> list[ListedSignalSource]:
    """Returns the signal sources of a list, each once. Raises `InvalidValueError`, naming place and field."""
    sources: dict[str, ListedSignalSource] = {}
    for place, fields in enumerate(listed):
        try:
            source = signal_source_of(fields)
        except InvalidValueError as error:
            raise error.of(f"signal_sources[{place}].{error.field}") from error
        if source.key in sources:
            raise refusal(f"signal_sources[{place}]", _("{key!r} is listed twice", key=masked(str(source.key))))
        sources[source.key] = source
    return list(sources.values())


@signal_list_router.post(
    "/signal-sources/diff", dependencies=[Depends(json_body)], summary="What a list would change of signal sources"
)
async def diff_signal_sources(daemon: Daemon, body: SignalSourcesOfList) -> SettingsDifference:
    """Changes nothing. A list is the truth about its own signal sources, and takes over those that it names."""
    stored = {signal.key: signal for signal in await daemon.store.signals.all()}
    listed = {
        signal_source.key: signal_source
        for signal_source in signal_sources_of([signal_source.model_dump() for signal_source in body.signal_sources])
    }
    difference = SettingsDifference(added=[key for key in listed if key not in stored], changed=[], removed=[])
    differences = [
        NamedDifference(name=key, fields=_listed_fields(stored[key], listed[key])) for key in listed if key in stored
    ]
    difference.changed = [source_difference for source_difference in differences if source_difference.fields]
    difference.removed = [
        key for key, source in stored.items() if source.origin is SignalOrigin.FILE and key not in listed
    ]
    return difference


def _listed_fields(before: SignalSource, after: ListedSignalSource) -> list[FieldDifference]:
    pairs = {
        "kind": (before.spec.kind, after.kind),
        "hosts": (before.spec.hosts, after.hosts),
        "origin": (before.origin.value, SignalOrigin.FILE.value),
    }
    return [FieldDifference(field=f, before=b, after=a, note=None) for f, (b, a) in pairs.items() if b != a]


ROUTERS = (router, settings_diff_router, channel_list_router, signal_list_router)
