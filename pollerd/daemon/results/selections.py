"""The noise step for sites with selections: what of each differs, whether it counts, and whether it matters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pollerd.daemon.results.gathering import LeavesBatchError, here_or_beside
from pollerd.daemon.results.proofs.findings import Ruling
from pollerd.daemon.results.proofs.proof_status import status_of
from pollerd.daemon.results.proofs.prover import Prover
from pollerd.daemon.state.poll_result import Candidate, PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Detection, Evidence, Media, OutcomeKind, SelectionDetection, SelectionState
from pollerd.storage import HistoryStore

if TYPE_CHECKING:  # a list without selections loads nothing of them
    from pollerd.detection.selection.judging import DifferenceJudgement, SelectionDifference

_JUDGED_HERE_BYTES = 64 * 1024
"""Contents of this total size are judged in about 10 ms."""
_VERSIONS_MOST = 1_000
_VALUE_DIFFERED = "unproven: a value differed again at the second poll"
Stored = dict[str, tuple[bytes | None, bytes | None]]
"""Selection -> its content before the poll, and at the last change that mattered; None: not stored, or not needed."""


class SelectionStep:
    """Compares what changed in each selection with what it kept before, which it reads from the store."""

    def __init__(self, *, store: HistoryStore, prover: Prover, runtime: Runtime) -> None:
        self._store, self._prover = store, prover
        self._workers, self._faults = runtime.workers, runtime.faults

    async def recognise(self, result: PollResult, candidate: Candidate | None) -> PollResult | None:
        """Returns the result with noise recognised in each selection, and verdict and summary of each change.

        candidate: the poll before, if its differences wait for this one. None: a second poll has to prove the
        differences first. Raises DatabaseUnavailableError.
        """
        detection, waiting = result.detection, _parts(candidate)
        assert detection is not None
        contents = await self._contents(result, _changed(detection.selections) | waiting.keys())
        parts = [await self._counted(result, part, contents) for part in detection.selections]
        counted = replace(result, detection=replace(detection, selections=tuple(parts)))
        rulings = await self._prover.rulings(
            counted, {name: before for name, (before, _) in contents.items()}, candidate
        )
        if rulings is None:
            return None
        ruled = [self._ruled(result, part, rulings.get(part.name)) for part in parts]
        parts = [
            part if part.baseline.mask == before.baseline.mask else await self._counted(result, part, contents)
            for part, before in zip(ruled, parts, strict=True)
        ]
        judged = tuple(_explained(part, rulings.get(part.name), waiting.get(part.name)) for part in parts)
        return replace(result, detection=_with_parts(detection, judged), proof=status_of(rulings.values()))

    async def recorded(self, result: PollResult) -> PollResult:
        """Returns the result of a failed poll with verdicts and summaries of the changes that are recorded with it.

        Raises DatabaseUnavailableError.
        """
        status = result.proof
        if status is None or status.recorded is None or status.recorded.detection is None:
            return result
        earlier, detection = status.recorded, status.recorded.detection
        contents = await self._contents(earlier, _changed(detection.selections))
        parts = [await self._counted(earlier, part, contents) for part in detection.selections]
        judged = tuple(_with_reason(part, status.unproven) for part in parts)
        earlier = replace(earlier, detection=_with_parts(detection, judged))
        return replace(result, proof=replace(status, recorded=earlier))

    async def _contents(self, result: PollResult, names: Collection[str]) -> Stored:
        """Returns the contents before and at the last announcement, by selection, as far as stored."""
        from pollerd.detection.selection.judging import needs_of

        ids = {
            state.name: (
                state.content_id,
                state.announced_id if needs_of(result.context.selections, state.name).announced_content else None,
            )
            for state in result.context.states
            if state.name in names
        }
        wanted = {one for pair in ids.values() for one in pair if one is not None}
        contents = await self._store.load_contents(sorted(wanted)) if wanted else {}
        return {name: (contents.get(before or 0), contents.get(said or 0)) for name, (before, said) in ids.items()}

    async def _counted(
        self,
        result: PollResult,
        part: SelectionDetection,
        contents: Stored,
    ) -> SelectionDetection:
        """Returns the detection of a selection with verdict and summary; unchanged if the difference is too small."""
        from pollerd.detection.selection.comparing import as_unchanged
        from pollerd.detection.selection.judging import needs_of

        if part.kind is not OutcomeKind.CHANGED or part.content is None:
            return part
        context = result.context
        state = next(state for state in context.states if state.name == part.name)
        needs = needs_of(context.selections, part.name)
        most = _VERSIONS_MOST if needs.versions == "all" else needs.versions
        versions = await self._store.load_versions(context.site_id, part.name, most) if most else []
        try:
            found = await self._judgement(result, _difference(part, state, contents.get(part.name), versions))
        except (DatabaseUnavailableError, LeavesBatchError):
            raise
        except Exception as error:  # noqa: BLE001 (the page is untrusted: its change is kept, and said)
            self._faults.report(context, error)
            return part
        if not found.counts:
            kept = replace(part.baseline, fingerprint=state.baseline.fingerprint, items=state.baseline.items)
            return as_unchanged(part, kept)
        return replace(part, summary=found.summary, verdict=found.verdict)

    def _ruled(self, result: PollResult, part: SelectionDetection, ruling: Ruling | None) -> SelectionDetection:
        """Returns the detection of a selection after the ruling on it."""
        from pollerd.detection.selection.comparing import as_unchanged, resealed

        if ruling is None:
            return part
        baseline = ruling.baseline
        if baseline.mask != part.baseline.mask:
            baseline = resealed(result.context.selections, part, baseline)
        state = next(state for state in result.context.states if state.name == part.name)
        if ruling.quiet and part.kind is OutcomeKind.CHANGED and not _values_moved(part, state):
            return as_unchanged(part, baseline)
        return replace(part, baseline=baseline)

    async def _judgement(self, result: PollResult, difference: SelectionDifference) -> DifferenceJudgement:
        from pollerd.detection.selection.judging import judge

        size = len(difference.before or b"") + len(difference.after) + sum(map(len, difference.versions))
        given, light = (result.context.selections, difference), size <= _JUDGED_HERE_BYTES
        return await here_or_beside(self._workers, result, judge, *given, light=light)


def _difference(
    part: SelectionDetection,
    state: SelectionState,
    contents: tuple[bytes | None, bytes | None] | None,
    versions: Sequence[bytes],
) -> SelectionDifference:
    from pollerd.detection.selection.judging import SelectionDifference

    before, announced = contents or (None, None)
    return SelectionDifference(
        selection=part.name,
        before=before,
        after=part.content or b"",
        media=part.baseline.media or Media.BINARY,
        mask=part.baseline.mask,
        order=(state.baseline.items, part.baseline.items),
        readings=part.readings,
        last=state.readings,
        announced=state.announced,
        announced_content=announced,
        versions=versions,
    )


def _values_moved(part: SelectionDetection, state: SelectionState) -> bool:
    return any(one.text != state.readings[name].text for name, one in part.readings.items() if name in state.readings)


def _parts(candidate: Candidate | None) -> dict[str, SelectionDetection]:
    """Returns the detections that wait for their proof, by selection."""
    detection = None if candidate is None else candidate.result.detection
    found = () if detection is None else detection.selections
    return {part.name: part for part in found if part.kind is OutcomeKind.CHANGED}


def _changed(parts: Iterable[SelectionDetection]) -> set[str]:
    return {part.name for part in parts if part.kind is OutcomeKind.CHANGED}


def _explained(part: SelectionDetection, ruling: Ruling | None, first: SelectionDetection | None) -> SelectionDetection:
    """Returns the detection with the reason why its change is not proven, if it is not."""
    if part.kind is not OutcomeKind.CHANGED or ruling is None:
        return part
    if ruling.unproven:
        return _with_reason(part, ruling.unproven)
    if first is not None and _texts(first) != _texts(part):
        return _with_reason(part, _VALUE_DIFFERED)
    return part


def _texts(part: SelectionDetection) -> dict[str, str]:
    return {name: one.text for name, one in part.readings.items()}


def _with_reason(part: SelectionDetection, unproven: str) -> SelectionDetection:
    if part.kind is not OutcomeKind.CHANGED:
        return part
    verdict = part.verdict
    return replace(part, verdict=replace(verdict, why="; ".join(filter(None, (verdict.why, unproven)))))


def _with_parts(detection: Detection, parts: tuple[SelectionDetection, ...]) -> Detection:
    """Returns the detection of the site after its selections were judged."""
    kinds = {part.kind for part in parts}
    if detection.kind is not OutcomeKind.CHANGED or OutcomeKind.CHANGED in kinds:
        return replace(detection, selections=parts)
    kind = OutcomeKind.FIRST if OutcomeKind.FIRST in kinds else OutcomeKind.UNCHANGED
    quiet = kind is OutcomeKind.UNCHANGED and detection.evidence is not None
    return replace(detection, kind=kind, evidence=Evidence(changed=False) if quiet else None, selections=parts)
