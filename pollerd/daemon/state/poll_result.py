"""What one poll came back with, on its way to the journal."""

from __future__ import annotations

from msgspec import Struct

from pollerd.crawling.pages.reading import PageReading
from pollerd.model import Detection, Outcome
from pollerd.storage import SiteContext


class PollResult(Struct, frozen=True, gc=False):
    """The answer to one poll of the site in `slot`.

    `detection` is there exactly where the poll was informative or the body could not be read. `asked` is False where
    nothing went out (robots.txt said no), so that it tells nothing about our own link. `reading`: what a new body
    shows of the topic, where the site is the focused crawler's.
    """

    slot: int
    context: SiteContext
    outcome: Outcome
    detection: Detection | None = None
    asked: bool = True
    reading: PageReading | None = None

    @property
    def site_id(self) -> int:
        """The site that was polled."""
        return self.context.site_id
