"""Everything that outlives the process: SQLite or PostgreSQL behind one `Store`."""

from pollerd.storage.changes import ChangeFilter, ChangesRead, Content
from pollerd.storage.sealing import new_key
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import (
    AddResult,
    AllocationRow,
    Batch,
    ChangeDraft,
    CommitResult,
    CommittedChange,
    HostRobots,
    HostRow,
    HostUpdate,
    Page,
    PollColumns,
    PollRecord,
    PruneResult,
    RunInfo,
    ScheduleRows,
    SiteChanges,
    SiteMemory,
)

__all__ = [
    "AddResult",
    "AllocationRow",
    "Batch",
    "ChangeDraft",
    "ChangeFilter",
    "ChangesRead",
    "CommitResult",
    "CommittedChange",
    "Content",
    "HostRobots",
    "HostRow",
    "HostUpdate",
    "Page",
    "PollColumns",
    "PollRecord",
    "PruneResult",
    "RunInfo",
    "ScheduleRows",
    "SiteChanges",
    "SiteMemory",
    "StorageSettings",
    "Store",
    "new_key",
]
