"""The results as a table of a page and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peer_runs.judge import Score
from peer_runs.missed import CAUSES
from peer_runs.reports import Run

HEAD = (
    "program",
    "requests",
    "changes found",
    "delay: median",
    "90 %",
    "true reports",
    "false reports",
    "CPU per request",
)
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Result:
    """A run and its score. setting: how the pages were served."""

    setting: str
    run: Run
    score: Score
    media: Mapping[str, str]
    """Media by page."""
    missed: Mapping[str, int]
    """Changes without a report by cause, of `missed.CAUSES`."""

    @property
    def name(self) -> str:
        """The program and its version."""
        return f"{self.run.program} {self.run.version}"

    def cells(self) -> tuple[str, ...]:
        """Returns the row of the table."""
        score = self.score
        return (
            self.name,
            str(score.requests),
            f"{score.found} of {score.changes}",
            seconds(score.delay(0.5)),
            seconds(score.delay(0.9)),
            str(score.true),
            str(score.false),
            f"{self.cpu_milliseconds:.0f} ms",
        )

    @property
    def cpu_milliseconds(self) -> float:
        """CPU time for each request."""
        return 1000 * self.run.cpu_seconds / max(1, self.score.requests)

    def as_json(self) -> dict[str, Any]:
        """Returns all of it."""
        score = self.score
        return {
            "setting": self.setting,
            "program": self.run.program,
            "version": self.run.version,
            "requests": score.requests,
            "changes": score.changes,
            "found": score.found,
            "delay_median_seconds": finite(score.delay(0.5)),
            "delay_90_seconds": finite(score.delay(0.9)),
            "reports": {"true": score.true, "bytes only": score.of_bytes, "same contents": score.of_nothing},
            "unplaced": score.unplaced,
            "unseen": score.unseen,
            "found_by_media": self._by_media(score.found_by_page),
            "changes_by_media": self._by_media(score.changes_by_page),
            "false_by_media": self._by_media(score.false_pages),
            "missed": dict(self.missed),
            "cpu_seconds": round(self.run.cpu_seconds, 2),
            "cpu_milliseconds_per_request": round(self.cpu_milliseconds, 1),
            "notes": self.run.notes,
        }

    def _by_media(self, by_page: Counter[str]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for page, number in by_page.items():
            counts[self.media.get(page, "?")] += number
        return dict(sorted(counts.items()))


def finite(value: float) -> float | None:
    """Returns a value as JSON can have it."""
    return round(value, 2) if math.isfinite(value) else None


def seconds(value: float) -> str:
    """Returns a delay as the table has it."""
    if math.isnan(value):
        return "no changes"
    return f"{value:.1f} s" if math.isfinite(value) else "not found"


def table(results: Sequence[Result]) -> str:
    """Returns a Markdown table."""
    lines = [HEAD, ("---",) * len(HEAD), *(result.cells() for result in results)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def missed_table(results: Sequence[Result]) -> str:
    """Returns a Markdown table of the changes that were never reported, by cause."""
    lines = [("program", *CAUSES), ("---",) * (1 + len(CAUSES))]
    lines += [(result.name, *(str(result.missed.get(cause, 0)) for cause in CAUSES)) for result in results]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def section(results: Sequence[Result], how: str, command: str) -> str:
    """Returns the tables of all settings, each below its heading, then how it was run."""
    parts = []
    for setting in dict.fromkeys(result.setting for result in results):
        parts += [f"## {setting}", f"<!-- command: {command} -->"]
        rows = [result for result in results if result.setting == setting]
        parts += [table(rows), "Changes that were never reported:", f"<!-- command: {command} -->", missed_table(rows)]
    return "\n\n".join([*parts, "## How it was run", how])


def written_into(page: Path, text: str) -> None:
    """Replaces what stands between the two marks of a page. Raises ValueError if they are missing."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} needs the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
