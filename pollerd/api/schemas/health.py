"""Health, readiness, and the nodes of the database."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.schemas.common import Moment


class Health(BaseModel):
    """Whether the scheduler's loop turns."""

    status: Literal["ok", "stalled"]


class Readiness(BaseModel):
    """Whether the database takes commits, and why not."""

    status: Literal["ready", "not_ready"]
    reason: str | None


class ClusterNode(BaseModel):
    """One of several daemons on one database."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    name: str
    address: str | None = Field(description="where the other nodes reach it; null: it did not say")
    version: str
    started_at: Moment
    here: bool = Field(description="whether it is the one that answers")
    partitions: int = Field(description="how many it holds")
    roles: tuple[str, ...] = Field(description="what it does for all: delivery, sources, jobs, retention")
    grant: float | None = Field(description="polls per second that it may spend at most; null: none asked for yet")
    target: float | None = Field(description="what it is to have as soon as so much is free")
    price: float | None = Field(description="what one more poll per second is worth to it")


class ClusterState(BaseModel):
    """The nodes of the database, what each holds, and what it may spend."""

    model_config = ConfigDict(from_attributes=True)

    partitions: int = Field(description="of the hosts; 0: the daemon runs alone")
    unheld: int = Field(description="partitions that no node holds now: their sites are not polled")
    budget: float | None = Field(description="polls per second of all nodes")
    in_force: float | None = Field(description="what all may be spending at most")
    nodes: tuple[ClusterNode, ...] = Field(description="by id; empty: the daemon runs alone")
