"""`Last-Modified` as a witness: heard always, believed only after it has proved truthful for its site.

It is proved by changes that were found otherwise: at each it must have moved, to a moment after the previous poll
and not after this one. It is a lie when it moves although the content stays, or stays although the content moves.
A date of this very moment at a change proves nothing, because servers that stamp every response look like that.
It is believed after 3 proofs and at least 10 proofs for each lie.
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
    """UTC epoch seconds of an HTTP date in any of its three forms (RFC 9110 section 5.6.7), None where it is none.

    A zone other than GMT is honoured, a missing one is GMT. Raises nothing. Remembered: a page says the same for long.
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
        # email.utils lets a few of these escape on junk.
        return None


def _is_time(hour: int, minute: int, second: int) -> bool:
    return 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 60


def server_age(outcome: Outcome, moment: float) -> float:
    """Seconds from `moment`, told by the server, to the response: by the server's own clock where it sent a `Date`."""
    return (outcome.started_at if outcome.server_date is None else outcome.server_date) - moment


def trusted(baseline: Baseline) -> bool:
    """True where the site's `Last-Modified` has earned belief."""
    good, bad = baseline.last_modified_good, baseline.last_modified_bad
    return good >= PROOFS and good >= PROOFS_PER_LIE * bad


def update_trust(
    baseline: Baseline, outcome: Outcome, *, changed: bool, elapsed: float | None
) -> tuple[Baseline, float | None]:
    """Judges the response's `Last-Modified` by what is known to have happened to the content.

    `elapsed` is seconds since the last informative poll, None at the first. Returns the baseline with the new date
    and tallies, and the age of the change in [0, elapsed] seconds where the date can be believed, else None.
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
