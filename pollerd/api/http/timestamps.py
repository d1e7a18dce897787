"""Moments as the API writes and reads them: RFC 3339 in UTC outside, epoch seconds inside."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from pollerd.errors import InvalidValueError

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_799.0


def rfc3339(moment: float) -> str:
    """Epoch seconds as `2026-01-31T12:00:00.000Z`; what lies outside the years 1 to 9999 becomes their edge."""
    within = min(max(moment, _EARLIEST), _LATEST)
    return datetime.fromtimestamp(within, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_moment(field: str, text: str) -> float:
    """Epoch seconds from RFC 3339 with an offset, or from a number. Raises `InvalidValueError`."""
    allowed = "a moment as in 2026-01-31T12:00:00Z, or epoch seconds"
    # A plus sign in a query string that was not percent-encoded arrives as a space.
    spelled = text.strip().replace(" ", "+")
    try:
        if _RFC_3339.fullmatch(spelled):
            return datetime.fromisoformat(spelled.upper()).timestamp()
        moment = float(spelled)
    except (ValueError, OverflowError) as error:
        raise InvalidValueError(field, allowed, text) from error
    if not math.isfinite(moment):
        raise InvalidValueError(field, allowed, text)
    return moment
