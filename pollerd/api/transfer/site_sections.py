"""Sections of a document: sites, tags, sources.

The section `sites`: settings and pauses of sites; without learned state, and without the focused crawler's sites.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
from msgspec.structs import replace

from pollerd.api.access import FIELDS as ACCESS_FIELDS
from pollerd.api.access import access_of
from pollerd.api.http import ApiPorts
from pollerd.api.inputs import check_spec, shown_setting
from pollerd.api.list_formats import FIELDS, spec_of, tag_of
from pollerd.api.lists import settings
from pollerd.api.sources import settings_of, source_of
from pollerd.api.transfer.document import BLOCK, Blocks, Counts, Record, Vault
from pollerd.errors import InvalidValueError, kind_of, refusal, unknown_name
from pollerd.model import Site
from pollerd.site_settings import INHERITED, Access, Tags, TagSettings
from pollerd.storage.sources import SourceSpec, StoredMember
from pollerd.storage.values import SiteRestore
from pollerd.texts import N_, _
from pollerd.urls import normalise_url

LEFT_OUT = "secrets_left_out"
SEALED = "secrets_sealed"


class SitesSection:
    """One record per site: the list fields that are set, and its secrets, encrypted or named as left out."""

    name = "sites"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all sites by id."""
        after = 0
        while sites := await daemon.store.sites.of_users(after, BLOCK):
            yield [_record(site, vault) for site in sites]
            after = sites[-1].id

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _restore(record, vault)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new sites, and applies the records' settings to existing ones; all others stay unchanged."""
        result = await daemon.control.sites.restore(lambda: _restores(blocks, vault))
        return Counts(result.added, result.changed, result.unchanged)

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged sites."""
        counts = Counts()
        for block in _restores(blocks, vault):
            stored = await daemon.store.sites.at([restore.spec.url for restore in block])
            for restore in block:
                site = stored.get(restore.spec.url)
                if site is None:
                    counts.added += 1
                elif restore.changes(site.spec):
                    counts.changed += 1
                else:
                    counts.unchanged += 1
        return counts


def _record(site: Site, vault: Vault | None) -> Record:
    return settings(site.spec) | sealed(site.spec.access, site.spec.url, vault)


def sealed(access: Access, owner: str, vault: Vault | None) -> Record:
    """Returns the fields of a record that hold secrets, encrypted for their owner, or name those that are left out."""
    if not access:
        return {}
    secrets = _secrets(access)
    if vault is None:
        return {LEFT_OUT: list(secrets)}
    return {SEALED: vault.seal(owner, orjson.dumps(secrets))}


def _secrets(access: Access) -> dict[str, Any]:
    """Returns the secrets that are set, spelled as in lists."""
    login = access.credentials
    credentials = None if login is None else {k: getattr(login, k) for k in ("username", "password", "token")}
    secrets = {
        "headers": dict(access.headers),
        "credentials": credentials and {k: v for k, v in credentials.items() if v is not None},
        "proxy": access.proxy,
        "body": access.body,
        "typed": list(access.typed),
        "pdf_password": access.pdf_password,
    }
    return {name: value for name, value in secrets.items() if value or (name == "body" and value is not None)}


def _restore(record: Record, vault: Vault | None) -> SiteRestore:
    fields = {name: value for name, value in record.items() if name not in ("section", LEFT_OUT, SEALED)}
    unknown = sorted(fields.keys() - set(FIELDS))
    if unknown:
        raise unknown_name(unknown[0][:100], N_("field"), unknown[0][:100], FIELDS)
    url = normalise_url(str(record.get("url")), fragment=bool(record.get("render")))
    fields |= unsealed(record, url, vault)
    return SiteRestore(check_spec(spec_of(fields)), keeps_access=bool(record.get(LEFT_OUT)))


def unsealed(record: Record, owner: str, vault: Vault | None) -> dict[str, Any]:
    """Returns the secrets of a record, as in lists. Raises `InvalidValueError`."""
    left_out = record.get(LEFT_OUT, [])
    if not (isinstance(left_out, list) and all(name in ACCESS_FIELDS for name in left_out)):
        raise InvalidValueError(
            LEFT_OUT, _("a list of {access_fields}", access_fields=", ".join(ACCESS_FIELDS)), "(not shown)"
        )
    if SEALED not in record:
        return {"typed": []} if "typed" in left_out else {}
    if vault is None:
        raise refusal("document", _("it does not say how its secrets are sealed: it was cut or edited"))
    return _opened(vault.open(owner, record[SEALED]))


def _opened(data: bytes) -> dict[str, Any]:
    secrets = orjson.loads(data)
    access_of(secrets)  # checks the types
    return dict(secrets)


def _restores(blocks: Blocks, vault: Vault | None) -> Iterator[list[SiteRestore]]:
    for block in blocks():
        yield [_restore(record, vault) for _line, record in block]


# The section `tags`: what the sites of a tag inherit.


class TagsSection:
    """One record per tag: its name and settings, and its secrets, encrypted or named as left out."""

    name = "tags"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all tags that have settings, by name."""
        records = [_tag_record(tag, vault) for _name, tag in sorted(daemon.control.tags.all().items()) if not tag.fault]
        if records:
            yield records

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _tag_of(record, vault)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Gives the tags their settings; other tags stay as they are."""
        counts = await self.compare(daemon, blocks, vault)
        for record in (record for block in blocks() for _line, record in block):
            tag = _kept(record, _tag_of(record, vault), daemon.control.tags.all())
            await daemon.control.tags.put(tag, by="an import")
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged tags."""
        counts, stored = Counts(), daemon.control.tags.all()
        for record in (record for block in blocks() for _line, record in block):
            tag = _kept(record, _tag_of(record, vault), stored)
            before = stored.get(tag.name)
            if before is None:
                counts.added += 1
            elif (dict(before.settings), before.access) == (dict(tag.settings), tag.access):
                counts.unchanged += 1
            else:
                counts.changed += 1
        return counts


def _tag_record(tag: TagSettings, vault: Vault | None) -> Record:
    settings = {
        name: shown_setting(setting, tag.settings[name]) for name, setting in INHERITED.items() if name in tag.settings
    }
    return {"tag": tag.name, **settings, **sealed(tag.access, _owner(tag.name), vault)}


def _tag_of(record: Record, vault: Vault | None) -> TagSettings:
    name = record.get("tag")
    if not isinstance(name, str):
        raise InvalidValueError("tag", _("a text"), kind_of(name))
    fields: dict[str, Any] = {k: v for k, v in record.items() if k not in ("section", "tag", LEFT_OUT, SEALED)}
    return tag_of(name, fields | unsealed(record, _owner(name), vault))


def _kept(record: Record, tag: TagSettings, stored: Tags) -> TagSettings:
    """Returns the tag with the secrets that it has here, where those of the export were left out."""
    return replace(tag, access=stored[tag.name].access) if record.get(LEFT_OUT) and tag.name in stored else tag


def _owner(name: str) -> str:
    """Returns what its secrets are bound to; no URL of a site is like it."""
    return f"tag {name}"


# The sections `sources` and `source_sites`: sitemaps and feeds, and which sites they brought.

_READ_AFTER_SECONDS = 300.0
"""A source that an import adds is read when its pages are noted: else it would take its own sites for the user's."""
_MEMBER = {"section", "source", "url", "site", "joined", "added", "paused", "since"}


class SourcesSection:
    """One record per source: its settings."""

    name = "sources"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all sources by id."""
        sources = await daemon.store.sources.all()
        for start in range(0, len(sources), BLOCK):
            yield [settings_of(source.spec) for source in sources[start : start + BLOCK]]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _spec(record)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Adds new sources, and applies the records' settings to existing ones; all others stay."""
        return await self._go_through(daemon, blocks, apply=True)

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged sources."""
        return await self._go_through(daemon, blocks, apply=False)

    async def _go_through(self, daemon: ApiPorts, blocks: Blocks, *, apply: bool) -> Counts:
        counts = Counts()
        for specs in ([_spec(record) for _line, record in block] for block in blocks()):
            stored = await daemon.store.sources.at([spec.url for spec in specs])
            for spec in specs:
                source = stored.get(spec.url)
                if source is None:
                    counts.added += 1
                elif source.spec == spec:
                    counts.unchanged += 1
                    continue
                else:
                    counts.changed += 1
                if apply and source is None:
                    await daemon.control.sources.add(spec, after=_READ_AFTER_SECONDS)
                elif apply and source is not None:
                    await daemon.control.sources.update(source.id, spec)
        return counts


class SourceSitesSection:
    """One record per page of a source: without them no source would pause or resume what it brought before."""

    name = "source_sites"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields the pages of all sources, by source and URL."""
        for source in await daemon.store.sources.all():
            after = ""
            while members := await daemon.store.sources.stored_members(source.id, after, BLOCK):
                yield [{"source": source.spec.url, **member.fields()} for member in members]
                after = members[-1].url

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _member(record)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Notes the pages of sources and sites that are there; pages that are known stay as they are."""
        added, unchanged = await daemon.store.sources.put_members(lambda: _members(blocks))
        return Counts(added=added, unchanged=unchanged)

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts the new ones, as if sources and sites of the document were there."""
        counts = Counts()
        for block in _members(blocks):
            known = await daemon.store.sources.known_members(block)
            counts.added += len(block) - known
            counts.unchanged += known
        return counts


def _spec(record: Record) -> SourceSpec:
    settings = {name: value for name, value in record.items() if name != "section"}
    return source_of(settings)


def _member(record: Record) -> tuple[str, StoredMember]:
    if record.keys() != _MEMBER:
        allowed = _("{member} and nothing else", member=", ".join(sorted(_MEMBER - {"section"})))
        raise InvalidValueError("source_sites", allowed, ", ".join(record)[:200])
    for name in ("source", "url", "site"):
        _expect(name, record[name], isinstance(record[name], str) and normalise_url(record[name]) == record[name])
    for name in ("joined", "added", "paused"):
        _expect(name, record[name], isinstance(record[name], bool))
    since = record["since"]
    _expect("since", since, isinstance(since, int | float) and not isinstance(since, bool) and abs(since) < 1e12)
    values: dict[str, Any] = {name: record[name] for name in ("url", "site", "joined", "added", "paused")}
    return record["source"], StoredMember(**values, since=float(since))


def _expect(field: str, value: object, fits: bool) -> None:
    if not fits:
        raise InvalidValueError(field, _("as an export has it"), str(value)[:200])


def _members(blocks: Blocks) -> Iterator[list[tuple[str, StoredMember]]]:
    for block in blocks():
        yield [_member(record) for _line, record in block]


# The section `deleted_urls`: URLs deleted by the user, which lists do not add again.


class DeletedSection:
    """One record per URL. A URL that is a site in the target is skipped."""

    name = "deleted_urls"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all of them, by URL."""
        after = ""
        while deletions := await daemon.store.sites.deleted_urls(after, BLOCK):
            yield [{"url": url, "deleted_at": at} for url, at in deletions]
            after = deletions[-1][0]

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        if record.keys() != {"section", "url", "deleted_at"}:
            raise InvalidValueError("deleted_urls", _("url and deleted_at and nothing else"), ", ".join(record)[:200])
        url, at = record["url"], record["deleted_at"]
        if not isinstance(url, str) or normalise_url(url, fragment=True) != url:
            raise InvalidValueError("url", _("a normalised URL"), str(url)[:200])
        if isinstance(at, bool) or not (isinstance(at, int | float) and math.isfinite(at)):
            raise InvalidValueError("deleted_at", _("epoch seconds"), str(at)[:100])

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Marks those that are neither sites nor marked."""
        return Counts(*await daemon.store.sites.mark_deleted(lambda: _pairs(blocks)))

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts the new ones."""
        counts = Counts()
        for block in _pairs(blocks):
            urls = [url for url, _deleted_at in block]
            known = (await daemon.store.sites.at(urls)).keys() | await daemon.store.sites.deleted_among(urls)
            counts.added += len(set(urls) - known)
            counts.unchanged += len(block) - len(set(urls) - known)
        return counts


def _pairs(blocks: Blocks) -> Iterator[list[tuple[str, float]]]:
    for block in blocks():
        yield [(record["url"], float(record["deleted_at"])) for _line, record in block]
