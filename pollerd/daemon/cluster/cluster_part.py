"""What a daemon does as one of several nodes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pollerd.daemon.cluster.allocation_follower import AllocationFollower
from pollerd.daemon.cluster.follower import Follower
from pollerd.daemon.cluster.grants import GrantFollower
from pollerd.daemon.cluster.loans.borrower import HostBorrower
from pollerd.daemon.cluster.loans.lender import HostLoans
from pollerd.daemon.cluster.membership import Membership
from pollerd.daemon.cluster.node_client import NodeClient


@dataclass(frozen=True, kw_only=True)
class ClusterPart:
    """Takes part in the cluster, follows what the other nodes write, and spends its share of the budget."""

    membership: Membership
    follower: Follower
    grants: GrantFollower
    allocation: AllocationFollower
    nodes: NodeClient
    borrower: HostBorrower
    loans: HostLoans

    async def run(self) -> None:
        """Does all of it until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.membership.run(), name="membership")
            group.create_task(self.follower.run(), name="follower")
            group.create_task(self.grants.run(), name="grants")
            group.create_task(self.allocation.run(), name="allocation")
            group.create_task(self.borrower.run(), name="borrower")

    def stop(self) -> None:
        """Takes nothing more on: the daemon is ending."""
        self.loans.stop()

    async def leave(self) -> None:
        """Hands everything over, after the last commit. Raises DatabaseUnavailableError."""
        await self.borrower.inform_all()
        await self.nodes.close()
        await self.grants.leave()
        await self.membership.leave()
