"""Proves changes: what differs between two polls in quick succession is noise, and is masked from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from pollerd.daemon.results.gathering import LeavesBatchError, here_or_beside
from pollerd.daemon.results.proofs.findings import ContentFinding, Ruling, findings
from pollerd.daemon.results.proofs.proof_status import posts
from pollerd.daemon.results.proofs.shared_masks import SharedMasks
from pollerd.daemon.state.poll_result import Candidate, PollResult, ProofResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.detection import HEAVY_UNDER_MASK_BYTES, learn_from_pair, mask_is_stale, under_known_noise
from pollerd.model import Media
from pollerd.scheduling import NoiseCap

_PROMPT_SECONDS = 30.0
_PROMPT_TURNS = 2.0
"""A second poll proves something within this time of the first, or within this many turns of host and budget."""
_UNDECIDED_MOST = 1
"""Number of second polls that may decide nothing."""
_AWAITED_MOST = 3
"""The same after a change that a source dated: it may say yet that there was another."""
_LATE = "unproven: its second poll came too late"
_REGULAR = "unproven: it differed again at its next regular poll, and a POST is not sent for a proof"
_DIFFERED = "unproven: it differed again at the second poll"
_DATED = "unproven: it differed again at the second poll, and a signal source says that it changed again"
_ALWAYS = "unproven: it differs at every poll"

T = TypeVar("T")


class Prover:
    """Decides what becomes of each difference that a poll found: noise, a change, or to be proven first."""

    def __init__(self, *, scheduler: SchedulerState, runtime: Runtime) -> None:
        self._scheduler, self._workers, self._clock = scheduler, runtime.workers, runtime.clock
        self._faults = runtime.faults
        self._noise, self._shared = NoiseCap(scheduler.sites), SharedMasks()

    def prompt_until(self, slot: int, at: float) -> float:
        """Returns until when a second poll of the slot would be prompt, if the first was at `at`; epoch s."""
        sites = self._scheduler.sites
        interval = self._scheduler.hosts.interval_of(int(sites.host[slot]))
        turn = max(interval, float(sites.cost[slot]) / self._scheduler.budget)
        return at + max(_PROMPT_SECONDS, _PROMPT_TURNS * turn)

    def is_prompt(self, result: PollResult, candidate: Candidate) -> bool:
        """Returns whether the poll came so soon after the candidate's that what differs between them is noise."""
        return result.outcome.started_at <= self.prompt_until(result.slot, candidate.at)

    def believes(self, result: PollResult) -> bool:
        """Returns whether a change needs no proof: the page is known to have no noise, and does not keep changing."""
        known = result.context.baseline
        return known.proven and not known.mask and not self._scheduler.sites.keeps_changing(result.slot)

    def gave_up(self, slot: int, mask: bytes) -> None:
        """Notes that rules of the mask were no noise: it is not tried at other pages of the host, nor at this one."""
        self._shared.withdraw(int(self._scheduler.sites.host[slot]), mask)

    async def rulings(
        self, result: PollResult, before: Mapping[str, bytes | None], candidate: Candidate | None
    ) -> dict[str, Ruling] | None:
        """Returns what becomes of the findings of a poll, by name; None: a second poll has to prove them first.

        before: the stored content of each, None if it is no longer stored. candidate: the poll before, if its
        differences wait for this one. A finding without a ruling stands as it is.
        """
        first = {} if candidate is None else {one.name: one for one in findings(candidate.result) if one.changed}
        prompt = candidate is not None and self.is_prompt(result, candidate)
        found = {one.name: one for one in findings(result)}
        settled = [
            name
            for name, one in first.items()
            if (now := found.get(name)) and (prompt or not now.changed or now.equals(one))
        ]
        out = {}
        for name, one in found.items():
            if one.changed and name not in settled:
                if name in first and posts(result):  # another poll would come as late
                    out[name] = Ruling(one.after, unproven=_REGULAR, result=ProofResult.UNPROVEN)
                    continue
                ruling = await self._alone(result, one, before.get(name), candidate)
                if ruling is None:
                    return None
                out[name] = ruling
        for name in settled:
            pair = (first[name], found[name])
            second = pair[1]
            differ = second.changed and not pair[0].equals(second)
            if candidate is not None and differ and _dated_again(result, candidate):
                after = replace(second.after, proven=True)
                out[name] = Ruling(after, unproven=_DATED, result=ProofResult.UNPROVEN)
                continue
            ruling = await self._together(result, pair, before.get(name), prompt=prompt)
            if candidate is not None and candidate.undecided < _undecided_most(ruling, second, candidate):
                return None
            out[name] = ruling
            if ruling.same and ruling.baseline.mask:
                self._shared.share(int(self._scheduler.sites.host[result.slot]), ruling.baseline.mask)
        return out

    async def _alone(
        self, result: PollResult, one: ContentFinding, before: bytes | None, candidate: Candidate | None
    ) -> Ruling | None:
        """Returns what becomes of a difference by itself; None: it has to be proven."""
        slot = result.slot
        if not await self._wants_proof(result, one):
            return Ruling(one.after, unproven="" if one.before.proven else _ALWAYS)
        if candidate is None:
            return await self._recognised(result, one, before)
        had_its_turn = posts(result) or self._scheduler.sites.proofs.had_its_turn(slot)
        if candidate.undecided >= _UNDECIDED_MOST and had_its_turn:
            return Ruling(one.after, unproven=_LATE, result=ProofResult.UNPROVEN)
        return None

    async def _wants_proof(self, result: PollResult, one: ContentFinding) -> bool:
        now, period = self._clock(), self._scheduler.uniform_period
        if not one.before.proven:
            return self._noise.wants_proof(result.slot, now, period, proven=False)
        if self._noise.wants_proof(result.slot, now, period, proven=True):
            return True
        mask, content = one.before.mask, one.content or b""
        if not mask or not self._noise.wants_proof(result.slot, now, period, proven=False):
            return False
        return bool(await self._do(result, len(content), mask_is_stale, content, mask))

    async def _recognised(self, result: PollResult, one: ContentFinding, before: bytes | None) -> Ruling | None:
        """Returns a ruling if a mask recently learned at a page of the host explains the difference.

        The page is not proven by it: it may have noise besides.
        """
        host = int(self._scheduler.sites.host[result.slot])
        masks = self._shared.of(host)
        if not masks or one.before.mask or before is None:
            return None
        content = one.content or b""
        size = (len(before) + len(content)) * len(masks)
        baseline = await self._do(result, size, under_known_noise, before, content, one.after, masks)
        if baseline is None:
            return None
        self._shared.share(host, baseline.mask)
        return Ruling(baseline, quiet=True)

    async def _together(
        self, result: PollResult, pair: tuple[ContentFinding, ContentFinding], before: bytes | None, *, prompt: bool
    ) -> Ruling:
        """Returns what becomes of a difference, or of none any more, given the poll before.

        prompt: whether the polls came so soon after each other that what differs between them is noise.
        """
        first, second = pair
        keeps_changing = self._scheduler.sites.keeps_changing(result.slot)
        if not second.changed:
            # A change that is taken back, or not on all servers yet, looks like noise: it is none the first time.
            if before is None or not (prompt and keeps_changing):
                return Ruling(second.after, quiet=True, result=ProofResult.REVERTED)
            second = replace(second, content=before)
        elif not prompt or (first.equals(second) and not second.before.mask):
            return Ruling(replace(second.after, proven=True), same=True, result=ProofResult.CHANGE)
        work = partial(learn_from_pair, returns=keeps_changing)
        contents = (first.content or b"", second.content or b"")
        verdict = await self._do(result, sum(map(len, contents)), work, *contents, second.after, before)
        if verdict is None:
            return Ruling(second.after, quiet=not second.changed, unproven=_DIFFERED, result=ProofResult.UNPROVEN)
        # A feed is nothing but its entries, which are edited in bursts: two edits are likelier than noise.
        of_feed = second.after.media is Media.FEED and verdict.baseline.mask != second.before.mask
        wide = of_feed or (verdict.wide and not keeps_changing)
        baseline = replace(verdict.baseline, proven=verdict.same or second.before.proven)
        if not second.changed or (
            verdict.only_noise and first.after.media is second.after.media is second.before.media
        ):
            return Ruling(baseline, quiet=True, same=verdict.same, result=ProofResult.NOISE, wide=wide)
        if verdict.same:
            return Ruling(baseline, same=True, result=ProofResult.CHANGE, wide=wide)
        return Ruling(baseline, same=False, unproven=_DIFFERED, result=ProofResult.UNPROVEN, wide=wide)

    async def _do(self, result: PollResult, size: int, work: Callable[..., T], *arguments: object) -> T | None:
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


def _dated_again(result: PollResult, candidate: Candidate) -> bool:
    """Returns whether a source dates a change after the first of the polls that differ.

    However far it is believed: by chance it seldom dates one just then.
    """
    return result.dated_at is not None and result.dated_at > candidate.first_at


def _undecided_most(ruling: Ruling, second: ContentFinding, candidate: Candidate) -> int:
    """Returns how many second polls may decide nothing before the ruling on the second finding stands."""
    if ruling.baseline.mask != second.before.mask and candidate.result.dated_at is not None:
        return _AWAITED_MOST
    return _UNDECIDED_MOST if ruling.wide else 0
