"""Reads dates out of plain texts: ISO 8601, RFC 9110 and 5322, and what a format or a locale says.

Relative times are no values: they change at every poll. "02/03/2026" without format or locale is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pollerd.detection.selection.values.characters import excerpt
from pollerd.detection.selection.values.dates.date_pattern import DatePattern, pattern_of, patterns_of_locale
from pollerd.detection.selection.values.dates.instants import ENGLISH_MONTHS, reading_of
from pollerd.detection.selection.values.dates.zones import zone_of
from pollerd.detection.selection.values.form import Reading, ValueFormat

MOST_DATES = 1_000
_OFFSET = "(?: ?(?P<offset>[+-][0-9]{2}(?::?[0-9]{2})?(?![0-9:])|[A-Z]{1,5}(?![A-Za-z0-9])))?"
_CLOCK = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?" + _OFFSET
_TWELVE = "(?! ?[aApP]\\.?[mM])"
_FREE, _END = r"(?<![0-9A-Za-z])(?<![0-9][./-])", r"(?![0-9])(?![./:-][0-9])"
_NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_EVIDENT = [
    f"(?P<year>[0-9]{{4}})-(?:(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})|W(?P<week>[0-9]{{2}})-(?P<weekday>[1-7])"
    f"|(?P<ordinal>[0-9]{{3}}))(?:(?:[Tt]| |, )(?=[0-9]{{2}}:){_CLOCK})?",
    "(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})T(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})(?P<second>[0-9]{2})?"
    + _OFFSET,
    f"(?P<day>[0-9]{{1,2}})(?P<dash>[ -])(?P<month_name>{_NAMES})(?P=dash)"
    f"(?:(?P<year>[0-9]{{4}})|(?P<short_year>[0-9]{{2}}))(?: {_CLOCK})?",
    f"(?P<month_name>{_NAMES}) {{1,2}}(?P<day>[0-9]{{1,2}}) (?P<hour>[0-9]{{2}}):(?P<minute>[0-9]{{2}})"
    ":(?P<second>[0-9]{2}) (?P<year>[0-9]{4})",
    "(?P<year>[0-9]{4}) ?[年년] ?(?P<month>[0-9]{1,2}) ?[月월] ?(?P<day>[0-9]{1,2}) ?[日일]",
]
_EVIDENT_PATTERNS = tuple(
    DatePattern(re.compile(f"{_FREE}{written}{_TWELVE}{_END}"), ENGLISH_MONTHS) for written in _EVIDENT
)
_UNCLEAR = re.compile(
    r"(?<![0-9])[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{2,4}(?![0-9])|(?<![0-9])[0-9]{1,2}\. ?[0-9]{1,2}\."
)


def date_readings(texts: Sequence[str], form: ValueFormat, machine: bool) -> Iterator[Reading]:
    """Yields a reading for each date in the plain texts, in their order; `machine`: as for `read_value`."""
    patterns: tuple[DatePattern, ...] = ()
    if form.format is not None:
        patterns = (pattern_of(form.format, form.locale),)
    elif form.locale is not None:
        patterns = patterns_of_locale(form.locale)
    if form.format is None or machine:
        patterns = (*_EVIDENT_PATTERNS, *patterns)
    zone = None if form.zone is None else zone_of(form.zone)
    number = 0
    for text in texts:
        for match, pattern in _found(text, patterns):
            number += 1
            if number > MOST_DATES:
                yield Reading(problem=f"more than {MOST_DATES:,} dates")
                return
            shown = excerpt(match[0])
            parts = {name: part for name, part in match.groupdict().items() if part}
            yield reading_of(parts, zone, shown, pattern.names)
    if not number and form.format is None:
        yield from _unclear(texts)


def _found(text: str, patterns: Sequence[DatePattern]) -> Iterator[tuple[re.Match[str], DatePattern]]:
    """The matches that do not overlap: the first, of those at one place the longest."""
    matches = [(match, pattern) for pattern in patterns for match in pattern.regex.finditer(text)]
    matches.sort(key=lambda found: (found[0].start(), -found[0].end()))
    free = 0
    for match, pattern in matches:
        if match.start() >= free:
            free = match.end()
            yield match, pattern


def _unclear(texts: Sequence[str]) -> Iterator[Reading]:
    for text in texts:
        match = _UNCLEAR.search(text)
        if match is not None:
            yield Reading(problem=f"{excerpt(match[0])}: which is the day, and which the month? Set format, or locale")
            return
