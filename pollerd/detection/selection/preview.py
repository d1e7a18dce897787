"""Previews: the parts of a page that selections keep, and the verdicts of their conditions on earlier changes.

A new selection has no earlier versions, only those of the selection before it, as text. What the new one would have
kept of them is estimated: lines of an earlier text are paired with those of the page, of which it is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from pollerd.detection.edits import Gap, gaps, unmatched
from pollerd.detection.normalise import normalise
from pollerd.detection.selection.comparing import SelectionDifference, judge, needs_of, readings_of
from pollerd.detection.selection.selection import Selection, ValueSource, compiled
from pollerd.detection.selection.values.form import ValueFormat
from pollerd.detection.selection.values.read import read_value
from pollerd.model import ChangeJudgement, CurrentValue, EarlierJudgement, Media, SelectionPreview, StoredReading
from pollerd.texts import _, n_

SHOWN_BYTES = 100_000
"""Most bytes of text, and of removed lines, that are shown."""


class EarlierVersion(Struct, frozen=True):
    """A stored change of a selection: the contents on its two sides."""

    change_id: int
    detected_at: float
    """Epoch s."""
    before: bytes
    after: bytes
    kept_by: str | None
    """The selections that kept these contents, as returned by `canonical`; empty: none did, so the whole page; None:
    others than those that the site has."""


def preview(
    settings: str,
    body: bytes,
    content_type: str | None,
    url: str,
    stored: Mapping[str, bytes],
    earlier: Mapping[str, Sequence[EarlierVersion]],
    pdf_password: str | None = None,
) -> tuple[SelectionPreview, ...]:
    """Returns what each selection of the settings (as returned by `canonical`) keeps of a body.

    stored: current contents of the site by selection, where they were kept by the same steps. earlier: its last
    changes, newest first, likewise. Raises SelectionLimitError where a page takes too long.
    """
    lines = _whole_lines(body, content_type)
    previews = []
    for selection in compiled(settings).all:
        selected = selection.read(body, content_type, url, pdf_password)
        readings = readings_of(selected, {})
        shown = selected.content[:SHOWN_BYTES].decode("utf-8", "replace")
        kept = (
            shown if selected.media is not Media.BINARY else n_("{count} byte", "{count} bytes", len(selected.content))
        )
        before = stored.get(selection.name)
        now = None
        if before is not None and not selected.missing and before != selected.content:
            now = _judged(settings, _difference(selection.name, before, selected.content, selected.media, readings))
        previews.append(
            SelectionPreview(
                name=selection.name,
                kind=selected.media,
                kept=kept,
                cut=len(selected.content) > SHOWN_BYTES,
                removed=_removed(lines, selected.content.decode("utf-8", "replace").split("\n")),
                values=tuple(CurrentValue.of(name, value) for name, value in readings.items()),
                missing=selected.missing,
                warnings=tuple(selection.plan.warnings),
                now=now,
                earlier=tuple(
                    _earlier(settings, selection.name, selected.media, version)
                    for version in earlier.get(selection.name, ())
                ),
            )
        )
    return tuple(previews)


def _whole_lines(body: bytes, content_type: str | None) -> Sequence[str]:
    """Returns the lines of a whole page, which is looked at again and again while a form is filled in."""
    return (_remembered_lines if len(body) <= _REMEMBERED_BYTES else _lines_of_page)(body, content_type)


_REMEMBERED_BYTES = 1024 * 1024


def _lines_of_page(body: bytes, content_type: str | None) -> Sequence[str]:
    whole = normalise(body, content_type)
    return whole.content.decode("utf-8", "replace").split("\n") if whole.media is not Media.BINARY else []


_remembered_lines = lru_cache(maxsize=2)(_lines_of_page)


def _earlier(settings: str, name: str, media: Media, version: EarlierVersion) -> EarlierJudgement:
    judged = _judged(settings, _difference(name, version.before, version.after, media, {}))
    return EarlierJudgement(version.change_id, version.detected_at, judged.counts, judged.matters, judged.why)


def _judged(settings: str, difference: SelectionDifference) -> ChangeJudgement:
    judgement = judge(settings, difference)
    return ChangeJudgement(
        judgement.counts, judgement.counts and judgement.verdict.matters, judgement.verdict.why, judgement.summary
    )


def _difference(
    name: str, before: bytes, after: bytes, media: Media, readings: Mapping[str, StoredReading]
) -> SelectionDifference:
    return SelectionDifference(selection=name, before=before, after=after, media=media, mask=b"", readings=readings)


def _removed(lines: Sequence[str], kept: Sequence[str]) -> tuple[str, ...]:
    removed, size = [], 0
    for n in unmatched(lines, kept):
        size += len(lines[n]) + 1
        if size > SHOWN_BYTES:
            break
        removed.append(lines[n])
    return tuple(removed)


# Trials: a selection that is being edited, on the page as it was read and on the stored versions.

_WHOLE_PAGE = '{"default":{}}'
_LOST_MOST = 0.1
"""Largest share of the kept lines that may be missing in what the site kept so far, for an estimate."""


class SentVerdict(Struct, frozen=True):
    """What the selection would have made of an earlier change."""

    change_id: int
    detected_at: float
    """Epoch s."""
    sent: bool | None
    """None: the stored texts do not say."""
    why: str


class SelectionTrial(Struct, frozen=True):
    """What an edited selection keeps, and what it would have made of earlier changes."""

    preview: SelectionPreview
    verdicts: tuple[SentVerdict, ...]
    """Newest first."""
    estimated: bool
    """Whether the earlier texts were kept by other steps, so that lines were paired."""


class TriedPage(Struct, frozen=True):
    """A page as it was read."""

    body: bytes
    content_type: str | None
    url: str
    pdf_password: str | None = None


class EarlierReading(Struct, frozen=True):
    """A value from a moment on, epoch s."""

    name: str
    at: float
    reading: StoredReading


def trial(
    settings: str,
    name: str,
    page: TriedPage,
    versions: Sequence[EarlierVersion],
    history: Sequence[EarlierReading] = (),
) -> SelectionTrial:
    """Tries a selection on a page and on the last changes of the site.

    settings: as returned by `canonical`. versions: newest first. history: values of the stored selection, newest first.
    Raises SelectionLimitError where a page takes too long.
    """
    shown = next(
        selection_shown
        for selection_shown in preview(settings, page.body, page.content_type, page.url, {}, {}, page.pdf_password)
        if selection_shown.name == name
    )
    selection = compiled(settings)[name]
    readers = dict[str, _Recorded | _Projection]()
    for kept_by in {version.kept_by for version in versions} - {None}:
        before = compiled(kept_by or _WHOLE_PAGE)
        kept = next((kept for kept in before.all if kept.name == name), before.all[0])
        if kept.version == selection.version:
            readers[kept_by or ""] = _Recorded(history)
            continue
        is_whole = not kept_by and page.pdf_password is None
        base = _whole_lines(page.body, page.content_type) if is_whole else _lines_of(kept, page)
        if (projection := _Projection(selection, base, page, shown)).fits:
            readers[kept_by or ""] = projection
    estimated = any(isinstance(reader, _Projection) for reader in readers.values())
    return SelectionTrial(shown, tuple(_verdicts(settings, name, shown.kind, versions, readers)), estimated)


class _Recorded:
    """Reads versions that the same steps kept: as they are, with the values of the history."""

    def __init__(self, history: Sequence[EarlierReading]) -> None:
        self._history = history

    def content(self, text: bytes) -> bytes:
        """Returns the text itself."""
        return text

    def readings(self, text: bytes, at: float) -> dict[str, StoredReading]:
        """Returns the values that held at a time."""
        readings: dict[str, StoredReading] = {}
        for entry in self._history:
            if entry.at <= at:
                readings.setdefault(entry.name, entry.reading)
        return readings


class _Projection:
    """Reads versions that other steps kept: by pairing their lines with those of the page as it was read."""

    def __init__(self, selection: Selection, base: Sequence[str], page: TriedPage, shown: SelectionPreview) -> None:
        """base: the lines of the page as the versions have it. shown: of the selection, on this page."""
        self._selection = selection
        self._page = page
        self._base = base
        self._compared: dict[bytes, tuple[list[str], list[Gap]]] = {}
        """Text of a version -> its lines, and how they differ from those of the page."""
        if selection.plan.text_steps or shown.cut:
            plain = dataclasses.replace(selection, plan=dataclasses.replace(selection.plan, text_steps=[]))
            kept = _lines_of(plain, page)
        else:
            kept = shown.kept.split("\n") if shown.kind is not Media.BINARY else []
        self._kept = _places(self._base, kept)
        lost = len(kept) - sum(self._kept)
        self.fits = bool(kept) and lost <= _LOST_MOST * len(kept)
        """Whether the stored texts hold what the selection keeps."""
        self._lines_of_values = {
            value.name: self._line_of(value) for value in selection.values if value.expression is not None
        }

    def content(self, text: bytes) -> bytes:
        """Returns what the selection would have kept of a text."""
        projected = "\n".join(self._projected(text, self._kept))
        for step in self._selection.plan.text_steps:
            projected = step(projected)
        return projected.encode("utf-8", "replace")

    def readings(self, text: bytes, at: float) -> dict[str, StoredReading]:
        """Returns the values in a text."""
        readings = {}
        for value in self._selection.values:
            if value.expression is None:
                texts = _in_text(value, self.content(text).decode("utf-8", "replace"))
            else:
                line = self._lines_of_values[value.name]
                flags = [n == line for n in range(len(self._base))]
                texts = [] if line is None else self._projected(text, flags)
            reading = read_value(texts, value.form)
            number = None if reading.number is None else float(reading.number)
            readings[value.name] = StoredReading(
                reading.text, number, reading.moment, reading.currency, reading.problem
            )
        return readings

    def _line_of(self, value: ValueSource) -> int | None:
        """Returns the line of the page that has the value; None: none has, or several."""
        page = self._page
        as_text = dataclasses.replace(value, form=ValueFormat(kind="text", which="first"))
        alone = dataclasses.replace(self._selection, values=(as_text,))
        text = alone.read(page.body, page.content_type, page.url, page.pdf_password).readings[value.name].text
        places = [n for n, line in enumerate(self._base) if text and text in line]
        return places[0] if places else None

    def _projected(self, text: bytes, flags: Sequence[bool]) -> list[str]:
        if text not in self._compared:
            lines = text.decode("utf-8", "replace").split("\n")
            self._compared[text] = lines, gaps(lines, self._base)
        lines, differing = self._compared[text]
        projected, line, base = list[str](), 0, 0
        end = len(lines)
        for gap in [*differing, None]:
            until = end if gap is None else gap.a_start
            projected += [lines[line + n] for n in range(until - line) if flags[base + n]]
            if gap is None:
                break
            projected += [
                lines[at]
                for at in range(gap.a_start, gap.a_end)
                if _is_kept(flags, gap.b_start, gap.b_end, (at - gap.a_start) / (gap.a_end - gap.a_start))
            ]
            line, base = gap.a_end, gap.b_end
        return projected


def _places(base: Sequence[str], kept: Sequence[str]) -> list[bool]:
    """Returns for each line of the page whether it is kept; `kept` may have them in another order."""
    left = {at for gap in gaps(base, kept) for at in range(gap.a_start, gap.a_end)}
    if len(base) - len(left) < len(kept):
        left = set(unmatched(base, kept))
    return [at not in left for at in range(len(base))]


def _is_kept(flags: Sequence[bool], start: int, end: int, share: float) -> bool:
    """Returns whether a line is kept that stands this far, in [0, 1), into lines that replaced those of the page."""
    if start < end:
        return flags[start + int(share * (end - start))]
    around = flags[max(start - 1, 0) : start + 1]  # it stands between two lines of the page
    return bool(around) and all(around)


def _lines_of(selection: Selection, page: TriedPage) -> list[str]:
    selected = selection.read(page.body, page.content_type, page.url, page.pdf_password)
    return selected.content.decode("utf-8", "replace").split("\n") if selected.media is not Media.BINARY else []


def _in_text(value: ValueSource, text: str) -> list[str]:
    if value.pattern is None:
        return text.split("\n") if text else []
    return [value.replacement.expand(match) for match in value.pattern.finditer(text)]


def _verdicts(
    settings: str,
    name: str,
    media: Media,
    versions: Sequence[EarlierVersion],
    readers: Mapping[str, _Recorded | _Projection],
) -> list[SentVerdict]:
    """Returns the verdicts, newest first: judged from the oldest on, as each knows what was announced before it.

    readers: by `EarlierVersion.kept_by`; of texts without one nothing can be said.
    """
    needed = needs_of(settings, name).values
    verdicts, contents = list[SentVerdict](), list[bytes]()
    announced, announced_content = dict[str, StoredReading](), None
    for version in reversed(versions):
        reader = None if version.kept_by is None else readers.get(version.kept_by)
        if reader is None:
            why = _("what counted then was set otherwise") if version.kept_by is None else ""
            verdicts.append(SentVerdict(version.change_id, version.detected_at, None, why))
            continue
        before, after = reader.content(version.before), reader.content(version.after)
        last = reader.readings(version.before, version.detected_at - _MOMENT)
        readings = reader.readings(version.after, version.detected_at)
        difference = SelectionDifference(
            selection=name,
            before=before,
            after=after,
            media=media,
            mask=b"",
            readings=readings,
            last=last,
            announced=announced or last,
            announced_content=before if announced_content is None else announced_content,
            versions=contents[::-1],
        )
        judged = _judged(settings, difference)
        same = before == after and all(last.get(key, reading).text == reading.text for key, reading in readings.items())
        unread = any(key not in readings or readings[key].problem for key in needed)
        sent: bool | None = judged.matters
        why = judged.why or judged.summary if judged.counts else _("too small a difference")
        if same:
            sent, why = False, _("not in the part that counts")
        elif unread:
            sent, why = None, _("its value is not in the stored text")
        verdicts.append(SentVerdict(version.change_id, version.detected_at, sent, why))
        if sent:
            announced, announced_content = readings, after
        contents.append(after)
    return verdicts[::-1]


_MOMENT = 1e-3
"""Seconds before a change at which the values before it held."""
