"""What a poll means for the proof of its site's change: it waits, it is decided, or it cannot be proven. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pollerd.daemon.results.proofs.findings import Ruling
from pollerd.daemon.state.poll_result import Candidate, PollResult, ProofResult, ProofStatus
from pollerd.model import Detection, OutcomeKind

_FAILURES_MOST = 2
"""Number of polls that may fail before the change is recorded without proof."""
_NO_POLL_SOON = frozenset({OutcomeKind.GONE, OutcomeKind.DENIED, OutcomeKind.BLOCKED_ADDRESS})
UNPROVEN_BY_FAILURE = "unproven: its second poll failed"
_WEIGHT = (ProofResult.REVERTED, ProofResult.NOISE, ProofResult.CHANGE, ProofResult.UNPROVEN)


def kind_of(result: PollResult) -> OutcomeKind:
    """Returns what the poll came to."""
    return result.outcome.kind if result.detection is None else result.detection.kind


def posts(result: PollResult) -> bool:
    """Returns whether the site is asked by POST: its changes are proven by its regular polls, never by one more."""
    return result.context.access.body is not None


def held(result: PollResult, before: Candidate | None, *, counts: bool) -> PollResult:
    """Returns the result of a poll whose differences have to be proven: it says nothing yet.

    before: the poll whose proof this one should have been; counts: whether it was chosen for that, or prompt.
    """
    outcome = result.outcome
    if outcome.body or outcome.screenshot:
        outcome = replace(outcome, body=outcome.body and b"", screenshot=None)
    waiting = Candidate(
        replace(result, outcome=outcome, reading=None),
        first_at=result.outcome.started_at if before is None else before.first_at,
        undecided=0 if before is None else before.undecided + counts,
        failures=0 if before is None else before.failures,
    )
    detection = Detection(OutcomeKind.PROVING, result.context.baseline, detail="differs; a second poll will prove it")
    return replace(result, detection=detection, proof=ProofStatus(waiting=waiting))


def failed(result: PollResult, candidate: Candidate) -> PollResult:
    """Returns the result of a poll that failed while a change waits: that waits on, or is recorded without proof."""
    failures = candidate.failures + 1
    if failures < _FAILURES_MOST and kind_of(result) not in _NO_POLL_SOON:
        return replace(result, proof=ProofStatus(waiting=replace(candidate, failures=failures)))
    status = ProofStatus(
        result=ProofResult.UNPROVEN, unproven=UNPROVEN_BY_FAILURE, recorded=replace(candidate.result, proof=None)
    )
    return replace(result, proof=status)


def status_of(rulings: Iterable[Ruling]) -> ProofStatus | None:
    """Returns what the rulings mean for the site as a whole; None: nothing had to be proven."""
    rulings = tuple(rulings)
    results = [ruling.result for ruling in rulings if ruling.result is not None]
    compared = [ruling.same for ruling in rulings if ruling.same is not None]
    unproven = next((ruling.unproven for ruling in rulings if ruling.unproven), "")
    if not results and not compared and not unproven:
        return None
    return ProofStatus(
        result=max(results, key=_WEIGHT.index, default=None),
        same=all(compared) if compared else None,
        unproven=unproven,
    )
