"""The transition of a site by a result: state, backoff, validators, redirects. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import structlog
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from pollerd.daemon.noise import selection_records, states_after
from pollerd.daemon.poll_result import PollEffect, PollResult, ProofStatus
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.fetching.guard import WITHOUT_FLAG
from pollerd.fetching.outcomes import REDIRECT_STATUSES
from pollerd.model import Baseline, ChangeVerdict, Media, Outcome, OutcomeKind, Poll, SiteState
from pollerd.scheduling.hosts import backoff_seconds, clamp_retry_after, lengthened
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable
from pollerd.storage.values import ChangeDraft, PollRecord, SelectionRecord, SiteContext

ROBOTS_RECHECK_SECONDS = 86_400.0
GONE_BASE_SECONDS, GONE_CAP_SECONDS = 2 * 86_400.0, 30 * 86_400.0
"""After 410 Gone a page is requested again in one to two days, then ever more rarely, at least once a month: servers
say it by mistake, too, and no page is given up for ever."""
REDIRECT_CONFIRMATIONS = 3
"""Consecutive polls with the same permanent redirect after which it is proposed as the site's URL."""
WORKER_SHARE = 0.02
"""Largest share of a worker's time that one page takes: its own interval grows with what reading it costs."""
_SHORTEST_REST_SECONDS = 1.0
_PERMANENT = frozenset({301, 308})


class SiteStatus(Struct, frozen=True, gc=False):
    """The site before the poll."""

    failures: int
    last_seen_at: float | None
    promised: float = 0.0
    """Seconds after it was last seen for which it announced that it stays as it is."""
    keeps_changing: bool = False
    """Whether its last polls all found a change."""


def poll_effect(
    result: PollResult, before: SiteStatus, summary: str, settings: SchedulingSettings, rng: np.random.Generator
) -> PollEffect:
    """Returns the effect of one poll. `summary` describes the change, if there is one."""
    outcome = result.outcome
    kind = result.detection.kind if result.detection is not None else outcome.kind
    informative = kind.informative
    failures = 0 if informative or kind is OutcomeKind.PROVING else before.failures + 1
    state, wait = _site_state(kind, outcome, failures, settings, rng)
    at, rest = outcome.started_at, 0.0 if kind is OutcomeKind.PROVING else _rest(result)
    context = _context(result, kind, before)
    selected: tuple[SelectionRecord, ...] = ()
    if result.detection is not None and result.detection.selections:
        states = result.context.states
        selected = selection_records(result.detection, states, before.last_seen_at)
        context = replace(context, states=states_after(states, selected))
    effect = PollEffect(
        poll=_poll(result, kind, before),
        context=context,
        state=state,
        not_before=None if wait is None and not rest else at + outcome.duration + max(wait or 0.0, rest),
        failures=failures,
        last_seen_at=at if informative else before.last_seen_at,
        content=result.detection.content if result.detection is not None else None,
        change=_change(result, kind, before, summary),
        mask_changed=_marks(context.baseline) != _marks(result.context.baseline),
        misled=_was_misled(result, before, context),
        selections=selected,
        screenshot=outcome.screenshot,
    )
    earlier = None if result.proof is None else result.proof.recorded
    return effect if earlier is None else _with_earlier(effect, earlier, before, summary, result.proof)


def _rest(result: PollResult) -> float:
    """Returns how long not to poll a site whose page is heavy (s), so that it takes only its share of the workers."""
    rest = 0.0 if result.effort is None else result.effort.seconds / WORKER_SHARE
    return rest if rest >= _SHORTEST_REST_SECONDS else 0.0


def _with_earlier(
    effect: PollEffect, earlier: PollResult, before: SiteStatus, summary: str, status: ProofStatus | None
) -> PollEffect:
    """Returns the effect of a failed poll with which the change that an earlier one found is recorded.

    The site counts as seen when that poll saw it; nothing is learned from it.
    """
    assert earlier.detection is not None
    context = replace(_context(earlier, OutcomeKind.CHANGED, before), last_outcome=effect.context.last_outcome)
    selected: tuple[SelectionRecord, ...] = ()
    if earlier.detection.selections:
        selected = selection_records(earlier.detection, earlier.context.states, before.last_seen_at)
        context = replace(context, states=states_after(earlier.context.states, selected))
    return replace(
        effect,
        context=context,
        last_seen_at=earlier.outcome.started_at,
        content=earlier.detection.content,
        change=_change(replace(earlier, proof=status), earlier.detection.kind, before, summary),
        selections=selected,
        screenshot=None,
    )


def _was_misled(result: PollResult, before: SiteStatus, after: SiteContext) -> bool:
    """Returns whether earlier polls misled: noise that is known now counted as changes, or changes as noise."""
    if result.proof is not None and result.proof.lifted:
        return True
    return before.keeps_changing and _masks(after) != _masks(result.context)


def _marks(baseline: Baseline) -> tuple[bytes, bool]:
    """Returns what is known of the noise of a content."""
    return baseline.mask, baseline.proven


def _masks(context: SiteContext) -> list[bytes]:
    return [context.baseline.mask, *(state.baseline.mask for state in context.states)]


def _site_state(
    kind: OutcomeKind, outcome: Outcome, failures: int, settings: SchedulingSettings, rng: np.random.Generator
) -> tuple[SiteState, float | None]:
    """Returns the site's new state, and how long not to poll it (s)."""
    if kind.informative or kind is OutcomeKind.PROVING:
        return SiteState.ACTIVE, None
    if kind is OutcomeKind.GONE:
        return SiteState.GONE, backoff_seconds(failures, GONE_BASE_SECONDS, GONE_CAP_SECONDS, rng)
    if kind is OutcomeKind.DENIED:
        return SiteState.BLOCKED, ROBOTS_RECHECK_SECONDS * float(rng.uniform(1.0, 1.1))
    state = SiteState.BLOCKED if kind is OutcomeKind.BLOCKED_ADDRESS else SiteState.BACKING_OFF
    if kind is OutcomeKind.THROTTLED and outcome.status in REDIRECT_STATUSES:  # no refusal: the next host was busy
        return state, clamp_retry_after(outcome.retry_after, settings.backoff_cap_seconds)
    return state, _backoff(failures, outcome, settings, rng)


def _backoff(failures: int, outcome: Outcome, settings: SchedulingSettings, rng: np.random.Generator) -> float:
    """Returns the backoff in s after this many consecutive failures, at least as long as the server asked for."""
    cap = settings.backoff_cap_seconds
    own = backoff_seconds(failures, settings.backoff_base_seconds, cap, rng)
    return lengthened(own, outcome.retry_after, cap)


def _poll(result: PollResult, kind: OutcomeKind, before: SiteStatus) -> Poll:
    outcome, detection = result.outcome, result.detection
    evidence = detection.evidence if detection is not None else None
    seen = before.last_seen_at
    return Poll(
        site_id=result.site_id,
        at=outcome.started_at,
        elapsed=None if seen is None else max(outcome.started_at - seen, 0.0),
        outcome=kind,
        status=outcome.status,
        duration=outcome.duration,
        bytes=outcome.bytes,
        changed=kind is OutcomeKind.CHANGED,
        age=evidence.age if evidence is not None else None,
        count=evidence.count if evidence is not None else None,
        detail=outcome.detail or (detection.detail if detection is not None else ""),
        redirects=outcome.redirects,
        at_least=evidence.at_least if evidence is not None else None,
        span=evidence.span if evidence is not None else None,
    )


def _context(result: PollResult, kind: OutcomeKind, status: SiteStatus) -> SiteContext:
    before, outcome = result.context, result.outcome
    if result.detection is None or not kind.informative:
        return replace(before, last_outcome=kind)
    target = _permanent_target(outcome)
    again = target is not None and target == before.redirect_url
    full = kind is not OutcomeKind.NOT_MODIFIED
    return replace(
        before,
        validators=outcome.validators,
        baseline=_with_ttl(result.detection.baseline, outcome, broken=_broke_promise(result, kind, status)),
        polls_since_full=0 if full else before.polls_since_full + 1,
        content_type=outcome.content_type if full else before.content_type,
        redirect_url=target,
        redirect_count=before.redirect_count + 1 if again else int(target is not None),
        last_outcome=kind,
    )


def _with_ttl(baseline: Baseline, outcome: Outcome, *, broken: bool) -> Baseline:
    """Returns the baseline with the TTL of the answer's headers; a feed keeps its own, which not every answer shows."""
    ttl = baseline.ttl if baseline.media is Media.FEED else outcome.fresh_for
    return replace(baseline, ttl=ttl, ttl_broken=broken)


def _broke_promise(result: PollResult, kind: OutcomeKind, before: SiteStatus) -> bool:
    """Returns whether a change was ever found inside the time for which the site had announced that there is none."""
    if result.context.baseline.ttl_broken:
        return True
    seen = before.last_seen_at
    if kind is not OutcomeKind.CHANGED or result.detection is None or seen is None:
        return False
    evidence = result.detection.evidence
    age = 0.0 if evidence is None or evidence.age is None else evidence.age
    return seen < result.outcome.started_at - age < seen + before.promised


def _permanent_target(outcome: Outcome) -> str | None:
    """Returns the permanent target of the redirects: the end of the leading run of 301 and 308."""
    target = None
    for hop in outcome.redirects:
        if hop.status not in _PERMANENT:
            break
        target = hop.url
    return target


def _change(result: PollResult, kind: OutcomeKind, before: SiteStatus, summary: str) -> ChangeDraft | None:
    if kind is not OutcomeKind.CHANGED or result.detection is None or result.detection.selections:
        return None
    media = result.detection.baseline.media or Media.BINARY
    verdict = ChangeVerdict(why="" if result.proof is None else result.proof.unproven)
    return ChangeDraft(kind=media, summary=summary, previous_poll_at=before.last_seen_at, verdict=verdict)


# The status step, which applies the transition to each result of a batch in turn.


class StatusStep:
    """Derives the effect of each poll."""

    def __init__(self, scheduler: SchedulerState, runtime: Runtime) -> None:
        self._scheduler, self._faults = scheduler, runtime.faults
        self._rng = runtime.rng

    def effects(
        self, results: Sequence[PollResult], summaries: Mapping[int, str]
    ) -> tuple[list[PollResult], list[PollEffect]]:
        """Returns results and their effects, row by row; `summaries` describe changes by site id.

        A site whose result raises is set aside: its row becomes that result.
        """
        out, effects = list(results), list[PollEffect]()
        for i, result in enumerate(results):
            try:
                effects.append(self.effect(result, summaries.get(result.site_id, "")))
            except Exception as error:  # noqa: BLE001
                # Whatever one result triggers is reported and sets its site aside; the others of the batch are kept.
                out[i] = self._faults.set_aside(result.slot, result.context, error)
                effects.append(self.effect(out[i]))
        return out, effects

    def effect(self, result: PollResult, summary: str = "") -> PollEffect:
        """Returns the effect of one poll."""
        sites, slot = self._scheduler.sites, result.slot
        last_seen = float(sites.last_seen[slot])
        before = SiteStatus(
            failures=int(sites.failures[slot]),
            last_seen_at=last_seen if math.isfinite(last_seen) else None,
            promised=max(float(sites.announced_ttl[slot]), result.context.baseline.ttl or 0.0),
            keeps_changing=sites.keeps_changing(slot),
        )
        return poll_effect(result, before, summary, self._scheduler.settings, self._rng)


# Sites at private addresses while the daemon runs without allow_private, of which the user is warned.

_AGAIN = 10
"""Growth factor between warnings: one comes with the first such site, then at ten times the number of the last one."""


class PrivateAddresses:
    """Keeps the column `private` of the sites, and warns that a flag is missing."""

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites
        self._warn_at = 1
        self._log = structlog.get_logger("pollerd.guard")

    def note(self, slots: NDArray[np.int64], records: Sequence[PollRecord]) -> None:
        """Records the outcomes of polls of the sites in the slots int64[k]."""
        refused = [_is_private(record) for record in records]
        self._sites.put("private", slots, refused)
        if any(refused):
            self._warn(records[refused.index(True)])

    def _warn(self, first: PollRecord) -> None:
        number = int(np.count_nonzero(self._sites.private[: self._sites.size]))
        if number < self._warn_at:
            return
        self._warn_at = number * _AGAIN
        self._log.warning(
            "private_addresses",
            sites=number,
            url=first.context.url,
            reason=first.poll.detail,
            instead="start pollerd with --allow-private where loopback and private addresses are meant to be polled",
        )


def _is_private(record: PollRecord) -> bool:
    return record.poll.outcome is OutcomeKind.BLOCKED_ADDRESS and WITHOUT_FLAG in record.poll.detail
