"""Membership in the cluster: a node looks for others, takes free units, and releases those beyond its share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from pollerd.daemon.nodes.followers import AllocationFollower, Follower, GrantFollower, PartitionLoader
from pollerd.daemon.nodes.shared_hosts import SharedHosts
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.settings import ALLOCATION_SETTINGS, DaemonSettings, shadows_beside
from pollerd.errors import ConfigError, DatabaseUnavailableError
from pollerd.partitions import ROLE_OF_UNIT, UNEVEN_SHARE, NodeRole, shared_out, unsplit_among, weight_of
from pollerd.storage.grants import SharedAllocation
from pollerd.storage.node_values import LockTable
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.values import AllocationRow
from pollerd.telemetry import ClusterInstruments
from pollerd.texts import _

LOOK_SECONDS = 1.0
"""Between two looks at the lock table; with each the server hears from this node."""
_WATCH_SECONDS = 0.25
_DRAIN_SECONDS = 6.0
"""How long polls in flight may take to end before their partition is handed over."""
_TIDY_LOOKS, _CONNECTIONS_LOOKS = 300, 15
_SIZE_CHANGE = 20
"""Sites by which a partition has to grow or shrink, and by a tenth, before the others are told."""
_MAX_SILENT_SECONDS = 86_400.0
"""What the metric shows at most, also before the first answer."""
_RETRY_SECONDS = 1.0

T = TypeVar("T")


class Membership:
    """Keeps what this node holds in step with who is here."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        loader: PartitionLoader,
        runtime: Runtime,
        request_seconds: float,
        instruments: ClusterInstruments,
    ) -> None:
        """request_seconds: the longest a request of a node takes."""
        self._cluster, self._loader, self._roles = cluster, loader, runtime.roles
        self._health, self._clock, self._request_seconds = runtime.health, runtime.clock, request_seconds
        self._instruments = instruments
        self._partitions = 0
        self._looks = 0
        self._drained = False
        self._quiet_until: dict[int, float] = {}
        """Partition -> until when requests of a holder that died may be under way (monotonic s)."""
        self._leaving: set[int] = set()
        """Units that are being released."""
        self._log = structlog.get_logger("pollerd.cluster")

    async def run(self) -> None:
        """Takes part until cancelled."""
        self._partitions = await self._retried(self._cluster.prepare)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_session(), name="session")
            while True:
                await self._retried(self._turn)
                await asyncio.sleep(LOOK_SECONDS)

    async def leave(self) -> None:
        """Releases everything, after the last commit, and goes."""
        held = sorted(self._cluster.held)
        if held:
            await self._cluster.release(held, self._unsettled(held))

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except DatabaseUnavailableError as error:
                self._log.warning("cluster_check_put_off", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _watch_session(self) -> None:
        """Stops polling while the session does not answer, and drops what was lost with it."""
        while True:
            if self._cluster.may_write():
                self._health.works("session")
            else:
                self._health.failed("session", _("the session that holds this node's locks does not answer"))
            await self._drop_lost()
            if self._cluster.silent_seconds > LOOK_SECONDS:  # loading a partition takes longer
                with contextlib.suppress(DatabaseUnavailableError):  # the next turn tells of it
                    await self._cluster.look()
            await asyncio.sleep(_WATCH_SECONDS)

    async def _drop_lost(self) -> None:
        lost = self._cluster.lost
        for partition in sorted(self._loader.loaded - (self._cluster.held - lost)):
            self._log.warning(
                "partition_lost", partition=partition, reason="the session ended, and another node took it"
            )
            self._loader.drop(partition)
            self._instruments.partitions_lost.inc()
        self._instruments.session_silent.set(min(self._cluster.silent_seconds, _MAX_SILENT_SECONDS))
        self._hold_roles()
        if lost:
            await asyncio.sleep(0)  # polls are called off in the loop's next turn
            self._cluster.dropped(lost)

    def _hold_roles(self) -> None:
        held = self._cluster.held - self._leaving - self._cluster.lost
        self._roles.hold({ROLE_OF_UNIT[unit] for unit in held if unit in ROLE_OF_UNIT})

    async def _turn(self) -> None:
        """Looks, and moves some of what has to move."""
        table = await self._cluster.look()
        held = [unit for unit in table.holders if unit not in ROLE_OF_UNIT]
        self._instruments.nodes.set(len(table.nodes))
        self._instruments.nodes_wanted.set(self._cluster.wanted)
        self._instruments.sites.set(sum(self._loader.sizes().values()))
        self._instruments.partitions_free.set(self._partitions - len(held))
        self._instruments.partitions_held.set(sum(unit not in ROLE_OF_UNIT for unit in self._cluster.held))
        self._note_drained(self._cluster.node_id in table.drained)
        # A node of an older version counts partitions, not sites: as long as one is there, all do.
        sites = dict[int, int]() if table.older else table.sites
        partitions = {unit: weight_of(sites.get(unit, 0)) for unit in range(self._partitions)}
        for weights in (partitions, {role.unit: 1.0 for role in NodeRole}):
            await self._even_out(table, weights)
        await self._load_taken()
        await self._note_sizes(table.sites)
        if self._looks % _CONNECTIONS_LOOKS == 0:
            connections = await self._cluster.connections()
            self._instruments.connections.set(connections.open)
            self._instruments.max_connections.set(connections.most)
        self._looks += 1
        if self._looks % _TIDY_LOOKS == 1:
            await self._cluster.forget_dead()

    async def _even_out(self, table: LockTable, weights: Mapping[int, float]) -> None:
        mine = self._cluster.node_id
        shares = shared_out(weights, table.holders, (table.nodes | {mine}) - table.drained, UNEVEN_SHARE)
        gone = [unit for unit in table.held_by(mine) if unit in weights and shares.get(unit) != mine]
        if gone:
            await self._release(gone)
        await self._take([unit for unit, its in shares.items() if its == mine and self._is_free(unit, table)])

    def _is_free(self, unit: int, table: LockTable) -> bool:
        return unit not in table.holders and unit not in self._cluster.lost

    def _note_drained(self, drained: bool) -> None:
        if drained != self._drained:
            name = self._cluster.name
            if drained:
                self._log.warning(
                    "node_drained", node=name, hint=_("to undo this: pollerd nodes undrain {name}", name=name)
                )
            else:
                self._log.warning("node_undrained", node=name)
        self._drained = drained
        self._instruments.drained.set(drained)

    async def _note_sizes(self, stored: Mapping[int, int]) -> None:
        """Tells the others of partitions of this node that have grown or shrunk noticeably."""
        sizes = self._loader.sizes()
        news = {
            partition: sites
            for partition, sites in sizes.items()
            if partition not in stored or abs(sites - stored[partition]) > max(_SIZE_CHANGE, 0.1 * stored[partition])
        }
        if news:
            await self._cluster.note_sizes(news)

    async def _take(self, units: Collection[int]) -> None:
        if not units:
            return
        taken = await self._cluster.take(list(units), self._clock())
        self._hold_roles()
        roles = [ROLE_OF_UNIT[claim.unit].value for claim in taken if claim.unit in ROLE_OF_UNIT]
        if roles:
            self._log.info("roles_taken", names=", ".join(roles))
        unchanged_until = time.monotonic() + self._request_seconds
        for claim in taken:
            self._quiet_until[claim.unit] = unchanged_until - claim.noticed_ago if claim.after_death else 0.0

    def _unsettled(self, units: Collection[int]) -> dict[int, float]:
        """Returns units of which requests may be under way, and how long ago the latest of them can have begun, s.

        They are those of a holder that died, before its end was noticed, and redirects of other partitions' sites.
        """
        now = time.monotonic()
        left = {
            unit: self._request_seconds if self._loader.visited(unit) else self._quiet_until.get(unit, 0.0) - now
            for unit in units
        }
        return {unit: self._request_seconds - seconds for unit, seconds in left.items() if seconds > 0}

    async def _load_taken(self) -> None:
        """Loads what is held and not in memory: just taken, or after a failure."""
        missing = sorted(unit for unit in self._cluster.held - self._loader.loaded if unit not in ROLE_OF_UNIT)
        if not missing:
            return
        sites, died = 0, 0
        for partition in missing:
            quiet = max(self._quiet_until.get(partition, 0.0) - time.monotonic(), 0.0)
            sites += await self._loader.load(partition, quiet)
            died += quiet > 0
        self._instruments.partitions_taken.inc(len(missing))
        self._log.info("partitions_taken", partitions=len(missing), sites=sites, from_dead_nodes=died)

    async def _release(self, units: Collection[int]) -> None:
        """Drains and hands over, all at once."""
        self._leaving.update(units)
        self._hold_roles()
        try:
            async with asyncio.TaskGroup() as group:
                for unit in units:
                    role = ROLE_OF_UNIT.get(unit)
                    leaving = self._loader.unload(unit, _DRAIN_SECONDS) if role is None else self._roles.left(role)
                    group.create_task(leaving, name=f"release-{unit}")
            await self._cluster.release(list(units), self._unsettled(units))
        finally:
            self._leaving.difference_update(units)
        released = sum(unit not in ROLE_OF_UNIT for unit in units)
        self._instruments.partitions_released.inc(released)
        self._log.info("partitions_released", partitions=released, roles=len(units) - released)


# The parts of a daemon that is one of several nodes.


@dataclass(frozen=True, kw_only=True)
class ClusterPart:
    """Takes part in the cluster, follows what the other nodes write, and spends its share of the budget."""

    membership: Membership
    follower: Follower
    grants: GrantFollower
    allocation: AllocationFollower
    shared: SharedHosts

    async def run(self) -> None:
        """Does all of it until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.membership.run(), name="membership")
            group.create_task(self.follower.run(), name="follower")
            group.create_task(self.grants.run(), name="grants")
            group.create_task(self.allocation.run(), name="allocation")
            group.create_task(self.shared.run(), name="shared hosts")

    async def leave(self) -> None:
        """Hands everything over, after the last commit. Raises DatabaseUnavailableError."""
        await self.shared.release_all()
        await self.grants.leave()
        await self.membership.leave()


# Joining: the first node sets the allocation, later ones take it over.


async def join(shared: SharedAllocation, settings: DaemonSettings, chosen: Collection[str]) -> DaemonSettings:
    """Returns the settings with the allocation of all nodes.

    The first node sets it: what the user chose (`chosen`: names of such settings, and `shadows`), else what is stored.
    A later one takes what the others have, whatever was chosen for it. Raises ConfigError for an allocator whose state
    cannot be divided among nodes, chosen or stored; such shadows of a daemon that ran alone are left out.
    """
    log = structlog.get_logger("pollerd.cluster")

    def choose(kept: AllocationRow | None) -> AllocationRow:
        values = {
            name: getattr(settings if kept is None or name in chosen else kept, name) for name in ALLOCATION_SETTINGS
        }
        if values["deadline"] is None:  # of a database in which none was set yet
            values["deadline"] = settings.deadline
        if kept is None or "shadows" in chosen:
            return AllocationRow(**values, shadows=settings.shadows)
        shadows = shadows_beside(values["allocator"], kept.shadows)
        if left_out := unsplit_among(shadows):
            log.warning("shadows_skipped", names=", ".join(left_out), reason="nodes cannot divide their state")
        return AllocationRow(**values, shadows=tuple(name for name in shadows if name not in left_out))

    row = await shared.join(choose, _check)
    for name in ALLOCATION_SETTINGS:
        if name in chosen and getattr(row, name) != getattr(settings, name):
            own, of_all = getattr(settings, name), getattr(row, name)
            log.warning("setting_of_all_nodes", setting=name, value=of_all, ignored=own)
    # Shadows are put when the node follows the allocation, as those of a later change.
    in_force = {name: getattr(row, name) for name in ALLOCATION_SETTINGS if getattr(row, name) is not None}
    return replace(settings, **in_force, shadows=())


def _check(row: AllocationRow) -> None:
    """Raises ConfigError if nodes cannot divide the allocation."""
    for option, names in (("allocator", [row.allocator]), ("shadow", list(row.shadows))):
        whole = unsplit_among(names)
        if whole:
            raise ConfigError(
                _(
                    "{option}: {whole} keeps one state over all sites, which nodes cannot divide; start pollerd "
                    "without --node, or with another one, for example --{option} whittle",
                    option=option,
                    whole=", ".join(whole),
                )
            )
