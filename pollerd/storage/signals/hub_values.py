"""Values of subscriptions at WebSub hubs, as stored."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

SILENT_GAPS = 3.0
"""A hub from which nothing came for this many times its longest gap counts as silent."""


class HubState(StrEnum):
    """How far a subscription is."""

    PENDING = "pending"
    """Not verified yet, or its lease ended."""
    ACTIVE = "active"
    """Verified by the hub, and within its lease."""
    DENIED = "denied"
    """The hub refused, or ended it."""
    LEAVING = "leaving"
    """No longer wanted; goes when the hub has verified that, or does not answer."""


class HubSubscription(Struct, frozen=True):
    """A subscription as stored. Times are UTC epoch seconds, None: not yet."""

    id: int
    source_id: int | None
    """Id of the signal source whose answers offer the hub; None: it is gone, or offers another one."""
    hub: str
    topic: str
    callback: str
    """End of the URL that the hub calls; nobody guesses it."""
    state: HubState
    next_at: float
    """When something is to be done."""
    attempts: int
    """Requests since the hub last verified one."""
    asked_at: float | None
    """When the hub was asked last."""
    verified_at: float | None
    lease_ends_at: float | None
    last_received_at: float | None
    """When it last sent something with a right signature."""
    longest_gap: float
    """Longest time between two of these, s; 0 before the second one."""
    received: int
    """Number of these."""
    last_detail: str

    def is_alive(self, now: float) -> bool:
        """Returns whether its hub is expected to say what is new: within the lease, and not silent."""
        if self.state is not HubState.ACTIVE or (self.lease_ends_at or 0.0) <= now:
            return False
        return now < self.silent_at

    @property
    def silent_at(self) -> float:
        """Epoch s from which on the hub counts as silent, if it sends nothing until then; infinite without a gap."""
        if self.last_received_at is None or self.longest_gap <= 0:
            return float("inf")
        return self.last_received_at + SILENT_GAPS * self.longest_gap
