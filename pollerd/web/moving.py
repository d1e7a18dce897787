"""Moving in by the browser: recognises files of other programs, and shows what each entry was and becomes."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from pollerd.api.diff import Row, side_by_side
from pollerd.api.formats import Format, MovedFrom
from pollerd.api.list_formats import parse_file
from pollerd.daemon.control.preview import PagePreview
from pollerd.errors import ConfigError, InvalidValueError, refusal
from pollerd.model import SelectionPreview
from pollerd.quantities import duration
from pollerd.site_settings import SITE_SETTINGS, Kind, SiteSpec
from pollerd.texts import _
from pollerd.web.counts_words import Paragraph, selections_in_words

if TYPE_CHECKING:  # an optional room
    from pollerd.moving.moved import Moved, ReportLine, StoredResult

_ZIP = b"PK\x03\x04"
_OLD_BACKUP = b'"watching"'
_OWN_DOCUMENT = re.compile(rb"^(?:sites|defaults|tags|sources|signal_sources|channels|rules)\s*:", re.MULTILINE)
_JOB = re.compile(rb"^(?:url|navigate|command)\s*:", re.MULTILINE)


def program_of(name: str, data: bytes) -> MovedFrom | None:
    """Returns the program that a file is of, by its contents and its name; None: none that is known."""
    suffix = name.lower().rpartition(".")[2]
    if data.startswith(_ZIP) or (suffix == "json" and data.lstrip()[:1] == b"{" and _OLD_BACKUP in data):
        return MovedFrom.CHANGEDETECTION
    if suffix not in ("yaml", "yml") or (_OWN_DOCUMENT.search(data) and not _JOB.search(data)):
        return None
    return MovedFrom.WEBCHANGES if name.lower().startswith("jobs.") else MovedFrom.URLWATCH


def read_moved(program: MovedFrom, data: bytes) -> MovedList:
    """Converts a file; may take seconds. Raises `InvalidValueError` if it cannot be read, or the room is missing."""
    try:
        from pollerd.moving.files import json_lines, moved_of_file
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pollerd.moving"):
            raise
        raise refusal("file", _("moving in from other programs is not part of this installation")) from error
    try:
        moved = moved_of_file(program, data)
    except ConfigError as error:
        raise refusal("file", str(error)) from error
    return MovedList(moved, json_lines(moved))


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What pollerd keeps of a page now, next to what the other program kept last."""

    name: str
    """Of the selection."""
    kept: SelectionPreview
    before: StoredResult | None
    """None: the file holds no result of it."""
    rows: Sequence[Row]
    """Both results side by side; empty: they are the same, or there is only one."""


@dataclass(frozen=True, slots=True)
class MoveTrial:
    """The results of one site that was tried."""

    selections: Sequence[MoveResult] = ()
    problem: str = ""
    """Why there are none."""
    wait: float | None = None
    """Seconds after which it can be tried again, if that is known."""


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A site that moves, or an entry that cannot."""

    title: str
    number: int = 0
    """Of the site in the list, from 1; 0: it cannot move."""
    sources: Sequence[str] = ()
    """The entries that it is made of, as their program has them."""
    as_it_was: Sequence[str] = ()
    """Keys that are taken over as they are."""
    differences: Sequence[ReportLine] = ()
    """Keys that are taken over otherwise, or are lost."""
    becomes: Sequence[tuple[str, str]] = ()
    """Settings of the site: label and text; nothing secret."""
    counts: Sequence[tuple[str, Sequence[Paragraph]]] = ()
    """Its selections in words, by name."""
    reason: str = ""
    """Why it cannot move."""

    @property
    def is_special(self) -> bool:
        """Whether something differs that is no difference of all entries of its program."""
        return any(not line.is_of_program for line in self.differences)


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What an import would do, entry by entry."""

    move: Sequence[MoveRow]
    look: Sequence[MoveRow]
    """These move, but something of them differs."""
    cannot: Sequence[MoveRow]
    common: Sequence[tuple[ReportLine, int]]
    """What differs in the same way in many entries, and in how many."""
    general: Sequence[ReportLine]
    """What is lost besides: settings of the program."""


@dataclass(frozen=True, slots=True)
class MovedList:
    """A converted file, kept from its dry run to its import."""

    moved: Moved
    lines: bytes
    """The sites with their secrets, as JSON lines."""

    def plan(self, refused: Mapping[int, str]) -> MovePlan:
        """Returns the plan. refused: number of a site, from 1 -> why the import refuses it."""
        from pollerd.moving.files import without_secrets

        moved = self.moved
        carried, losses = _by_source(moved)
        move, look, cannot = list[MoveRow](), list[MoveRow](), list[MoveRow]()
        known = set(moved.left_out)
        for number, (site, sources) in enumerate(zip(moved.sites, moved.sources, strict=True), 1):
            url = str(site["url"])
            known |= {*sources, url}
            shown = without_secrets(site)
            selections = None if number in refused else shown.pop("selections", None)
            row = MoveRow(
                title=str(site.get("title") or url),
                number=number,
                sources=sources,
                as_it_was=list(dict.fromkeys(key for source in sources for key in carried.get(source, ()))),
                differences=[line for source in (*sources, url) for line in losses.get(source, ())],
                becomes=[(_label(name), _text(name, value)) for name, value in shown.items()],
                counts=selections_in_words(orjson.dumps(selections).decode()) if selections else (),
                reason=refused.get(number, ""),
            )
            (cannot if row.reason else look if row.is_special else move).append(row)
        cannot += [
            MoveRow(title=source, reason="; ".join(_own_reasons(losses.get(source, ())))) for source in moved.left_out
        ]
        common = Counter(
            line._replace(source="") for row in (*move, *look) for line in set(row.differences) if line.is_of_program
        )
        general = [line for line in moved.losses() if line.source not in known]
        return MovePlan(move, look, cannot, list(common.items()), general)

    def site(self, number: int) -> SiteSpec:
        """Returns a site as it would be imported. Raises `InvalidValueError` if there is none, or it is refused."""
        lines = self.lines.split(b"\n")
        if not 1 <= number <= len(lines):
            raise refusal("row", _("there is no such entry"))
        for _number, site in parse_file(io.BytesIO(lines[number - 1]), Format.JSON_LINES):
            if isinstance(site, InvalidValueError):
                raise site
            if site is not None:
                return site
        raise refusal("row", _("there is no such entry"))

    def compared(self, number: int, preview: PagePreview) -> MoveTrial:
        """Returns what pollerd keeps of a page next to what the other program kept of it last. CPU-bound."""
        if not preview.selections:
            found = preview.recognised
            reason = found.reason if found is not None and found.obstacle else preview.detail
            return MoveTrial(problem=reason or str(preview.outcome), wait=preview.retry_after)
        results = [self.moved.results.get(source) for source in self.moved.sources[number - 1]]
        if len(results) != len(preview.selections):  # some jobs of its URL became no selection
            results = [None] * len(preview.selections)
        return MoveTrial(
            [
                MoveResult(kept.name, kept, before, _rows(before, kept))
                for kept, before in zip(preview.selections, results, strict=True)
            ]
        )


def _rows(before: StoredResult | None, now: SelectionPreview) -> list[Row]:
    if before is None or now.missing:
        return []
    from pollerd.moving.moved import RESULT_CHARACTERS

    old, new = _words(before.text), _words(now.kept[:RESULT_CHARACTERS])
    return side_by_side(old, new) if old != new else []


def _words(text: str) -> list[str]:
    """Returns the lines that say something, whatever their white space: programs differ in it and pages do not."""
    return [line for line in (" ".join(line.split()) for line in text.split("\n")) if line]


def _by_source(moved: Moved) -> tuple[dict[str, list[str]], dict[str, list[ReportLine]]]:
    """Returns the keys that are carried, and the lines on what is approximated or lost, of each source."""
    carried: dict[str, list[str]] = {}
    losses: dict[str, list[ReportLine]] = {}
    for line in moved.report:
        if line.fate.value == "carried":
            carried.setdefault(line.source, []).append(line.key)
    for line in moved.losses():
        losses.setdefault(line.source, []).append(line)
    return carried, losses


def _own_reasons(lines: Sequence[ReportLine]) -> list[str]:
    """Returns why an entry cannot move: each reason once, and only its own."""
    own = [line for line in lines if not line.is_of_program]
    return list({line.how: f"{line.key}: {line.how}" for line in own or lines}.values())


def _label(name: str) -> str:
    setting = SITE_SETTINGS.get(name)
    return (_(setting.form) if setting is not None else "") or name


def _text(name: str, value: Any) -> str:
    setting = SITE_SETTINGS.get(name)
    if setting is not None and setting.kind is Kind.SECONDS and isinstance(value, int | float):
        return duration(value)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values()):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value if isinstance(value, str) else orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode()
