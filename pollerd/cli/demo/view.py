"""The display of the demo: figures, and each site's learned and true rate."""

from __future__ import annotations

import asyncio
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pollerd.app.demo_web import DemoSite, DemoWeb
from pollerd.cli.demo.score import Score, Watched, happened_since, score
from pollerd.daemon.control.control import Control
from pollerd.daemon.views import Status
from pollerd.texts import _, n_

# Samples of the demo: the daemon's view through its API, and the true changes.

_PAGE = 1_000
_OVERLAP_SECONDS = 30.0
"""Changes are committed some time after their date, so each sample requests the latest ones again."""
_TIMEOUT_SECONDS = 5.0
_DAY_MINUTES = 1_440.0


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One site: its properties, the belief about it, the results of its polls. Rates are changes per minute."""

    site: DemoSite
    state: str
    polls: int
    found: int
    happened: int
    learned: float | None
    low: float | None
    high: float | None
    outcome: str | None = None

    @property
    def true(self) -> float:
        """The site's true rate, inf: it differs at every request."""
        return self.site.true_rate_per_second * 60


@dataclass(frozen=True, slots=True)
class Sample:
    """The whole demo at one time; `elapsed` seconds after its start."""

    elapsed: float
    status: Status
    rows: tuple[SampleRow, ...]
    score: Score


class SampleReader:
    """Reads the daemon through its REST API, like any client, and the true changes from the web."""

    def __init__(self, web: DemoWeb, control: Control, api_url: str, clock: Callable[[], float]) -> None:
        self._web, self._control, self._api, self._clock = web, control, api_url, clock
        # Direct to loopback, regardless of a proxy in the environment.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._began = clock()
        self._found: dict[str, list[float]] = {}
        self._seen: set[int] = set()
        self._last_found = 0.0

    async def read(self) -> Sample | None:
        """Takes a sample; None if the API does not answer: it is starting, stopping or without database."""
        try:
            listed, changes = await asyncio.to_thread(self._ask)
        except urllib.error.HTTPError as error:
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return None
        except (OSError, HTTPException):
            return None
        self._take(changes)
        now = self._clock()
        return self._reading({site["url"]: site for site in listed}, now)

    def _ask(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        since = max(self._last_found - _OVERLAP_SECONDS, 0.0)
        return self._all("/sites", {}), self._all("/changes", {"since": str(since)})

    def _all(self, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        asked = {**query, "limit": str(_PAGE)}
        while True:
            url = f"{self._api}{path}?{urllib.parse.urlencode(asked)}"
            with self._opener.open(url, timeout=_TIMEOUT_SECONDS) as response:
                page = json.load(response)
            items += page["items"]
            if page["next_cursor"] is None:
                return items
            asked["cursor"] = page["next_cursor"]

    def _take(self, changes: list[dict[str, Any]]) -> None:
        for change in changes:
            if change["id"] in self._seen:
                continue
            self._seen.add(change["id"])
            at = datetime.fromisoformat(change["detected_at"].replace("Z", "+00:00")).timestamp()
            self._last_found = max(self._last_found, at)
            self._found.setdefault(change["url"], []).append(at)

    def _reading(self, listed: dict[str, dict[str, Any]], now: float) -> Sample:
        truth, begins = self._web.truth(now), self._web.first_answers()
        watched = {
            url: Watched(begins.get(url), site["polls"], sorted(self._found.get(url, [])))
            for url, site in listed.items()
        }
        rows = []
        for site in self._web.sites:
            if site.url in listed:
                happened = len(happened_since(truth[site.url], begins.get(site.url, math.inf)))
                rows.append(self._row(site, listed[site.url], happened))
        result = score(self._web.sites, truth, watched, now)
        return Sample(now - self._began, self._control.health.status(), tuple(rows), result)

    def _row(self, site: DemoSite, listed: dict[str, Any], happened: int) -> SampleRow:
        belief = self._control.explainer.explain(listed["id"])
        assert belief is not None
        return SampleRow(
            site=site,
            state=listed["state"],
            polls=listed["polls"],
            found=len(self._found.get(site.url, [])),
            happened=happened,
            learned=_per_minute(belief.rate_per_day),
            low=_per_minute(belief.rate_low_per_day),
            high=_per_minute(belief.rate_high_per_day),
            outcome=listed["last_outcome"],
        )


def _per_minute(per_day: float | None) -> float | None:
    return None if per_day is None else per_day / _DAY_MINUTES


_TRACK_CELLS, _TRACK_CELLS_NARROW = 26, 20
_TRACK_LOW, _TRACK_HIGH = 0.01, 60.0
"""Changes per minute at the ends of the scale."""
_WIDE, _MIDDLE = 112, 98
"""Minimum terminal widths for all columns, and for all but the numeric interval; narrower ones also omit the site's
address."""
_CHROME_LINES = 13
"""Lines of the live view that are not table rows."""


def live_view(reading: Sample, seconds: float, console: Console, pages: str) -> RenderableType:
    """Returns the view of a running demo, cut to the terminal's size. pages: the address of its web pages."""
    shown = pick(reading.rows, max(console.height - _CHROME_LINES, 5))
    parts: list[RenderableType] = [_header(reading, seconds), _tiles(reading), rates_table(shown, console.width)]
    left_out = len(reading.rows) - len(shown)
    if left_out:
        parts.append(
            Text(
                n_(
                    "  and {count} more site; the table at the end shows all",
                    "  and {count} more sites; the table at the end shows all",
                    left_out,
                ),
                style="dim",
            )
        )
    parts.append(Text(_("  in a browser: {pages}", pages=pages), style="dim"))
    return Group(*parts)


def plain_line(reading: Sample) -> str:
    """Returns one line for output without a terminal."""
    score, status = reading.score, reading.status
    return _(
        "{elapsed:5.0f} s  {polls} ({rate:.1f}/s)  {found} found of {changes}  median delay {median}  "
        "polls that found: {share} (uniform {uniform_share})",
        elapsed=reading.elapsed,
        polls=n_("{count} poll", "{count} polls", status.polls),
        rate=status.rate,
        found=score.found,
        changes=n_("{count} change", "{count} changes", score.happened),
        median=_seconds(delay(reading)),
        share=_share(score.share),
        uniform_share=_share(score.uniform_share),
    )


def summary(reading: Sample) -> RenderableType:
    """Returns the summary at the end."""
    score, status = reading.score, reading.status
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    table.add_row(
        _("polls"),
        n_(
            "{polls} in {elapsed:.0f} s, of {count} site, budget {budget:g}/s",
            "{polls} in {elapsed:.0f} s, of {count} sites, budget {budget:g}/s",
            len(reading.rows),
            polls=status.polls,
            elapsed=reading.elapsed,
            budget=status.budget,
        ),
    )
    table.add_row(
        _("changes"),
        n_(
            "{happened} truly happened; {count} poll found one; with those came {merged} earlier ones of the "
            "same page; {waiting} not found yet",
            "{happened} truly happened; {count} polls found one; with those came {merged} earlier ones of "
            "the same page; {waiting} not found yet",
            score.found,
            happened=score.happened,
            merged=score.merged,
            waiting=score.waiting,
        ),
    )
    table.add_row(
        _("delay"),
        _(
            "{mean} from a change to the poll that found it (mean; median {median}); equal timers with "
            "as many polls: {uniform_mean}",
            mean=_seconds(score.mean_delay),
            median=_seconds(delay(reading)),
            uniform_mean=_seconds(score.uniform_mean_delay),
        ),
    )
    table.add_row(
        _("use of polls"),
        _(
            "{share} of the repeated polls found something; as many polls spread evenly: {uniform_share} expected "
            "on the same changes",
            share=_share(score.share),
            uniform_share=_share(score.uniform_share),
        ),
    )
    return table


def print_final(reading: Sample, console: Console) -> None:
    """Prints the full table and the summary."""
    console.print(rates_table(reading.rows, console.width))
    console.print(summary(reading))


def delay(reading: Sample) -> float:
    """Returns the median seconds from a change to the poll that found it; nan before the first."""
    delays = reading.score.delays
    return float(np.median(delays)) if len(delays) else math.nan


def pick(rows: Sequence[SampleRow], room: int) -> list[SampleRow]:
    """Returns at most `room` rows, fastest first: special sites, then ordinary ones evenly from fast to slow."""
    by_rate = sorted(rows, key=lambda row: -row.true)
    if len(by_rate) <= room:
        return by_rate
    kept = [row for row in by_rate if not row.site.kind.ordinary][:room]
    ordinary = [row for row in by_rate if row.site.kind.ordinary]
    places = np.linspace(0, len(ordinary) - 1, room - len(kept)).round().astype(int)
    kept += [ordinary[i] for i in sorted(set(places.tolist()))]
    return sorted(kept, key=lambda row: -row.true)


def _legend() -> Text:
    marks = (("◆", "cyan", _("true")), ("●", "yellow", _("learned")), ("◈", "green", _("both")))
    known = [part for sign, style, word in marks for part in ((sign, style), f" {word}  ")]
    return Text.assemble(*known, ("─", "dim"), " ", _("90 % interval"))


def rates_table(rows: Sequence[SampleRow], width: int) -> Table:
    """Returns learned and true rates, a row per site, fastest first, for a terminal of `width` columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="bold", caption=_legend(), caption_justify="left")
    length = _TRACK_CELLS if width >= _MIDDLE else _TRACK_CELLS_NARROW
    if width >= _MIDDLE:
        table.add_column(_("site"), overflow="ellipsis")
    table.add_column(_("kind"), style="dim", no_wrap=True)
    table.add_column(_("true/min"), justify="right", style="cyan", no_wrap=True)
    table.add_column(_("learned"), justify="right", style="yellow", no_wrap=True)
    if width >= _WIDE:
        table.add_column(_("interval"), justify="center", style="dim", no_wrap=True)
    table.add_column(_scale(length), no_wrap=True)
    table.add_column(_("polls"), justify="right", no_wrap=True)
    table.add_column(_("found"), justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: -row.true):
        table.add_row(*_cells(row, length, width >= _WIDE)[-len(table.columns) :])
    return table


def track(row: SampleRow, length: int) -> Text:
    """Returns interval, learned and true rate on a logarithmic scale of `length` cells."""
    cells, styles = ["·"] * length, ["dim"] * length
    if not _known(row):
        return Text("·" * length, style="dim")
    if row.low is not None and row.high is not None:
        for i in range(_place(row.low, length), _place(row.high, length) + 1):
            cells[i], styles[i] = "─", "yellow dim"
    true = _place(row.true, length)
    cells[true], styles[true] = "◆", "cyan"
    if row.learned is not None:
        learned = _place(row.learned, length)
        cells[learned], styles[learned] = ("◈", "green") if learned == true else ("●", "yellow")
    return Text.assemble(*zip(cells, styles, strict=True))


def _known(row: SampleRow) -> bool:
    """Returns whether anything was learned of the site itself."""
    return row.learned is not None and row.polls > 1 and row.state != "blocked"


def _cells(row: SampleRow, length: int, with_interval: bool) -> list[RenderableType]:
    always, known = math.isinf(row.true), _known(row)
    state = "" if row.state == "active" else f" {row.state.replace('_', ' ')}"
    interval = f"{_rate(row.low)} – {_rate(row.high)}" if known and row.low is not None else "–"
    count = (str(row.found), "green" if row.found else "dim")
    return [
        row.site.address,
        Text.assemble(str(row.site.kind), (state, "red")),
        _("always") if always else _rate(row.true),
        _rate(row.learned) if known else "–",
        *([interval] if with_interval else []),
        track(row, length),
        str(row.polls),
        Text.assemble(count, "       " if always else " " + _("of {happened:<3}", happened=row.happened)),
    ]


def _place(rate: float, length: int) -> int:
    """Returns the cell of a rate on the scale."""
    if rate <= _TRACK_LOW:
        return 0
    part = math.log(min(rate, _TRACK_HIGH) / _TRACK_LOW) / math.log(_TRACK_HIGH / _TRACK_LOW)
    return min(int(part * length), length - 1)


def _scale(length: int) -> Text:
    low, high = f"{_TRACK_LOW:g}", f"{_TRACK_HIGH:g}/min"
    return Text(low + high.rjust(length - len(low)), style="dim")


def _header(reading: Sample, seconds: float) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=seconds, completed=min(reading.elapsed, seconds))
    grid.add_row(
        Text(_(" pollerd demo"), style="bold"),
        bar,
        _("{elapsed:.0f} of {seconds:g} s, Ctrl-C ends ", elapsed=reading.elapsed, seconds=seconds),
    )
    return grid


def _tiles(reading: Sample) -> RenderableType:
    score, status = reading.score, reading.status
    grid = Table.grid(expand=True)
    tiles = (
        (_("polls"), f"{status.polls}", _("{rate:.1f} of {budget:g}/s", rate=status.rate, budget=status.budget)),
        (_("changes found"), f"{score.found}", _("of {happened}", happened=score.happened)),
        (_("delay"), _seconds(delay(reading)), _("median")),
        (_("polls that hit"), _share(score.share), _("even {share}", share=_share(score.uniform_share))),
    )
    for _column in tiles:
        grid.add_column(ratio=1, no_wrap=True)
    grid.add_row(*(_tile(*tile) for tile in tiles))
    return grid


def _tile(name: str, number: str, remark: str) -> Panel:
    return Panel(
        Text.assemble((number, "bold green"), "  ", (remark, "dim")), title=name, title_align="left", box=box.ROUNDED
    )


def _rate(per_minute: float | None) -> str:
    if per_minute is None:
        return "–"
    digits = next((digits for bound, digits in ((0.1, 3), (10, 2), (100, 1)) if per_minute < bound), 0)
    return f"{per_minute:.{digits}f}"


def _seconds(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1f} s"


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"
