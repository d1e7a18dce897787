"""Cursors: opaque to readers, the last id seen to us."""

from __future__ import annotations

import base64
import binascii

from pollerd.errors import InvalidValueError

_MAX_ID = 2**63 - 1


def encode(kind: str, last_id: int) -> str:
    """The cursor of a list of `kind` (one letter) that goes on after `last_id`."""
    return base64.urlsafe_b64encode(f"{kind}{last_id}".encode()).decode().rstrip("=")


def decode(kind: str, cursor: str | None) -> int | None:
    """The id that `encode` was given; None for none. Raises `InvalidValueError` for a cursor of another list."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeError) as error:
        raise InvalidValueError("cursor", "a next_cursor of this list", cursor) from error
    digits = text[1:]
    well_formed = text[:1] == kind and digits.isdecimal() and len(digits) <= 19 and int(digits) <= _MAX_ID
    if not well_formed or encode(kind, int(digits)) != cursor:
        raise InvalidValueError("cursor", "a next_cursor of this list", cursor)
    return int(digits)


def check_limit(limit: int, most: int = 1000) -> int:
    """The limit itself. Raises `InvalidValueError` outside of 1 to `most`."""
    if not 1 <= limit <= most:
        raise InvalidValueError("limit", f"1 to {most}", limit)
    return limit
