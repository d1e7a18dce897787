"""The tables, a module for each subject. Times are epoch seconds as doubles, durations seconds.

Ids only grow and are never reused. All of them are known to `metadata`, whichever module is imported first.
"""

from __future__ import annotations

from pollerd.storage.db.schema import (
    accounts,
    cluster,
    crawler,
    history,
    jobs,
    notifications,
    reads,
    runs,
    signals,
    sites,
    sources,
)
from pollerd.storage.db.schema.base import metadata

__all__ = [
    "accounts",
    "cluster",
    "crawler",
    "history",
    "jobs",
    "metadata",
    "notifications",
    "reads",
    "runs",
    "signals",
    "sites",
    "sources",
]
