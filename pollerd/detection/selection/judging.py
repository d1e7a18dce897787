"""Judges a difference in a selection: whether it is large enough to be a change, and whether the change matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

from msgspec import Struct

from pollerd.detection.noise.repeat_fetch import without_noise
from pollerd.detection.selection.conditions import Comparison, ConditionNeeds, line_hashes
from pollerd.detection.selection.selections import compiled
from pollerd.detection.summary import LONGEST, summarise
from pollerd.model import ChangeVerdict, Media, StoredReading

NO_NEEDS = ConditionNeeds()


class SelectionDifference(Struct, frozen=True):
    """A difference between two contents of a selection, and what is known besides. Contents as kept, with noise."""

    selection: str
    """Its name."""
    before: bytes | None
    """None: the earlier content is no longer stored."""
    after: bytes
    media: Media
    mask: bytes
    order: tuple[bytes, bytes] = (b"", b"")
    """Feeds: the items of the baselines before and after."""
    readings: Mapping[str, StoredReading] = {}
    last: Mapping[str, StoredReading] = {}
    announced: Mapping[str, StoredReading] = {}
    """The values now, before, and at the last change that mattered."""
    announced_content: bytes | None = None
    versions: Sequence[bytes] = ()
    """Contents of the last versions, newest first."""


class DifferenceJudgement(Struct, frozen=True):
    """What a difference is. `counts`: whether it is a change at all."""

    counts: bool
    summary: str = ""
    verdict: ChangeVerdict = ChangeVerdict()


def needs_of(settings: str, selection: str) -> ConditionNeeds:
    """Returns what the conditions of a selection need to be loaded."""
    conditions = compiled(settings)[selection].conditions
    return NO_NEEDS if conditions is None else conditions.needs


def judge(settings: str, difference: SelectionDifference) -> DifferenceJudgement:
    """Judges a difference by the settings of its selection, as returned by `canonical`."""
    selection = compiled(settings)[difference.selection]
    binary = difference.media is Media.BINARY
    before = _text(difference.before, difference.mask)
    after = _text(difference.after, difference.mask) or ""
    moved = _moved(difference)
    least = None if binary or moved else selection.least
    if least is not None and before is not None and not least.reached(before, after):
        return DifferenceJudgement(counts=False)
    summary = _summary(difference, moved)
    if selection.conditions is None:
        return DifferenceJudgement(True, summary)
    comparison = Comparison(
        before=before or "",
        after=after,
        announced=_text(difference.announced_content, difference.mask),
        values=_comparable(difference.readings),
        last_values=_comparable(difference.last, last=True),
        announced_values=_comparable(difference.announced, last=True),
        versions=[line_hashes(_text(one, difference.mask) or "") for one in difference.versions],
    )
    found = selection.conditions.evaluate(comparison)
    again = bool(found.unknown) and all(_was_unreadable(difference.last, name) for name in found.unknown)
    return DifferenceJudgement(True, summary, ChangeVerdict(found.matters and not again, found.why))


class ReadValue(Struct, frozen=True):
    """A value as conditions compare it."""

    number: Decimal | None
    text: str
    problem: str


def _comparable(readings: Mapping[str, StoredReading], *, last: bool = False) -> dict[str, ReadValue]:
    """Returns values for a comparison; of the `last` ones those that could ever be read."""
    return {
        name: ReadValue(_decimal(one), one.text, "" if last else one.problem)
        for name, one in readings.items()
        if one.text or not last
    }


def _decimal(reading: StoredReading) -> Decimal | None:
    if reading.number is None:
        return None
    try:
        return Decimal(reading.text)
    except InvalidOperation:  # a date: its number is not its text
        return Decimal(repr(reading.number))


def _was_unreadable(last: Mapping[str, StoredReading], name: str) -> bool:
    return name in last and bool(last[name].problem)


def _moved(difference: SelectionDifference) -> list[str]:
    """Returns the values that differ from the last ones, in words."""
    moved = []
    for name, now in difference.readings.items():
        before = difference.last.get(name, StoredReading())
        if now.problem:
            if not before.problem:
                moved.append(f"{name}: not readable ({now.problem})")
        elif now.text != before.text:
            moved.append(f"{name}: {before.text or '-'} -> {now.text}")
    return moved


def _summary(difference: SelectionDifference, moved: Sequence[str]) -> str:
    line = summarise(difference.before, difference.after, difference.media, difference.mask, difference.order)
    if not moved:
        return line
    values = "; ".join(moved)
    same = difference.before == difference.after
    return (values if same else f"{values}; {line}")[:LONGEST]


def _text(content: bytes | None, mask: bytes) -> str | None:
    return None if content is None else without_noise(content, mask).decode("utf-8", "replace")
