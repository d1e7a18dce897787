"""The result of one poll, on its way to the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pollerd.model import Detection, Outcome
from pollerd.storage import SiteContext

if TYPE_CHECKING:  # without a topic nothing of crawling is loaded
    from pollerd.crawling.pages.reading import PageReading


class PollResult(Struct, frozen=True, gc=False):
    """The answer to one poll of the site in `slot`.

    `detection` is present exactly if the poll was informative or the body could not be read. `asked` is False if no
    request was sent (robots.txt denied it), so the result says nothing about our own link. `reading`: the page as read
    for the topic, if the site is the focused crawler's.
    """

    slot: int
    context: SiteContext
    outcome: Outcome
    detection: Detection | None = None
    asked: bool = True
    reading: PageReading | None = None

    @property
    def site_id(self) -> int:
        """The polled site."""
        return self.context.site_id
