"""What came of moving: sites as the list formats take them, and a report of what became of each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from pollerd.masking import masked
from pollerd.texts import N_, _

_MAX_CHARACTERS = 300
COMPARES_SOURCE = N_("(compares the source)")
"""End of the key of an entry whose program compares the source of a page."""
_SETTINGS = "settings."


class Fate(StrEnum):
    """What became of a key."""

    CARRIED = "carried"
    APPROXIMATED = "approximated"
    NOT_CARRIED = "not carried"
    DISPLAY = "display only"
    """It changes how things are shown there, never what is watched."""
    NOTHING_SAID = "nothing said"
    """It has its default, or nothing is needed for it here."""

    @property
    def in_words(self) -> str:
        """The fate as reports name it."""
        return _(_FATES[self])


_FATES = {
    Fate.CARRIED: N_("carried"),
    Fate.APPROXIMATED: N_("approximated"),
    Fate.NOT_CARRIED: N_("not carried"),
    Fate.DISPLAY: N_("display only"),
    Fate.NOTHING_SAID: N_("nothing said"),
}


class ReportLine(NamedTuple):
    """What became of one key. It never holds the value of a header, nor any other secret."""

    source: str
    """Which job, watch, group or file: with its number or name."""
    key: str
    fate: Fate
    how: str = ""
    """How it is approximated, or why it is not carried."""

    @property
    def is_of_program(self) -> bool:
        """Whether it says how the program differs, in the same words for each of its entries."""
        return self.key.startswith(_SETTINGS) or self.key.endswith(_(COMPARES_SOURCE))

    def __str__(self) -> str:
        return f"{self.source}: {self.key}: {self.fate.in_words}{f': {self.how}' if self.how else ''}"


@dataclass(slots=True)
class Report:
    """Collects the lines, in the order of the input."""

    lines: list[ReportLine] = field(default_factory=list)

    def add(self, source: str, key: str, fate: Fate, how: str = "") -> None:
        """Adds a line, translated; long texts are cut, and what looks like a password of a URL is masked."""
        words = _(how)
        shown = words if len(words) <= _MAX_CHARACTERS else f"{words[:_MAX_CHARACTERS]}…"
        self.lines.append(ReportLine(source, _shown(key), fate, shown))

    def of(self, source: str) -> SourceReport:
        """Returns the part of the report on one job, watch or file."""
        return SourceReport(self, _shown(source))


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The report, seen from one job, watch or file."""

    report: Report
    source: str

    def carried(self, key: str) -> None:
        """The key is carried over as it is meant."""
        self.report.add(self.source, key, Fate.CARRIED)

    def approximated(self, key: str, how: str) -> None:
        """The key is carried over, but otherwise than it is meant."""
        self.report.add(self.source, key, Fate.APPROXIMATED, how)

    def lost_after_all(self, key: str, why: str) -> None:
        """The key, which was said to be carried, is lost."""
        carried = ReportLine(self.source, _shown(key), Fate.CARRIED)
        self.report.lines = [line for line in self.report.lines if line != carried]
        self.not_carried(key, why)

    def not_carried(self, key: str, why: str) -> None:
        """The key is lost."""
        self.report.add(self.source, key, Fate.NOT_CARRIED, why)

    def display(self, key: str) -> None:
        """The key only changes how things are shown."""
        self.report.add(self.source, key, Fate.DISPLAY)

    def nothing_said(self, key: str, why: str = "") -> None:
        """Nothing follows from the key."""
        self.report.add(self.source, key, Fate.NOTHING_SAID, why)


class StoredResult(NamedTuple):
    """What the other program kept of a page when it last found a change."""

    text: str
    """At most `RESULT_CHARACTERS` characters."""
    at: float
    """Epoch s."""


RESULT_CHARACTERS = 100_000
"""Longest part of a stored text that is compared with what pollerd keeps."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Sites, each as a JSON object of the list formats, and the report."""

    sites: list[dict[str, object]]
    report: list[ReportLine]
    sources: Sequence[Sequence[str]] = ()
    """For each site the jobs or watches that it is made of, as the report names them."""
    left_out: Sequence[str] = ()
    """Jobs or watches of which no site is made."""
    results: Mapping[str, StoredResult] = field(default_factory=dict, repr=False)
    """By job or watch: what it kept last, as far as the file holds it."""

    def counts(self) -> dict[Fate, int]:
        """Returns the number of lines of each fate."""
        by_fate = Counter(line.fate for line in self.report)
        return {fate: by_fate[fate] for fate in Fate}

    def losses(self) -> Sequence[ReportLine]:
        """Returns the lines that one has to read: what is approximated or not carried."""
        return [line for line in self.report if line.fate in (Fate.APPROXIMATED, Fate.NOT_CARRIED)]


def _shown(text: str) -> str:
    return masked(text) if "://" in text or "@" in text else text[:_MAX_CHARACTERS]
