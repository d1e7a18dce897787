"""Health and readiness."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel):
    """Whether the scheduler's loop turns."""

    status: Literal["ok", "stalled"]


class Readiness(BaseModel):
    """Whether the database takes commits, and why not."""

    status: Literal["ready", "not_ready"]
    reason: str | None
