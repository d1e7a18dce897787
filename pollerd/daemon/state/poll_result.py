"""The result of one poll, on its way to the journal."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from pollerd.daemon.process.workers import Effort
from pollerd.model import Detection, Outcome
from pollerd.storage import SiteContext

if TYPE_CHECKING:  # without a topic nothing of crawling is loaded
    from pollerd.crawling.pages.reading import PageReading
    from pollerd.detection.selection.conditions.line_changes import LineChanges


class ProofResult(StrEnum):
    """What became of a change that waited for its proof.

    `NOISE`: only noise, masked from now on. `CHANGE`: a change of the page. `REVERTED`: the page was as before.
    `UNPROVEN`: recorded without a proof.
    """

    NOISE = "noise"
    CHANGE = "change"
    REVERTED = "reverted"
    UNPROVEN = "unproven"


class Candidate(Struct, frozen=True):
    """A change that waits for its proof: the poll that found it, without its body."""

    result: PollResult
    first_at: float
    """Start of the first poll that found a change and is not proven yet, epoch s."""
    undecided: int = 0
    """Second polls that came too late to decide, or that need another to confirm them."""
    failures: int = 0
    """Polls since then that failed."""

    @property
    def at(self) -> float:
        """Start of the poll, epoch s."""
        return self.result.outcome.started_at

    @property
    def size(self) -> int:
        """Bytes of its contents."""
        detection = self.result.detection
        if detection is None:
            return 0
        return len(detection.content or b"") + sum(len(part.content or b"") for part in detection.selections)


class ProofStatus(Struct, frozen=True):
    """What a poll means for the proof of its site's change."""

    waiting: Candidate | None = None
    """The change that waits after this poll."""
    result: ProofResult | None = None
    """What became of the change that waited."""
    same: bool | None = None
    """Whether the two polls were the same but for what is masked; None: they were not compared."""
    unproven: str = ""
    """Why the change found by this poll is not proven."""
    lifted: bool = False
    """Whether rules of the mask were given up, because what they hide stood still."""
    recorded: PollResult | None = None
    """The poll that found the waiting change, if that is recorded with this one, which failed."""


class Judgement(Struct, frozen=True):
    """What came of judging a result by itself, besides what stands in it."""

    summary: str | None
    """Of its change, in a line; None: there is none."""
    lines: Mapping[tuple[int, str], LineChanges] | None
    """The lines of its changes, by site and selection; None: no rule asks for them."""


class PollResult(Struct, frozen=True, gc=False):
    """The answer to one poll of the site in `slot`.

    `detection` is present exactly if the poll was informative or the body could not be read. `asked` is False if no
    request was sent (robots.txt denied it), so the result says nothing about our own link. `reading`: the page as read
    for the topic, if the site is the focused crawler's. `proof`: set by the noise step where a change has to be proven.
    `signals_stored`: what it says of other pages was read and stored. `dated_at`: the latest date of a change since the
    site's poll before that a signal source gave, epoch s. `date_believed`: whether a believed one gave such a date.
    `effort`: what workers spent on it so far; None: it had none. `alone`: it is prepared by
    itself, so that work on it may take long; `judgement`: what came of that.
    """

    slot: int
    context: SiteContext
    outcome: Outcome
    detection: Detection | None = None
    asked: bool = True
    reading: PageReading | None = None
    proof: ProofStatus | None = None
    signals_stored: bool = False
    dated_at: float | None = None
    date_believed: bool = False
    effort: Effort | None = None
    alone: bool = False
    judgement: Judgement | None = None

    @property
    def site_id(self) -> int:
        """The polled site."""
        return self.context.site_id
