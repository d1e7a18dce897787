"""The sites of the demo's web, their kinds and their true rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pollerd.errors import InvalidValueError

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
