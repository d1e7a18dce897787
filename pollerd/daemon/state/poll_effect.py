"""The conclusions drawn from one poll."""

from __future__ import annotations

from msgspec import Struct

from pollerd.model import Poll, SiteState
from pollerd.storage import ChangeDraft, PageRecord, PollRecord, SiteContext


class PollEffect(Struct, frozen=True, gc=False):
    """What follows from one poll for its site and its host. Fields that `PollRecord` has mean the same there."""

    poll: Poll
    context: SiteContext
    state: SiteState
    not_before: float | None = None
    failures: int = 0
    last_seen_at: float | None = None
    content: bytes | None = None
    change: ChangeDraft | None = None
    host_pause_seconds: float | None = None
    """Leave the whole host alone for so long; None: no."""
    host_throttles: int = 0
    """Throttled answers in a row at the host, this one included."""
    mask_changed: bool = False

    def record(self, learned: bytes | None = None, page: PageRecord | None = None) -> PollRecord:
        """The record for storage, with the allocator's state of the site and what became of the crawler's page.

        Of a page that ended no content is stored.
        """
        return PollRecord(
            poll=self.poll,
            context=self.context,
            state=self.state,
            not_before=self.not_before,
            failures=self.failures,
            last_seen_at=self.last_seen_at,
            content=None if page is not None and page.ended else self.content,
            change=self.change,
            learned=learned,
            mask_changed=self.mask_changed,
            page=page,
        )
