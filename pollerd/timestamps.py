"""Moments for people and programs: RFC 3339 in UTC outside, epoch seconds inside."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from pollerd.errors import InvalidValueError
from pollerd.texts import _

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_799.0


def rfc3339(moment: float) -> str:
    """Returns epoch seconds as `2026-01-31T12:00:00.000Z`, clamped to the years 1 to 9999."""
    within = min(max(moment, _EARLIEST), _LATEST)
    return datetime.fromtimestamp(within, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_moment(field: str, text: str) -> float:
    """Parses RFC 3339 with an offset, or a number, to epoch seconds. Raises `InvalidValueError`."""
    allowed = _("a time such as 2026-01-31T12:00:00Z, or epoch seconds")
    # A plus sign that was not percent-encoded in a query string arrives as a space.
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
