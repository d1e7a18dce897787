"""Everything that outlives the process: SQLite or PostgreSQL behind one `Store`."""

from pollerd.storage.changes import ChangeFilter, ChangesRead, Content
from pollerd.storage.collection import CollectionStatus, KnownPage
from pollerd.storage.page_values import CollectionRow, Findings, LeadDraft, PageRecord, Trial
from pollerd.storage.sealing import new_key
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.surroundings import FIRST_WORTH
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
    "FIRST_WORTH",
    "AddResult",
    "AllocationRow",
    "Batch",
    "ChangeDraft",
    "ChangeFilter",
    "ChangesRead",
    "CollectionRow",
    "CollectionStatus",
    "CommitResult",
    "CommittedChange",
    "Content",
    "Findings",
    "HostRobots",
    "HostRow",
    "HostUpdate",
    "KnownPage",
    "LeadDraft",
    "Page",
    "PageRecord",
    "PollColumns",
    "PollRecord",
    "PruneResult",
    "RunInfo",
    "ScheduleRows",
    "SiteChanges",
    "SiteMemory",
    "StorageSettings",
    "Store",
    "Trial",
    "new_key",
]
