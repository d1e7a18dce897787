"""Compares a list of sites without changing anything: the dry run of `pollerd run FILE [--sync]`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

from fastapi import Query, Request

from pollerd.api.http.context import Daemon
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.inputs.settings import shown_setting
from pollerd.api.schemas.lists import FieldDifference, ListDifference, Rejection, SiteDifference
from pollerd.api.sites.imports import ListFormat, posted_lines
from pollerd.api.sites.list_formats import LIST_BODY, Line, may_name_a_site
from pollerd.errors import InvalidValueError
from pollerd.fetching import without_userinfo
from pollerd.model import Site, SiteSpec, differing
from pollerd.site_settings import SITE_SETTINGS
from pollerd.storage import SiteStore

router = api_router("/sites", tag="sites")
MAX_SHOWN = 100_000
_BLOCK = 1_000
_NOT_SHOWN = "another value, which is not shown"


@router.post("/diff", openapi_extra=LIST_BODY, summary="What a list would change")
async def diff_sites(
    daemon: Daemon,
    request: Request,
    form: ListFormat = None,
    sync: Annotated[bool, Query(description="the list is the whole truth, as with run --sync")] = False,
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
        self._found = ListDifference()

    async def of(self, lines: Iterator[Line]) -> ListDifference:
        """Compares the list, block by block: it is read in a thread, so that polling continues."""
        while block := await asyncio.to_thread(list, islice(lines, _BLOCK)):
            await self._compare(self._usable(block))
        if self._sync and not self._unread and (self._listed or not self._found.rejected_count):
            missing = await self._store.missing_from(self._listed)
            self._found.removed_count = len(missing)
            self._found.removed = [url for _, url in missing[:MAX_SHOWN]]
        return self._found

    def _usable(self, block: Sequence[Line]) -> list[SiteSpec]:
        specs = []
        for line, found in block:
            if isinstance(found, InvalidValueError):
                self._unread += may_name_a_site(found)
                self._reject(line, str(found))
            elif found is None:
                continue
            elif found.url not in self._listed:
                self._listed.add(found.url)
                specs.append(found)
            elif self._sync:
                self._reject(line, f"url: {found.url} stands in the list before; the first counts")
        return specs

    def _reject(self, line: int, reason: str) -> None:
        self._found.rejected_count += 1
        if len(self._found.rejected) < MAX_SHOWN:
            printable = reason.encode("utf-8", "replace").decode("utf-8")
            self._found.rejected.append(Rejection(line=line, reason=printable))

    async def _compare(self, specs: Sequence[SiteSpec]) -> None:
        urls = [spec.url for spec in specs]
        there = await self._store.at(urls)
        new = [url for url in urls if url not in there]
        deleted = set() if self._sync else await self._store.deleted_among(new)
        for url in new:
            self._note(url, "left_out_as_deleted" if url in deleted else "added")
        self._found.existing += len(there)
        if self._sync:
            for spec in specs:
                if spec.url in there:
                    self._note_change(there[spec.url], spec)

    def _note(self, url: str, kind: str) -> None:
        count = f"{kind}_count"
        setattr(self._found, count, getattr(self._found, count) + 1)
        if len(getattr(self._found, kind)) < MAX_SHOWN:
            getattr(self._found, kind).append(url)

    def _note_change(self, site: Site, spec: SiteSpec) -> None:
        fields = [field_difference(name, site.spec, spec) for name in differing(site.spec, spec)]
        if fields:
            self._found.changed_count += 1
            if len(self._found.changed) < MAX_SHOWN:
                self._found.changed.append(SiteDifference(id=site.id, url=spec.url, fields=fields))


def field_difference(field: str, before: SiteSpec, after: SiteSpec) -> FieldDifference:
    """Returns the difference of one setting; of secrets only what routes of sites also show."""
    old, new = _shown(field, before), _shown(field, after)
    return FieldDifference(field=field, before=old, after=new, note=_NOT_SHOWN if old == new else None)


def _shown(field: str, spec: SiteSpec) -> Any:
    if field == "headers":
        return sorted(spec.access.header_names) or None
    if field == "credentials":
        return None if spec.access.credentials is None else "set"
    if field == "proxy":
        return None if spec.access.proxy is None else without_userinfo(spec.access.proxy)
    if field in ("body", "typed", "pdf_password"):
        return "set" if getattr(spec.access, field) not in (None, ()) else None
    return shown_setting(SITE_SETTINGS[field], getattr(spec, field))
