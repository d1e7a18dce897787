"""Route of the plot of a value's history."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from pollerd.api.http.context import ApiPorts, Daemon
from pollerd.api.http.parameters import Since, SiteId, Words
from pollerd.api.http.pictures import picture, picture_answers
from pollerd.api.http.routing import api_router
from pollerd.api.http.timestamps import parse_moment
from pollerd.errors import InvalidValueError
from pollerd.model import DEFAULT_SELECTION, Site
from pollerd.plots.line_plot import PlotLabels, PlotPoint, line_plot
from pollerd.storage import ReadingFilter, RecordedReading

router = api_router("/sites", tag="sites")
MOST_POINTS = 5_000
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
    name: Annotated[Words | None, Query(max_length=100, description="of the value; left out: the only one")] = None,
    selection: Annotated[Words, Query(max_length=100)] = DEFAULT_SELECTION,
    since: Since = None,
) -> Response:
    """An SVG of a number, price or date over time, in UTC, with gaps where it could not be read; the newest 5,000."""
    site = await daemon.store.sites.get(site_id)
    chosen = await _chosen(daemon, site_id, selection, name)
    wanted = ReadingFilter(None if since is None else parse_moment("since", since), selection, chosen)
    readings = await _newest(daemon, site_id, wanted)
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
        known = f"one of {', '.join(names)}" if names else "left out: nothing is read by the selection"
        raise InvalidValueError("name", known, name)
    return name


async def _newest(daemon: ApiPorts, site_id: int, wanted: ReadingFilter) -> list[RecordedReading]:
    """Returns the newest readings, oldest first."""
    found: list[RecordedReading] = []
    cursor: str | None = None
    while len(found) < MOST_POINTS:
        page = await daemon.store.history.list_readings(site_id, wanted, _PAGE, cursor, None)
        found += page.items
        cursor = page.next_cursor
        if cursor is None or not page.items:
            break
    return found[::-1]


def _drawn(site: Site, name: str, selection: str, readings: list[RecordedReading]) -> str:
    dates = any(one.value.moment is not None for one in readings)
    unit = next((one.value.currency for one in reversed(readings) if one.value.currency), None)
    points = [PlotPoint(one.at, _number(one, unit, dates=dates)) for one in readings]
    if readings and all(point.value is None for point in points) and any(not one.value.problem for one in readings):
        raise InvalidValueError("name", "of a value that is a number, price or date: texts have no plot", name)
    whose = site.spec.title or site.spec.url
    of = "" if selection == DEFAULT_SELECTION else f"{selection}, "
    last = max(site.last_poll_at or 0.0, readings[-1].at if readings else 0.0)
    return line_plot(points, PlotLabels(f"{name} - {of}{whose}", unit or "", dates=dates), last)


def _number(reading: RecordedReading, unit: str | None, *, dates: bool) -> float | None:
    """Returns the value to draw; None where it was not read, or is in another currency than the last one."""
    value = reading.value
    if value.problem or (value.currency or unit) != unit:
        return None
    return value.moment if dates else value.number
