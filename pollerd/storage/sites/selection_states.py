"""Reads and writes what is known of the selections of sites."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, update

from pollerd.model import DEFAULT_SELECTION, Baseline, Media, SelectionState, StoredReading
from pollerd.storage.db.schema.history import selection_state
from pollerd.storage.db.schema.sites import site_state
from pollerd.storage.db.statements import Statements, run
from pollerd.storage.encoding.text_encoding import storable_word
from pollerd.storage.values import SelectionRecord

_READINGS = msgspec.json.Decoder(dict[str, StoredReading])


def load_selection_states(
    connection: Connection, sql: Statements, site_ids: Sequence[int]
) -> dict[int, tuple[SelectionState, ...]]:
    """Returns the states by site id. A damaged one is left out: its selection begins anew."""
    found: defaultdict[int, list[SelectionState]] = defaultdict(list)
    for site_id, *row in run(connection, sql.selection_states, sql.many(site_ids)):
        state = _state(*row)
        if state is not None:
            found[site_id].append(state)
    return {site_id: tuple(states) for site_id, states in found.items()}


def renew_selections(connection: Connection, site_id: int, selections: str) -> None:
    """Makes the next poll of a site begin anew, after its selections were edited: it is no change.

    Forgets the states of selections that are gone. Recorded changes, contents and values stay.
    """
    names = json.loads(selections).keys() | {DEFAULT_SELECTION} if selections else ()
    s = selection_state.c
    connection.execute(delete(selection_state).where(s.site_id == site_id, s.name.not_in(names)))
    anew = {"fingerprint": None, "raw_fingerprint": None, "items": None}
    connection.execute(update(site_state).where(site_state.c.site_id == site_id).values(anew))


def state_row(
    site_id: int, record: SelectionRecord, content_id: int | None, announced_id: int | None
) -> tuple[Any, ...]:
    """Returns the row of a selection after a poll, in the order of `SELECTION_STATE`."""
    state, baseline = record.state, record.state.baseline
    announced = state.readings if record.announces else state.announced
    return (
        site_id,
        state.name,
        state.version,
        baseline.fingerprint,
        None if baseline.media is None else baseline.media.value,
        baseline.items or None,
        baseline.mask or None,
        baseline.proven,
        content_id,
        announced_id,
        _written(state.readings),
        _written(announced),
        storable_word(state.missing),
    )


def reading_rows(site_id: int, at: float, record: SelectionRecord) -> list[tuple[Any, ...]]:
    """Returns the rows of values that were read differently, in the order of `READING`."""
    state = record.state
    read = [(name, state.readings[name]) for name in record.read]
    return [
        (
            site_id,
            state.name,
            name,
            at,
            storable_word(one.text),
            one.number,
            one.moment,
            one.currency,
            storable_word(one.problem),
        )
        for name, one in read
    ]


def _written(readings: Mapping[str, StoredReading]) -> str:
    return msgspec.json.encode(readings).decode() if readings else "{}"


def _state(  # noqa: PLR0913 (the columns of a row)
    name: str,
    version: bytes,
    fingerprint: bytes | None,
    media: str | None,
    items: bytes | None,
    mask: bytes | None,
    proven: bool,
    content_id: int | None,
    announced_id: int | None,
    readings: str,
    announced: str,
    missing: str,
) -> SelectionState | None:
    try:
        baseline = Baseline(
            fingerprint=fingerprint,
            media=None if media is None else Media(media),
            items=items or b"",
            mask=mask or b"",
            proven=bool(proven),
        )
        return SelectionState(
            name,
            bytes(version),
            baseline,
            content_id,
            announced_id,
            _READINGS.decode(readings),
            _READINGS.decode(announced),
            missing,
        )
    except (ValueError, msgspec.DecodeError):
        return None
