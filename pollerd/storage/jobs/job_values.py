"""Values of jobs. Times are epoch seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pollerd.model import JobAction, JobState
from pollerd.storage.values import SiteFilter


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What is to be done: to the sites that fit the filter, or to those with these ids."""

    action: JobAction
    value: Mapping[str, Any]
    """What the action needs, by name."""
    filter: SiteFilter | None = None
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job and how far it is."""

    id: int
    spec: JobSpec
    newest_id: int
    """Newer sites are left alone."""
    by: str
    state: JobState
    total: int
    """Sites that fitted when it began."""
    total_is_exact: bool
    """False: there were more."""
    position: int
    """All sites with ids up to this one were seen; while it is undone, of those that it changed."""
    seen: int
    changed: int
    refused: int
    restored: int
    detail: str
    """Why it failed, or why the first site was refused."""
    created_at: float
    ended_at: float | None
    undo_until: float | None
    """Until then it can be undone; None: it cannot."""


@dataclass(frozen=True, slots=True)
class SiteBefore:
    """A site that a job changed, and what it was before."""

    site_id: int
    before: Mapping[str, Any]
