"""Compares the tags and sources of a list with those that there are: the rest of `pollerd sites diff`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.lists import (
    FieldDifference,
    NamedDifference,
    SettingsDifference,
    SourcesOfList,
    TagsOfList,
)
from pollerd.api.schemas.sources import settings_of, sources_of
from pollerd.api.sites.list_formats import tags_of
from pollerd.api.sites.site_diff import field_difference
from pollerd.model import SiteSpec, TagSettings, differing
from pollerd.storage import SourceSpec

router = api_router()
_JSON = [Depends(json_body)]
Sync = Annotated[bool, Query(description="the list is the whole truth, as with run --sync")]


@router.post("/tags/diff", tags=["tags"], dependencies=_JSON, summary="What a list would change of tags")
async def diff_tags(daemon: Daemon, body: TagsOfList, sync: Sync = False) -> SettingsDifference:
    """Changes nothing. Without `sync` a list gives settings only to tags that have none.

    Secrets are compared and never shown.
    """
    there, listed = daemon.control.tags.all(), {tag.name: tag for tag in tags_of(body.tags)}
    found = SettingsDifference(added=sorted(listed.keys() - there.keys()), changed=[], removed=[])
    if sync:
        found.removed = sorted(there.keys() - listed.keys())
        both = sorted(listed.keys() & there.keys())
        changed = [NamedDifference(name=name, fields=_of_tag(there[name], listed[name])) for name in both]
        found.changed = [one for one in changed if one.fields]
    return found


@router.post("/sources/diff", tags=["sources"], dependencies=_JSON, summary="What a list would change of sources")
async def diff_sources(daemon: Daemon, body: SourcesOfList, sync: Sync = False) -> SettingsDifference:
    """Changes nothing. Without `sync` a list only adds sources that are not there."""
    there = {source.spec.url: source.spec for source in await daemon.store.sources.all()}
    listed = {spec.url: spec for spec in sources_of(body.sources)}
    found = SettingsDifference(added=[url for url in listed if url not in there], changed=[], removed=[])
    if sync:
        found.removed = [url for url in there if url not in listed]
        both = [url for url in listed if url in there]
        changed = [NamedDifference(name=url, fields=_of_source(there[url], listed[url])) for url in both]
        found.changed = [one for one in changed if one.fields]
    return found


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
