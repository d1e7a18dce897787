"""What a password must be like."""

from __future__ import annotations

from pollerd.errors import InvalidValueError

SHORTEST, LONGEST = 10, 256
"""Characters of a password."""


def check_password(password: str, field: str = "password") -> str:
    """Returns the password. Raises `InvalidValueError` if it is too short, too long, or one character repeated."""
    if not SHORTEST <= len(password) <= LONGEST or len(set(password)) == 1:
        raise InvalidValueError(field, f"{SHORTEST} to {LONGEST} characters, not all the same", "(not shown)")
    return password
