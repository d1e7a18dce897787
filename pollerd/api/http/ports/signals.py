"""What programs tell of sites: changes, by signal sources, WebSub hubs and IndexNow, and reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from pollerd.allocation.source_quality import SourceQuality
from pollerd.crawling.sources.hub_verification import HubVerification
from pollerd.crawling.sources.index_now import IndexNowReport
from pollerd.storage import (
    HubSubscription,
    ListedDate,
    ListedSignalSource,
    ReadResult,
    ReportedRead,
    SignalSource,
    SignalSourceSpec,
)


class SignalSourcesSetPort(Protocol):
    """What became of signal sources that were named."""

    added: list[str]
    changed: list[str]


class HubsPort(Protocol):
    """Answers WebSub hubs."""

    async def at(self, callback: str) -> HubSubscription | None:
        """Returns the subscription with this end of its callback URL."""

    async def verify(self, callback: str, asked: HubVerification) -> str | None:
        """Returns what is answered to a hub that verifies; None: it is refused."""

    async def deliver(
        self, one: HubSubscription, receive: Callable[[], Awaitable[bytes]], content_type: str | None, signature: str
    ) -> str:
        """Reads what a hub sent, by `receive`; returns what became of it. Raises TooManyError before."""


class IndexNowPort(Protocol):
    """Takes reports in IndexNow's form."""

    @property
    def allowed(self) -> bool:
        """Whether a setting allows them."""

    @property
    def bodies(self) -> asyncio.Semaphore:
        """Held while a body is read: so many are at once."""

    async def take(self, report: IndexNowReport) -> str:
        """Takes a report; returns "taken", "waiting", "ignored" or "refused". Raises TooManyError."""


class SignalsPort(Protocol):
    """Adds and removes signal sources, and takes reports."""

    async def add(self, spec: SignalSourceSpec) -> SignalSource:
        """Adds a signal source. Raises DuplicateError with the existing id, InvalidValueError without its site."""

    async def delete(self, source_id: int) -> None:
        """Deletes a signal source. Raises NotFoundError, and InvalidValueError for one of the list."""

    async def restore(self, listed: Sequence[ListedSignalSource]) -> SignalSourcesSetPort:
        """Adds or changes signal sources of an export; those whose sites are not there are left out."""

    async def report(self, name: str, reports: Sequence[ListedDate]) -> tuple[int, int]:
        """Takes reports; returns how many URLs were news, and not. Raises TooManyError, InvalidValueError."""

    def quality(self, source_id: int) -> SourceQuality | None:
        """Returns what was learned of a signal source; None: nothing."""


class ReadsPort(Protocol):
    """Takes reports of reads, and forgets them."""

    async def report(self, name: str, reads: Sequence[ReportedRead], complete_until: float | None = None) -> ReadResult:
        """Takes a report. Raises TooManyError before anything is looked up, InvalidValueError for its times."""

    async def forget(self, site_id: int) -> None:
        """Forgets the reads of a site's changes. Raises NotFoundError."""
