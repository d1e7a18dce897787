"""The prover of changes: differences between two polls in quick succession are noise, and are masked from then on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from pollerd.daemon.proofs import WHOLE_PAGE, Candidates, ContentFinding, Ruling, findings, posts
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.slow_results import LeavesBatchError, here_or_beside
from pollerd.daemon.stages import Candidate, Found, ProofResult, ProofStatus
from pollerd.daemon.unchanged import leave_until_regular, note_unchanged
from pollerd.detection.noise.learning import (
    HEAVY_UNDER_MASK_BYTES,
    doubtable_rules,
    learn_from_pair,
    mask_is_stale,
    shareable,
    under_known_noise,
)
from pollerd.detection.noise.mask import KnownBy
from pollerd.model import Baseline, Detection, Media, OutcomeKind
from pollerd.scheduling.min_yield import NoiseCap
from pollerd.telemetry import Instruments
from pollerd.texts import N_, _

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

# Masks learned lately, by host: pages of one host have the same noise.

_KEPT = 8


class SharedMasks:
    """The masks learned last, each with its host slot."""

    def __init__(self) -> None:
        self._learned: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)

    def share(self, host: int, mask: bytes) -> None:
        """Offers a mask to the other pages of its host."""
        mask = shareable(mask)
        if mask and (host, mask) not in self._learned:
            self._learned.append((host, mask))

    def withdraw(self, host: int, mask: bytes) -> None:
        """Offers the mask no longer: a page of the host gave up rules of it."""
        mask = shareable(mask)
        if (host, mask) in self._learned:
            self._learned.remove((host, mask))

    def of(self, host: int) -> tuple[bytes, ...]:
        """Returns the masks of the host."""
        return tuple(mask for learned_at, mask in self._learned if learned_at == host)


# Alternation: values of a page that come and go between the two polls of a proof.

FLIPS_ENOUGH = 5
"""So often two polls right after each other must show one known value and then another before that is noise."""
_VALUES_MOST = 4
_ALTERNATING_MOST, _SITES_MOST = 16_384, 65_536
_SUSPECTED_FROM = 2
"""A change to a value that a page changed to as often before has to be proven, however much the page is trusted."""


class _Values(Struct):
    """Of one site under one mask. flipped: fingerprints that came and went, and how often both of a flip were known.
    recorded: those it changed to, and how often; proven: how often it did so to one that it had changed to again and
    again.
    """

    mask: bytes
    flipped: set[bytes] = set()
    flips: int = 0
    recorded: dict[bytes, int] = {}
    proven: int = 0


class Alternation:
    """What pages without selections alternate between, in memory: of up to 16,384, the oldest are dropped."""

    def __init__(self) -> None:
        self._known: dict[int, _Values] = {}

    def is_noise(self, site_id: int, mask: bytes, flip: tuple[bytes, bytes]) -> bool:
        """Returns whether one more flip, from the first fingerprint to the second, is enough."""
        known = self._known.get(site_id)
        if known is None or known.mask != mask or not known.flipped.issuperset(flip):
            return False
        return known.flips + 1 >= FLIPS_ENOUGH

    def suspects(self, site_id: int, mask: bytes, fingerprint: bytes | None) -> bool:
        """Returns whether the page changes to a value that it has changed to before, again and again.

        Not if that proved true so often that it comes and goes for real.
        """
        known = self._known.get(site_id)
        if known is None or known.mask != mask or known.recorded.get(fingerprint or b"", 0) < _SUSPECTED_FROM:
            return False
        return bool(known.flipped) or known.proven < FLIPS_ENOUGH

    def note_flip(self, site_id: int, mask: bytes, flip: tuple[bytes, bytes]) -> None:
        """Takes over a flip."""
        known = self._of(site_id, mask)
        known.flips += known.flipped.issuperset(flip)
        if len(known.flipped) >= _VALUES_MOST:
            known.flipped, known.flips = set(), 0
        known.flipped.update(flip)

    def note_change(self, site_id: int, mask: bytes, fingerprint: bytes) -> None:
        """Takes over a recorded change."""
        known = self._of(site_id, mask)
        recorded = known.recorded
        recorded[fingerprint] = times = recorded.pop(fingerprint, 0) + 1
        known.proven += times > _SUSPECTED_FROM
        if len(recorded) > _VALUES_MOST:
            del recorded[next(iter(recorded))]

    def _of(self, site_id: int, mask: bytes) -> _Values:
        known = self._known.get(site_id)
        if known is None or known.mask != mask:
            known = self._known[site_id] = _Values(mask)
            drop_oldest(self._known, _ALTERNATING_MOST)
        return known


def drop_oldest(kept: dict[K, V], most: int) -> None:
    """Drops the oldest entry if there are too many."""
    if len(kept) > most:
        del kept[next(iter(kept))]


_PROMPT_SECONDS = 30.0
_PROMPT_TURNS = 2.0
"""A second poll proves something within this time of the first, or within this many turns of host and budget."""
_UNDECIDED_MOST = 1
"""Number of second polls that may decide nothing."""
_AWAITED_MOST = 3
"""The same after a change that a source dated: it may say yet that there was another."""
_LATE = N_("unproven: its second poll came too late")
_REGULAR = N_("unproven: it differed again at its next regular poll, and a POST is not sent for a proof")
_DIFFERED = N_("unproven: it differed again at the second poll")
_DATED = N_("unproven: it differed again at the second poll, and a signal source says that it changed again")
_ALWAYS = N_("unproven: it differs at every poll")


class Prover:
    """Decides what becomes of each difference that a poll found: noise, a change, or to be proven first."""

    def __init__(self, *, scheduler: SchedulerState, runtime: Runtime) -> None:
        self._scheduler, self._workers, self._clock = scheduler, runtime.workers, runtime.clock
        self._faults = runtime.faults
        self._noise, self._shared = NoiseCap(scheduler.sites), SharedMasks()
        self.alternation = Alternation()

    def prompt_until(self, slot: int, at: float) -> float:
        """Returns until when a second poll of the slot would be prompt, if the first was at `at`; epoch s."""
        sites = self._scheduler.sites
        interval = self._scheduler.hosts.interval_of(int(sites.host[slot]))
        turn = max(interval, float(sites.cost[slot]) / self._scheduler.budget)
        return at + max(_PROMPT_SECONDS, _PROMPT_TURNS * turn)

    def is_prompt(self, result: Found, candidate: Candidate) -> bool:
        """Returns whether the poll came so soon after the candidate's that what differs between them is noise."""
        return result.outcome.started_at <= self.prompt_until(result.slot, candidate.at)

    def believes(self, result: Found) -> bool:
        """Returns whether a change needs no proof: the page is known to have no noise, and does not keep changing."""
        known, detection = result.context.baseline, result.detection
        if not known.proven or known.mask or self._scheduler.sites.keeps_changing(result.slot):
            return False
        return detection is None or not self._alternates(result, detection.baseline)

    def gave_up(self, slot: int, mask: bytes) -> None:
        """Notes that rules of the mask were no noise: it is not tried at other pages of the host, nor at this one."""
        self._shared.withdraw(int(self._scheduler.sites.host[slot]), mask)

    async def rulings(
        self, result: Found, before: Mapping[str, bytes | None], candidate: Candidate | None
    ) -> dict[str, Ruling] | None:
        """Returns what becomes of the findings of a poll, by name; None: a second poll has to prove them first.

        before: the stored content of each, None if it is no longer stored. candidate: the poll before, if its
        differences wait for this one. A finding without a ruling stands as it is.
        """
        first = (
            {}
            if candidate is None
            else {finding.name: finding for finding in findings(candidate.result) if finding.changed}
        )
        prompt = candidate is not None and self.is_prompt(result, candidate)
        current = {finding.name: finding for finding in findings(result)}
        settled = [
            name
            for name, finding in first.items()
            if (now := current.get(name)) and (prompt or not now.changed or now.equals(finding))
        ]
        out = {}
        for name, observed in current.items():
            if observed.changed and name not in settled:
                if name in first and posts(result):  # another poll would come as late
                    out[name] = Ruling(observed.after, unproven=_(_REGULAR), result=ProofResult.UNPROVEN)
                    continue
                ruling = await self._alone(result, observed, before.get(name), candidate)
                if ruling is None:
                    return None
                out[name] = ruling
        for name in settled:
            pair = (first[name], current[name])
            second = pair[1]
            differ = second.changed and not pair[0].equals(second)
            if candidate is not None and differ and _dated_again(result, candidate):
                after = replace(second.after, proven=True)
                out[name] = Ruling(after, unproven=_(_DATED), result=ProofResult.UNPROVEN)
                continue
            ruling = await self._together(result, pair, before.get(name), prompt=prompt)
            if candidate is not None and candidate.undecided < _undecided_most(ruling, second, candidate):
                return None
            out[name] = ruling
            if ruling.same and ruling.baseline.mask:
                self._shared.share(int(self._scheduler.sites.host[result.slot]), ruling.baseline.mask)
        return out

    async def _alone(
        self, result: Found, finding: ContentFinding, before: bytes | None, candidate: Candidate | None
    ) -> Ruling | None:
        """Returns what becomes of a difference by itself; None: it has to be proven."""
        slot = result.slot
        if not await self._wants_proof(result, finding):
            return Ruling(finding.after, unproven="" if finding.before.proven else _(_ALWAYS))
        if candidate is None:
            return await self._recognised(result, finding, before)
        had_its_turn = posts(result) or self._scheduler.sites.proofs.had_its_turn(slot)
        if candidate.undecided >= _UNDECIDED_MOST and had_its_turn:
            return Ruling(finding.after, unproven=_(_LATE), result=ProofResult.UNPROVEN)
        return None

    def _alternates(self, result: Found, after: Baseline) -> bool:
        if after.media is Media.FEED:
            return False
        return self.alternation.suspects(result.site_id, after.mask, after.fingerprint)

    async def _wants_proof(self, result: Found, finding: ContentFinding) -> bool:
        now, period = self._clock(), self._scheduler.uniform_period
        if not finding.before.proven:
            return self._noise.wants_proof(result.slot, now, period, proven=False)
        if self._noise.wants_proof(result.slot, now, period, proven=True) or self._alternates(result, finding.after):
            return True
        mask, content = finding.before.mask, finding.content or b""
        if not mask or not self._noise.wants_proof(result.slot, now, period, proven=False):
            return False
        return bool(await self.do(result, len(content), mask_is_stale, content, mask))

    async def _recognised(self, result: Found, finding: ContentFinding, before: bytes | None) -> Ruling | None:
        """Returns a ruling if a mask recently learned at a page of the host explains the difference.

        The page is not proven by it: it may have noise besides.
        """
        host = int(self._scheduler.sites.host[result.slot])
        masks = self._shared.of(host)
        if not masks or finding.before.mask or before is None:
            return None
        content = finding.content or b""
        size = (len(before) + len(content)) * len(masks)
        baseline = await self.do(result, size, under_known_noise, before, content, finding.after, masks)
        if baseline is None:
            return None
        self._shared.share(host, baseline.mask)
        return Ruling(baseline, quiet=True)

    async def _together(
        self, result: Found, pair: tuple[ContentFinding, ContentFinding], before: bytes | None, *, prompt: bool
    ) -> Ruling:
        """Returns what becomes of a difference, or of none any more, given the poll before.

        prompt: whether the polls came so soon after each other that what differs between them is noise.
        """
        first, second = pair
        keeps_changing = self._scheduler.sites.keeps_changing(result.slot)
        reverted, by = None, KnownBy.PROOF
        if not second.changed:
            # A change that is taken back, or not on all servers yet, looks like noise: it is none the first few times.
            # What a selection reads never is.
            flip = _flip(first, second) if prompt and second.name == WHOLE_PAGE else None
            reverted = Ruling(second.after, quiet=True, result=ProofResult.REVERTED, flip=flip)
            mask = second.before.mask
            if before is None or flip is None or not self.alternation.is_noise(result.site_id, mask, flip):
                return reverted
            second, by = replace(second, content=before), KnownBy.ALTERNATION
        elif not prompt or (first.equals(second) and not second.before.mask):
            return Ruling(replace(second.after, proven=True), same=True, result=ProofResult.CHANGE)
        returns = second.name == WHOLE_PAGE and (reverted is not None or keeps_changing)
        work = partial(learn_from_pair, returns=returns, by=by)
        contents = (first.content or b"", second.content or b"")
        verdict = await self.do(result, sum(map(len, contents)), work, *contents, second.after, before)
        if verdict is None:
            return Ruling(second.after, quiet=not second.changed, unproven=_(_DIFFERED), result=ProofResult.UNPROVEN)
        if reverted is not None and verdict.baseline.mask == second.before.mask:
            return reverted
        # A feed is nothing but its entries, which are edited in bursts: two edits are likelier than noise.
        of_feed = second.after.media is Media.FEED and verdict.baseline.mask != second.before.mask
        wide = of_feed or (verdict.wide and not keeps_changing and reverted is None)
        baseline = replace(verdict.baseline, proven=verdict.same or second.before.proven)
        if not second.changed or (
            verdict.only_noise and first.after.media is second.after.media is second.before.media
        ):
            return Ruling(baseline, quiet=True, same=verdict.same, result=ProofResult.NOISE, wide=wide)
        if verdict.same:
            return Ruling(baseline, same=True, result=ProofResult.CHANGE, wide=wide)
        return Ruling(baseline, same=False, unproven=_(_DIFFERED), result=ProofResult.UNPROVEN, wide=wide)

    async def do(self, result: Found, size: int, work: Callable[..., T], *arguments: object) -> T | None:
        """Runs the work, in a worker if it may take long; None if it raises: the page is untrusted."""
        try:
            light = size <= HEAVY_UNDER_MASK_BYTES
            return await here_or_beside(self._workers, result, work, *arguments, light=light)
        except LeavesBatchError:
            raise
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one that breaks the comparison is reported, and nothing is proven of it.
            self._faults.report(result.context, error)
            return None


def _flip(first: ContentFinding, second: ContentFinding) -> tuple[bytes, bytes] | None:
    """Returns the fingerprints that two polls showed, under one mask; None: they are not comparable."""
    former, other = first.after, second.after
    if former.fingerprint is None or other.fingerprint is None or former.mask != other.mask:
        return None
    return former.fingerprint, other.fingerprint


def _dated_again(result: Found, candidate: Candidate) -> bool:
    """Returns whether a source dates a change after the first of the polls that differ.

    However far it is believed: by chance it seldom dates one just then.
    """
    return result.dated_at is not None and result.dated_at > candidate.first_at


def _undecided_most(ruling: Ruling, second: ContentFinding, candidate: Candidate) -> int:
    """Returns how many second polls may decide nothing before the ruling on the second finding stands."""
    if ruling.baseline.mask != second.before.mask and candidate.result.dated_at is not None:
        return _AWAITED_MOST
    return _UNDECIDED_MOST if ruling.wide else 0


# Doubts about the rules of a mask whose noise stands still: they were learned from changes of the page.
#
# Noise that is made for each request differs at every poll. A place that was edited between the two polls of a proof
# looks the same there, but later polls find it as it was. So each rule has a score, never below 0: 1 more for a poll at
# which its place is the same as at the last one, 4 less for one at which it is again as before it last differed, as
# noise of two values is, and 1 less for one at which it is something else. At a feed the last case costs nothing: its
# entries are edited in bursts, and rarely differ at each request. If a trusted signal source dates a change of the
# page, and all that differs is hidden, the difference is no noise: 4 more. At 16 a rule is given up, and the next
# difference there has to be proven again. The limit doubles each time that rules of the site are given up.

ENOUGH = 16
BACK, OTHER, OTHER_OF_FEED, OTHER_DATED = 4, 1, 0, -4
_TIMES_MOST = 6
"""Number of times that what is enough doubles."""
_QUIET = frozenset({OutcomeKind.UNCHANGED, OutcomeKind.NOT_MODIFIED})


class RuleWatch(Struct):
    """One rule. now, before: hashes of what it acted on at the last poll, and before that last differed; 0: unknown."""

    doubtable: bool
    now: int = 0
    before: int = 0
    score: int = 0
    differed: int = 0
    """Number of polls at which it was another than at the one before."""

    def compare(self, hits: int, other: int) -> None:
        """Scores what the rule acts on now; other: what a difference costs."""
        if hits == self.now:
            self.score += 1
            return
        if self.now:
            self.differed += 1
            self.score = max(self.score - (BACK if hits == self.before else other), 0)
        self.now, self.before = hits, self.now


class RuleCount(Struct, frozen=True):
    """How often what a rule hides differed from the poll before, of so many polls since `since` (epoch s)."""

    differed: int
    polls: int
    since: float


class _SiteWatch(Struct):
    """The rules of a mask."""

    mask: bytes = b""
    rules: list[RuleWatch] = []
    enough: int = ENOUGH
    polls: int = 0
    since: float = 0.0

    def begin(self, mask: bytes, at: float) -> None:
        """Starts with another mask."""
        self.mask, self.rules = mask, [RuleWatch(doubtable) for doubtable in doubtable_rules(mask)]
        self.polls, self.since = 0, at

    def compare(self, hidden: Sequence[int], other: int) -> None:
        """Scores each rule that has a place."""
        for rule, hits in zip(self.rules, hidden, strict=True):
            if hits:
                rule.compare(hits, other)

    def differs(self, hidden: Sequence[int]) -> bool:
        """Returns whether any rule hides something else than at the last poll."""
        return any(rule.now and hits and hits != rule.now for rule, hits in zip(self.rules, hidden, strict=True))

    def stood_still(self) -> None:
        """Notes a poll at which the page was the same, noise and all."""
        for rule in self.rules:
            rule.score += 1

    def doubted(self) -> list[int]:
        """Returns the indices of the rules to give up."""
        return [i for i, rule in enumerate(self.rules) if rule.doubtable and rule.score >= self.enough]


class StillNoise:
    """What masks hide, poll by poll, in memory: of up to 65,536 contents of sites, the oldest are dropped.

    Rules are given up at sites without selections only.
    """

    def __init__(self) -> None:
        self._watched: dict[tuple[int, str], _SiteWatch] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def doubted(self, result: Found) -> list[int]:
        """Returns the indices of the rules to give up: none unless the poll found nothing."""
        detection, context = result.detection, result.context
        if not context.baseline.mask or context.selections or detection is None or detection.kind not in _QUIET:
            return []
        watch = self._watched.get((result.site_id, WHOLE_PAGE))
        return watch.doubted() if watch is not None and watch.mask == context.baseline.mask else []

    def counts(self, site_id: int, name: str, mask: bytes) -> tuple[RuleCount, ...] | None:
        """Returns the counts of the rules of a content's mask, in their order; None: it was not polled under it."""
        watch = self._watched.get((site_id, name))
        if watch is None or watch.mask != mask:
            return None
        return tuple(RuleCount(rule.differed, watch.polls, watch.since) for rule in watch.rules)

    def hid_change(self, result: Found) -> bool:
        """Returns whether the poll found nothing because all that differs from the poll before is masked."""
        detection = result.detection
        lifted = result.proof is not None and result.proof.lifted
        if detection is None or detection.kind is not OutcomeKind.UNCHANGED or lifted:
            return False
        if detection.baseline.mask != result.context.baseline.mask and result.context.baseline.fingerprint is not None:
            return True  # learned just now, by which the difference became none
        watched = ((self._watched.get((result.site_id, name)), mask, hidden) for name, mask, hidden in _hidden(result))
        return any(
            watch is not None and watch.mask == mask and hidden and watch.differs(hidden)
            for watch, mask, hidden in watched
        )

    def note(self, result: Found) -> None:
        """Takes over what a committed poll shows of the contents with a mask."""
        detection = result.detection
        if detection is None:
            return
        for name, mask, hidden in _hidden(result):
            watch = self._of(result.site_id, name)
            if watch.mask != mask:
                watch.begin(mask, result.outcome.started_at)
            watch.polls += 1
            if hidden:
                watch.compare(hidden, _cost_of_difference(result, detection))
            elif detection.kind in _QUIET:  # the same bytes, or not modified
                watch.stood_still()
            if result.proof is not None and result.proof.lifted:
                watch.mask, watch.rules, watch.enough = b"", [], min(2 * watch.enough, ENOUGH << _TIMES_MOST)

    def _of(self, site_id: int, name: str) -> _SiteWatch:
        watch = self._watched.get((site_id, name))
        if watch is None:
            watch = self._watched[site_id, name] = _SiteWatch()
            drop_oldest(self._watched, _SITES_MOST)
        return watch


def _hidden(result: Found) -> Iterator[tuple[str, bytes, tuple[int, ...]]]:
    """Yields each content that has a mask, by name, the mask that the poll found, and what its rules hide."""
    detection, context = result.detection, result.context
    assert detection is not None
    if not context.selections:
        if context.baseline.mask:
            yield WHOLE_PAGE, context.baseline.mask, detection.hidden
        return
    parts = {part.name: part.hidden for part in detection.selections}
    for state in context.states:
        if state.baseline.mask:
            yield state.name, state.baseline.mask, parts.get(state.name, ())


def _cost_of_difference(result: Found, detection: Detection) -> int:
    """Returns by how much a rule's score falls if what it hides is something else."""
    if result.date_believed and detection.kind in _QUIET:
        return OTHER_DATED
    return OTHER_OF_FEED if result.context.baseline.media is Media.FEED else OTHER


# Updates of the proofs' state by committed polls: changes that wait, the queue of their sites, results of proofs.

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
        self._scheduler, self._candidates, self._prover, self.still = scheduler, candidates, prover, still
        self._instruments = instruments

    def apply(self, results: Sequence[Found]) -> None:
        """Takes over what the committed polls say; their slots hold the same sites still."""
        proofs = self._scheduler.sites.proofs
        for result in results:
            before, detection = result.answer.context, result.detection
            if detection is not None and (detection.selections or detection.baseline.mask != before.baseline.mask):
                self._instruments.masks_learned.inc(_learned_a_mask(result))
            if detection is not None and (before.baseline.mask or before.states):
                self.still.note(result)
            if detection is not None and detection.kind is OutcomeKind.CHANGED and not detection.selections:
                after = detection.baseline
                self._prover.alternation.note_change(result.site_id, after.mask, after.fingerprint or b"")
            waits = before.site_id in self._candidates.waiting or (bool(proofs) and result.slot in proofs)
            if waits or result.proof is not None:
                self._follow(result, result.proof or _NOTHING)

    def _follow(self, result: Found, status: ProofStatus) -> None:
        sites, slot = self._scheduler.sites, result.slot
        if status.lifted:
            self._prover.gave_up(slot, result.context.baseline.mask)
        if status.result is not None:
            self._instruments.proofs[status.result.value].inc()
            if status.result in (ProofResult.NOISE, ProofResult.CHANGE) or status.same is not None:
                sites.proofs.note(slot, noise=status.result is not ProofResult.CHANGE)
        if status.flip is not None:
            self._prover.alternation.note_flip(result.site_id, result.context.baseline.mask, status.flip)
        if status.same is not None:
            sites.note_proof(slot, result.outcome.started_at, same=status.same)
        elif status.result is ProofResult.UNPROVEN:
            sites.note_undecided_proof(slot, result.outcome.started_at)
        if status.waiting is None:
            self._candidates.drop(result.site_id)
            was_left = slot in sites.proofs.left
            sites.proofs.drop(slot)
            if was_left:
                note_unchanged(self._scheduler, np.array([slot]), result.outcome.started_at)
            return
        self._candidates.put(status.waiting)
        if posts(result):  # what it does there must not be done once more than it would be anyway
            leave_until_regular(self._scheduler, slot, result.outcome.started_at)
            return
        sites.proofs.ask(slot, self._prover.prompt_until(slot, status.waiting.at))
        self._scheduler.due.set()


def _learned_a_mask(result: Found) -> bool:
    detection, context = result.detection, result.context
    if detection is None or not detection.kind.informative or (result.proof is not None and result.proof.lifted):
        return False
    if not detection.selections or detection.baseline.mask != context.baseline.mask:
        return detection.baseline.mask != context.baseline.mask
    known = {state.name: state.baseline.mask for state in context.states}
    return any(part.baseline.mask != known.get(part.name, b"") for part in detection.selections)
