"""States of the selections of sites between polls, read and written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, update

from pollerd.model import DEFAULT_SELECTION, FIRST_READER, Baseline, Media, SelectionState, StoredReading
from pollerd.site_settings import SiteSpec
from pollerd.storage.encoding import storable_word
from pollerd.storage.schema import selection_state, site_state
from pollerd.storage.statements import Statements, run
from pollerd.storage.values import Rebase, SelectionRecord

_READINGS = msgspec.json.Decoder(dict[str, StoredReading])


def load_selection_states(
    connection: Connection, sql: Statements, site_ids: Sequence[int]
) -> dict[int, tuple[SelectionState, ...]]:
    """Returns the states by site id. A damaged one is left out: its selection begins anew."""
    by_site: defaultdict[int, list[SelectionState]] = defaultdict(list)
    for site_id, *row in run(connection, sql.selection_states, sql.id_list(site_ids)):
        state = _state(*row)
        if state is not None:
            by_site[site_id].append(state)
    return {site_id: tuple(states) for site_id, states in by_site.items()}


@dataclass(frozen=True, slots=True)
class SettingsEdit:
    """What an edit of sites, or of a tag, makes of what their next polls are compared with."""

    selections: str
    """In force from now on, of the site or its tags; empty: the whole page."""
    switched: bool
    """Whether a browser renders the page from now on, or no longer does."""
    rebase: Rebase | None
    """What the user said: `keep` the base, or begin `anew`; None: neither."""


def edit_of(before: SiteSpec, after: SiteSpec, rebase: Rebase | None) -> SettingsEdit | None:
    """Returns what an edit means, given all that is in force before and after it; None: nothing."""
    switched = bool(before.render) != bool(after.render)
    if before.selections == after.selections and not switched:
        return None
    return SettingsEdit(after.selections, switched, rebase)


def follow_edit(connection: Connection, sql: Statements, site_ids: Sequence[int], edit: SettingsEdit) -> None:
    """Makes the next polls of sites begin anew after an edit, without a change, or keep their bases.

    A selection whose last poll found nothing keeps its base by itself: its edit is a repair. Forgets the states of
    selections that are gone. Recorded changes, contents and values stay.
    """
    sites = {"sites": sql.id_list(site_ids)}
    s = selection_state.c
    ours = sql.in_list(s.site_id, "sites")
    names = json.loads(edit.selections).keys() | {DEFAULT_SELECTION} if edit.selections else ()
    connection.execute(delete(selection_state).where(ours, s.name.not_in(names)), sites)
    kept = edit.rebase == "keep"
    values: dict[str, Any] = {"keeps_base": kept}
    if edit.rebase == "anew" or (edit.switched and not kept):
        values |= {"fingerprint": None, "missing": ""}
    connection.execute(update(selection_state).where(ours).values(values), sites)
    if edit.selections or not kept:
        anew = {"fingerprint": None, "raw_fingerprint": None, "items": None}
        connection.execute(update(site_state).where(sql.in_list(site_state.c.site_id, "sites")).values(anew), sites)


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
        baseline.reader,
        None if baseline.media is None else baseline.media.value,
        baseline.items or None,
        baseline.mask or None,
        baseline.proven,
        content_id,
        announced_id,
        _written(state.readings),
        _written(announced),
        storable_word(state.missing),
        state.keeps_base,
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
            storable_word(reading.text),
            reading.number,
            reading.moment,
            reading.currency,
            storable_word(reading.problem),
        )
        for name, reading in read
    ]


def _written(readings: Mapping[str, StoredReading]) -> str:
    return msgspec.json.encode(readings).decode() if readings else "{}"


def _state(  # noqa: PLR0913 (the columns of a row)
    name: str,
    version: bytes,
    fingerprint: bytes | None,
    reader: int | None,
    media: str | None,
    items: bytes | None,
    mask: bytes | None,
    proven: bool,
    content_id: int | None,
    announced_id: int | None,
    readings: str,
    announced: str,
    missing: str,
    keeps_base: bool,
) -> SelectionState | None:
    try:
        baseline = Baseline(
            fingerprint=fingerprint,
            media=None if media is None else Media(media),
            items=items or b"",
            mask=mask or b"",
            proven=bool(proven),
            reader=FIRST_READER if reader is None else reader,
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
            bool(keeps_base),
        )
    except (ValueError, msgspec.DecodeError):
        return None
