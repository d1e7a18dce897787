"""The stages of one poll from its answer to the record that is committed, and the cache of sites' contexts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from pollerd.daemon.workers import Effort
from pollerd.model import Detection, Outcome
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import SiteContext

if TYPE_CHECKING:
    from pollerd.crawler.pages import PageReading
    from pollerd.detection.selection.conditions.change_size import LineChanges


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

    result: Found
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
    flip: tuple[bytes, bytes] | None = None
    """The fingerprints that the two polls showed, if the page seems to alternate between them."""
    lifted: bool = False
    """Whether rules of the mask were given up, because what they hide stood still."""
    recorded: Found | None = None
    """The poll that found the waiting change, if that is recorded with this one, which failed."""


class Judgement(Struct, frozen=True):
    """What came of judging a result by itself, besides what stands in it."""

    summary: str | None
    """Of its change, in a line; None: there is none."""
    lines: Mapping[tuple[int, str], LineChanges] | None
    """The lines of its changes, by site and selection; None: no rule asks for them."""


class Answer(Struct, frozen=True, gc=False):
    """The first stage of a poll: what came of the request for the site in `slot`.

    `asked` is False if no request was sent (robots.txt denied it), so it says nothing about our own link. `effort`:
    what workers spend on it; None: it has no body.
    """

    slot: int
    context: SiteContext
    outcome: Outcome
    asked: bool = True
    effort: Effort | None = None


class Found(Struct, frozen=True, gc=False):
    """The second stage of a poll: what the answer means. The third is the `PollRecord` that is stored.

    `detection` is present exactly if the poll was informative or the body could not be read. `reading`: the page as
    read for the topic, if the site is the focused crawler's. `proof`: set by the noise step if a change has to be
    proven. `signals_stored`: what it says of other pages was read and stored. `dated_at`: the latest date of a change
    since the site's poll before that a signal source gave, epoch s. `date_believed`: whether a believed one gave such a
    date. `alone`: it is prepared by itself, so that work on it may take long; `judgement`: what came of that.
    """

    answer: Answer
    detection: Detection | None = None
    reading: PageReading | None = None
    proof: ProofStatus | None = None
    signals_stored: bool = False
    dated_at: float | None = None
    date_believed: bool = False
    alone: bool = False
    judgement: Judgement | None = None

    @property
    def slot(self) -> int:
        """The slot of the polled site."""
        return self.answer.slot

    @property
    def context(self) -> SiteContext:
        """What the poll knew of its site."""
        return self.answer.context

    @property
    def outcome(self) -> Outcome:
        """What came of the request."""
        return self.answer.outcome

    @property
    def effort(self) -> Effort | None:
        """What workers spend on it."""
        return self.answer.effort

    @property
    def site_id(self) -> int:
        """The polled site."""
        return self.answer.context.site_id


class SiteCache:
    """A bounded cache of `SiteContext` in front of the store."""

    def __init__(self, store: SiteStore, capacity: int) -> None:
        self._store, self._capacity = store, capacity
        self._kept: OrderedDict[int, SiteContext] = OrderedDict()
        self._loading: set[int] = set()

    async def get(self, site_ids: Sequence[int]) -> dict[int, SiteContext]:
        """Returns the contexts of the sites; sites that are gone from the store are left out."""
        if not self._kept.keys() >= set(site_ids):
            await self._load([i for i in site_ids if i not in self._kept])
        contexts = {}
        for site_id in site_ids:
            context = self._kept.get(site_id)
            if context is not None:
                self._kept.move_to_end(site_id)
                contexts[site_id] = context
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        return contexts

    async def _load(self, site_ids: Sequence[int]) -> None:
        """Loads the sites; one that is forgotten meanwhile may have been read before its change, and is not kept."""
        self._loading.update(site_ids)
        try:
            loaded = await self._store.contexts(site_ids)
            self._kept.update({i: context for i, context in loaded.items() if i in self._loading})
        finally:
            self._loading.difference_update(site_ids)

    def follow(self, before: SiteContext, after: SiteContext) -> None:
        """Stores the context after a poll that started from `before`, unless the site was changed or forgotten
        meanwhile.
        """
        if self._kept.get(before.site_id) is before:
            self._kept[before.site_id] = after

    def forget(self, site_id: int) -> None:
        """Drops a site that changed in the database."""
        self._kept.pop(site_id, None)
        self._loading.discard(site_id)

    def forget_all(self) -> None:
        """Drops all sites."""
        self._kept.clear()
        self._loading.clear()
