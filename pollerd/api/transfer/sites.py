"""The section `sites`: settings and pauses of sites; without learned state, and without the focused crawler's sites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson

from pollerd.api.http.access import FIELDS as ACCESS_FIELDS
from pollerd.api.http.access import access_of
from pollerd.api.http.context import ApiPorts
from pollerd.api.http.limits import check_spec
from pollerd.api.sites.exports import settings
from pollerd.api.sites.list_formats import FIELDS, spec_of
from pollerd.api.transfer.document import BLOCK, Blocks, Counts, Record
from pollerd.api.transfer.vault import Vault
from pollerd.errors import InvalidValueError
from pollerd.model import Access, Site
from pollerd.storage import SiteRestore

LEFT_OUT = "secrets_left_out"
SEALED = "secrets_sealed"


class SitesSection:
    """One record per site: the list fields that are set, and its secrets, encrypted or named as left out."""

    name = "sites"

    async def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all sites by id."""
        after = 0
        while found := await daemon.store.sites.of_users(after, BLOCK):
            yield [_record(site, vault) for site in found]
            after = found[-1].id

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
            there = await daemon.store.sites.at([one.spec.url for one in block])
            for one in block:
                site = there.get(one.spec.url)
                if site is None:
                    counts.added += 1
                elif one.changes(site.spec):
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
    given = access.credentials
    credentials = None if given is None else {k: getattr(given, k) for k in ("username", "password", "token")}
    found = {
        "headers": dict(access.headers),
        "credentials": credentials and {k: v for k, v in credentials.items() if v is not None},
        "proxy": access.proxy,
        "body": access.body,
        "typed": list(access.typed),
        "pdf_password": access.pdf_password,
    }
    return {name: value for name, value in found.items() if value or (name == "body" and value is not None)}


def _restore(record: Record, vault: Vault | None) -> SiteRestore:
    given = {name: value for name, value in record.items() if name not in ("section", LEFT_OUT, SEALED)}
    unknown = sorted(given.keys() - set(FIELDS))
    if unknown:
        raise InvalidValueError(unknown[0][:100], f"left out; known are {', '.join(FIELDS)}", "(not shown)")
    given |= unsealed(record, str(record.get("url")), vault)
    return SiteRestore(check_spec(spec_of(given)), keeps_access=bool(record.get(LEFT_OUT)))


def unsealed(record: Record, owner: str, vault: Vault | None) -> dict[str, Any]:
    """Returns the secrets of a record, as in lists. Raises `InvalidValueError`."""
    left_out = record.get(LEFT_OUT, [])
    if not (isinstance(left_out, list) and all(name in ACCESS_FIELDS for name in left_out)):
        raise InvalidValueError(LEFT_OUT, f"a list of {', '.join(ACCESS_FIELDS)}", "(not shown)")
    if SEALED not in record:
        return {"typed": []} if "typed" in left_out else {}
    if vault is None:
        raise InvalidValueError("document", "one that says how its secrets are sealed", "one that does not")
    return _opened(vault.open(owner, record[SEALED]))


def _opened(data: bytes) -> dict[str, Any]:
    found = orjson.loads(data)
    access_of(found)  # checks the types
    return dict(found)


def _restores(blocks: Blocks, vault: Vault | None) -> Iterator[list[SiteRestore]]:
    for block in blocks():
        yield [_restore(record, vault) for _, record in block]
