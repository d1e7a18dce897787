"""User settings of the live loop, and the fit of the budget to intervals and politeness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarl import URL

from pollerd.allocation.registered import DEFAULT_DEADLINE_S, NAMES, OBJECTIVES
from pollerd.errors import InvalidValueError, unknown_name
from pollerd.ranges import BUDGET, LIVE_LOOP
from pollerd.site_settings import SITE
from pollerd.texts import N_, _

ALLOCATION_SETTINGS = ("allocator", "objective", "deadline", "budget")
"""Settings that are kept in the database once they were set over REST, and that all nodes share."""
_CRAWL_FLUSH_SECONDS = 0.05
BUDGET_MIN, BUDGET_MAX = BUDGET.lowest, BUDGET.highest


def shadows_beside(allocator: str, stored: Sequence[str]) -> tuple[str, ...]:
    """Returns the stored shadows that can run beside an allocator, without names that this version does not know."""
    return tuple(name for name in stored if name in NAMES and name != allocator)


def check_budget(value: float) -> float:
    """Returns the budget; raises InvalidValueError if it is out of range."""
    BUDGET.check(value)
    return float(value)


@dataclass(frozen=True)
class DaemonSettings:
    """The live loop, in the ranges of `LIVE_LOOP`.

    budget: polls (of cost 1) per second, in the range `BUDGET`. full_get_every: every n-th poll of a site is a full GET
    instead of a conditional one. max_inflight: maximum of concurrent polls. flush_seconds: longest wait of a finished
    poll for its commit. gather_seconds: the same for a poll that found nothing new and whose site may not be polled
    earlier anyway, if above flush_seconds. flush_polls: number of waiting polls that triggers a commit at once.
    tick_seconds: how far ahead sites are chosen. memory_sites: sites whose validators and fingerprints are kept in
    memory; others are read when they are polled. deadline: s within which a change should be found, of sites without
    their own, for the objective `deadline`. shadows: allocators that run as shadows.
    """

    budget: float = 5.0
    allocator: str = "whittle"
    objective: str = "changes"
    deadline: float = DEFAULT_DEADLINE_S
    shadows: tuple[str, ...] = ()
    full_get_every: int = 20
    max_inflight: int = 1024
    flush_seconds: float = 0.25
    gather_seconds: float = 1.0
    flush_polls: int = 500
    tick_seconds: float = 0.1
    memory_sites: int = 50_000
    drain_seconds: float = 10.0
    maintenance_seconds: float = 600.0

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if self.allocator not in NAMES:
            raise unknown_name("allocator", N_("policy"), self.allocator, NAMES)
        if self.objective not in OBJECTIVES:
            raise unknown_name("objective", N_("goal"), self.objective, OBJECTIVES)
        SITE["deadline"].check(self.deadline)
        if not set(self.shadows) <= set(NAMES):
            unknown = next(name for name in self.shadows if name not in NAMES)
            raise unknown_name("shadow", N_("policy"), unknown, NAMES)
        for name, allowed in LIVE_LOOP.items():
            allowed.check(getattr(self, name))

    def for_crawling(self) -> DaemonSettings:
        """Returns the settings of a crawling daemon: it commits results early, as they decide what to request next."""
        soon = min(self.flush_seconds, _CRAWL_FLUSH_SECONDS)
        return replace(self, flush_seconds=soon, gather_seconds=soon)


CALLBACK_PATH = "/websub/"
_LONGEST = 1_000


@dataclass(frozen=True, kw_only=True)
class SignalSettings:
    """What is taken from others that say when pages change. Raises InvalidValueError for a URL that is none."""

    callback_url: str | None = None
    """Where WebSub hubs reach this daemon, without `/websub/`; None: no hub is subscribed to."""

    indexnow: bool = False
    """Whether reports in IndexNow's form are taken from everybody, if their hosts hold the key."""

    def __post_init__(self) -> None:
        if self.callback_url is None:
            return
        try:
            url = URL(self.callback_url)
            fits = url.scheme in ("http", "https") and bool(url.host) and not url.query_string and not url.fragment
            fits = fits and url.user is None and url.password is None
        except ValueError:
            fits = False
        if not fits or not self.callback_url.isascii() or len(self.callback_url) > _LONGEST:
            allowed = _("an http or https URL without credentials and query, in ASCII")
            raise InvalidValueError("callback_url", allowed, self.callback_url[:200])

    def callback(self, end: str) -> str:
        """Returns the URL that a hub calls, with this end. Only if there is a `callback_url`."""
        return f"{(self.callback_url or '').rstrip('/')}{CALLBACK_PATH}{end}"
