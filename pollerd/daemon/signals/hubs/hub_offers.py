"""Notes which hubs the answers of signal sources offer, so that they are subscribed to."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from pollerd.crawling.sources.hub_offer import HubOffer, hub_offer
from pollerd.errors import InvalidValueError
from pollerd.model import Outcome
from pollerd.storage import HubStore, SignalSource

_MOST_KNOWN = 10_000
_KNOWN_SECONDS = 3_600.0
"""How long what a source offered is taken as noted: another node may have read it meanwhile."""


class HubOffers:
    """Compares what an answer offers with what the source offered last; asks the database only if it differs."""

    def __init__(self, *, store: HubStore, clock: Callable[[], float], on_change: Callable[[], None]) -> None:
        """on_change: called when a subscription is to be asked for, or left."""
        self._store, self._clock, self._on_change = store, clock, on_change
        self._known: dict[int, tuple[float, HubOffer | None]] = {}
        """What each source offered last, by its id, and until when that counts as noted."""
        self._log = structlog.get_logger("pollerd.hubs")

    async def note(self, source: SignalSource, outcome: Outcome, base: str) -> None:
        """Notes the hub that a full answer at the normalised URL `base` offers. Raises DatabaseUnavailableError."""
        offer = hub_offer(outcome.body or b"", outcome.content_type, outcome.hub_links, base)
        until, known = self._known.get(source.id, (0.0, None))
        if known == offer and self._clock() < until:
            return
        if await self._stored(source, offer):
            self._on_change()
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[source.id] = (self._clock() + _KNOWN_SECONDS, offer)

    async def _stored(self, source: SignalSource, offer: HubOffer | None) -> bool:
        now = self._clock()
        if offer is None:
            return await self._store.withdrawn(source.id, now)
        try:
            return await self._store.offered(source.id, offer.topic, offer.hubs, now)
        except InvalidValueError as error:
            self._log.warning("hub_not_subscribed", source=source.id, hub=offer.hubs[0], reason=str(error))
            return False
