"""What other packages use of `pollerd.storage`; they import it from there."""

from pollerd.storage.crawler.collection import CollectionStatus, KnownPage
from pollerd.storage.crawler.link_context import FIRST_WORTH
from pollerd.storage.db.engine import check_place
from pollerd.storage.encoding.cursors import Order
from pollerd.storage.keys import new_key
from pollerd.storage.page_values import CollectionRow, Findings, LeadDraft, PageRecord, Trial
from pollerd.storage.polls.changes import ChangeFilter, ChangesRead, Content
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
    KnownHost,
    NewSettings,
    Page,
    PollColumns,
    PollRecord,
    PruneResult,
    RestoreResult,
    RunInfo,
    ScheduleRows,
    SettingsResult,
    SiteChanges,
    SiteMemory,
    SiteRestore,
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
    "KnownHost",
    "KnownPage",
    "LeadDraft",
    "NewSettings",
    "Order",
    "Page",
    "PageRecord",
    "PollColumns",
    "PollRecord",
    "PruneResult",
    "RestoreResult",
    "RunInfo",
    "ScheduleRows",
    "SettingsResult",
    "SiteChanges",
    "SiteMemory",
    "SiteRestore",
    "StorageSettings",
    "Store",
    "Trial",
    "check_place",
    "new_key",
]
