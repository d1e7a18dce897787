"""The effect of one poll."""

from __future__ import annotations

from msgspec import Struct

from pollerd.model import Poll, SiteState
from pollerd.storage import ChangeDraft, PageRecord, PollRecord, SelectionRecord, SiteContext


class PollEffect(Struct, frozen=True, gc=False):
    """The effect of one poll on its site. Fields shared with `PollRecord` have the same meaning."""

    poll: Poll
    context: SiteContext
    state: SiteState
    not_before: float | None = None
    failures: int = 0
    last_seen_at: float | None = None
    content: bytes | None = None
    change: ChangeDraft | None = None
    mask_changed: bool = False
    misled: bool = False
    selections: tuple[SelectionRecord, ...] = ()
    screenshot: bytes | None = None

    def record(self, learned: bytes | None = None, page: PageRecord | None = None) -> PollRecord:
        """Returns the record for storage, with the allocator's state of the site and the crawler's page.

        The content of a page that ended is not stored.
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
            misled=self.misled,
            page=page,
            screenshot=self.screenshot,
            selections=self.selections if page is None or not page.ended else (),
        )
