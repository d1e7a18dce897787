"""Doubts the rules of a mask whose noise stands still: they were learned from changes of the page.

What a page says anew at every request differs at every poll. A place that was edited between the two polls of a proof
looks the same there, but later polls find it as it was. So each rule has a score, never below 0: 1 more for a poll at
which what it acts on is as at the last one, 4 less for one at which that is again as before it last differed, as noise
of two values is, and 1 less for one at which it is something else. At a feed that costs nothing: its entries are edited
in bursts, and seldom say something else at each request. Where a signal source that is believed dates a change of the
page, and all that differs is hidden, it is no noise: 4 more. At 16 a rule is given up, and the next difference there is
proven anew. What is enough doubles each time that rules of the site are given up.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pollerd.daemon.state.poll_result import PollResult
from pollerd.detection import doubtable_rules
from pollerd.model import Detection, Media, OutcomeKind

ENOUGH = 16
BACK, OTHER, OTHER_OF_FEED, OTHER_DATED = 4, 1, 0, -4
_TIMES_MOST = 6
"""Number of times that what is enough doubles."""
_SITES_MOST = 65_536
_QUIET = frozenset({OutcomeKind.UNCHANGED, OutcomeKind.NOT_MODIFIED})


class RuleWatch(Struct):
    """One rule. now, before: hashes of what it acted on at the last poll, and before that last differed; 0: unknown."""

    doubtable: bool
    now: int = 0
    before: int = 0
    score: int = 0

    def compare(self, found: int, other: int) -> None:
        """Scores what the rule acts on now; other: what a difference costs."""
        if found == self.now:
            self.score += 1
            return
        if self.now:
            self.score = max(self.score - (BACK if found == self.before else other), 0)
        self.now, self.before = found, self.now


class _SiteWatch(Struct):
    """The rules of a site's mask."""

    mask: bytes = b""
    rules: list[RuleWatch] = []
    enough: int = ENOUGH

    def begin(self, mask: bytes) -> None:
        """Starts with another mask."""
        self.mask, self.rules = mask, [RuleWatch(doubtable) for doubtable in doubtable_rules(mask)]

    def compare(self, hidden: Sequence[int], other: int) -> None:
        """Scores each rule that has a place."""
        for rule, found in zip(self.rules, hidden, strict=True):
            if found:
                rule.compare(found, other)

    def stood_still(self) -> None:
        """Notes a poll at which the page was the same, noise and all."""
        for rule in self.rules:
            rule.score += 1

    def doubted(self) -> list[int]:
        """Returns the indices of the rules to give up."""
        return [i for i, rule in enumerate(self.rules) if rule.doubtable and rule.score >= self.enough]


class StillNoise:
    """The scores of sites that have a mask and no selections, in memory: of up to 65,536, the oldest are dropped."""

    def __init__(self) -> None:
        self._watched: dict[int, _SiteWatch] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def doubted(self, result: PollResult) -> list[int]:
        """Returns the indices of the rules to give up: none unless the poll found nothing."""
        detection, context = result.detection, result.context
        if not context.baseline.mask or context.selections or detection is None or detection.kind not in _QUIET:
            return []
        watch = self._watched.get(result.site_id)
        return watch.doubted() if watch is not None and watch.mask == context.baseline.mask else []

    def note(self, result: PollResult) -> None:
        """Takes over what a committed poll of a site with a mask shows."""
        detection, context = result.detection, result.context
        if detection is None or context.selections:
            return
        watch = self._of(result.site_id)
        if watch.mask != context.baseline.mask:
            watch.begin(context.baseline.mask)
        if detection.hidden:
            watch.compare(detection.hidden, _cost_of_difference(result, detection))
        elif detection.kind in _QUIET:  # the same bytes, or not modified
            watch.stood_still()
        if result.proof is not None and result.proof.lifted:
            watch.mask, watch.enough = b"", min(2 * watch.enough, ENOUGH << _TIMES_MOST)

    def _of(self, site_id: int) -> _SiteWatch:
        watch = self._watched.get(site_id)
        if watch is None:
            watch = self._watched[site_id] = _SiteWatch()
            if len(self._watched) > _SITES_MOST:
                del self._watched[next(iter(self._watched))]
        return watch


def _cost_of_difference(result: PollResult, detection: Detection) -> int:
    """Returns by how much a rule's score falls if what it hides is something else."""
    if result.date_believed and detection.kind in _QUIET:
        return OTHER_DATED
    return OTHER_OF_FEED if result.context.baseline.media is Media.FEED else OTHER
