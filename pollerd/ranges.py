"""The ranges of settings: each number is stated here or, of a site's settings, in `site_settings`.

The API, OpenAPI, TOML and the command line, and the repair of damaged rows go by these tables, each by its own. What no
table can say (that one setting is at most another) is checked by the rooms that own the settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pollerd.errors import InvalidValueError, refusal
from pollerd.texts import N_, _


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that one setting may be."""

    name: str
    """The field of the setting."""
    lowest: float
    highest: float = math.inf
    words: str = ""
    """What is allowed, as the end of "must be ..."; the numbers are filled in."""
    unit: str = ""
    above: bool = False
    """Whether `lowest` itself is too low."""
    below: bool = False
    """Whether `highest` itself is too high."""
    least: float = field(init=False)
    most: float = field(init=False)
    """The first and the last float in range."""

    def __post_init__(self) -> None:
        # A check is two comparisons of floats: a list of sites has millions of values.
        put = object.__setattr__
        put(self, "least", math.nextafter(self.lowest, math.inf) if self.above else float(self.lowest))
        put(self, "most", math.nextafter(self.highest, -math.inf) if self.below else float(self.highest))

    @property
    def allowed(self) -> str:
        """What is allowed, for people."""
        return _(self.words, lowest=self.lowest, highest=self.highest)

    def holds(self, value: float) -> bool:
        """Whether the value is in range; what is not a number (nan) never is."""
        return self.least <= value <= self.most

    def check(self, value: float) -> None:
        """Raises InvalidValueError where the value is not in range."""
        if not self.least <= value <= self.most:
            if "%" in self.words and 2.0 <= value < 100.0 and value.is_integer():
                raise refusal(
                    self.name, _("must be {allowed}; did you mean {value:g}%?", allowed=self.allowed, value=value)
                )
            raise InvalidValueError(self.name, self.allowed, value)


def _table(*ranges: Range) -> Mapping[str, Range]:
    return {item.name: item for item in ranges}


PLAIN, SECONDS = N_("{lowest:g} to {highest:,.10g}"), N_("{lowest:g} to {highest:,.10g} s")

SOURCE = _table(
    Range("limit", 1, 1_000_000, PLAIN, "sites"),
    Range("interval", 60, 1e7, SECONDS, "seconds"),
    Range("max_shrink", 0, 1, N_("a share from {lowest:g} to {highest:g}")),
)
"""What may be said of a source of sites."""

SCHEDULING = _table(
    Range("min_interval_seconds", 0, words=N_("a finite number of seconds, {lowest:g} or more"), below=True),
    Range("host_interval_seconds", 0, words=N_("a finite number of seconds, {lowest:g} or more"), below=True),
    Range("min_saving_seconds", 0, words=N_("a finite number of seconds, {lowest:g} (off) or more"), below=True),
    Range("min_yield", 0, 1, N_("a chance from {lowest:g} (off) to below {highest:g}, for example 1%"), below=True),
    Range("max_interval_seconds", 0, words=N_("a number of seconds above {lowest:g}"), above=True),
    Range("max_silence_seconds", 0, words=N_("a number of seconds above {lowest:g}"), above=True),
    Range("backoff_base_seconds", 0, words=N_("a number of seconds above {lowest:g}"), above=True),
    Range("backoff_cap_seconds", 0, words=N_("a number of seconds above {lowest:g}"), above=True),
)
"""When a poll may happen, unless its site says otherwise. inf: without end."""

BUDGET = Range("budget", 0.01, 10_000, N_("polls per second from {lowest:g} to {highest:g}"), N_("polls per second"))

PLAN = _table(
    Range("share", 0, 1, N_("a share above {lowest:g} and below {highest:g}, for example 90%"), above=True, below=True),
    Range("within", 1, 1e9, N_("{lowest:g} to {highest:,.10g} s, for example 30m"), "seconds"),
)
"""What may be asked of a plan of the budget: 1e9 s are 31 years."""

LIVE_LOOP = _table(
    Range("full_get_every", 1, words=N_("a whole number, {lowest:g} or more")),
    Range("max_inflight", 1, words=N_("a whole number, {lowest:g} or more")),
    Range("flush_polls", 1, words=N_("a whole number, {lowest:g} or more")),
    Range("memory_sites", 1, words=N_("a whole number, {lowest:g} or more")),
    Range("flush_seconds", 0, 1, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
    Range("gather_seconds", 0, 1, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
    Range("tick_seconds", 0, 1, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
    Range("drain_seconds", 0, words=N_("seconds, {lowest:g} or more")),
    Range("maintenance_seconds", 0, words=N_("seconds, {lowest:g} or more")),
)
"""How the live loop works."""

FETCH_SECONDS = _table(
    Range("total_timeout_seconds", 0, 86_400, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
    Range("connect_timeout_seconds", 0, 86_400, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
    Range("keepalive_seconds", 0, 86_400, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
)
FETCH_COUNTS = _table(
    Range("max_body_bytes", 1, words=N_("a whole number, {lowest:g} or more")),
    Range("max_redirects", 0, words=N_("a whole number, {lowest:g} or more")),
    Range("max_connections", 1, words=N_("a whole number, {lowest:g} or more")),
    Range("robots_max_bytes", 1, words=N_("a whole number, {lowest:g} or more")),
    Range("tls_session_bytes", 0, words=N_("a whole number, {lowest:g} or more")),
)
"""How pages are fetched."""

RENDERING = _table(
    Range("browser_pages", 1, 64, N_("a whole number from {lowest:g} to {highest:g}")),
    Range("browser_deadline_seconds", 0, 600, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
    Range("browser_page_bytes", 1, words=N_("a whole number, {lowest:g} or more")),
)
"""How pages are rendered."""

RENDER_PLAN = _table(
    Range("timeout", 0, 600, N_("seconds above {lowest:g}, at most {highest:g}"), above=True),
    Range("seconds", 0, 60, N_("seconds from {lowest:g} to {highest:g}")),
    Range("width", 100, 4_096, N_("a whole number from {lowest:g} to {highest:g}")),
    Range("height", 100, 4_096, N_("a whole number from {lowest:g} to {highest:g}")),
    Range("scroll", 1, 100_000, N_("a whole number from {lowest:g} to {highest:,.10g} pixels")),
)
"""What may be said of how one page is rendered."""
