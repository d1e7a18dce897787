"""The other nodes of the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pollerd.model import SiteState


class ClusterPort(Protocol):
    """Shows the nodes of the database."""

    async def view(self) -> object:
        """Returns the attributes of `schemas.health.ClusterState`. Raises DatabaseUnavailableError."""


class OtherNodeView(Protocol):
    """How another node is."""

    @property
    def sites(self) -> int:
        """Number of its sites."""

    @property
    def rate(self) -> float:
        """Its polls per second now."""

    @property
    def budget(self) -> float:
        """Polls per second that it may start."""

    @property
    def by_state(self) -> Mapping[SiteState, int]:
        """Number of its sites by state."""


class NodeAnswersPort(Protocol):
    """Answers the other nodes of the database."""

    async def answer(self, signature: str, body: bytes) -> tuple[int, bytes]:
        """Returns status and body. Raises DatabaseUnavailableError."""
