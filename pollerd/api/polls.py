"""Recorded polls, and the changes they found."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.common import Moment
from pollerd.model import Media, OutcomeKind


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


class ChangeSchema(BaseModel):
    """A change found: it happened between the previous poll and the one that detected it."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    site_id: int
    url: str
    detected_at: Moment = Field(description="when the answer that shows it was there; never before the change itself")
    previous_poll_at: Moment | None
    kind: Media
    summary: str
    selection: str = Field(description="the selection in which it was found")
    matters: bool = Field(description="whether it is announced, by the selection's conditions; without any, all are")
    why: str = Field(description="what the conditions say; empty without any")
    before_content_id: int | None = Field(description="null: pruned; a screenshot may be kept with it")
    after_content_id: int | None = Field(description="null: pruned; a screenshot may be kept with it")
