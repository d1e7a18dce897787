"""The noise step: proves changes, recognises those that are only noise, and summarises the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pollerd.daemon.results.gathering import LeavesBatchError, here_or_beside
from pollerd.daemon.results.proofs.candidates import Candidates
from pollerd.daemon.results.proofs.findings import WHOLE_PAGE, Ruling
from pollerd.daemon.results.proofs.proof_status import failed, held, kind_of, posts, status_of
from pollerd.daemon.results.proofs.prover import Prover
from pollerd.daemon.results.proofs.still_noise import StillNoise
from pollerd.daemon.results.selections import SelectionStep
from pollerd.daemon.state.poll_result import Candidate, PollResult, ProofStatus
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.detection import HEAVY_BYTES, HEAVY_UNDER_MASK_BYTES, is_large, summarise, without_rules
from pollerd.errors import TooHeavyError
from pollerd.model import Detection, Evidence, Media, OutcomeKind, Validators
from pollerd.storage import HistoryStore

_SUMMARISED_HERE_BYTES = 256 * 1024
"""Two contents of this total size are summarised in about 10 ms."""


@dataclass(frozen=True)
class NoiseFindings:
    """What the noise step found."""

    results: Sequence[PollResult]
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
        store: HistoryStore,
        prover: Prover,
        candidates: Candidates,
        still: StillNoise,
        runtime: Runtime,
    ) -> None:
        self._store, self._prover, self._candidates, self._still = store, prover, candidates, still
        self._proofs = scheduler.sites.proofs
        self._selections = SelectionStep(store=store, prover=prover, runtime=runtime)
        self._workers, self._faults = runtime.workers, runtime.faults

    def is_slow(self, result: PollResult) -> bool:
        """Returns whether judging the result needs a worker process, as far as its size says."""
        detection = result.detection
        found = () if detection is None else (detection.content, *(part.content for part in detection.selections))
        return sum(len(content or b"") for content in found) > HEAVY_BYTES and self._concerns(result)

    async def recognise(self, results: Sequence[PollResult]) -> NoiseFindings:
        """Recognises noise in the results, and summarises their changes; those judged before stay as they are.

        A change that has to be proven becomes `PROVING`. Changes nothing here, so that it may be repeated. Raises
        DatabaseUnavailableError.
        """
        rows = [i for i, result in enumerate(results) if self._concerns(result)]
        summaries = {one.site_id: one.judgement.summary for one in results if one.judgement and one.judgement.summary}
        if not rows:
            return NoiseFindings(results, summaries)
        out, slow = list(results), set[int]()
        contexts = [results[i].context for i in rows if not results[i].context.selections]
        wanted = [context.content_id for context in contexts if context.content_id is not None]
        contents = await self._store.load_contents(wanted) if wanted else {}
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

    def _concerns(self, result: PollResult) -> bool:
        if result.judgement is not None:
            return False
        return _changed(result) or result.site_id in self._candidates or bool(self._still.doubted(result))

    async def _judged(self, result: PollResult, before: bytes | None) -> PollResult:
        candidate, selecting = self._candidates.get(result.context), bool(result.context.selections)
        if candidate is not None and not kind_of(result).informative:
            result = failed(result, candidate)
            return await self._selections.recorded(result) if selecting else result
        if selecting:
            judged = await self._selections.recognise(result, candidate)
        else:
            judged = await self._of_page(result, before, candidate)
        if judged is None:
            prompt = candidate is not None and self._prover.is_prompt(result, candidate)
            counts = prompt or posts(result) or self._proofs.had_its_turn(result.slot)
            return held(result, candidate, counts=counts)
        return judged

    async def _of_page(
        self, result: PollResult, before: bytes | None, candidate: Candidate | None
    ) -> PollResult | None:
        """Returns the result of a site without selections; None if it has to be proven."""
        if candidate is None and not _changed(result):
            return await self._without_doubted(result, before)
        if candidate is None and self._prover.believes(result):
            return result
        rulings = await self._prover.rulings(result, {WHOLE_PAGE: before}, candidate)
        if rulings is None:
            return None
        ruling, detection = rulings.get(WHOLE_PAGE), result.detection
        if ruling is None or detection is None:
            return result
        return replace(result, detection=_under(detection, ruling), proof=status_of([ruling]))

    async def _without_doubted(self, result: PollResult, before: bytes | None) -> PollResult:
        """Returns the result of a poll that found nothing, without the rules whose noise stood still for long.

        The next poll is held against the content that was recorded last, and what the rules hid since then is proven.
        """
        detection, rules = result.detection, self._still.doubted(result)
        if detection is None or before is None or not rules:
            return result
        given, light = (detection.baseline, before, rules), len(before) <= HEAVY_UNDER_MASK_BYTES
        try:
            baseline = await here_or_beside(self._workers, result, without_rules, *given, light=light)
        except TooHeavyError as error:
            self._faults.report(result.context, error)
            return result
        outcome = replace(result.outcome, validators=Validators())
        detection = replace(detection, baseline=baseline, hidden=())
        return replace(result, outcome=outcome, detection=detection, proof=ProofStatus(lifted=True))

    async def _summary(self, result: PollResult, before: bytes | None) -> str | None:
        """Returns a one-line summary of the change of a page, of this poll or recorded with it; None: there is none."""
        earlier = None if result.proof is None else result.proof.recorded
        found = result if earlier is None else earlier
        detection, context = found.detection, found.context
        if not _changed(found) or context.selections or detection is None or detection.content is None:
            return None
        mask, media = detection.baseline.mask, detection.baseline.media or Media.BINARY
        size = len(before or b"") + len(detection.content)
        light = size < (HEAVY_UNDER_MASK_BYTES if mask else _SUMMARISED_HERE_BYTES)
        light = light or is_large(before, detection.content, media)
        order = (context.baseline.items, detection.baseline.items)
        try:
            given = (before, detection.content, media, mask, order)
            return await here_or_beside(self._workers, result, summarise, *given, light=light)
        except LeavesBatchError:
            raise
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one whose comparison raises is reported, and its change has no summary.
            self._faults.report(context, error)
            return None


def _changed(result: PollResult) -> bool:
    return result.detection is not None and result.detection.kind is OutcomeKind.CHANGED


def _under(detection: Detection, ruling: Ruling) -> Detection:
    """Returns the detection after the ruling on it."""
    if not ruling.quiet or detection.kind is not OutcomeKind.CHANGED:
        return replace(detection, baseline=ruling.baseline)
    evidence = Evidence(changed=False) if detection.evidence is not None else None
    return replace(detection, kind=OutcomeKind.UNCHANGED, baseline=ruling.baseline, evidence=evidence, content=None)
