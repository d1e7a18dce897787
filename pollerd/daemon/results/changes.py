"""The noise step: proves changes, recognises those that are only noise, and summarises the others."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pollerd.daemon.results.proofs.candidates import Candidates
from pollerd.daemon.results.proofs.findings import WHOLE_PAGE, Ruling
from pollerd.daemon.results.proofs.proof_status import failed, held, kind_of, posts, status_of
from pollerd.daemon.results.proofs.prover import Prover
from pollerd.daemon.results.proofs.still_noise import StillNoise
from pollerd.daemon.results.selections import SelectionStep
from pollerd.daemon.state.poll_result import Candidate, PollResult, ProofStatus
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.detection import HEAVY_UNDER_MASK_BYTES, summarise, without_rules
from pollerd.model import Detection, Evidence, Media, OutcomeKind, Validators
from pollerd.storage import HistoryStore

_SUMMARISED_HERE_BYTES = 256 * 1024
"""Two contents of this total size are summarised in about 10 ms."""


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

    async def recognise(self, results: Sequence[PollResult]) -> tuple[Sequence[PollResult], dict[int, str]]:
        """Returns the results with noise recognised, and a one-line summary of each change by site id.

        A change that has to be proven becomes `PROVING`. Changes nothing here, so that it may be repeated. Raises
        DatabaseUnavailableError.
        """
        rows = [i for i, result in enumerate(results) if self._concerns(result)]
        if not rows:
            return results, {}
        out, summaries = list(results), {}
        contexts = [results[i].context for i in rows if not results[i].context.selections]
        wanted = [context.content_id for context in contexts if context.content_id is not None]
        contents = await self._store.load_contents(wanted) if wanted else {}
        for i in rows:
            before = contents.get(results[i].context.content_id or 0)
            out[i] = await self._judged(results[i], before)
            if (summary := await self._summary(out[i], before)) is not None:
                summaries[out[i].site_id] = summary
        return out, summaries

    def _concerns(self, result: PollResult) -> bool:
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
            return self._without_doubted(result, before)
        if candidate is None and self._prover.believes(result):
            return result
        rulings = await self._prover.rulings(result, {WHOLE_PAGE: before}, candidate)
        if rulings is None:
            return None
        ruling, detection = rulings.get(WHOLE_PAGE), result.detection
        if ruling is None or detection is None:
            return result
        return replace(result, detection=_under(detection, ruling), proof=status_of([ruling]))

    def _without_doubted(self, result: PollResult, before: bytes | None) -> PollResult:
        """Returns the result of a poll that found nothing, without the rules whose noise stood still for long.

        The next poll is held against the content that was recorded last, and what the rules hid since then is proven.
        """
        detection, rules = result.detection, self._still.doubted(result)
        if detection is None or before is None or not rules:
            return result
        baseline = without_rules(detection.baseline, before, rules)
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
        order = (context.baseline.items, detection.baseline.items)
        try:
            if size < (HEAVY_UNDER_MASK_BYTES if mask else _SUMMARISED_HERE_BYTES):
                return summarise(before, detection.content, media, mask, order)
            return await self._workers.do(summarise, before, detection.content, media, mask, order)
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
