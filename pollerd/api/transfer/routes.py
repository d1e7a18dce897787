"""Routes that export and import all user settings as one document."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Annotated, Any, BinaryIO, Literal, Protocol, cast

from fastapi import Header, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from pollerd.api.http import ApiPorts, Daemon, api_router
from pollerd.api.transfer import setting_sections, site_sections
from pollerd.api.transfer.document import (
    Blocks,
    Counts,
    Document,
    Record,
    Vault,
    Writer,
    new_parameters,
    passphrase_of,
    read_document,
)
from pollerd.api.transfer.site_sections import LEFT_OUT
from pollerd.errors import InvalidValueError
from pollerd.texts import _

# Results of importing a settings document, by section.


class SecretsMissing(BaseModel):
    """A site, a tag or a channel whose secrets the document names and does not hold."""

    url: str | None = Field(description="of the site; null: it is none")
    tag: str | None = Field(description="its name; null: it is none")
    channel: str | None = Field(None, description="its name; null: it is none")
    kinds: list[str] = Field(description="headers, credentials … of a site or tag; names of a channel's secrets")


class RestoredSection(BaseModel):
    """What became of one section of a document; with `dry_run` (`compared`) what would."""

    section: str
    status: Literal["applied", "compared", "refused", "not_tried"]
    added: int
    changed: int
    unchanged: int
    reason: str | None = Field(description="why it was refused: nothing of the section is in force")


class RestoreReport(BaseModel):
    """What became of a document. `secrets_missing` shows at most 10,000 sites; `secrets_missing_count` counts all."""

    dry_run: bool
    complete: bool = Field(description="false: a section was refused, and those behind it were not tried")
    sections: list[RestoredSection]
    secrets_missing: list[SecretsMissing]
    secrets_missing_count: int


# Sections of a document. A new kind of user setting is a new module and a line here.


class Section(Protocol):
    """One kind of user setting."""

    name: str

    def records(self, daemon: ApiPorts, vault: Vault | None) -> AsyncIterator[list[Record]]:
        """Yields all records, in pieces, in a stable order. Secrets are encrypted, or named as left out."""

    def check(self, record: Record, vault: Vault | None) -> None:
        """Raises `InvalidValueError` for an invalid record."""

    async def put(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Applies all records or none. Raises `InvalidValueError` if the daemon refuses them."""

    async def compare(self, daemon: ApiPorts, blocks: Blocks, vault: Vault | None) -> Counts:
        """Returns what `put` would do."""


def sections() -> Sequence[Section]:
    """Returns all sections, in the order of writing and applying: sites after the allocator that they suit.

    Tags come before their sites. Sources come last: their pages are noted at sites, and what a user deleted does not
    come back with them. Rules come after their channels.
    """
    return (
        setting_sections.AllocationSection(),
        site_sections.TagsSection(),
        site_sections.SitesSection(),
        site_sections.DeletedSection(),
        site_sections.SourcesSection(),
        site_sections.SourceSitesSection(),
        setting_sections.SignalSourcesSection(),
        setting_sections.ChannelsSection(),
        setting_sections.RulesSection(),
    )


router = api_router(tag="transfer")
MEDIA_TYPE = "application/octet-stream"
MAX_MISSING_SHOWN = 10_000
_IN_MEMORY_BYTES = 8 * 1024 * 1024
_EXAMPLE = (
    '{"pollerd_export":1,"written_by":"0.1.0","sections":["allocation","tags","sites","deleted_urls"],"secrets":null}\n'
)
_TEXT: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}, "example": _EXAMPLE}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "the document, as JSON lines", "content": {MEDIA_TYPE: _TEXT}}
}
_BODY = {"requestBody": {"required": True, "content": {MEDIA_TYPE: _TEXT}}}
_SPELLED = {"pattern": "^[A-Za-z0-9+/]+={0,2}$"}
_HEADER = Header(
    alias="Pollerd-Passphrase",
    description="the passphrase: its UTF-8 in base64",
    max_length=8192,
    json_schema_extra=_SPELLED,
    examples=["Y29ycmVjdCBob3JzZSBiYXR0ZXJ5"],
)


@router.get("/export", response_class=StreamingResponse, responses=_ANSWERS, summary="All that was set")
async def export_settings(daemon: Daemon, request: Request) -> StreamingResponse:
    """Sites with their settings and pauses, the allocation, what was deleted by hand: as `import` takes it. Secrets are
    only named: a site's record names the kinds that it has. JSON lines, streamed; an
    answer that breaks off lacks its last line, and is refused by the import.
    """
    return await _answer(daemon, request, None, None)


@router.post("/export", response_class=StreamingResponse, responses=_ANSWERS, summary="All that was set, secrets too")
async def export_settings_with_secrets(
    daemon: Daemon, request: Request, passphrase: Annotated[str, _HEADER]
) -> StreamingResponse:
    """The same with headers, credentials and proxies of sites, sealed under the passphrase (8 characters at least).

    A call that writes, for the scope it takes: who may read settings may not take secrets away.
    """
    parameters = new_parameters()
    secret = passphrase_of(passphrase, new=True)
    vault = await asyncio.to_thread(Vault, cast(str, secret), parameters)
    return await _answer(daemon, request, vault, parameters)


async def _answer(
    daemon: ApiPorts, request: Request, vault: Vault | None, parameters: dict[str, Any] | None
) -> StreamingResponse:
    known = sections()
    writer = Writer(request.app.version, [section.name for section in known], parameters)
    if vault is not None:
        vault.header = writer.header
    written = _written(daemon, known, writer, vault)
    # The first record is read before the answer begins, so that a database failure becomes a problem document.
    begun = [await anext(written), await anext(written)]
    headers = {"Content-Disposition": 'attachment; filename="pollerd-export.jsonl"', "Cache-Control": "no-store"}
    return StreamingResponse(_rest(begun, written), media_type=MEDIA_TYPE, headers=headers)


async def _rest(begun: Sequence[bytes], written: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for piece in begun:
        yield piece
    async for piece in written:
        yield piece


async def _written(
    daemon: ApiPorts, known: Sequence[Section], writer: Writer, vault: Vault | None
) -> AsyncIterator[bytes]:
    yield writer.header
    for section in known:
        async for records in section.records(daemon, vault):
            yield writer.lines(section.name, records)
    yield writer.end(vault)


@router.post("/import", openapi_extra=_BODY, summary="Put an export in force")
async def import_settings(
    daemon: Daemon,
    request: Request,
    dry_run: Annotated[bool, Query(description="say what would change, and change nothing")] = False,
    passphrase: Annotated[str | None, _HEADER] = None,
) -> RestoreReport:
    """Takes what `export` gave, up to 1 GiB, and refuses whole what is damaged, cut off or of another passphrase.

    What the document holds is put in force, section by section, each all or nothing; a section that is refused ends
    it. What it does not hold stays as it is.
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as opened:
        file = cast(BinaryIO, opened)
        await _receive(request, file)
        known = sections()
        document = await asyncio.to_thread(read_document, file, [section.name for section in known])
        secret = passphrase_of(passphrase)
        vault = await asyncio.to_thread(document.opened, secret)
        report = RestoreReport(dry_run=dry_run, complete=True, sections=[], secrets_missing=[], secrets_missing_count=0)
        await asyncio.to_thread(_check_all, document, known, vault, report)
        await _put_all(daemon, document, known, vault, report)
        return report


async def _receive(request: Request, file: BinaryIO) -> None:
    try:
        async for piece in request.stream():
            file.write(piece)
    except OSError as error:
        detail = _("the document cannot be kept while it is read: {reason}", reason=error.strerror)
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, detail) from error


def _check_all(document: Document, known: Sequence[Section], vault: Vault | None, report: RestoreReport) -> None:
    """Checks every record, before anything is changed. Raises `InvalidValueError`, naming the line."""
    for section in known:
        for block in document.blocks(section.name):
            for line, record in block:
                try:
                    section.check(record, vault)
                except InvalidValueError as error:
                    raise error.of(f"line {line}: {error.field}") from error
                _note_missing(record, report)


def _note_missing(record: dict[str, Any], report: RestoreReport) -> None:
    if record.get(LEFT_OUT):
        report.secrets_missing_count += 1
        if len(report.secrets_missing) < MAX_MISSING_SHOWN:
            report.secrets_missing.append(
                SecretsMissing(
                    url=record.get("url"), tag=record.get("tag"), channel=record.get("channel"), kinds=record[LEFT_OUT]
                )
            )


async def _put_all(
    daemon: ApiPorts, document: Document, known: Sequence[Section], vault: Vault | None, report: RestoreReport
) -> None:
    for section in known:
        if not report.complete:
            report.sections.append(_restored_section(section, "not_tried", Counts()))
            continue
        work = section.compare if report.dry_run else section.put
        try:
            counts = await work(daemon, lambda name=section.name: document.blocks(name), vault)  # type: ignore[misc]
        except InvalidValueError as error:
            report.complete = False
            report.sections.append(_restored_section(section, "refused", Counts(), str(error)))
        else:
            report.sections.append(_restored_section(section, "compared" if report.dry_run else "applied", counts))


def _restored_section(section: Section, status: Any, counts: Counts, reason: str | None = None) -> RestoredSection:
    return RestoredSection(
        section=section.name,
        status=status,
        added=counts.added,
        changed=counts.changed,
        unchanged=counts.unchanged,
        reason=reason,
    )


ROUTERS = (router,)
