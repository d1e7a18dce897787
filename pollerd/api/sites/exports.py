"""Exports all sites as a list that can be imported: with all settings, but no secrets."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Annotated, Any

import orjson
from fastapi import Query
from fastapi.responses import StreamingResponse

from pollerd.api.http.context import Daemon
from pollerd.api.http.format_names import Format, csv_text
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.inputs.settings import shown_setting
from pollerd.api.sites import opml
from pollerd.api.sites.list_formats import FIELDS
from pollerd.model import Site, SiteSpec
from pollerd.site_settings import SITE_SETTINGS, Kind
from pollerd.storage import ListPage, SiteStore

router = api_router("/sites", tag="sites")
_PAGE = 1000
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the list, in the type of its format",
        "content": {
            Format.TEXT.media: {"schema": {"type": "string"}, "example": "https://example.org/news\n"},
            Format.CSV.media: {"schema": {"type": "string"}},
            Format.JSON_LINES.media: {"schema": {"type": "string"}},
            Format.OPML.media: {"schema": {"type": "string"}},
        },
    }
}


@router.get("/export", response_class=StreamingResponse, responses=_ANSWERS, summary="All sites as a list")
async def export_sites(
    daemon: Daemon,
    form: Annotated[Format, Query(alias="format", description="text holds the URLs only")] = Format.JSON_LINES,
) -> StreamingResponse:
    """As `import` reads it: what defines a site, nothing that was learned, and no headers, credentials or proxies.

    It comes as it is read. An answer that breaks off is cut short, and clients see that it is.
    """
    # The first page is read before the answer begins, so that a database failure becomes a problem document.
    first = await daemon.store.sites.page(limit=_PAGE)
    headers = {"Content-Disposition": f'attachment; filename="sites.{form.suffix}"'}
    return StreamingResponse(_written(daemon.store.sites, first, form), media_type=form.media, headers=headers)


async def _written(store: SiteStore, page: ListPage[Site], form: Format) -> AsyncIterator[str]:
    write = WRITERS[form]
    yield HEADS.get(form, "")
    while True:
        yield "".join(write(site.spec) for site in page.items)
        if page.next_cursor is None:
            break
        page = await store.page(limit=_PAGE, cursor=page.next_cursor)
    yield TAILS.get(form, "")


def settings(spec: SiteSpec) -> dict[str, Any]:
    """Returns the set values of `FIELDS`, in their order."""
    values = {
        name: shown_setting(setting, getattr(spec, name))
        for name, setting in SITE_SETTINGS.items()
        if setting.kind is not Kind.ACCESS
    }
    values["title"] = spec.title or None
    values["method"] = "POST" if spec.access.body == "" else None  # another body is secret
    return {name: value for name, value in values.items() if value is not None and (name, value) != ("paused", False)}


def _texts(spec: SiteSpec) -> dict[str, str]:
    """Returns the settings as texts for CSV cells: tags separated by `;`, booleans lower case, numbers exact."""
    return {name: _cell(name, value) for name, value in settings(spec).items()}


def _cell(name: str, value: Any) -> str:
    match SITE_SETTINGS[name].kind if name in SITE_SETTINGS else Kind.TEXT:
        case Kind.TAGS:
            return ";".join(value)
        case Kind.WINDOWS | Kind.SELECTIONS | Kind.RENDER:
            return orjson.dumps(value).decode()
    return value if isinstance(value, str) else repr(value).lower()


def _text_line(spec: SiteSpec) -> str:
    return f"{spec.url}\n"


def _csv_line(spec: SiteSpec) -> str:
    texts = _texts(spec)
    return _csv([csv_text(texts.get(name, "")) for name in FIELDS])


def _csv(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _json_line(spec: SiteSpec) -> str:
    return orjson.dumps(settings(spec), option=orjson.OPT_APPEND_NEWLINE).decode()


def _outline(spec: SiteSpec) -> str:
    texts = _texts(spec)
    return opml.outline(texts.pop("url"), texts)


WRITERS: Mapping[Format, Callable[[SiteSpec], str]] = {
    Format.TEXT: _text_line,
    Format.CSV: _csv_line,
    Format.JSON_LINES: _json_line,
    Format.OPML: _outline,
}
"""Writer of a site by format."""
HEADS = {Format.CSV: _csv(FIELDS), Format.OPML: opml.HEAD}
"""Text before the first site."""
TAILS = {Format.OPML: opml.TAIL}
"""Text after the last site."""
