"""Values of nodes, as stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Double, cast, extract, func

from pollerd.errors import InvalidValueError
from pollerd.texts import _

SERVER_NOW = cast(extract("epoch", func.clock_timestamp()), Double)
"""PostgreSQL's present time, epoch s, in a statement."""
SILENT_SECONDS = 10.0
"""Silence of the server after which a node starts no poll."""


def clock_ahead(before: float, server: float, after: float) -> float:
    """Returns how far a clock is ahead of the server's, s; below 0: behind.

    before, after: its times, epoch s, between which the server's time was asked; 0 where they do not say.
    """
    return 0.0 if before <= server <= after else min(before - server, after - server, key=abs)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeInfo:
    """A node, as it introduces itself."""

    name: str
    version: str
    wanted: int = 0
    """How many nodes there should be; 0: any number."""

    def __post_init__(self) -> None:
        if self.wanted < 0:
            raise InvalidValueError("nodes_wanted", _("a whole number, 0 or more"), self.wanted)


@dataclass(frozen=True, slots=True)
class ServerConnections:
    """Connections of the database server."""

    open: int
    """Of all databases and programs."""
    most: int
    """That it allows to who is no superuser."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LivingNode:
    """A node that is here."""

    id: int
    name: str
    version: str
    started_at: float
    revision: str | None = None
    """The newest schema that it knows; None: of a version that asked other nodes over HTTP."""
    drained: bool = False
    """Whether it is to hold nothing."""


@dataclass(frozen=True, slots=True)
class LockTable:
    """Who is here and holds what, as the database server's table of locks has it, and how large partitions are."""

    nodes: frozenset[int]
    """Ids of the living nodes."""
    holders: Mapping[int, int]
    """Unit -> id of the node that holds it."""
    drained: frozenset[int] = frozenset()
    """Ids of living nodes that are to hold nothing."""
    older: frozenset[int] = frozenset()
    """Ids of living nodes of a version that knows neither of drained nodes, nor of sizes, nor of shared hosts."""
    sites: Mapping[int, int] = field(default_factory=dict)
    """Partition -> how many sites it had when its holder last counted them."""

    def held_by(self, node: int) -> list[int]:
        """Returns the units that the node holds, ascending."""
        return sorted(unit for unit, its in self.holders.items() if its == node)


@dataclass(frozen=True, slots=True)
class TakenUnit:
    """A unit that a node has just taken."""

    unit: int
    after_death: bool
    """Whether the last holder did not release it, so that its requests may still be under way."""
    noticed_ago: float = 0.0
    """How long ago another node noticed that, s; 0: nobody did before."""


# News of a database for its nodes.

NEWS_CHANNEL = "pollerd_news"
"""Channel on which PostgreSQL tells the nodes of a database what happens."""
POLL_REQUEST = "poll_request"
"""The node that polls a site is asked to poll it at once."""
NODE_QUESTION, NODE_ANSWER = "node_question", "node_answer"
"""A node is asked something, and has answered: by the question's number."""
SETTINGS_POLL = "settings_poll"
"""The same for a site whose settings have changed: it is not left alone because it failed before."""
