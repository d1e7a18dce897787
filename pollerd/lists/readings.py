"""Readings of a source: the sites that one adds and removes, the time of the next one, and the pattern of its URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.texts import _


class ListedDifference(Struct, frozen=True, gc=False):
    """URLs that a reading adds, takes away and brings back, each in the order in which they were found."""

    joined: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.joined or self.vanished or self.returned)


def difference(known: Mapping[str, bool], listed: Iterable[str]) -> ListedDifference:
    """Compares the listed URLs with the known ones: URL -> whether it was listed by the reading before.

    joined: listed and unknown; vanished: listed before and not now; returned: known, not listed before, listed now.
    """
    now = dict.fromkeys(listed)
    return ListedDifference(
        tuple(url for url in now if url not in known),
        tuple(url for url, before in known.items() if before and url not in now),
        tuple(url for url in now if known.get(url) is False),
    )


def doubt(entries: int, before: int | None, most_shrink: float) -> str | None:
    """Returns why a list is not believed where pages are missing from it; None if it is.

    entries: number of pages in it; before: number in the last one that was believed, None: there was none.
    most_shrink: largest share, 0 to 1, by which it may shrink. An empty list is never believed.
    """
    if entries == 0:
        return _("it lists no page")
    if before is None or entries >= (1 - most_shrink) * before:
        return None
    return _(
        "it lists {entries:,} pages, and {before:,} before: more than {most_shrink:.0%} less",
        entries=entries,
        before=before,
        most_shrink=most_shrink,
    )


# The interval between two readings of a source for which the user set none: shorter while it brings news, else longer.

FIRST_SECONDS = {"sitemap": 6 * 3_600.0, "feed": 3_600.0}
MIN_SECONDS = {"sitemap": 3_600.0, "feed": 900.0}
MAX_SECONDS = {"sitemap": 86_400.0, "feed": 43_200.0}
"""By kind."""
_SHORTER, _LONGER = 0.5, 1.5


def next_interval(kind: str, before: float | None, *, news: bool) -> float:
    """Returns the seconds until a source of this kind is read again.

    before: the interval that ends now, None: this was the first reading. news: whether the reading made a difference.
    Halved with news, half as long again without, within an hour and a day (feeds: a quarter and half a day).
    """
    if before is None:
        return FIRST_SECONDS[kind]
    return min(max(before * (_SHORTER if news else _LONGER), MIN_SECONDS[kind]), MAX_SECONDS[kind])


# The pattern of a source: it decides which of the listed URLs become sites.

EXPRESSION = "re:"
"""Prefix of a regular expression; any other text is a part of the URL."""
MAX_CHARACTERS = 1_000
_MAX_MEMORY = 1 << 20


def check_pattern(pattern: str) -> str:
    """Returns the pattern: `re:` and an RE2 expression, searched anywhere in the URL, or a part of the URL.

    Raises `InvalidValueError(field="pattern")` for an empty or too long one, and for what RE2 does not understand.
    """
    if not 0 < len(pattern.removeprefix(EXPRESSION)) <= MAX_CHARACTERS or "\0" in pattern:
        raise InvalidValueError(
            "pattern", _("1 to {max_characters:,} characters without NUL", max_characters=MAX_CHARACTERS), pattern[:200]
        )
    url_matcher(pattern)
    return pattern


@lru_cache(maxsize=64)
def url_matcher(pattern: str | None) -> Callable[[str], bool]:
    """Returns a function that says whether a normalised URL fits the pattern; None: every URL does.

    Takes linear time in the URL's length. Raises `InvalidValueError(field="pattern")`.
    """
    if pattern is None:
        return lambda _url: True
    if not pattern.startswith(EXPRESSION):
        return lambda url: pattern in url
    import re2  # loaded with the first expression

    options = re2.Options()
    options.log_errors, options.max_mem = False, _MAX_MEMORY
    try:
        compiled = re2.compile(pattern.removeprefix(EXPRESSION), options)
    except re2.error as error:
        reason = _line(error.args[0] if error.args else _("not understood"))
        raise InvalidValueError(
            "pattern",
            _("an RE2 expression after {expression} ({reason})", expression=EXPRESSION, reason=reason),
            pattern[:200],
        ) from error
    return lambda url: compiled.search(url) is not None


def _line(text: object) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return " ".join(shown.split())[:200]
