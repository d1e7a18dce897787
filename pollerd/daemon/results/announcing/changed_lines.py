"""The lines that changes of a batch added and removed, for rules that look for words in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pollerd.daemon.results.gathering import LeavesBatchError, here_or_beside
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.detection.selection.conditions.line_changes import LineChanges
from pollerd.model import DEFAULT_SELECTION, Detection, Media, OutcomeKind, SelectionDetection
from pollerd.notifications.messages.lines import changed_lines
from pollerd.storage import HistoryStore

Lines = Mapping[tuple[int, str], LineChanges]
"""By site and selection."""
_HERE_BYTES = 64 * 1024
"""Two contents of this total size are compared within a millisecond or two."""


class _Compared(NamedTuple):
    """One change: the id of the content before it, and what came in its place."""

    selection: str
    before: int | None
    after: bytes
    media: Media
    mask: bytes


class LinesOfChanges:
    """Reads the contents before each change, and compares."""

    def __init__(self, *, store: HistoryStore, runtime: Runtime) -> None:
        self._store, self._workers, self._faults = store, runtime.workers, runtime.faults

    async def of(self, results: Sequence[PollResult]) -> tuple[Lines, frozenset[int]]:
        """Returns the lines, and the ids of sites whose results leave the batch. Raises DatabaseUnavailableError."""
        found, slow = dict[tuple[int, str], LineChanges](), set[int]()
        for result in results:
            if result.judgement is not None and result.judgement.lines is not None:
                found.update(result.judgement.lines)
        known = {site_id for site_id, _ in found}
        pairs = [(one, change) for one in results if one.site_id not in known for change in _changes_of(one)]
        wanted = [change.before for _, change in pairs if change.before is not None]
        contents = await self._store.load_contents(wanted) if wanted else {}
        for result, change in pairs:
            before = contents.get(change.before or 0)
            if before is None:
                continue
            try:
                found[result.site_id, change.selection] = await self._compared(result, before, change)
            except LeavesBatchError:
                slow.add(result.site_id)
        return found, frozenset(slow)

    async def _compared(self, result: PollResult, before: bytes, change: _Compared) -> LineChanges:
        given = (before, change.after, change.media, change.mask)
        try:
            light = len(before) + len(change.after) <= _HERE_BYTES
            return await here_or_beside(self._workers, result, changed_lines, *given, light=light)
        except LeavesBatchError:
            raise
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one whose comparison raises is reported, and its rules go by the summary.
            self._faults.report(result.context, error)
            return LineChanges((), ())


def _changes_of(result: PollResult) -> list[_Compared]:
    """Returns the changes that the poll found, or that are recorded with it."""
    found = result if result.proof is None or result.proof.recorded is None else result.proof.recorded
    detection = found.detection
    if detection is None:
        return []
    known = {state.name: state.content_id for state in found.context.states}
    parts: list[tuple[str, int | None, Detection | SelectionDetection]] = [
        (one.name, known.get(one.name), one) for one in detection.selections
    ]
    if not found.context.selections:
        parts = [(DEFAULT_SELECTION, found.context.content_id, detection)]
    return [
        _Compared(name, before, one.content, one.baseline.media or Media.BINARY, one.baseline.mask)
        for name, before, one in parts
        if one.kind is OutcomeKind.CHANGED and one.content is not None
    ]
