"""The lines that changes of a batch added and removed, for rules that look for words in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.detection.selection.conditions.line_changes import LineChanges
from pollerd.model import DEFAULT_SELECTION, Media
from pollerd.notifications.messages.lines import changed_lines
from pollerd.storage import HistoryStore, PollRecord

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

    async def of(
        self, results: Sequence[PollResult], records: Sequence[PollRecord]
    ) -> dict[tuple[int, str], LineChanges]:
        """Returns lines by site and selection. Raises DatabaseUnavailableError."""
        pairs = [
            (result, change)
            for result, record in zip(results, records, strict=True)
            for change in _changes_of(result, record)
        ]
        wanted = [change.before for _, change in pairs if change.before is not None]
        contents = await self._store.load_contents(wanted) if wanted else {}
        found = {}
        for result, change in pairs:
            before = contents.get(change.before or 0)
            if before is not None:
                found[result.site_id, change.selection] = await self._compared(result, before, change)
        return found

    async def _compared(self, result: PollResult, before: bytes, change: _Compared) -> LineChanges:
        given = (before, change.after, change.media, change.mask)
        try:
            if len(before) + len(change.after) <= _HERE_BYTES:
                return changed_lines(*given)
            return await self._workers.do(changed_lines, *given)
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one whose comparison raises is reported, and its rules go by the summary.
            self._faults.report(result.context, error)
            return LineChanges((), ())


def _changes_of(result: PollResult, record: PollRecord) -> list[_Compared]:
    found = []
    if record.change is not None and record.content is not None:
        mask, kind = record.context.baseline.mask, record.change.kind
        found.append(_Compared(DEFAULT_SELECTION, result.context.content_id, record.content, kind, mask))
    found += [
        _Compared(one.state.name, one.state.content_id, one.content, one.change.kind, one.state.baseline.mask)
        for one in record.selections
        if one.change is not None and one.content is not None
    ]
    return found
