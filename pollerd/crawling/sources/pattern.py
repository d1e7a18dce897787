"""The pattern of a source: which of the listed URLs become sites."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pollerd.errors import InvalidValueError

EXPRESSION = "re:"
"""Prefix of a regular expression; any other text is a part of the URL."""
MOST_CHARACTERS = 1_000
_MOST_MEMORY = 1 << 20


def check_pattern(pattern: str) -> str:
    """Returns the pattern: `re:` and an RE2 expression, searched anywhere in the URL, or a part of the URL.

    Raises `InvalidValueError(field="pattern")` for an empty or too long one, and for what RE2 does not understand.
    """
    if not 0 < len(pattern.removeprefix(EXPRESSION)) <= MOST_CHARACTERS or "\0" in pattern:
        raise InvalidValueError("pattern", f"1 to {MOST_CHARACTERS:,} characters without NUL", pattern[:200])
    url_matcher(pattern)
    return pattern


@lru_cache(maxsize=64)
def url_matcher(pattern: str | None) -> Callable[[str], bool]:
    """Returns a function that says whether a normalised URL fits the pattern; None: every URL does.

    Takes linear time in the URL's length. Raises `InvalidValueError(field="pattern")`.
    """
    if pattern is None:
        return lambda _: True
    if not pattern.startswith(EXPRESSION):
        return lambda url: pattern in url
    import re2  # loaded with the first expression

    options = re2.Options()
    options.log_errors, options.max_mem = False, _MOST_MEMORY
    try:
        compiled = re2.compile(pattern.removeprefix(EXPRESSION), options)
    except re2.error as error:
        reason = _line(error.args[0] if error.args else "not understood")
        raise InvalidValueError(
            "pattern", f"an RE2 expression behind {EXPRESSION} ({reason})", pattern[:200]
        ) from error
    return lambda url: compiled.search(url) is not None


def _line(text: object) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return " ".join(shown.split())[:200]
