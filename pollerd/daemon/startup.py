"""The state of the scheduler, restored from the store: sites, hosts, and the learned state."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.allocation import registry
from pollerd.allocation.contract import Allocator
from pollerd.daemon.loading import ScheduleLoader
from pollerd.daemon.process import BlindCause, BlindPeriod, ObservationGaps
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.settings import DaemonSettings
from pollerd.daemon.shadows import Replay, catch_up
from pollerd.daemon.unchanged import AT_ONCE, listens, note_all_quiet, recall_ttls
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.store import Store
from pollerd.storage.values import AllocationRow, RunInfo
from pollerd.texts import _

_SITES_AT_A_TIME = 16_384
_ALL_POLLS = 1_000_000
"""More polls than a site can have had since the shared state was stored."""


async def restore(
    scheduler: SchedulerState,
    store: Store,
    run: RunInfo,
    settings: DaemonSettings,
    *,
    rng: np.random.Generator,
    now: float,
) -> None:
    """Fills the scheduler from the store. `now`: epoch s.

    Raises ConfigError if the allocator cannot hold the stored sites.
    """
    loader = ScheduleLoader(scheduler)
    await store.sites.tags.load()
    async for hosts in store.sites.hosts.all():
        loader.add_hosts(hosts)
    loader.expect(await store.sites.count())
    try:
        async for rows, faults in store.sites.schedule.all():
            loader.add_sites(rows, faults)
    except InvalidValueError as error:
        raise ConfigError(
            _("allocator {allocator} cannot hold the stored sites: {error}", allocator=settings.allocator, error=error)
        ) from error
    loader.set_right(now)
    scheduler.sites.timetable.turn(now)
    scheduler.budget_fit.fit()
    await _restore_learned(scheduler, store, settings, rng)
    if listens(scheduler):
        async for stored in store.sites.schedule.announced_ttls():
            recall_ttls(scheduler, stored)
    if scheduler.sites.size <= AT_ONCE:
        await note_all_quiet(scheduler, lambda: now)
    else:
        scheduler.believes_anew.set()
    # The last polls before a crash were not committed: then every host waits its whole interval.
    scheduler.hosts.begin_anew(now, all_hosts=not run.previous_clean)


async def restore_node(
    scheduler: SchedulerState, store: Store, cluster: ClusterStore, settings: DaemonSettings
) -> None:
    """Fills the scheduler of one of several nodes with what it learned in common; sites come with their partitions.

    A node without state of its own begins with what another one, or a daemon that ran alone, left.
    """
    await store.sites.tags.load()
    scheduler.budget_fit.fit()
    kept = await store.allocation.load()
    common = await cluster.load_common(settings.allocator)
    if common is None and kept is not None and kept.allocator == settings.allocator:
        common = kept.shared_state
    if common is None:
        return
    none = np.empty(0, np.int64)
    try:
        scheduler.allocator.restore(none, scheduler.allocator.site_state(none), common)
    except InvalidValueError as error:
        log = structlog.get_logger("pollerd.daemon")
        log.warning("learned_state_unusable", reason=str(error), effect="learning starts again")


async def blind_while_stopped(store: Store, run: RunInfo, now: float) -> ObservationGaps:
    """Returns the record of blind periods, with the one since the previous run; after a crash since its last poll."""
    blindness = ObservationGaps()
    since = run.previous_stopped_at if run.previous_clean else await store.history.last_poll_at()
    if since is not None:
        blindness.note(BlindPeriod(BlindCause.STOPPED, since, now))
    return blindness


def check_weights(name: str, allocator: Allocator) -> None:
    """Raises ConfigError if the allocator cannot weight sites by their relevance to a topic."""
    try:
        allocator.admit(np.empty(0, np.int64), np.array([0.25, 0.5]), np.ones(2))
    except InvalidValueError as error:
        raise ConfigError(
            _("allocator {name} cannot weigh sites by their relevance to a topic: {error}", name=name, error=error)
        ) from error


async def _restore_learned(
    scheduler: SchedulerState, store: Store, settings: DaemonSettings, rng: np.random.Generator
) -> None:
    """Restores the learned state; if it is of another allocator or version, relearns from the stored polls.

    The present allocation settings are stored: they apply at the next start, too, unless overridden then.
    """
    kept = await store.allocation.load()
    log = structlog.get_logger("pollerd.daemon")
    row = partial(
        AllocationRow,
        settings.allocator,
        settings.objective,
        settings.budget,
        deadline=settings.deadline,
        shadows=settings.shadows,
    )
    if kept is not None and kept.allocator == settings.allocator and await _put_back(scheduler, store, kept):
        # A killed run leaves polls that were committed after the shared state was stored.
        after = kept.learned_through
        newer = store.history.recent_polls(
            _ALL_POLLS, after=await store.history.last_poll_id() if after is None else after
        )
        polls = await catch_up(newer, scheduler.sites, scheduler.allocator)
        if polls:
            log.info("caught_up_on_polls", polls=polls, allocator=settings.allocator)
        await store.allocation.save(row(scheduler.allocator.shared_state()))
        return
    # Damage may have been detected after part of the state was restored.
    budget = scheduler.allocator.budget
    made = registry.create(
        settings.allocator, budget=budget, objective=settings.objective, rng=rng, deadline=settings.deadline
    )
    scheduler.begin_anew(made)
    replay = Replay(scheduler.sites, scheduler.allocator)
    await replay.teach(store.history.recent_polls())
    if replay.taken:
        log.info("learned_from_stored_polls", polls=replay.taken, allocator=settings.allocator)
    slots = np.flatnonzero(replay.site_id >= 0)
    await store.allocation.replace_learned(row(scheduler.allocator.shared_state()), _states(scheduler, slots))


def _states(scheduler: SchedulerState, slots: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Yields (site id, learned state) for each slot, computed lazily."""
    for start in range(0, len(slots), _SITES_AT_A_TIME):
        some = slots[start : start + _SITES_AT_A_TIME]
        states = scheduler.allocator.site_state(some)
        for site_id, state in zip(scheduler.sites.site_id[some].tolist(), states, strict=True):
            yield site_id, state.tobytes()


async def _put_back(scheduler: SchedulerState, store: Store, kept: AllocationRow) -> bool:
    if kept.shared_state is None:
        return False
    try:
        # The shared state also applies to future sites, even if there is no site yet.
        none = np.empty(0, np.int64)
        scheduler.allocator.restore(none, scheduler.allocator.site_state(none), kept.shared_state)
        async for site_ids, states in store.sites.schedule.learned(kept.allocator):
            slots = scheduler.sites.slots_of(site_ids)
            known = slots >= 0
            scheduler.allocator.restore(slots[known], states[known], kept.shared_state)
    except InvalidValueError as error:
        log = structlog.get_logger("pollerd.daemon")
        log.warning("learned_state_unusable", reason=str(error), effect="learning from the stored polls")
        return False
    return True


def last_start(run: RunInfo, now: float) -> float:
    """Returns the last poll start of the previous run (monotonic s), so that the budget's window spans a restart.

    At a clean stop no poll was in flight any more. The last committed poll is no substitute: later ones may have been
    dropped in an outage of our own link, or deleted with their sites. After any other end it is now.
    """
    if not run.previous_clean:
        return time.monotonic()
    if run.previous_stopped_at is None:
        return -math.inf
    return time.monotonic() - max(0.0, now - run.previous_stopped_at)
