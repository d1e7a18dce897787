"""Samples of the demo: the daemon's view through its API, and the true changes."""

from __future__ import annotations

import asyncio
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from pollerd.cli.demo.web import DemoSite, DemoWeb, Score, Watched, happened_since, score
from pollerd.daemon import Control, Status

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
