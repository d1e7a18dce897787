"""Changes that wait for their proof, in memory: one that is dropped or lost is found again by the next poll."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from pollerd.daemon.stages import Candidate, Found, ProofResult, ProofStatus
from pollerd.model import Baseline, Detection, OutcomeKind, SelectionDetection, SelectionState
from pollerd.storage.values import SiteContext
from pollerd.texts import N_, _

MAX_BYTES = 64 * 1024 * 1024
_OVERHEAD_BYTES = 2_048


class Candidates:
    """Waiting changes by site, up to `most_bytes` of content; the oldest are dropped, but never the newest."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self.waiting: dict[int, Candidate] = {}
        """By site id."""

    def __len__(self) -> int:
        return len(self.waiting)

    def __contains__(self, site_id: int) -> bool:
        return site_id in self.waiting

    def get(self, context: SiteContext) -> Candidate | None:
        """Returns the waiting change of the site; None if its settings or what it is held against are others by now."""
        candidate = self.waiting.get(context.site_id)
        return candidate if candidate is not None and _key(candidate.result.context) == _key(context) else None

    def put(self, candidate: Candidate) -> None:
        """Keeps a waiting change in place of the site's last one."""
        site_id = candidate.result.site_id
        self.drop(site_id)
        self.waiting[site_id] = candidate
        self._bytes += candidate.size + _OVERHEAD_BYTES
        while self._bytes > self._most_bytes and len(self.waiting) > 1:
            self.drop(next(iter(self.waiting)))

    def drop(self, site_id: int) -> None:
        """Forgets the waiting change of the site, if there is one."""
        gone = self.waiting.pop(site_id, None)
        if gone is not None:
            self._bytes -= gone.size + _OVERHEAD_BYTES


def _key(context: SiteContext) -> tuple[object, ...]:
    states = tuple((state.name, state.version, state.baseline.fingerprint) for state in context.states)
    baseline = context.baseline
    return (context.url, context.selections, context.settings_changed_at, baseline.fingerprint, baseline.mask, states)


# Findings of a poll in the content of a site, or in each of its selections, and the rulings on them.

WHOLE_PAGE = ""
"""Name of the content of a site without selections."""


class ContentFinding(Struct, frozen=True, gc=False):
    """What a poll found in one content. `before`, `after`: its baselines; `content`: the new one, if it differs."""

    name: str
    kind: OutcomeKind
    before: Baseline
    after: Baseline
    content: bytes | None

    @property
    def changed(self) -> bool:
        """Whether the content differs from that of the poll before."""
        return self.kind is OutcomeKind.CHANGED

    def equals(self, other: ContentFinding) -> bool:
        """Returns whether both polls found the same, under the mask that they had in common."""
        return (self.after.fingerprint, self.after.media) == (other.after.fingerprint, other.after.media)


class Ruling(Struct, frozen=True, gc=False):
    """What becomes of a finding."""

    baseline: Baseline
    quiet: bool = False
    """Whether it was only noise, or nothing: no change."""
    same: bool | None = None
    """Whether two polls were the same but for noise; None: they were not compared."""
    unproven: str = ""
    """Why a change is not proven."""
    result: ProofResult | None = None
    """None: there was nothing to prove."""
    wide: bool = False
    """Whether another poll has to confirm what it masks: much, or something of a feed."""
    flip: tuple[bytes, bytes] | None = None
    """REVERTED, and soon enough to tell that the page alternates: the fingerprints that the two polls showed."""


def findings(result: Found) -> tuple[ContentFinding, ...]:
    """Returns what the poll found in each content; empty if its body was not read."""
    detection, context = result.detection, result.context
    if detection is None:
        return ()
    if not context.selections:
        return (ContentFinding(WHOLE_PAGE, detection.kind, context.baseline, detection.baseline, detection.content),)
    states = {state.name: state for state in context.states}
    return tuple(
        ContentFinding(part.name, part.kind, _base(states.get(part.name), part), part.baseline, part.content)
        for part in detection.selections
    )


def _base(state: SelectionState | None, part: SelectionDetection) -> Baseline:
    """Returns the baseline before the poll; what is noise of a selection that was edited since is not known."""
    if state is None:
        return Baseline()
    return state.baseline if state.version == part.version else replace(state.baseline, proven=False)


# The status of a proof after a poll: it waits, it is decided, or it cannot be given. Pure.

_FAILURES_MOST = 2
"""Number of polls that may fail before the change is recorded without proof."""
_NO_POLL_SOON = frozenset({OutcomeKind.GONE, OutcomeKind.DENIED, OutcomeKind.BLOCKED_ADDRESS})
UNPROVEN_BY_FAILURE = N_("unproven: its second poll failed")
_WEIGHT = (ProofResult.REVERTED, ProofResult.NOISE, ProofResult.CHANGE, ProofResult.UNPROVEN)


def kind_of(result: Found) -> OutcomeKind:
    """Returns what the poll came to."""
    return result.outcome.kind if result.detection is None else result.detection.kind


def posts(result: Found) -> bool:
    """Returns whether the site is asked by POST: its changes are proven by its regular polls, never by one more."""
    return result.context.access.body is not None


def held(result: Found, before: Candidate | None, *, counts: bool) -> Found:
    """Returns the result of a poll whose differences have to be proven: it says nothing yet.

    before: the poll whose proof this one should have been; counts: whether it was chosen for that, or prompt.
    """
    outcome = result.outcome
    if outcome.body or outcome.screenshot:
        outcome = replace(outcome, body=outcome.body and b"", screenshot=None)
    waiting = Candidate(
        replace(result, answer=replace(result.answer, outcome=outcome), reading=None),
        first_at=result.outcome.started_at if before is None else before.first_at,
        undecided=0 if before is None else before.undecided + counts,
        failures=0 if before is None else before.failures,
    )
    detection = Detection(
        OutcomeKind.PROVING, result.context.baseline, detail=_("differs; a second poll will prove it")
    )
    return replace(result, detection=detection, proof=ProofStatus(waiting=waiting))


def failed(result: Found, candidate: Candidate) -> Found:
    """Returns the result of a poll that failed while a change waits: that waits on, or is recorded without proof."""
    failures = candidate.failures + 1
    if failures < _FAILURES_MOST and kind_of(result) not in _NO_POLL_SOON:
        return replace(result, proof=ProofStatus(waiting=replace(candidate, failures=failures)))
    status = ProofStatus(
        result=ProofResult.UNPROVEN, unproven=_(UNPROVEN_BY_FAILURE), recorded=replace(candidate.result, proof=None)
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
        flip=next((ruling.flip for ruling in rulings if ruling.flip is not None), None),
    )
