"""Recorded polls."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from pollerd.model import OutcomeKind
from pollerd.shown import Moment


class RedirectSchema(BaseModel):
    """One hop."""

    model_config = ConfigDict(from_attributes=True)

    status: int
    url: str


class PollSchema(BaseModel):
    """One poll. `elapsed` is seconds since the last informative poll, `duration` seconds."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: Moment
    elapsed: float | None
    outcome: OutcomeKind
    status: int | None
    duration: float
    bytes: int
    changed: bool
    detail: str
    redirects: tuple[RedirectSchema, ...]
