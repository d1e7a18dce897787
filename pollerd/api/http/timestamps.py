"""Times in the API: RFC 3339 in UTC outside, epoch seconds inside (see `pollerd.timestamps`)."""

from pollerd.timestamps import parse_moment, rfc3339

__all__ = ["parse_moment", "rfc3339"]
