"""Keeps what a committed poll means for proofs: changes that wait, the queue of their sites, what proofs showed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pollerd.daemon.results.proofs.candidates import Candidates
from pollerd.daemon.results.proofs.proof_status import posts
from pollerd.daemon.results.proofs.prover import Prover
from pollerd.daemon.results.proofs.still_noise import StillNoise
from pollerd.daemon.state.believed_unchanged import leave_until_regular, note_quiet
from pollerd.daemon.state.poll_result import PollResult, ProofResult, ProofStatus
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.telemetry import Instruments

_NOTHING = ProofStatus()


class ProofUpdates:
    """Follows the commits."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        candidates: Candidates,
        still: StillNoise,
        prover: Prover,
        instruments: Instruments,
    ) -> None:
        self._scheduler, self._candidates, self._prover, self._still = scheduler, candidates, prover, still
        self._instruments = instruments

    def apply(self, results: Sequence[PollResult]) -> None:
        """Takes over what the committed polls say; their slots hold the same sites still."""
        proofs = self._scheduler.sites.proofs
        self._instruments.masks_learned.inc(sum(map(_learned_a_mask, results)))
        for result in results:
            if result.context.baseline.mask:
                self._still.note(result)
            if result.proof is not None or result.site_id in self._candidates or result.slot in proofs:
                self._follow(result, result.proof or _NOTHING)

    def _follow(self, result: PollResult, status: ProofStatus) -> None:
        sites, slot = self._scheduler.sites, result.slot
        if status.lifted:
            self._prover.gave_up(slot, result.context.baseline.mask)
        if status.result is not None:
            self._instruments.proofs[status.result.value].inc()
        if status.same is not None:
            sites.note_proof(slot, result.outcome.started_at, same=status.same)
        elif status.result is ProofResult.UNPROVEN:
            sites.note_undecided_proof(slot, result.outcome.started_at)
        if status.waiting is None:
            self._candidates.drop(result.site_id)
            was_left = slot in sites.proofs.left
            sites.proofs.drop(slot)
            if was_left:
                note_quiet(self._scheduler, np.array([slot]))
            return
        self._candidates.put(status.waiting)
        if posts(result):  # what it does there must not be done once more than it would be anyway
            leave_until_regular(self._scheduler, slot, result.outcome.started_at)
            return
        sites.proofs.ask(slot, self._prover.prompt_until(slot, status.waiting.at))
        if not sites.proofs.affordable_in(float(sites.cost[slot])):
            self._scheduler.due.set()


def _learned_a_mask(result: PollResult) -> bool:
    detection, context = result.detection, result.context
    if detection is None or not detection.kind.informative or (result.proof is not None and result.proof.lifted):
        return False
    if not detection.selections or detection.baseline.mask != context.baseline.mask:
        return detection.baseline.mask != context.baseline.mask
    known = {state.name: state.baseline.mask for state in context.states}
    return any(part.baseline.mask != known.get(part.name, b"") for part in detection.selections)
