"""The transition of a site by a poll: state, backoff, validators, redirects."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import structlog
from msgspec import Struct
from msgspec.structs import replace

from pollerd.daemon.noise import selection_records, states_after
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import Found, ProofStatus
from pollerd.detection.titles import own_title
from pollerd.fetching.guard import WITHOUT_FLAG
from pollerd.fetching.outcomes import REDIRECT_STATUSES
from pollerd.model import NO_READER, READER, ChangeVerdict, Detection, Media, Outcome, OutcomeKind, Poll, SiteState
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
_READ_ANEW = frozenset({OutcomeKind.FIRST, OutcomeKind.CHANGED})


class SiteStatus(Struct, frozen=True, gc=False):
    """The site before the poll."""

    failures: int
    last_seen_at: float | None
    promised: float = 0.0
    """Seconds after it was last seen for which it announced that it stays as it is."""
    keeps_changing: bool = False
    """Whether its last polls all found a change."""


def record_of(result: Found, summary: str, scheduler: SchedulerState, rng: np.random.Generator) -> PollRecord:
    """Returns the record of one poll, with its effect on its site. `summary` describes the change, if there is one."""
    sites, slot = scheduler.sites, result.answer.slot
    last_seen = float(sites.last_seen[slot])
    before = SiteStatus(
        failures=int(sites.failures[slot]),
        last_seen_at=last_seen if math.isfinite(last_seen) else None,
        promised=max(float(sites.announced_ttl[slot]), result.answer.context.baseline.ttl or 0.0),
        keeps_changing=sites.keeps_changing(slot),
    )
    return poll_effect(result, before, summary, scheduler.settings, rng)


def poll_effect(
    result: Found, before: SiteStatus, summary: str, settings: SchedulingSettings, rng: np.random.Generator
) -> PollRecord:
    """Returns the record of one poll of a site that was `before`. Pure."""
    if result.detection is not None and result.detection.reread is not None:
        result = _taken_over(result, result.detection, result.detection.reread)
    outcome, detection, context = result.answer.outcome, result.detection, result.answer.context
    kind = detection.kind if detection is not None else outcome.kind
    informative, at, seen, rest = kind.informative, outcome.started_at, before.last_seen_at, 0.0
    failures, state = 0, SiteState.ACTIVE
    wait: float | None = None
    if not informative and kind is not OutcomeKind.PROVING:
        failures = before.failures + 1
        state, wait = _site_state(kind, outcome, failures, settings, rng)
    effort = result.answer.effort
    if effort is not None and kind is not OutcomeKind.PROVING:
        # The site of a heavy page is left alone for so long that it takes only its share of the workers.
        rest = effort.seconds / WORKER_SHARE
        rest = rest if rest >= _SHORTEST_REST_SECONDS else 0.0
    evidence = detection.evidence if detection is not None else None
    after, selected = _context(result, kind, before), tuple[SelectionRecord, ...]()
    if detection is not None and detection.selections:
        selected = selection_records(detection, context.states, seen)
        after = replace(after, states=states_after(context.states, selected))
    poll = Poll(
        site_id=context.site_id,
        at=at,
        elapsed=None if seen is None else max(at - seen, 0.0),
        outcome=kind,
        status=outcome.status,
        duration=outcome.duration,
        bytes=outcome.bytes,
        changed=kind is OutcomeKind.CHANGED,
        age=evidence.age if evidence is not None else None,
        count=evidence.count if evidence is not None else None,
        detail=outcome.detail
        or (detection.detail if detection is not None else "")
        or (after.baseline.no_text if kind.informative else ""),
        redirects=outcome.redirects,
        at_least=evidence.at_least if evidence is not None else None,
        span=evidence.span if evidence is not None else None,
    )
    known, now_known = context.baseline, after.baseline
    record = PollRecord(
        poll=poll,
        context=after,
        state=state,
        not_before=None if wait is None and not rest else at + outcome.duration + max(wait or 0.0, rest),
        failures=failures,
        last_seen_at=at if informative else seen,
        content=detection.content if detection is not None else None,
        page_title=own_title(outcome, after.baseline.media) if kind in _READ_ANEW else "",
        change=_change(result, before, summary) if kind is OutcomeKind.CHANGED else None,
        mask_changed=(now_known.mask, now_known.proven) != (known.mask, known.proven),
        # Noise that is known now counted as changes, or changes as noise.
        misled=(before.keeps_changing and now_known.reader == known.reader and _masks(after) != _masks(context))
        or (result.proof is not None and result.proof.lifted),
        selections=selected,
        screenshot=outcome.screenshot,
    )
    if result.proof is None or result.proof.recorded is None:
        return record
    return _with_earlier(record, result.proof.recorded, before, summary, result.proof)


def _taken_over(result: Found, detection: Detection, reread: Detection) -> Found:
    """Returns the poll as the present reader reads it, if its site is of an earlier one, which found nothing.

    Not with noise that was learned just now: that is of the text as the earlier one reads it.
    """
    same_mask = detection.baseline.mask == result.answer.context.baseline.mask
    return replace(result, detection=reread) if detection.kind is OutcomeKind.UNCHANGED and same_mask else result


def _with_earlier(
    record: PollRecord, earlier: Found, before: SiteStatus, summary: str, status: ProofStatus
) -> PollRecord:
    """Returns the record of a failed poll with the change that an earlier one found.

    The site counts as seen when that poll saw it; nothing is learned from it.
    """
    assert earlier.detection is not None
    context = replace(_context(earlier, OutcomeKind.CHANGED, before), last_outcome=record.context.last_outcome)
    selected: tuple[SelectionRecord, ...] = ()
    if earlier.detection.selections:
        selected = selection_records(earlier.detection, earlier.context.states, before.last_seen_at)
        context = replace(context, states=states_after(earlier.context.states, selected))
    found_change = earlier.detection.kind is OutcomeKind.CHANGED
    return replace(
        record,
        context=context,
        last_seen_at=earlier.outcome.started_at,
        content=earlier.detection.content,
        change=_change(replace(earlier, proof=status), before, summary) if found_change else None,
        selections=selected,
        screenshot=None,
    )


def _masks(context: SiteContext) -> list[bytes]:
    return [context.baseline.mask, *(state.baseline.mask for state in context.states)]


def _site_state(
    kind: OutcomeKind, outcome: Outcome, failures: int, settings: SchedulingSettings, rng: np.random.Generator
) -> tuple[SiteState, float | None]:
    """Returns the state of a site whose poll failed, and how long not to poll it (s)."""
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


def _context(result: Found, kind: OutcomeKind, status: SiteStatus) -> SiteContext:
    before, outcome = result.answer.context, result.answer.outcome
    if result.detection is None or not kind.informative:
        return replace(before, last_outcome=kind)
    target = _permanent_target(outcome) if outcome.redirects else None
    full, baseline = kind is not OutcomeKind.NOT_MODIFIED, result.detection.baseline
    # A feed keeps its own TTL, which not every answer shows.
    ttl = baseline.ttl if baseline.media is Media.FEED else outcome.fresh_for
    broken = before.baseline.ttl_broken or (kind is OutcomeKind.CHANGED and _broke_promise(result, status))
    if (ttl, broken) != (baseline.ttl, baseline.ttl_broken):
        baseline = replace(baseline, ttl=ttl, ttl_broken=broken)
    if kind is OutcomeKind.CHANGED and baseline.reader != READER and status.keeps_changing:
        baseline = replace(baseline, reader=NO_READER)  # an earlier reader would be needed for ever
    again = target is not None and target == before.redirect_url
    return replace(
        before,
        validators=outcome.validators,
        baseline=baseline,
        polls_since_full=0 if full else before.polls_since_full + 1,
        content_type=outcome.content_type if full else before.content_type,
        redirect_url=target,
        redirect_count=before.redirect_count + 1 if again else int(target is not None),
        last_outcome=kind,
    )


def _broke_promise(result: Found, before: SiteStatus) -> bool:
    """Returns whether the change came inside the time for which the site had announced that there is none."""
    if result.detection is None or before.last_seen_at is None:
        return False
    evidence = result.detection.evidence
    age = 0.0 if evidence is None or evidence.age is None else evidence.age
    return before.last_seen_at < result.outcome.started_at - age < before.last_seen_at + before.promised


def _permanent_target(outcome: Outcome) -> str | None:
    """Returns the permanent target of the redirects: the end of the leading run of 301 and 308."""
    target = None
    for hop in outcome.redirects:
        if hop.status not in _PERMANENT:
            break
        target = hop.url
    return target


def _change(result: Found, before: SiteStatus, summary: str) -> ChangeDraft | None:
    """Returns the change of the whole page; of a site with selections each has its own."""
    if result.detection is None or result.detection.selections:
        return None
    media = result.detection.baseline.media or Media.BINARY
    verdict = ChangeVerdict(why="" if result.proof is None else result.proof.unproven)
    return ChangeDraft(kind=media, summary=summary, previous_poll_at=before.last_seen_at, verdict=verdict)


# Sites at private addresses while the daemon runs without allow_private, of which the user is warned.

_AGAIN = 10
"""Growth factor between warnings: one comes with the first such site, then at ten times the number of the last one."""


class PrivateAddresses:
    """Keeps the column `private` of the sites, and warns that a flag is missing."""

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites
        self._warn_at = 1
        self._log = structlog.get_logger("pollerd.guard")

    def note(self, results: Sequence[Found], records: Sequence[PollRecord]) -> None:
        """Records the outcomes of polls."""
        refused = [
            record.poll.outcome is OutcomeKind.BLOCKED_ADDRESS and WITHOUT_FLAG in record.poll.detail
            for record in records
        ]
        if any(refused) or not self._sites.is_default("private"):
            self._sites.put("private", np.array([result.slot for result in results], np.int64), refused)
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
            hint="start pollerd with --allow-private if loopback and private addresses are to be polled",
        )
