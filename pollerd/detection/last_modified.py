"""Uses `Last-Modified` as evidence only after it proved truthful for its site.

Proofs are changes found by other means: at each it must have moved, to a time after the previous poll and not after
this one. It is false if it moves while the content stays, or stays while the content changes. A date equal to the
current time at a change proves nothing, because servers that stamp every response look like that. It is trusted after 3
proofs and at least 10 proofs for each false date.
"""

from __future__ import annotations

from calendar import timegm
from email.utils import parsedate_tz
from functools import lru_cache

from msgspec.structs import replace

from pollerd.model import Baseline, Outcome

TOLERANCE_S = 2.0
PROOFS = 3
PROOFS_PER_LIE = 10
_WIDEST_ZONE_S = 86_400
_OLDEST_YEAR, _NEWEST_YEAR = 1970, 9999


@lru_cache(maxsize=4096)
def parse_http_date(value: str) -> float | None:
    """Returns UTC epoch seconds of an HTTP date in any of its three forms (RFC 9110 section 5.6.7), None if invalid.

    A zone other than GMT is honoured, a missing one is GMT. Raises nothing. Cached, because pages repeat their dates.
    """
    try:
        parts = parsedate_tz(value)
        if parts is None or not _OLDEST_YEAR <= parts[0] <= _NEWEST_YEAR:
            return None
        if not (1 <= parts[1] <= 12 and 1 <= parts[2] <= 31 and _is_time(parts[3], parts[4], parts[5])):
            return None
        zone = parts[9] or 0
        return float(timegm(parts[:6]) - zone) if abs(zone) <= _WIDEST_ZONE_S else None
    except (ValueError, TypeError, LookupError, OverflowError):
        # email.utils raises a few of these on junk.
        return None


def _is_time(hour: int, minute: int, second: int) -> bool:
    return 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 60


def server_age(outcome: Outcome, moment: float) -> float:
    """Returns the seconds from `moment`, a date by the server, to the response, by the server's `Date` if present."""
    return (outcome.started_at if outcome.server_date is None else outcome.server_date) - moment


def trusted(baseline: Baseline) -> bool:
    """Returns True if the site's `Last-Modified` is trusted."""
    good, bad = baseline.last_modified_good, baseline.last_modified_bad
    return good >= PROOFS and good >= PROOFS_PER_LIE * bad


def update_trust(
    baseline: Baseline, outcome: Outcome, *, changed: bool, elapsed: float | None
) -> tuple[Baseline, float | None]:
    """Updates the trust in `Last-Modified` by whether the content is known to have changed.

    `elapsed` is seconds since the last informative poll, None at the first. Returns the baseline with the new date and
    counts, and the age of the change in [0, elapsed] seconds if the date is trusted, else None.
    """
    stated = outcome.validators.last_modified
    date = parse_http_date(stated) if stated else None
    if date is None:
        return baseline, None
    seen_date = replace(baseline, last_modified=date)
    if baseline.last_modified is None or elapsed is None:
        return seen_date, None
    moved = date != baseline.last_modified
    if not changed:
        return (replace(seen_date, last_modified_bad=seen_date.last_modified_bad + 1) if moved else seen_date), None
    age = server_age(outcome, date)
    if not moved or not -TOLERANCE_S <= age <= elapsed + TOLERANCE_S:
        return replace(seen_date, last_modified_bad=seen_date.last_modified_bad + 1), None
    believed = min(max(age, 0.0), elapsed) if trusted(baseline) else None
    if age <= TOLERANCE_S:
        return seen_date, believed
    return replace(seen_date, last_modified_good=seen_date.last_modified_good + 1), believed
