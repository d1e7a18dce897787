"""The section `tags`: what the sites of a tag inherit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import replace

from pollerd.api.http.context import ApiPorts
from pollerd.api.schemas.inputs.settings import shown_setting
from pollerd.api.sites.list_formats import tag_of
from pollerd.api.transfer.document import Blocks, Counts, Record
from pollerd.api.transfer.sites import LEFT_OUT, SEALED, sealed, unsealed
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.model import Tags, TagSettings
from pollerd.site_settings import INHERITED


class TagsSection:
    """One record per tag: its name and settings, and its secrets, encrypted or named as left out."""

    name = "tags"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all tags that have settings, by name."""
        found = [_tag_record(tag, vault) for _, tag in sorted(daemon.control.tags.all().items()) if not tag.fault]
        if found:
            yield found

    def check(self, record: Record, vault: Vault | None) -> None:
        """Checks a record. Raises `InvalidValueError`."""
        _tag_of(record, vault)

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Gives the tags their settings; other tags stay as they are."""
        counts = await self.compare(daemon, blocks, vault)
        for record in (record for block in blocks() for _, record in block):
            tag = _kept(record, _tag_of(record, vault), daemon.control.tags.all())
            await daemon.control.tags.put(tag, by="an import")
        return counts

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Counts new, changed and unchanged tags."""
        counts, there = Counts(), daemon.control.tags.all()
        for record in (record for block in blocks() for _, record in block):
            tag = _kept(record, _tag_of(record, vault), there)
            before = there.get(tag.name)
            if before is None:
                counts.added += 1
            elif (dict(before.settings), before.access) == (dict(tag.settings), tag.access):
                counts.unchanged += 1
            else:
                counts.changed += 1
        return counts


def _tag_record(tag: TagSettings, vault: Vault | None) -> Record:
    said = {name: shown_setting(one, tag.settings[name]) for name, one in INHERITED.items() if name in tag.settings}
    return {"tag": tag.name, **said, **sealed(tag.access, _owner(tag.name), vault)}


def _tag_of(record: Record, vault: Vault | None) -> TagSettings:
    name = record.get("tag")
    if not isinstance(name, str):
        raise InvalidValueError("tag", "a text", type(name).__name__)
    given: dict[str, Any] = {k: v for k, v in record.items() if k not in ("section", "tag", LEFT_OUT, SEALED)}
    return tag_of(name, given | unsealed(record, _owner(name), vault))


def _kept(record: Record, tag: TagSettings, there: Tags) -> TagSettings:
    """Returns the tag with the secrets that it has here, where those of the export were left out."""
    return replace(tag, access=there[tag.name].access) if record.get(LEFT_OUT) and tag.name in there else tag


def _owner(name: str) -> str:
    """Returns what its secrets are bound to; no URL of a site is like it."""
    return f"tag {name}"
