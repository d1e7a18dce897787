"""Comparison of a response with the contents that each selection of its site kept before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial

import xxhash
from msgspec import Struct
from msgspec.structs import replace

from pollerd.detection import feed, last_modified
from pollerd.detection.noise.learning import (
    HEAVY_UNDER_MASK_BYTES,
    fingerprint_of,
    under_mask,
    with_rule,
    without_noise,
)
from pollerd.detection.selection.conditions.change_size import line_hashes
from pollerd.detection.selection.conditions.condition import ConditionNeeds
from pollerd.detection.selection.conditions.logic import Comparison
from pollerd.detection.selection.selection import Selected, Selection, compiled
from pollerd.detection.summary import LONGEST, replaced, summarise
from pollerd.model import (
    OF_SELECTIONS,
    READER,
    READERS,
    Baseline,
    ChangeVerdict,
    Detection,
    Evidence,
    Media,
    Outcome,
    OutcomeKind,
    SelectionDetection,
    SelectionState,
    StoredReading,
)
from pollerd.texts import _

CHEAP_BYTES = 32 * 1024
"""Largest body that cheap selections read in the event loop."""
_UNCHANGED = Evidence(changed=False)


def heavy_for_selections(outcome: Outcome, settings: str, baseline: Baseline, states: Sequence[SelectionState]) -> bool:
    """Returns whether reading the response belongs beside the event loop, under time and memory limits."""
    body = outcome.body or b""
    if is_of_earlier_reader(states):  # two readings, and tables of locales that nothing else needs
        return bool(body)
    masked = len(body) > HEAVY_UNDER_MASK_BYTES and any(state.baseline.mask for state in states)
    if compiled(settings).cheap and len(body) <= CHEAP_BYTES and not masked and not body.startswith(b"%PDF-"):
        return False
    return bool(body) and xxhash.xxh3_128_digest(body) != baseline.raw_fingerprint


def detect_selections(
    outcome: Outcome,
    url: str,
    settings: str,
    baseline: Baseline,
    states: Sequence[SelectionState],
    elapsed: float | None,
    pdf_password: str | None = None,
) -> Detection:
    """Classifies a response of a site with selections; the counterpart of `detect`.

    settings: as returned by `canonical`. baseline: of the site as a whole. states: what is known of its selections;
    one of another version, or none, begins anew: its first content is no change. Only one that `outlives_edit` is
    compared all the same. The detection's `selections` has one for each; its evidence is "any of them changed". Raises
    SelectionLimitError where a page takes too long.
    """
    selections = compiled(settings).all
    known = _known(selections, states)
    whole = not begins_anew(settings, states)
    if outcome.body is None:
        return Detection(OutcomeKind.NOT_MODIFIED, baseline, None if elapsed is None else _UNCHANGED)
    raw = xxhash.xxh3_128_digest(outcome.body)
    settled = all(state.missing == "" and state.baseline.reader == READER for state in known.values())
    if whole and settled and raw == baseline.raw_fingerprint:
        after, _age = last_modified.update_trust(baseline, outcome, changed=False, elapsed=elapsed)
        return Detection(OutcomeKind.UNCHANGED, after, None if elapsed is None else _UNCHANGED)
    detected = list[tuple[SelectionDetection, Selected]]()
    for selection in selections:
        read = partial(selection.read, outcome.body, outcome.content_type, url, pdf_password)
        detected.append(_of_selection(selection, read, known.get(selection.name), outcome, elapsed))
    parts = tuple(part for part, _selected in detected)
    seen = replace(
        baseline,
        raw_fingerprint=raw,
        media=detected[0][1].media,
        fingerprint=OF_SELECTIONS,
        reader=READER,
        ttl=next((selected.ttl for _part, selected in detected if selected.ttl is not None), None),
        items=b"",
    )
    return _whole(outcome, baseline, seen, parts, elapsed)


def _whole(
    outcome: Outcome,
    before: Baseline,
    seen: Baseline,
    parts: tuple[SelectionDetection, ...],
    elapsed: float | None,
) -> Detection:
    """Returns the detection of the site, given those of its selections."""
    kinds = {part.kind for part in parts}
    order = (OutcomeKind.CHANGED, OutcomeKind.FIRST, OutcomeKind.UNCHANGED)
    kind = next((outcome_kind for outcome_kind in order if outcome_kind in kinds), OutcomeKind.NOTHING_SELECTED)
    detail = "; ".join(f"{part.name}: {part.missing}" for part in parts if part.missing)
    if kind is OutcomeKind.NOTHING_SELECTED:
        return Detection(kind, before, detail=detail, selections=parts)
    changed = kind is OutcomeKind.CHANGED
    gap = None if kind is OutcomeKind.FIRST else elapsed
    after, modified_age = last_modified.update_trust(seen, outcome, changed=changed, elapsed=gap)
    evidence = None
    if gap is not None:
        news = [part for part in parts if part.kind is OutcomeKind.CHANGED]
        age = min((part.age for part in news if part.age is not None), default=modified_age if changed else None)
        evidence = Evidence(changed, age, news[0].count if len(parts) == 1 and news else None)
    return Detection(kind, after, evidence, detail=detail, selections=parts)


def as_unchanged(part: SelectionDetection, baseline: Baseline) -> SelectionDetection:
    """Returns the detection of a selection whose difference was only noise, or too small to count."""
    return replace(part, kind=OutcomeKind.UNCHANGED, baseline=baseline, content=None, age=None, count=None)


def begins_anew(settings: str, states: Sequence[SelectionState]) -> bool:
    """Returns whether a selection has no baseline under its present settings, so that a whole page is needed."""
    selections = compiled(settings).all
    known = _known(selections, states)
    return any(
        selection.name not in known or known[selection.name].version != selection.version for selection in selections
    )


def resealed(settings: str, part: SelectionDetection, baseline: Baseline) -> Baseline:
    """Returns a baseline whose fingerprint is of the content only, as one of the selection's detection."""
    return _sealed(compiled(settings)[part.name].version, baseline, _readable(part.readings))


def with_rule_of(state: SelectionState, content: bytes | None, rule_id: str, *, hidden: bool) -> Baseline | None:
    """Returns the baseline of a selection after a user said whether a rule of its mask hides something; None: it has no
    such rule. content: what the selection kept, None if that is no longer stored; then it begins anew.
    """
    after = with_rule(state.baseline, content, rule_id, hidden=hidden)
    if after is None or after.fingerprint is None:
        return after
    return _sealed(state.version, after, _readable(state.readings))


def _sealed(version: bytes, baseline: Baseline, readings: Mapping[str, StoredReading]) -> Baseline:
    """Returns the baseline with a fingerprint of its selection's own: of the content, and of the values besides."""
    parts = [version, baseline.fingerprint or b""]
    parts += [f"\0{name}\0{readings[name].text}".encode("utf-8", "replace") for name in sorted(readings)]
    return replace(baseline, fingerprint=xxhash.xxh3_128_digest(b"".join(parts)))


def _known(selections: Sequence[Selection], states: Sequence[SelectionState]) -> dict[str, SelectionState]:
    """Returns the states that have a baseline, and belong to the selections as they are now or outlive their edit."""
    versions = {selection.name: selection.version for selection in selections}
    return {
        state.name: state
        for state in states
        if state.name in versions
        and state.baseline.fingerprint is not None
        and (versions[state.name] == state.version or state.outlives_edit)
    }


def _of_selection(
    selection: Selection,
    read: Callable[[int], Selected],
    state: SelectionState | None,
    outcome: Outcome,
    elapsed: float | None,
) -> tuple[SelectionDetection, Selected]:
    """Returns what a selection finds, and what it keeps of the body. `read`: reads that by a version of the reader.

    As in `detect`: a base of an earlier reader is compared by that one, and taken over when it finds nothing.
    """
    selected = read(READER)
    if state is None or state.baseline.reader == READER:
        return _compared(selection, selected, state, outcome, elapsed), selected
    anew = _read_anew(selection, selected, state, outcome)
    if state.baseline.reader not in READERS or outcome.unpacked:
        return anew, selected
    earlier = read(state.baseline.reader)
    part = _compared(selection, earlier, state, outcome, elapsed, state.baseline.reader)
    if part.kind is OutcomeKind.NOTHING_SELECTED:
        return anew, selected
    return (replace(part, reread=anew), selected) if part.kind is OutcomeKind.UNCHANGED else (part, earlier)


def _read_anew(selection: Selection, selected: Selected, state: SelectionState, outcome: Outcome) -> SelectionDetection:
    """Returns what a selection keeps now, in place of a base of an earlier reader: no change."""
    part = _compared(selection, selected, state, outcome, None)
    if part.kind is not OutcomeKind.CHANGED:
        return part
    readings = _readable(part.readings)
    bare = replace(part.baseline, mask=b"", proven=False, fingerprint=fingerprint_of(selected.content, b""))
    baseline = _sealed(selection.version, bare, readings)
    return replace(part, kind=OutcomeKind.UNCHANGED, baseline=baseline, age=None, count=None)


def is_of_earlier_reader(states: Sequence[SelectionState]) -> bool:
    """Returns whether a selection has a base that an earlier reader read."""
    return any(state.baseline.reader != READER and state.baseline.fingerprint is not None for state in states)


def _compared(
    selection: Selection,
    selected: Selected,
    state: SelectionState | None,
    outcome: Outcome,
    elapsed: float | None,
    reader: int = READER,
) -> SelectionDetection:
    before = Baseline() if state is None else state.baseline
    if selected.missing:
        return SelectionDetection(
            selection.name, selection.version, OutcomeKind.NOTHING_SELECTED, before, missing=selected.missing
        )
    readings = readings_of(selected, {} if state is None else state.readings)
    fingerprint, hidden = under_mask(selected.content, before.mask)
    after = replace(
        before,
        fingerprint=fingerprint,
        media=selected.media,
        items=feed.remember(before.items, selected.entries) if selected.media is Media.FEED else before.items,
        reader=reader,
    )
    bare, after = after, _sealed(selection.version, after, _readable(readings))
    part = SelectionDetection(
        selection.name,
        selection.version,
        OutcomeKind.FIRST,
        after,
        content=selected.content,
        readings=readings,
        hidden=hidden,
    )
    if state is None:
        return part
    sealed = after if state.version == selection.version else _sealed_as_before(bare, readings, state)
    if sealed.fingerprint == before.fingerprint and after.media is before.media:
        return as_unchanged(part, after)
    fresh = feed.unseen(before.items, selected.entries)
    return replace(
        part,
        kind=OutcomeKind.CHANGED,
        age=feed.age(fresh or selected.entries, outcome, elapsed) if elapsed is not None else None,
        count=feed.count(fresh, selected.entries) if before.media is selected.media else None,
    )


def _sealed_as_before(bare: Baseline, readings: Mapping[str, StoredReading], state: SelectionState) -> Baseline:
    """Returns the baseline sealed as the base of a repaired selection was, whose values may have been others."""
    return _sealed(
        state.version, bare, _readable({name: readings.get(name, reading) for name, reading in state.readings.items()})
    )


def readings_of(selected: Selected, before: Mapping[str, StoredReading]) -> dict[str, StoredReading]:
    """Returns the readings to keep; one that cannot be read keeps the last text, so that it is no change by itself."""
    stored = {}
    for name, reading in selected.readings.items():
        if not reading.problem:
            number = None if reading.number is None else float(reading.number)
            stored[name] = StoredReading(reading.text, number, reading.moment, reading.currency)
        else:
            last = before.get(name, StoredReading())
            stored[name] = replace(last, problem=reading.problem)
    return stored


def _readable(readings: Mapping[str, StoredReading]) -> dict[str, StoredReading]:
    return {name: reading for name, reading in readings.items() if reading.text}


# Judgement of a difference in a selection: whether it is large enough to be a change, and whether the change matters.

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
        versions=[line_hashes(_text(version, difference.mask) or "") for version in difference.versions],
    )
    evaluation = selection.conditions.evaluate(comparison)
    again = bool(evaluation.unknown) and all(_was_unreadable(difference.last, name) for name in evaluation.unknown)
    return DifferenceJudgement(True, summary, ChangeVerdict(evaluation.matters and not again, evaluation.why))


class ReadValue(Struct, frozen=True):
    """A value as conditions compare it."""

    number: Decimal | None
    text: str
    problem: str


def _comparable(readings: Mapping[str, StoredReading], *, last: bool = False) -> dict[str, ReadValue]:
    """Returns values for a comparison; of the `last` ones those that could ever be read."""
    return {
        name: ReadValue(_decimal(reading), reading.text, "" if last else reading.problem)
        for name, reading in readings.items()
        if reading.text or not last
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
                moved.append(_("{name}: not readable ({problem})", name=name, problem=now.problem))
        elif now.text != before.text:
            moved.append(f"{name}: {replaced(_in_words(before), _in_words(now))}")
    return moved


def _in_words(reading: StoredReading) -> str:
    return " ".join(filter(None, (reading.text or "–", reading.currency)))


def _summary(difference: SelectionDifference, moved: Sequence[str]) -> str:
    line = summarise(difference.before, difference.after, difference.media, difference.mask, difference.order)
    if not moved:
        return line
    values = "; ".join(moved)
    same = difference.before == difference.after
    return (values if same else f"{values}; {line}")[:LONGEST]


def _text(content: bytes | None, mask: bytes) -> str | None:
    return None if content is None else without_noise(content, mask).decode("utf-8", "replace")
