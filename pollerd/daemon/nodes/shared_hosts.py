"""Hosts that this node and others ask: each is asked only with a claim (see `pollerd.storage.shared_hosts`).

The rule of who asks is the queue of the host (`HostLines`). For each shared host this node has a place in it, at whose
head nobody here asks the host. When others wait behind it, the node claims the host, goes to the end of the queue, and
releases the host as soon as it is at the head again. So polls, redirects and robots.txt need to know nothing of it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from pollerd.daemon.commit import Journal
from pollerd.daemon.loading import ScheduleLoader
from pollerd.daemon.robots import WAIT_SECONDS
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.hosts import HostStore
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.shared_hosts import ClaimAnswer, HostTurn, HostTurnResult, HostUse, SharedHostStore

WRITE_SECONDS = 4.0
"""How long after a claim, or its last renewal, was sent a request may be written."""
UNWANTED_SECONDS = 60.0
"""A host that no other node wanted for so long is shared no more."""
_RENEW_SECONDS = 1.0
_TICK_SECONDS = 0.05
_RETRY_SECONDS = 0.25
"""Between two tries for a host that another node has, or whose owner does not know yet that it is shared."""
_UNUSED_SECONDS = 1.0
"""The same after a claim with which nothing was asked: the sites of the host could be polled, but others came first."""
_SOON_SECONDS = 1.0
"""A claim is kept for who waits here and may ask within this time."""
_LOOK_SECONDS = 15.0
"""Between two looks whether a host is still wanted."""
_LONGEST_PAUSE_SECONDS = 30 * 86_400.0
"""Of what nodes state to one another: a pause by hand may have no end."""
PUT_OFF_SECONDS = 5.0
"""When a host that could not be asked now is asked for again, at the earliest."""
_LOG_SECONDS = 60.0
_UNSTORED_HOST = -1


def hold_seconds(request_seconds: float) -> float:
    """Returns after which time nothing of a claim is under way if nothing more is heard of it.

    request_seconds: the longest that a request takes once it is written.
    """
    return WRITE_SECONDS + request_seconds + 0.5


@dataclass(eq=False, kw_only=True, slots=True)
class _SharedHost:
    """A shared host in this node's memory; it is its own place in the queue. Moments are monotonic s."""

    name: str
    partition: int
    slot: int
    confirmed: bool = False
    """Whether all know that this node, which holds its partition, asks it with a claim only."""
    claimed: bool = False
    releasing: bool = False
    started_before: float = -math.inf
    """When its last request before the present claim began, epoch s."""
    asked_in: tuple[float, float] | None = None
    """The period of its partition at this node in which it is being confirmed."""
    permitted_until: float = -math.inf
    renew_at: float = math.inf
    retry_at: float = -math.inf
    look_at: float = math.inf
    wanted_at: float = -math.inf
    missing: bool = False
    """Whether it may have no row."""
    pause_known: float = 0.0
    """The pause in its row that this node has adopted, epoch s of the server."""
    wait: float = 0.0
    """What the last claim in vain was told, s."""


@dataclass(slots=True)
class _Visits:
    """Requests of other hosts' sites that are redirected to a host of a partition of this node."""

    partition: int
    opened_at: float
    """When the partition was opened."""
    visitors: set[object] = field(default_factory=set)


class SharedHosts:
    """Knows which hosts may be asked without a claim, and claims the others."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        store: SharedHostStore,
        hosts: HostStore,
        scheduler: SchedulerState,
        journal: Journal,
        runtime: Runtime,
    ) -> None:
        self._cluster, self._store, self._stored_hosts = cluster, store, hosts
        self._scheduler, self._table, self._journal = scheduler, scheduler.hosts, journal
        self._clock = runtime.clock
        self._opened: dict[int, tuple[float, float]] = {}
        """Partition whose hosts this node asks -> since when, and from when on (epoch s)."""
        self._shared: dict[str, _SharedHost] = {}
        self._visits: dict[str, _Visits] = {}
        self._any = asyncio.Event()
        self._logged_at = -math.inf
        self._log = structlog.get_logger("pollerd.cluster")

    # The partitions of this node.

    async def load(self, partition: int) -> None:
        """Learns which hosts of a partition are shared, before any of it is asked. Raises DatabaseUnavailableError."""
        for name in await self._store.of_partition(partition):
            self._share(name, partition)

    def open(self, partition: int, quiet_seconds: float) -> None:
        """Asks hosts of a partition from now on, but none of it within the next `quiet_seconds`."""
        now = self._clock()
        self._opened[partition] = now, now + quiet_seconds

    def close(self, partition: int) -> None:
        """Asks hosts of a partition as one that another node holds."""
        self._opened.pop(partition, None)
        for host in self._shared.values():
            if host.partition == partition:
                host.confirmed = False

    def visited(self, partition: int) -> bool:
        """Returns whether a request that was redirected to a host of the partition may be under way without a claim."""
        return any(visits.partition == partition for visits in self._visits.values())

    async def adopt(self, names: Collection[str] | None) -> None:
        """Shares those of these hosts that are this node's; None: of all. Raises DatabaseUnavailableError."""
        for name, partition in (await self._store.partitions_of(names)).items():
            if self._cluster.holds(partition):
                self._share(name, partition)

    # Requests that are redirected, and such without a site.

    async def enter(self, name: str, visitor: object) -> float | None:
        """Prepares that a request waits in the queue of a host; returns for how long it may not, None: it may.

        visitor: stands for the request; to be followed by `leave`. May be repeated, and must be before each wait: the
        partition may have moved. Raises DatabaseUnavailableError.
        """
        partition = await self._cluster.partition_of_host(name)
        if not self._cluster.may_write():
            return PUT_OFF_SECONDS
        opened = self._opened[partition] if self._is_open(partition) else None
        if opened is not None:
            wait = opened[1] - self._clock()
            if wait > 0:
                return wait
            slot = self._slot(name)
            if self._table.host_id[slot] < 0:  # it may have been asked until this node took its partition
                self._table.last_start[slot] = max(float(self._table.last_start[slot]), opened[0])
            self._visits.setdefault(name, _Visits(partition, opened[0])).visitors.add(visitor)
            return None
        if self._cluster.older_there:
            # It asks its hosts without a claim. None joins any more: it does not know the schema.
            return PUT_OFF_SECONDS
        if name not in self._shared:
            rows = await self._stored_hosts.among(list((await self._stored_hosts.ids([name])).values()))
            if name not in self._shared:
                ScheduleLoader(self._scheduler).add_hosts(rows)  # its pauses, and its robots.txt
                self._share(name, partition).missing = True
        self._shared[name].wanted_at = time.monotonic()
        return None

    def leave(self, name: str, visitor: object) -> None:
        """Ends `enter`: the request is over."""
        visits = self._visits.get(name)
        if visits is not None:
            visits.visitors.discard(visitor)
            if not visits.visitors:
                del self._visits[name]

    def is_shared(self, name: str) -> bool:
        """Returns whether the host is asked with claims."""
        return name in self._shared

    def wait_of(self, name: str) -> float:
        """Returns when a host that could not be asked now may be asked for again, s."""
        host = self._shared.get(name)
        return PUT_OFF_SECONDS if host is None else max(host.wait, PUT_OFF_SECONDS)

    def may_write(self, name: str) -> bool:
        """Returns whether a request to the host may be written now, right before it is."""
        if not self._cluster.may_write():
            return False
        host = self._shared.get(name)
        if host is not None and (host.claimed or host.confirmed or not self._is_open(host.partition)):
            return host.claimed and time.monotonic() < host.permitted_until
        partition = self._cluster.known_partition(name)
        if host is None and partition is not None and not self._is_open(partition):
            return False
        visits = self._visits.get(name)
        return visits is None or self._opened.get(visits.partition, (math.nan,))[0] == visits.opened_at

    # What is done in the database.

    async def run(self) -> None:
        """Claims and releases until cancelled."""
        while True:
            await self._any.wait()
            try:
                await self.turn()
            except DatabaseUnavailableError as error:
                self._note_failure(str(error))
                await asyncio.sleep(WAIT_SECONDS / 5)
            if not self._shared:
                self._any.clear()
            await asyncio.sleep(_TICK_SECONDS)

    async def turn(self) -> None:
        """Does what is due now, in one transaction; none if nothing is. Raises DatabaseUnavailableError."""
        turn, asked_at = HostTurn(), time.monotonic()
        for host in list(self._shared.values()):
            if host.claimed:
                self._keep_claim(host, turn, asked_at)
            elif host.releasing:
                turn.released.append(self._use(host))
                if host.missing:
                    turn.missing.append(self._use(host))
            else:
                self._want(host, turn, asked_at)
        if turn:
            self._note(turn, await self._store.turn(turn), asked_at)

    async def release_all(self) -> None:
        """Releases all hosts: no request of this node is under way any more. Raises DatabaseUnavailableError."""
        turn = HostTurn(released=[self._use(host) for host in self._shared.values() if host.claimed or host.releasing])
        if turn:
            await self._store.turn(turn)

    def _keep_claim(self, host: _SharedHost, turn: HostTurn, mono: float) -> None:
        """Renews a claim that is used, or ends it: nobody here waits any more, or none can ask the host soon."""
        table, now = self._table, self._clock()
        if not table.busy[host.slot]:
            ready_in = table.ready_at_of(host.slot) - now
            first = table.lines.is_first(host.slot, host)
            if first or ready_in > _SOON_SECONDS or (ready_in <= 0 and table.lines.is_turn_of(host.slot, host, now)):
                table.lines.put_first(host.slot, host)
                host.claimed, host.releasing = False, True
                turn.released.append(self._use(host))
                return
        if mono >= host.renew_at:
            turn.renewed.append(self._use(host))

    def _want(self, host: _SharedHost, turn: HostTurn, mono: float) -> None:
        """Has a host that is not claimed confirmed, claimed, or shared no more."""
        busy, own = self._table.busy[host.slot], self._is_open(host.partition)
        if own and not host.confirmed:
            if not busy and mono >= host.retry_at:
                host.asked_in = self._opened.get(host.partition)
                turn.confirmed.append(self._use(host))
                if host.missing:
                    turn.missing.append(self._use(host))
            return
        waited_for = self._table.lines.others_wait(host.slot)
        if waited_for:
            host.wanted_at = mono
        if waited_for and mono >= host.retry_at and not busy and self._table.ready_at_of(host.slot) <= self._clock():
            turn.claimed.append(self._use(host))
            if host.missing:
                turn.missing.append(self._use(host))
        elif own and mono >= host.look_at:
            host.look_at = mono + _LOOK_SECONDS
            turn.unwanted.append(host.name)
        elif not own and not waited_for and not busy and mono - host.wanted_at > UNWANTED_SECONDS:
            self._forget(host)

    def _note(self, turn: HostTurn, result: HostTurnResult, asked_at: float) -> None:
        """Takes over what was done; `asked_at`: when it was sent (monotonic s)."""
        for use in (*turn.claimed, *turn.confirmed, *turn.renewed, *turn.released):
            host = self._shared.get(use.name)
            if host is None:
                continue
            if use.name in result.locked:
                self._note_done(host, result, asked_at)
            else:  # it is just being written by another node, or has no row
                host.missing, host.retry_at = True, asked_at + _RETRY_SECONDS
        for name, answer in result.ended.items():
            self._end(name, answer)

    def _note_done(self, host: _SharedHost, result: HostTurnResult, asked_at: float) -> None:
        host.missing = False
        if host.releasing:
            host.releasing = False
            host.pause_known = result.released.get(host.name, host.pause_known)
            host.retry_at = asked_at + (_TICK_SECONDS if self._was_used(host) else _UNUSED_SECONDS)
        elif host.name in result.claims:
            self._note_claim(host, result.claims[host.name], asked_at)
        elif host.name in result.renewed:
            self._permit(host, asked_at)
        elif host.name in result.confirmed:
            host.confirmed = self._is_open(host.partition) and self._opened[host.partition] is host.asked_in
            host.look_at = asked_at + _LOOK_SECONDS
        elif host.claimed:
            host.claimed = False  # this node stood still, and its time was over
            self._table.lines.put_first(host.slot, host)
        else:
            host.retry_at = asked_at + _RETRY_SECONDS

    def _note_claim(self, host: _SharedHost, answer: ClaimAnswer, asked_at: float) -> None:
        self._adopt_pause(host, answer)
        own = self._is_open(host.partition)
        if not own:
            delay = max(float(self._table.crawl_delay[host.slot]), answer.gap)
            self._table.crawl_delay[host.slot] = delay
        if not answer.claimed:
            host.wait, host.retry_at = answer.wait, asked_at + max(answer.wait, _RETRY_SECONDS)
            host.confirmed = host.confirmed and answer.known
            return
        host.claimed, host.wait = True, 0.0
        host.started_before = float(self._table.last_start[host.slot])
        self._permit(host, asked_at)
        self._table.lines.put_last(host.slot, host)
        self._scheduler.due.set()

    def _was_used(self, host: _SharedHost) -> bool:
        return float(self._table.last_start[host.slot]) > host.started_before

    def _permit(self, host: _SharedHost, asked_at: float) -> None:
        host.permitted_until, host.renew_at = asked_at + WRITE_SECONDS, asked_at + _RENEW_SECONDS

    def _adopt_pause(self, host: _SharedHost, answer: ClaimAnswer) -> None:
        """Pauses a host as another node did that was refused; once, for somebody may end the pause by hand."""
        if answer.paused > 0 and answer.paused_until != host.pause_known:
            host.pause_known = answer.paused_until
            self._table.pause(host.slot, self._clock() + answer.paused)
            if self._table.host_id[host.slot] >= 0:
                self._journal.put_hosts()

    def _end(self, name: str, answer: ClaimAnswer) -> None:
        """Asks a host without claims again: no other node wants it."""
        host = self._shared.get(name)
        if host is None:
            return
        self._adopt_pause(host, answer)
        last = self._clock() + answer.wait - self._table.interval_of(host.slot)
        if answer.wait > 0:
            self._table.last_start[host.slot] = max(float(self._table.last_start[host.slot]), last)
        self._forget(host)
        self._scheduler.due.set()

    # The hosts in memory.

    def _share(self, name: str, partition: int) -> _SharedHost:
        """Has a host asked with claims only; who waits for it here waits for a claim."""
        host = self._shared.get(name)
        if host is None:
            host = self._shared[name] = _SharedHost(name=name, partition=partition, slot=self._slot(name))
            host.wanted_at = time.monotonic()
            self._table.lines.put_first(host.slot, host)
            self._any.set()
        return host

    def _forget(self, host: _SharedHost) -> None:
        del self._shared[host.name]
        self._table.lines.leave(host.slot, host)

    def _slot(self, name: str) -> int:
        slot = self._table.slot_of(name)
        return self._table.add(_UNSTORED_HOST, name) if slot is None else slot

    def _is_open(self, partition: int) -> bool:
        return partition in self._opened and self._cluster.holds(partition)

    def _use(self, host: _SharedHost) -> HostUse:
        table, slot, now = self._table, host.slot, self._clock()
        quiet = self._opened.get(host.partition, (0.0, 0.0))[1] - now
        paused = max(float(table.paused_until[slot]), float(table.held_until[slot])) - now
        return HostUse(
            name=host.name,
            partition=host.partition,
            spacing=max(table.spacing_left(slot, now), quiet, 0.0),
            gap=table.interval_of(slot),
            paused=min(max(paused, 0.0), _LONGEST_PAUSE_SECONDS),
        )

    def _note_failure(self, reason: str) -> None:
        """Logs once a minute at most that hosts cannot be claimed; what waits for one is put off."""
        if self._clock() - self._logged_at >= _LOG_SECONDS:
            self._log.warning("hosts_not_claimed", reason=reason, hosts=len(self._shared))
            self._logged_at = self._clock()
