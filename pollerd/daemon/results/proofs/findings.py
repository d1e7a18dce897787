"""What a poll found in the content of a site, or in each of its selections, and what becomes of it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pollerd.daemon.state.poll_result import PollResult, ProofResult
from pollerd.model import Baseline, OutcomeKind, SelectionDetection, SelectionState

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


def findings(result: PollResult) -> tuple[ContentFinding, ...]:
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
