"""The public names of `pollerd.storage`; other packages import them from there."""

from pollerd.storage.crawler.collection import CollectionStatus, StoredPage
from pollerd.storage.crawler.crawl_store import CrawlStore
from pollerd.storage.crawler.link_context import FIRST_VALUE
from pollerd.storage.db.engine import check_place
from pollerd.storage.encoding.cursors import Order
from pollerd.storage.keys import new_key
from pollerd.storage.notifications.notification_store import NotificationStore
from pollerd.storage.notifications.notification_values import (
    Attempt,
    ChannelRow,
    ClaimedMessage,
    DeliveryEnd,
    NamedSite,
    NoticeContext,
    NoticeFilter,
    OutboxCounts,
    RuleRow,
    StoredNotice,
)
from pollerd.storage.page_values import CollectionRow, CrawlUpdate, OutLinkDraft, PageRecord, PageRow, Trial
from pollerd.storage.polls.changes import ChangeFilter, ChangesRead
from pollerd.storage.polls.contents import Content
from pollerd.storage.polls.history_store import HistoryStore
from pollerd.storage.polls.readings import ReadingFilter, RecordedReading
from pollerd.storage.settings import StorageSettings
from pollerd.storage.sites.site_store import SiteStore
from pollerd.storage.sources.source_store import SourceStore
from pollerd.storage.sources.source_values import (
    Member,
    MemberState,
    ReadDocument,
    Source,
    SourceRead,
    SourceSpec,
    StoredMember,
)
from pollerd.storage.store import Store
from pollerd.storage.values import (
    AddResult,
    AllocationRow,
    Batch,
    ChangeDraft,
    CommitResult,
    CommittedChange,
    HostRow,
    HostUpdate,
    KnownHost,
    ListPage,
    NewSettings,
    PollColumns,
    PollRecord,
    PruneResult,
    RestoreResult,
    RunInfo,
    ScheduleRows,
    SelectionRecord,
    SettingsColumns,
    SettingsResult,
    SiteChanges,
    SiteContext,
    SiteRestore,
    StoredRobots,
)

__all__ = [
    "FIRST_VALUE",
    "AddResult",
    "AllocationRow",
    "Attempt",
    "Batch",
    "ChangeDraft",
    "ChangeFilter",
    "ChangesRead",
    "ChannelRow",
    "ClaimedMessage",
    "CollectionRow",
    "CollectionStatus",
    "CommitResult",
    "CommittedChange",
    "Content",
    "CrawlStore",
    "CrawlUpdate",
    "DeliveryEnd",
    "HistoryStore",
    "HostRow",
    "HostUpdate",
    "KnownHost",
    "ListPage",
    "Member",
    "MemberState",
    "NamedSite",
    "NewSettings",
    "NoticeContext",
    "NoticeFilter",
    "NotificationStore",
    "Order",
    "OutLinkDraft",
    "OutboxCounts",
    "PageRecord",
    "PageRow",
    "PollColumns",
    "PollRecord",
    "PruneResult",
    "ReadDocument",
    "ReadingFilter",
    "RecordedReading",
    "RestoreResult",
    "RuleRow",
    "RunInfo",
    "ScheduleRows",
    "SelectionRecord",
    "SettingsColumns",
    "SettingsResult",
    "SiteChanges",
    "SiteContext",
    "SiteRestore",
    "SiteStore",
    "Source",
    "SourceRead",
    "SourceSpec",
    "SourceStore",
    "StorageSettings",
    "Store",
    "StoredMember",
    "StoredNotice",
    "StoredPage",
    "StoredRobots",
    "Trial",
    "check_place",
    "new_key",
]
