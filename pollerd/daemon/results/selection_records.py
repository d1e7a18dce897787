"""Derives what a poll stores of the selections of its site. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from pollerd.model import Detection, Media, OutcomeKind, SelectionDetection, SelectionState
from pollerd.storage import ChangeDraft, SelectionRecord


def selection_records(
    detection: Detection, states: tuple[SelectionState, ...], previous_poll_at: float | None
) -> tuple[SelectionRecord, ...]:
    """Returns a record of each selection on which the poll had an effect. `states`: before the poll."""
    known = {state.name: state for state in states}
    found = (_record(part, known.get(part.name), previous_poll_at) for part in detection.selections)
    return tuple(record for record in found if record is not None)


def states_after(
    states: tuple[SelectionState, ...], records: tuple[SelectionRecord, ...]
) -> tuple[SelectionState, ...]:
    """Returns the states after the poll; ids of new contents are those from before until they are committed."""
    after = {state.name: state for state in states}
    for record in records:
        announced = record.state.readings if record.announces else record.state.announced
        after[record.state.name] = replace(record.state, announced=announced)
    return tuple(after.values())


def _record(
    part: SelectionDetection, before: SelectionState | None, previous_poll_at: float | None
) -> SelectionRecord | None:
    kept = before is not None and (before.version == part.version or before.outlives_edit)
    state = before if before is not None and kept else SelectionState(part.name, part.version)
    if part.kind is OutcomeKind.NOTHING_SELECTED:
        after = replace(state, missing=part.missing, keeps_base=False)  # the version stays that of the base
        return None if after == before else SelectionRecord(after)
    after = replace(
        state,
        version=part.version,
        baseline=part.baseline,
        readings=part.readings,
        announced={**part.readings, **state.announced} if state.version != part.version else state.announced,
        missing="",
        keeps_base=False,
    )
    read = tuple(name for name, value in part.readings.items() if state.readings.get(name) != value)
    if part.kind is OutcomeKind.UNCHANGED:
        return None if after == before else SelectionRecord(after, read=read)
    if part.kind is OutcomeKind.FIRST:
        return SelectionRecord(after, part.content, announces=True, read=read)
    change = ChangeDraft(part.baseline.media or Media.BINARY, part.summary, previous_poll_at, part.verdict)
    return SelectionRecord(after, part.content, change, announces=part.verdict.matters, read=read)
