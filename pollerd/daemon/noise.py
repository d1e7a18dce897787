"""The noise step: proves changes, recognises those that are only noise, and summarises the others."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pollerd.daemon.proofs import WHOLE_PAGE, Candidates, Ruling, failed, held, kind_of, posts, status_of
from pollerd.daemon.prover import Prover, StillNoise
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.slow_results import LeavesBatchError, here_or_beside
from pollerd.daemon.stages import Candidate, Found, ProofResult, ProofStatus
from pollerd.detection.detect import HEAVY_BYTES, as_read_now
from pollerd.detection.doubt import doubt_of
from pollerd.detection.noise.learning import (
    HEAVY_UNDER_MASK_BYTES,
    may_go_on,
    noise_by_form,
    noise_by_row,
    without_rules,
)
from pollerd.detection.pdf import is_pdf
from pollerd.detection.summary import is_large, summarise
from pollerd.errors import DatabaseUnavailableError, TooHeavyError
from pollerd.model import (
    READER,
    Baseline,
    Detection,
    Evidence,
    Media,
    OutcomeKind,
    SelectionDetection,
    SelectionState,
    StoredReading,
    Validators,
)
from pollerd.storage.contents import ContentStore
from pollerd.storage.values import ChangeDraft, SelectionRecord
from pollerd.texts import N_, _

if TYPE_CHECKING:
    from pollerd.detection.selection.comparing import DifferenceJudgement, SelectionDifference


# Sites with selections: the difference in each selection, whether it is a change, and whether it matters.

_JUDGED_HERE_BYTES = 64 * 1024
"""Contents of this total size are judged in about 10 ms."""
_VERSIONS_MOST = 1_000
_VALUE_DIFFERED = N_("unproven: a value differed again at the second poll")
Stored = dict[str, tuple[bytes | None, bytes | None]]
"""Selection -> its content before the poll, and at the last change that mattered; None: not stored, or not needed."""


class SelectionStep:
    """Compares what changed in each selection with what it kept before, which it reads from the store."""

    def __init__(self, *, store: ContentStore, prover: Prover, runtime: Runtime) -> None:
        self._store, self._prover = store, prover
        self._workers, self._faults = runtime.workers, runtime.faults

    async def recognise(self, result: Found, candidate: Candidate | None) -> Found | None:
        """Returns the result with noise recognised in each selection, and verdict and summary of each change.

        candidate: the poll before, if its differences wait for this one. None: a second poll has to prove the
        differences first. Raises DatabaseUnavailableError.
        """
        detection, waiting = result.detection, _parts(candidate)
        assert detection is not None
        contents = await self._contents(result, _changed_selections(detection.selections) | waiting.keys())
        parts = [await self._counted(result, part, contents) for part in detection.selections]
        counted = replace(result, detection=replace(detection, selections=tuple(parts)))
        rulings = await self._prover.rulings(
            counted, {name: before for name, (before, _announced) in contents.items()}, candidate
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

    async def whole_pages(self, result: Found) -> dict[str, bytes | None]:
        """Returns the contents before of selections that changed and keep the whole page, None if not stored, by name.

        Raises DatabaseUnavailableError.
        """
        from pollerd.detection.selection.selection import compiled

        changed = _changed_selections(() if result.detection is None else result.detection.selections)
        names = {name for name in changed if not compiled(result.context.selections)[name].narrows}
        return (
            {name: before for name, (before, _announced) in (await self._contents(result, names)).items()}
            if names
            else {}
        )

    async def recorded(self, result: Found) -> Found:
        """Returns the result of a failed poll with verdicts and summaries of the changes that are recorded with it.

        Raises DatabaseUnavailableError.
        """
        status = result.proof
        if status is None or status.recorded is None or status.recorded.detection is None:
            return result
        earlier, detection = status.recorded, status.recorded.detection
        contents = await self._contents(earlier, _changed_selections(detection.selections))
        parts = [await self._counted(earlier, part, contents) for part in detection.selections]
        judged = tuple(_with_reason(part, status.unproven) for part in parts)
        earlier = replace(earlier, detection=_with_parts(detection, judged))
        return replace(result, proof=replace(status, recorded=earlier))

    async def _contents(self, result: Found, names: Collection[str]) -> Stored:
        """Returns the contents before and at the last announcement, by selection, as far as stored."""
        from pollerd.detection.selection.comparing import needs_of

        ids = {
            state.name: (
                state.content_id,
                state.announced_id if needs_of(result.context.selections, state.name).announced_content else None,
            )
            for state in result.context.states
            if state.name in names
        }
        content_ids = {content_id for pair in ids.values() for content_id in pair if content_id is not None}
        contents = await self._store.load(sorted(content_ids)) if content_ids else {}
        return {name: (contents.get(before or 0), contents.get(after or 0)) for name, (before, after) in ids.items()}

    async def _counted(
        self,
        result: Found,
        part: SelectionDetection,
        contents: Stored,
    ) -> SelectionDetection:
        """Returns the detection of a selection with verdict and summary; unchanged if the difference is too small."""
        from pollerd.detection.selection.comparing import as_unchanged, needs_of

        if part.kind is not OutcomeKind.CHANGED or part.content is None:
            return part
        context = result.context
        state = next(state for state in context.states if state.name == part.name)
        needs = needs_of(context.selections, part.name)
        most = _VERSIONS_MOST if needs.versions == "all" else needs.versions
        versions = await self._store.versions(context.site_id, part.name, most) if most else []
        try:
            judgement = await self._judgement(result, _difference(part, state, contents.get(part.name), versions))
        except (DatabaseUnavailableError, LeavesBatchError):
            raise
        except Exception as error:  # noqa: BLE001 (the page is untrusted: its change is kept, and said)
            self._faults.report(context, error)
            return part
        if not judgement.counts:
            kept = replace(part.baseline, fingerprint=state.baseline.fingerprint, items=state.baseline.items)
            return as_unchanged(part, kept)
        return replace(part, summary=judgement.summary, verdict=judgement.verdict)

    def _ruled(self, result: Found, part: SelectionDetection, ruling: Ruling | None) -> SelectionDetection:
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

    async def _judgement(self, result: Found, difference: SelectionDifference) -> DifferenceJudgement:
        from pollerd.detection.selection.comparing import judge

        size = len(difference.before or b"") + len(difference.after) + sum(map(len, difference.versions))
        arguments, light = (result.context.selections, difference), size <= _JUDGED_HERE_BYTES
        return await here_or_beside(self._workers, result, judge, *arguments, light=light)


def _difference(
    part: SelectionDetection,
    state: SelectionState,
    contents: tuple[bytes | None, bytes | None] | None,
    versions: Sequence[bytes],
) -> SelectionDifference:
    from pollerd.detection.selection.comparing import SelectionDifference

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
    return any(
        reading.text != state.readings[name].text for name, reading in part.readings.items() if name in state.readings
    )


def _parts(candidate: Candidate | None) -> dict[str, SelectionDetection]:
    """Returns the detections that wait for their proof, by selection."""
    detection = None if candidate is None else candidate.result.detection
    parts = () if detection is None else detection.selections
    return {part.name: part for part in parts if part.kind is OutcomeKind.CHANGED}


def _changed_selections(parts: Iterable[SelectionDetection]) -> set[str]:
    return {part.name for part in parts if part.kind is OutcomeKind.CHANGED}


def _explained(part: SelectionDetection, ruling: Ruling | None, first: SelectionDetection | None) -> SelectionDetection:
    """Returns the detection with the reason why its change is not proven, if it is not."""
    if part.kind is not OutcomeKind.CHANGED or ruling is None:
        return part
    if ruling.unproven:
        return _with_reason(part, ruling.unproven)
    if first is not None and _texts(first) != _texts(part):
        return _with_reason(part, _(_VALUE_DIFFERED))
    return part


def _texts(part: SelectionDetection) -> dict[str, str]:
    return {name: reading.text for name, reading in part.readings.items()}


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


_WITH_FORMS = frozenset({Media.HTML, Media.TEXT, Media.JSON})
"""Media with noise by form: the dates of a feed are those of its entries."""
_ROW_CHANGES = 5
"""So many recorded changes in a row must have moved a place as clocks and counters move."""
_FORMS_LIGHTER = 4
"""Contents are compared by form so many times faster than by a mask."""
_ROW_MOST_BYTES = 16 * 1024
"""Two contents of more than this in total are not compared with those before: it would take longer than 10 ms."""
_SUMMARISED_HERE_BYTES = 256 * 1024
"""Two contents of this total size are summarised in about 10 ms."""


_DOUBTED_POLLS = 2
"""Polls in a row whose answer is hardly the page: the next such answer is what the page has become."""


@dataclass(frozen=True)
class NoiseFindings:
    """What the noise step found."""

    results: Sequence[Found]
    """With noise recognised."""
    summaries: Mapping[int, str]
    """One line on each change, by site id."""
    slow: frozenset[int] = frozenset()
    """Ids of sites whose results are as they were, and leave the batch."""


class NoiseStep:
    """Compares changed contents with the previous ones, which it reads from the store."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        store: ContentStore,
        prover: Prover,
        candidates: Candidates,
        still: StillNoise,
        runtime: Runtime,
    ) -> None:
        self._store, self._prover, self._candidates, self._still = store, prover, candidates, still
        self._sites, self._proofs = scheduler.sites, scheduler.sites.proofs
        self._selections = SelectionStep(store=store, prover=prover, runtime=runtime)
        self._workers, self._faults = runtime.workers, runtime.faults

    def is_slow(self, result: Found) -> bool:
        """Returns whether judging the result needs a worker process, as far as its size says."""
        detection = result.detection
        if detection is None:
            return False
        size = len(detection.content or b"")
        for part in detection.selections:
            size += len(part.content or b"")
        return size > HEAVY_BYTES and self._concerns(result)

    async def recognise(self, results: Sequence[Found]) -> NoiseFindings:
        """Recognises noise in the results, and summarises their changes; those judged before stay as they are.

        A change that has to be proven becomes `PROVING`. Changes nothing here, so that it may be repeated. Raises
        DatabaseUnavailableError.
        """
        rows, summaries = list[int](), dict[int, str]()
        for i, result in enumerate(results):
            if result.judgement is not None and result.judgement.summary:
                summaries[result.site_id] = result.judgement.summary
            elif self._concerns(result):
                rows.append(i)
        if not rows:
            return NoiseFindings(results, summaries)
        out, slow = list(results), set[int]()
        contexts = [results[i].context for i in rows if not results[i].context.selections]
        content_ids = [context.content_id for context in contexts if context.content_id is not None]
        contents = await self._store.load(content_ids) if content_ids else {}
        for i in rows:
            before = contents.get(results[i].context.content_id or 0)
            try:
                judged = await self._judged(results[i], before)
                summary = await self._summary(judged, before)
            except LeavesBatchError:
                slow.add(results[i].site_id)
                continue
            out[i] = judged
            if summary is not None:
                summaries[judged.site_id] = summary
        return NoiseFindings(out, summaries, frozenset(slow))

    def _concerns(self, result: Found) -> bool:
        if result.judgement is not None:
            return False
        detection, context = result.detection, result.answer.context
        if detection is not None and detection.kind is OutcomeKind.CHANGED:
            return True
        if context.site_id in self._candidates.waiting:
            return True
        return bool(context.baseline.mask) and bool(self._still.doubted(result))

    async def _judged(self, result: Found, before: bytes | None) -> Found:
        candidate, selecting = self._candidates.get(result.context), bool(result.context.selections)
        result = await self._as_read_now(result, before)
        doubt = await self._doubted(result, before, candidate)
        if doubt:
            detail = _("{doubt}; if it stays so, it is a change", doubt=doubt)
            result = replace(
                result, detection=Detection(OutcomeKind.UNDECODABLE, result.context.baseline, detail=detail)
            )
        if candidate is not None and not kind_of(result).informative:
            result = failed(result, candidate)
            return await self._selections.recorded(result) if selecting else result
        if selecting:
            judged = await self._selections.recognise(result, candidate)
        else:
            judged = await self._of_page(result, before, candidate)
            judged = None if judged is None else await self._without_row(judged, before)
        if judged is None:
            prompt = candidate is not None and self._prover.is_prompt(result, candidate)
            counts = prompt or posts(result) or self._proofs.had_its_turn(result.slot)
            return held(result, candidate, counts=counts)
        return judged

    async def _as_read_now(self, result: Found, before: bytes | None) -> Found:
        """Returns the result of a poll without a change that only an earlier reader of its site sees.

        Raises LeavesBatchError.
        """
        baseline, detection = result.context.baseline, result.detection
        if baseline.reader == READER or before is None or detection is None or not _changed(result):
            return result
        elapsed = None if detection.evidence is None else 0.0
        arguments, size = (result.outcome, baseline, before, elapsed), len(before) + len(result.outcome.body or b"")
        light = size <= HEAVY_BYTES and not is_pdf(before, result.outcome.content_type)
        try:
            anew = await here_or_beside(self._workers, result, as_read_now, *arguments, light=light)
        except TooHeavyError as error:
            self._faults.report(result.context, error)
            return result
        return result if anew is None else replace(result, detection=anew)

    async def _doubted(self, result: Found, before: bytes | None, candidate: Candidate | None) -> str:
        """Returns why what a poll found is hardly the page; empty: it may be, or the polls before were doubted, too.

        Nor if what waits for its proof is no better. Raises DatabaseUnavailableError.
        """
        failures, last = int(self._sites.failures[result.slot]), result.context.last_outcome
        if not _changed(result) or (last is OutcomeKind.UNDECODABLE and failures >= _DOUBTED_POLLS):
            return ""
        selecting = result.context.selections
        contents = await self._selections.whole_pages(result) if selecting else {WHOLE_PAGE: before}
        return "" if candidate is not None and _doubt(candidate.result, contents) else _doubt(result, contents)

    async def _of_page(self, result: Found, before: bytes | None, candidate: Candidate | None) -> Found | None:
        """Returns the result of a site without selections; None if it has to be proven."""
        if candidate is None and not _changed(result):
            return await self._without_doubted(result, before)
        result = await self._without_forms(result, before)
        if candidate is None and (not _changed(result) or self._prover.believes(result)):
            return result
        rulings = await self._prover.rulings(result, {WHOLE_PAGE: before}, candidate)
        if rulings is None:
            return None
        ruling, detection = rulings.get(WHOLE_PAGE), result.detection
        if ruling is None or detection is None:
            return result
        detection = _under(detection, ruling.baseline, quiet=ruling.quiet)
        return replace(result, detection=detection, proof=status_of([ruling]))

    async def _without_forms(self, result: Found, before: bytes | None) -> Found:
        """Returns the result after what differs by the form of noise is masked; unchanged if nothing else differs."""
        detection, known = result.detection, result.context.baseline
        if before is None or detection is None or detection.content is None or not _changed(result):
            return result
        if detection.baseline.media is not known.media or known.media not in _WITH_FORMS:
            return result
        last_seen = float(self._sites.last_seen[result.slot])
        times = (last_seen if math.isfinite(last_seen) else None, result.outcome.started_at)
        arguments = (before, detection.content, detection.baseline, *times)
        size = (len(before) + len(detection.content)) // _FORMS_LIGHTER
        verdict = await self._prover.do(result, size, noise_by_form, *arguments)
        if verdict is None:
            return result
        return replace(result, detection=_under(detection, verdict.baseline, quiet=verdict.only_noise))

    async def _without_row(self, result: Found, before: bytes | None) -> Found:
        """Returns the result of a poll that found a change, after what moved at each of the last changes is masked."""
        detection = result.detection
        if not _changed(result) or before is None or detection is None or detection.content is None:
            return result
        if detection.baseline.media not in _WITH_FORMS or len(before) + len(detection.content) > _ROW_MOST_BYTES:
            return result
        if not await self._prover.do(result, 0, may_go_on, before, detection.content):
            return result
        versions = await self._store.dated_versions(result.site_id, _ROW_CHANGES)
        if len(versions) < _ROW_CHANGES:
            return result
        row = [*reversed(versions), (result.outcome.started_at, detection.content)]
        verdict = await self._prover.do(result, 0, noise_by_row, row, detection.baseline)
        if verdict is None:
            return result
        proof = result.proof
        if verdict.only_noise and proof is not None:
            proof = replace(proof, result=ProofResult.NOISE, unproven="")
        return replace(result, detection=_under(detection, verdict.baseline, quiet=verdict.only_noise), proof=proof)

    async def _without_doubted(self, result: Found, before: bytes | None) -> Found:
        """Returns the result of a poll that found nothing, without the rules whose noise stood still for long.

        The next poll is held against the content that was recorded last, and what the rules hid since then is proven.
        """
        detection, rules = result.detection, self._still.doubted(result)
        if detection is None or before is None or not rules:
            return result
        arguments, light = (detection.baseline, before, rules), len(before) <= HEAVY_UNDER_MASK_BYTES
        try:
            baseline = await here_or_beside(self._workers, result, without_rules, *arguments, light=light)
        except TooHeavyError as error:
            self._faults.report(result.context, error)
            return result
        outcome = replace(result.outcome, validators=Validators())
        detection = replace(detection, baseline=baseline, hidden=())
        answer = replace(result.answer, outcome=outcome)
        return replace(result, answer=answer, detection=detection, proof=ProofStatus(lifted=True))

    async def _summary(self, result: Found, before: bytes | None) -> str | None:
        """Returns a one-line summary of the change of a page, of this poll or recorded with it; None: there is none."""
        earlier = None if result.proof is None else result.proof.recorded
        origin = result if earlier is None else earlier
        detection, context = origin.detection, origin.context
        if not _changed(origin) or context.selections or detection is None or detection.content is None:
            return None
        mask, media = detection.baseline.mask, detection.baseline.media or Media.BINARY
        size = len(before or b"") + len(detection.content)
        light = size < (HEAVY_UNDER_MASK_BYTES if mask else _SUMMARISED_HERE_BYTES)
        light = light or is_large(before, detection.content, media)
        order = (context.baseline.items, detection.baseline.items)
        try:
            arguments = (before, detection.content, media, mask, order)
            return await here_or_beside(self._workers, result, summarise, *arguments, light=light)
        except LeavesBatchError:
            raise
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one whose comparison raises is reported, and its change has no summary.
            self._faults.report(context, error)
            return None


def _doubt(result: Found, contents: Mapping[str, bytes | None]) -> str:
    """Returns why what a poll found is hardly the page; empty: it may be. contents: of whole pages before, by name."""
    detection, context = result.detection, result.context
    if detection is None:
        return ""
    known = {state.name: state.baseline.media for state in context.states} | {WHOLE_PAGE: context.baseline.media}
    parts: Sequence[tuple[str, Detection | SelectionDetection]] = [(part.name, part) for part in detection.selections]
    for name, part in parts if context.selections else [(WHOLE_PAGE, detection)]:
        if part.kind is OutcomeKind.CHANGED:
            before, now = contents.get(name), part.baseline.media or Media.BINARY
            doubt = doubt_of(before, known.get(name), part.content or b"", now, whole=name in contents)
            if doubt:
                return doubt
    return ""


def _changed(result: Found) -> bool:
    return result.detection is not None and result.detection.kind is OutcomeKind.CHANGED


def _under(detection: Detection, baseline: Baseline, *, quiet: bool) -> Detection:
    """Returns the detection with this baseline; quiet: its change is none."""
    if not quiet or detection.kind is not OutcomeKind.CHANGED:
        return replace(detection, baseline=baseline)
    evidence = Evidence(changed=False) if detection.evidence is not None else None
    return replace(detection, kind=OutcomeKind.UNCHANGED, baseline=baseline, evidence=evidence, content=None)


# Stored states of the selections after a poll. Pure.


def selection_records(
    detection: Detection, states: tuple[SelectionState, ...], previous_poll_at: float | None
) -> tuple[SelectionRecord, ...]:
    """Returns a record of each selection on which the poll had an effect. `states`: before the poll."""
    known = {state.name: state for state in states}
    records = (_record(part, known.get(part.name), previous_poll_at) for part in detection.selections)
    return tuple(record for record in records if record is not None)


def states_after(
    states: tuple[SelectionState, ...], records: tuple[SelectionRecord, ...]
) -> tuple[SelectionState, ...]:
    """Returns the states after the poll; ids of new contents are those from before until they are committed."""
    after = {state.name: state for state in states}
    for record in records:
        announced = record.state.readings if record.announces else record.state.announced
        after[record.state.name] = replace(record.state, announced=announced)
    return tuple(after.values())


def _announced_anew(
    earlier: SelectionDetection, now: SelectionDetection, state: SelectionState
) -> Mapping[str, StoredReading]:
    """Returns the values at the last change that mattered, as the present reader reads them.

    One that stands as it was then is read anew. So is one that both readers read otherwise: else the next condition
    would compare 1.299 with 1299.
    """
    announced = dict(state.announced)
    for name, announcement in state.announced.items():
        before, after = earlier.readings.get(name), now.readings.get(name)
        if before is None or after is None or not after.text or after.problem:
            continue
        if announcement.text == before.text or before.text != after.text:
            announced[name] = after
    return announced


def _record(
    part: SelectionDetection, before: SelectionState | None, previous_poll_at: float | None
) -> SelectionRecord | None:
    kept = before is not None and (before.version == part.version or before.outlives_edit)
    state = before if before is not None and kept else SelectionState(part.name, part.version)
    announced = state.announced
    if part.reread is not None and part.kind is OutcomeKind.UNCHANGED and part.baseline.mask == state.baseline.mask:
        announced = _announced_anew(part, part.reread, state)
        part = part.reread
    if part.kind is OutcomeKind.NOTHING_SELECTED:
        after = replace(state, missing=part.missing, keeps_base=False)  # the version stays that of the base
        return None if after == before else SelectionRecord(after)
    after = replace(
        state,
        version=part.version,
        baseline=part.baseline,
        readings=part.readings,
        announced={**part.readings, **announced} if state.version != part.version else announced,
        missing="",
        keeps_base=False,
    )
    read = tuple(name for name, value in part.readings.items() if state.readings.get(name) != value)
    if part.kind is OutcomeKind.UNCHANGED:  # with a content: read anew, after an upgrade
        return None if after == before else SelectionRecord(after, part.content, read=read)
    if part.kind is OutcomeKind.FIRST:
        return SelectionRecord(after, part.content, announces=True, read=read)
    change = ChangeDraft(part.baseline.media or Media.BINARY, part.summary, previous_poll_at, part.verdict)
    return SelectionRecord(after, part.content, change, announces=part.verdict.matters, read=read)
