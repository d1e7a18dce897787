"""Crawler traps: endless parts of a site, such as calendars, repeating paths, and combinations of parameters.

Some are recognised by a single URL. All are limited by shape: URLs that differ only in numbers have one shape, and the
number of URLs per shape of a host is bounded.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable

import xxhash

from pollerd.errors import InvalidValueError
from pollerd.texts import _

DEEPEST, MAX_PARAMETERS = 12, 8
LONGEST_URL = 512
_NUMBER = re.compile(r"[0-9]+")
_VALUE = re.compile(r"=[^&]*")
_CALENDAR = re.compile(
    r"/(?:calendar|events?|archive|agenda|day|month|week)s?\b.*(?:19|20)[0-9]{2}"
    r"|[?&](?:date|day|month|year|from|start|week|ical|tribe-bar-date)=[^&]*[0-9]"
    r"|/(?:19|20)[0-9]{2}[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12][0-9]|3[01]))?/?$",
    re.IGNORECASE,
)
_ENDINGS = """
    7z avi bin bmp bz2 css deb dmg doc docx exe flac gif gz ico iso jar jpeg jpg js m4a m4v mkv mov mp3 mp4 mpeg mpg msi
    ogg pdf png ppt pptx rar rpm svg tar tgz tif tiff ttf wav webm webp wmv woff woff2 xls xlsx xz zip
"""
_NO_PAGES = frozenset(_ENDINGS.split())
"""File extensions of paths without text."""


def trap(url: str) -> str | None:
    """Returns why a normalised URL should not be requested, in a word or two; None if it may be."""
    if len(url) > LONGEST_URL:
        return _("too long")
    path, _mark, query = url.partition("?")
    if query.count("&") >= MAX_PARAMETERS:
        return _("too many parameters")
    _stem, dot, ending = path.rpartition("/")[2].rpartition(".")
    if dot and ending.lower() in _NO_PAGES:
        return _("not a page")
    segments = [segment for segment in path.split("/")[3:] if segment]
    if len(segments) > DEEPEST:
        return _("too deep")
    return _("repeats itself") if _repeats(segments) else None


def _repeats(segments: list[str]) -> bool:
    """Returns True if a segment occurs three times, or a run of two or more repeats at once (`/a/b/a/b`)."""
    if any(segments.count(segment) >= 3 for segment in set(segments)):
        return True
    return any(
        segments[start : start + run] == segments[start + run : start + 2 * run]
        for run in range(2, len(segments) // 2 + 1)
        for start in range(len(segments) - 2 * run + 1)
    )


def is_calendar(url: str) -> bool:
    """Returns True if a normalised URL is that of a day, a month or a year."""
    return _CALENDAR.search(url) is not None


def shape(url: str) -> str:
    """Returns a normalised URL with 0 for each number in its path, and without the values of its parameters."""
    path, question, query = url.partition("?")
    scheme, _separator, rest = path.partition("://")
    host, slash, rest = rest.partition("/")
    return f"{scheme}://{host}{slash}{_NUMBER.sub('0', rest)}{question}{_VALUE.sub('=', query)}"


class ShapeLimits:
    """Counts admitted URLs by shape, and limits their number.

    Parameters ---------- pages, days : maximum number of URLs of one shape, and of one calendar shape; at least 1.
    remembered : maximum number of shapes counted; the least recently used is dropped. About 100 bytes each.
    """

    def __init__(self, pages: int = 5_000, days: int = 100, remembered: int = 200_000) -> None:
        for name, value in (("pages", pages), ("days", days), ("remembered", remembered)):
            if value < 1:
                raise InvalidValueError(name, _("at least 1"), value)
        self._pages, self._days, self._remembered = pages, days, remembered
        self._count: OrderedDict[int, int] = OrderedDict()

    def admit(self, url: str) -> bool:
        """Counts a new normalised URL; returns False if the limit of its shape is reached."""
        key = _key(url)
        count = self._count.get(key, 0)
        admitted = count < (self._days if is_calendar(url) else self._pages)
        self._put(key, count + admitted)
        return admitted

    def count(self, urls: Iterable[str]) -> None:
        """Counts normalised URLs that were admitted before, those first that were admitted first."""
        for key in map(_key, urls):
            self._put(key, self._count.get(key, 0) + 1)

    def _put(self, key: int, count: int) -> None:
        self._count[key] = count
        self._count.move_to_end(key)
        if len(self._count) > self._remembered:
            self._count.popitem(last=False)


def _key(url: str) -> int:
    return xxhash.xxh3_64_intdigest(shape(url).encode("utf-8", "replace"))
