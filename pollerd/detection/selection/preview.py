"""Previews: the parts of a page that selections keep, and the verdicts of their conditions on earlier changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from pollerd.detection.edits import unmatched
from pollerd.detection.normalise import normalise
from pollerd.detection.selection.comparing import SelectionDifference, judge, readings_of
from pollerd.detection.selection.selection import compiled
from pollerd.model import ChangeJudgement, CurrentValue, EarlierJudgement, Media, SelectionPreview, StoredReading

SHOWN_BYTES = 100_000
"""Most bytes of text, and of removed lines, that are shown."""


class EarlierVersion(Struct, frozen=True):
    """A stored change of a selection: the contents on its two sides."""

    change_id: int
    detected_at: float
    """Epoch s."""
    before: bytes
    after: bytes


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
    whole = normalise(body, content_type)
    lines = whole.content.decode("utf-8", "replace").split("\n") if whole.media is not Media.BINARY else []
    previews = []
    for selection in compiled(settings).all:
        selected = selection.read(body, content_type, url, pdf_password)
        readings = readings_of(selected, {})
        shown = selected.content[:SHOWN_BYTES].decode("utf-8", "replace")
        kept = shown if selected.media is not Media.BINARY else f"{len(selected.content):,} bytes"
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
