"""The web of the demo: small, on many loopback addresses, with changes drawn in advance, and the score of detection."""

from __future__ import annotations

import asyncio
import errno
import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from enum import StrEnum
from types import TracebackType

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from pollerd.errors import ConfigError, InvalidValueError

# Contents of the sites: pages and a feed whose visible text depends on the seed and the number of changes so far.

_LATEST = 6
_PARAGRAPHS = 4
_FEED_WINDOW = 20
_SUBJECTS = [
    "The harbour",
    "A new ferry",
    "The town council",
    "The museum",
    "A night train",
    "The old bridge",
    "The market",
]
_VERBS = ["opens", "closes early", "moves", "welcomes visitors", "is repaired", "asks for patience", "grows"]
_PLACES = ["in the north", "by the river", "near the station", "at the square", "on the island", "behind the mill"]
_WHEN = ["this week", "on Monday", "after the summer", "until further notice", "for one day", "at dawn"]


def sentence(seed: int, number: int) -> str:
    """Returns a random sentence; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    words = (str(rng.choice(part)) for part in (_SUBJECTS, _VERBS, _PLACES, _WHEN))
    return " ".join(words) + f" ({number})."


def page(title: str, seed: int, version: int, token: str) -> str:
    """Returns a page after its `version`-th change (>= 0). `token` differs at every request and is invisible."""
    latest = "".join(f"<li>{sentence(seed, n)}</li>\n" for n in range(version, version - _LATEST, -1) if n >= 0)
    body = "".join(f"<p>{sentence(seed, 1_000_000 + n)}</p>\n" for n in range(_PARAGRAPHS))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="csrf-token" content="{token}">
<link rel="stylesheet" href="/static/site.css?v={token}">
<style>body {{ font: 16px/1.5 serif; max-width: 40em; margin: auto }}</style>
<script>window.session = "{token}"; window.loaded = Date.now();</script>
</head><body>
<!-- rendered for {token} -->
<nav><ul><li><a href="/">Home</a></li><li><a href="/about?s={token}">About</a></li>
<li><a href="/contact">Contact</a></li></ul></nav>
<main><h1>{title}</h1>
<h2>Latest</h2>
<ul>
{latest}</ul>
<h2>Background</h2>
{body}<form method="post" action="/subscribe"><input type="hidden" name="token" value="{token}">
<label>Mail <input type="email" name="mail"></label> <button>Subscribe</button></form>
</main>
<footer><p>Made up by pollerd's demo.</p></footer>
<script async src="/static/track.js?id={token}"></script>
</body></html>
"""


def feed(title: str, url: str, seed: int, published: Sequence[float], built_at: float) -> str:
    """Returns an RSS 2.0 feed of the newest 20 entries, newest first; published: dates of all (epoch s, ascending)."""
    first = max(0, len(published) - _FEED_WINDOW)
    items = "".join(
        f"<item><title>{sentence(seed, n)}</title><link>{url}#{n}</link><guid>{url}#{n}</guid>"
        f"<pubDate>{formatdate(published[n], usegmt=True)}</pubDate>"
        f"<description>{sentence(seed, 1_000_000 + n)}</description></item>\n"
        for n in range(len(published) - 1, first - 1, -1)
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>{title}</title><link>{url}</link><description>Made up</description>
<lastBuildDate>{formatdate(built_at, usegmt=True)}</lastBuildDate>
{items}</channel></rss>
"""


# Sites, their kinds and their true rates.

LIVELY_MEANS_SECONDS = (2.5, 6.0)
QUIET_MEANS_SECONDS = (20.0, 4 * 3_600.0)
LIVELY_SHARE = 1 / 3
"""As on the real web, a few pages make most of the changes."""
SITES_MIN, SITES_MAX = 12, 200
_LAST_MODIFIED_MEAN_SECONDS = 10.0
"""Last-Modified has whole seconds: sites with no other validator change more slowly, as on the real web."""


class SiteKind(StrEnum):
    """Behaviour of a site. The first three are ordinary sites, which differ in the validators that they send."""

    ETAG = "etag"
    LAST_MODIFIED = "last-modified"
    PLAIN = "plain"
    FEED = "feed"
    BURSTY = "bursty"
    FLAKY = "flaky"
    SLOW = "slow"
    ROBOTS = "robots"
    DENIED = "denied"
    ALWAYS = "always"

    @property
    def ordinary(self) -> bool:
        """True for ordinary sites."""
        return self in _ORDINARY


_ORDINARY = (SiteKind.ETAG, SiteKind.LAST_MODIFIED, SiteKind.PLAIN)
_SPECIAL: tuple[tuple[SiteKind, str, float], ...] = (
    (SiteKind.FEED, "/feed.xml", 8.0),
    (SiteKind.BURSTY, "/live", 10.0),
    (SiteKind.FLAKY, "/status", 12.0),
    (SiteKind.SLOW, "/archive", 30.0),
    (SiteKind.ROBOTS, "/", 15.0),
    (SiteKind.DENIED, "/private/", 5.0),
    (SiteKind.ALWAYS, "/visitors", 0.0),
)
"""Kind, path, mean seconds between changes (0: it differs at every request)."""
_PATHS = ("/", "/news", "/prices", "/menu", "/jobs", "/blog", "/events", "/stock")


@dataclass(frozen=True, slots=True)
class DemoSite:
    """One site. `true_rate_per_second`: changes of its visible content per second, inf: it differs at every request."""

    url: str
    host: str
    path: str
    kind: SiteKind
    true_rate_per_second: float

    @property
    def address(self) -> str:
        """Host and path without the shared port."""
        return self.host + self.path


def check_count(count: int) -> int:
    """Returns the number of sites if it is in range; raises InvalidValueError otherwise."""
    if not SITES_MIN <= count <= SITES_MAX:
        raise InvalidValueError("sites", f"a whole number from {SITES_MIN} to {SITES_MAX}", count)
    return count


def draw_sites(count: int, port: int, rng: np.random.Generator) -> tuple[DemoSite, ...]:
    """Draws seven special sites and `count - 7` ordinary ones, a third of which change every few seconds.

    The rest change from three times a minute to a few times a day. Each has its own host, except the two that share a
    robots.txt.
    """
    ordinary = check_count(count) - len(_SPECIAL)
    lively = round(ordinary * LIVELY_SHARE)
    means = [*np.geomspace(*LIVELY_MEANS_SECONDS, lively), *np.geomspace(*QUIET_MEANS_SECONDS, ordinary - lively)]
    plan = [*_SPECIAL, *((_kind(i, mean), _PATHS[i % len(_PATHS)], float(mean)) for i, mean in enumerate(means))]
    hosts = [f"127.{1 + i // 8}.{i % 8}.{int(rng.integers(2, 100))}" for i in range(count)]
    order = rng.permutation(count).tolist()
    drawn = {kind: host for (kind, _, _), host in zip((plan[i] for i in order), hosts, strict=True)}
    return tuple(
        _site(kind, path, mean, drawn[SiteKind.ROBOTS] if kind is SiteKind.DENIED else host, port)
        for (kind, path, mean), host in zip((plan[i] for i in order), hosts, strict=True)
    )


def _kind(i: int, mean_seconds: float) -> SiteKind:
    kind = _ORDINARY[i % len(_ORDINARY)]
    dated_too_coarsely = kind is SiteKind.LAST_MODIFIED and mean_seconds < _LAST_MODIFIED_MEAN_SECONDS
    return SiteKind.ETAG if dated_too_coarsely else kind


def _site(kind: SiteKind, path: str, mean_seconds: float, host: str, port: int) -> DemoSite:
    rate = 1 / mean_seconds if mean_seconds else math.inf
    return DemoSite(f"http://{host}:{port}{path}", host, path, kind, rate)


# Change times of pages, drawn in advance, so that the true changes are known.

BURST_CHANGES = 5
"""Mean number of changes in a burst."""
BURST_SPACING_SECONDS = 1.5
"""Mean time between the changes of a burst."""


def poisson_times(rate: float, begin: float, end: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws the times of a Poisson process of `rate` per second (>= 0, finite) in [begin, end), ascending float64."""
    count = int(rng.poisson(rate * (end - begin)))
    return np.sort(rng.uniform(begin, end, count))


def bursty_times(rate: float, begin: float, end: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Like `poisson_times` with the same mean rate, but in bursts of about five changes (geometric)."""
    starts = poisson_times(rate / BURST_CHANGES, begin, end, rng)
    sizes = rng.geometric(1 / BURST_CHANGES, len(starts))
    bursts = [
        start + np.concatenate([[0.0], np.cumsum(rng.exponential(BURST_SPACING_SECONDS, size - 1))])
        for start, size in zip(starts, sizes, strict=True)
    ]
    times = np.sort(np.concatenate([np.empty(0), *bursts]))
    return times[times < end]


CRAWL_DELAY_SECONDS = 2
ROBOTS_TXT = f"User-agent: *\nDisallow: /private/\nCrawl-delay: {CRAWL_DELAY_SECONDS}\n"
FAILING_SHARE = 0.25
"""Share of the flaky site's answers that are 500, 503 or a reset, with equal probabilities."""
RETRY_AFTER_SECONDS = 2
SLOW_SECONDS = (0.6, 1.4)
_FEED_START_ENTRIES = 5
_PORT_TRIES = 20


@dataclass(frozen=True)
class _Plan:
    """Change times of one site: before the start (for its first date and entries) and after it."""

    site: DemoSite
    seed: int
    before: NDArray[np.float64]
    times: NDArray[np.float64]

    def version(self, now: float) -> int:
        return int(np.searchsorted(self.times, now, side="right"))

    def history(self, now: float) -> NDArray[np.float64]:
        return np.concatenate([self.before, self.times[: self.version(now)]])


class DemoWeb:
    """A few dozen sites on 127.0.0.0/8, each on its own address, all on one free port. An async context manager.

    `count`: number of sites, 12 to 200. `rng`: draws hosts, rates, change times and the flaky site's failures.
    `horizon_seconds`: for how long after the start pages change, > 0. `clock`: UTC epoch seconds. Raises
    InvalidValueError for values out of range, ConfigError if the system does not serve all of 127.0.0.0/8 (Linux does).
    """

    def __init__(
        self,
        count: int,
        rng: np.random.Generator,
        *,
        horizon_seconds: float = 3_600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < horizon_seconds < math.inf:
            raise InvalidValueError("horizon_seconds", "a finite number of seconds above 0", horizon_seconds)
        self._count, self._rng = check_count(count), rng
        self._horizon, self._clock = horizon_seconds, clock
        self._plans: dict[tuple[str, str], _Plan] = {}
        self._runner: web.AppRunner | None = None
        self._visits = 0
        self._first_answer_at: dict[str, float] = {}
        self.sites: tuple[DemoSite, ...] = ()
        self.started_at = math.nan

    async def __aenter__(self) -> DemoWeb:
        state = self._rng.bit_generator.state
        for _ in range(_PORT_TRIES):
            # If the port is taken on one of the addresses, the same web is drawn again for another port.
            self._rng.bit_generator.state = state
            port = _free_port()
            self.sites = draw_sites(self._count, port, self._rng)
            sockets = _listen(sorted({site.host for site in self.sites}), port)
            if sockets:
                break
        else:
            raise ConfigError(f"demo: no port is free on all of {self._count} loopback addresses")
        self._draw_changes()
        await self._serve(sockets)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def truth(self, now: float) -> dict[str, NDArray[np.float64]]:
        """Returns URL -> times (epoch s, ascending float64) at which its visible content changed, up to `now`.

        Empty for the site that differs at every request.
        """
        return {plan.site.url: plan.times[: plan.version(now)] for plan in self._plans.values()}

    def first_answers(self) -> dict[str, float]:
        """Returns URL -> time of its first answer with content (epoch s); sites not yet requested are omitted."""
        return dict(self._first_answer_at)

    def _draw_changes(self) -> None:
        self.started_at = self._clock()
        for site in self.sites:
            seed = int(self._rng.integers(2**31))
            self._plans[site.host, site.path] = _Plan(site, seed, self._before(site), self._times(site))

    def _times(self, site: DemoSite) -> NDArray[np.float64]:
        if math.isinf(site.true_rate_per_second):
            return np.empty(0)
        draw = bursty_times if site.kind is SiteKind.BURSTY else poisson_times
        return draw(site.true_rate_per_second, self.started_at, self.started_at + self._horizon, self._rng)

    def _before(self, site: DemoSite) -> NDArray[np.float64]:
        entries = _FEED_START_ENTRIES if site.kind is SiteKind.FEED else 1
        gaps = self._rng.exponential(1 / site.true_rate_per_second, entries)
        return np.asarray(self.started_at - np.cumsum(gaps)[::-1])

    async def _serve(self, sockets: list[socket.socket]) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        for listener in sockets:
            await web.SockSite(self._runner, listener).start()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        now = self._clock()
        host = request.host.partition(":")[0]
        if request.path == "/robots.txt" and (host, "/private/") in self._plans:
            return web.Response(text=ROBOTS_TXT)
        plan = self._plans.get((host, request.path))
        if plan is None:
            return web.Response(status=404, text="there is no such page\n")
        if plan.site.kind is SiteKind.SLOW:
            await asyncio.sleep(self._rng.uniform(*SLOW_SECONDS))
        if plan.site.kind is SiteKind.FLAKY and self._rng.random() < FAILING_SHARE:
            return self._fail(request)
        return self._content(plan, request, now)

    def _content(self, plan: _Plan, request: web.Request, now: float) -> web.Response:
        history = plan.history(now)
        validators = _validators(plan, history, now)
        if _not_modified(request, validators):
            return web.Response(status=304, headers=validators)
        self._first_answer_at.setdefault(plan.site.url, now)
        title = f"{plan.site.kind.capitalize()} {plan.site.path}"
        if plan.site.kind is SiteKind.FEED:
            text = feed(title, plan.site.url, plan.seed, history.tolist(), now)
            return web.Response(text=text, content_type="application/rss+xml", headers=validators)
        version = plan.version(now)
        if plan.site.kind is SiteKind.ALWAYS:
            self._visits += 1
            version = self._visits
        text = page(title, plan.seed, version, self._rng.bytes(12).hex())
        return web.Response(text=text, content_type="text/html", headers=validators)

    def _fail(self, request: web.Request) -> web.Response:
        status = int(self._rng.choice([500, 503, 0]))
        if not status and request.transport is not None:
            request.transport.abort()
        headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
        return web.Response(status=status or 500, headers=headers, text="try again\n")


def _validators(plan: _Plan, history: NDArray[np.float64], now: float) -> dict[str, str]:
    kind = plan.site.kind
    if kind in (SiteKind.PLAIN, SiteKind.ALWAYS):
        return {}
    if kind in (SiteKind.LAST_MODIFIED, SiteKind.SLOW):
        return {"Last-Modified": formatdate(float(history[-1]), usegmt=True)}
    # Weak: the same visible text, although the invisible token differs in each answer.
    return {"ETag": f'W/"{plan.seed:x}-{plan.version(now)}"'}


def _not_modified(request: web.Request, validators: dict[str, str]) -> bool:
    """Returns whether 304 applies, RFC 9110, section 13.2.2: If-None-Match if given, else If-Modified-Since."""
    if "If-None-Match" in request.headers:
        return validators.get("ETag") in [tag.strip() for tag in request.headers["If-None-Match"].split(",")]
    return "Last-Modified" in validators and request.headers.get("If-Modified-Since") == validators["Last-Modified"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listen(hosts: list[str], port: int) -> list[socket.socket]:
    """Returns listening sockets on all hosts; empty if the port is taken on one of them."""
    sockets: list[socket.socket] = []
    try:
        for host in hosts:
            sockets.append(socket.create_server((host, port)))
    except OSError as error:
        for listener in sockets:
            listener.close()
        if error.errno == errno.EADDRINUSE:
            return []
        raise ConfigError(f"demo: this system does not answer on {host}, as Linux does: {error.strerror}") from error
    return sockets
