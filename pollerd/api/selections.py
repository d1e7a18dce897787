"""Selections of a site, and their values.

Routes of a site's selections: how each stands, and the values that they had.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.access import AccessFields
from pollerd.api.common import Listing
from pollerd.api.http import (
    ApiPorts,
    Cursor,
    Daemon,
    GivenOrder,
    Limit,
    Since,
    SiteId,
    Words,
    api_router,
    json_body,
    picture,
    picture_answers,
)
from pollerd.api.inputs import Render, Selections, check_render, check_selections, check_spec
from pollerd.daemon.control.preview import PagePreview
from pollerd.errors import InvalidValueError, refusal, unknown_name
from pollerd.model import DEFAULT_SELECTION, CurrentValue, Media, SelectionState, Site
from pollerd.plots import PlotLabels, PlotPoint, line_plot
from pollerd.shown import Moment
from pollerd.site_settings import NO_ACCESS, SiteSpec
from pollerd.storage.history import ReadingFilter, RecordedReading
from pollerd.texts import N_, _
from pollerd.timestamps import parse_moment

# Selections of a site, their values, and previews of them.

_TEXT = "a plain decimal number, a date as ISO 8601, or the text itself"


class SelectionStatus(BaseModel):
    """A selection as it stands."""

    name: str
    kind: Media | None = Field(description="of its content; null: nothing of it was found yet")
    missing: str = Field(description="why the last poll found nothing of it; empty: it did")
    values: list[CurrentValue]

    @classmethod
    def of(cls, state: SelectionState) -> SelectionStatus:
        """Returns the state for an answer."""
        values = [CurrentValue.of(name, value) for name, value in state.readings.items()]
        return cls(name=state.name, kind=state.baseline.media, missing=state.missing, values=values)


class ValueSchema(BaseModel):
    """A value from a moment on."""

    id: int
    selection: str
    name: str
    at: Moment
    text: str = Field(description=_TEXT)
    number: float | None
    moment: Moment | None
    currency: str | None
    problem: str = Field(description="why it could not be read then; the rest is from before")

    @classmethod
    def of(cls, reading: RecordedReading) -> ValueSchema:
        """Returns the record for an answer."""
        value = reading.value
        return cls(
            id=reading.id,
            selection=reading.selection,
            name=reading.name,
            at=reading.at,
            text=value.text,
            number=value.number,
            moment=value.moment,
            currency=value.currency,
            problem=value.problem,
        )


class PreviewRequest(AccessFields):
    """A page, or a site whose stored content is taken, and the selections to try."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url": "https://example.org/shop",
                    "selections": {"default": {"steps": [{"keep": {"css": "#price"}}]}},
                }
            ],
            "oneOf": [{"required": ["url"]}, {"required": ["site_id"]}],
        }
    )

    url: str | None = Field(None, description="the page to fetch")
    site_id: int | None = Field(None, ge=1, description="the site whose stored content, which is text, is taken")
    selections: Selections | None = Field(None, description="as of a site; default: the whole page")
    render: Render | None = Field(
        None, description="as of a site; default: those of the site at this URL, if there is one"
    )


router = api_router("/sites", tag="sites")
Name = Annotated[Words | None, Query(max_length=100)]


async def _wanted_values(selection: Name = None, name: Name = None, since: Since = None) -> ReadingFilter:
    return ReadingFilter(None if since is None else parse_moment("since", since), selection, name)


WantedValues = Annotated[ReadingFilter, Depends(_wanted_values)]


@router.get("/{site_id:id}/selections", summary="How a site's selections stand")
async def list_selections(daemon: Daemon, site_id: SiteId) -> Listing[SelectionStatus]:
    """Each with its present values, and why the last poll found nothing of it, if so. None before the first poll."""
    await daemon.store.sites.get(site_id)
    states = await daemon.store.history.selection_states(site_id)
    return Listing.of(map(SelectionStatus.of, states), None)


@router.get("/{site_id:id}/values", summary="The values of a site's selections over time")
async def list_values(
    daemon: Daemon,
    site_id: SiteId,
    reading_filter: WantedValues,
    limit: Limit = 100,
    cursor: Cursor = None,
    order: GivenOrder = None,
) -> Listing[ValueSchema]:
    """Each value as it was read first, until its next record; newest first, or oldest first."""
    await daemon.store.sites.get(site_id)
    page = await daemon.store.history.list_readings(site_id, reading_filter, limit, cursor, order)
    return Listing.of(map(ValueSchema.of, page.items), page.next_cursor)


# The route of previews.

preview_router = api_router(tag="sites")


@preview_router.post("/preview", dependencies=[Depends(json_body)], summary="What selections would keep of a page")
async def preview_page(daemon: Daemon, preview: PreviewRequest) -> PagePreview:
    """Gets `url` as a poll would, or takes the stored content of a site, and changes nothing.

    For a site it also applies the conditions to the last stored changes that were kept by the same steps and values.
    """
    if (preview.url is None) == (preview.site_id is None):
        raise InvalidValueError("url", _("given, or site_id: one of the two"), "both" if preview.url else "none")
    selections = check_selections(preview.selections or {"default": {}})
    if preview.site_id is not None:
        return await daemon.control.preview.of_stored(preview.site_id, selections)
    render, typed = check_render(preview.render)
    access = dataclasses.replace(preview.access(NO_ACCESS), typed=typed)
    spec = check_spec(SiteSpec(preview.url or "", access=access, selections=selections, render=render))
    return await daemon.control.preview.of_url(spec)


# Route of the plot of a value's history.

MAX_POINTS = 5_000
_PAGE = 1_000
_MEDIA = "image/svg+xml"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Its own style, which is all that it holds besides shapes and texts."""


@router.get(
    "/{site_id:id}/values.svg",
    response_class=Response,
    responses=picture_answers(_MEDIA, '<svg xmlns="http://www.w3.org/2000/svg"/>'),
    summary="The history of a value as a plot",
)
async def plot_values(
    request: Request,
    daemon: Daemon,
    site_id: SiteId,
    name: Annotated[Words | None, Query(max_length=100, description="of the value; default: the only one")] = None,
    selection: Annotated[Words, Query(max_length=100)] = DEFAULT_SELECTION,
    since: Since = None,
) -> Response:
    """An SVG of a number, price or date over time, in UTC, with gaps where it could not be read; the newest 5,000."""
    site = await daemon.store.sites.get(site_id)
    chosen = await _chosen(daemon, site_id, selection, name)
    reading_filter = ReadingFilter(None if since is None else parse_moment("since", since), selection, chosen)
    readings = await _newest(daemon, site_id, reading_filter)
    svg = _drawn(site, chosen, selection, readings)
    answer = picture(svg.encode(), _MEDIA, f"site-{site_id}-values.svg", request.headers.get("accept", ""))
    answer.headers["Content-Security-Policy"] = _POLICY
    return answer


async def _chosen(daemon: ApiPorts, site_id: int, selection: str, name: str | None) -> str:
    """Returns the name of the value to plot. Raises `InvalidValueError`, naming those that there are."""
    states = await daemon.store.history.selection_states(site_id)
    names = sorted({known for state in states if state.name == selection for known in state.readings})
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        if not names:
            raise refusal("name", _("the selection reads no values"))
        if name is None:
            raise refusal("name", _("give one of {names}", names=", ".join(names)))
        raise unknown_name("name", N_("value"), name, names)
    return name


async def _newest(daemon: ApiPorts, site_id: int, reading_filter: ReadingFilter) -> list[RecordedReading]:
    """Returns the newest readings, oldest first."""
    readings: list[RecordedReading] = []
    cursor: str | None = None
    while len(readings) < MAX_POINTS:
        page = await daemon.store.history.list_readings(site_id, reading_filter, _PAGE, cursor, None)
        readings += page.items
        cursor = page.next_cursor
        if cursor is None or not page.items:
            break
    return readings[::-1]


def _drawn(site: Site, name: str, selection: str, readings: list[RecordedReading]) -> str:
    dates = any(reading.value.moment is not None for reading in readings)
    unit = next((reading.value.currency for reading in reversed(readings) if reading.value.currency), None)
    points = [PlotPoint(reading.at, _number(reading, unit, dates=dates)) for reading in readings]
    if (
        readings
        and all(point.value is None for point in points)
        and any(not reading.value.problem for reading in readings)
    ):
        raise InvalidValueError("name", _("of a value that is a number, price or date: texts have no plot"), name)
    whose = site.title or site.spec.url
    of = "" if selection == DEFAULT_SELECTION else f"{selection}, "
    last = max(site.last_poll_at or 0.0, readings[-1].at if readings else 0.0)
    return line_plot(points, PlotLabels(f"{name} - {of}{whose}", unit or "", dates=dates), last)


def _number(reading: RecordedReading, unit: str | None, *, dates: bool) -> float | None:
    """Returns the value to draw; None where it was not read, or is in another currency than the last one."""
    value = reading.value
    if value.problem or (value.currency or unit) != unit:
        return None
    return value.moment if dates else value.number


ROUTERS = (router, preview_router)
