"""Counts what becomes of messages, and tells on other channels when one is paused."""

from __future__ import annotations

from pollerd.daemon.notifying.daemon_events import DaemonEvents
from pollerd.notifications.message import Answer, AnswerKind
from pollerd.storage import ChannelRow
from pollerd.telemetry import Instruments


class DeliveryWatch:
    """What senders report to."""

    def __init__(self, events: DaemonEvents, instruments: Instruments) -> None:
        self._events, self._instruments = events, instruments

    def ended(self, channel: ChannelRow, answer: Answer, events: int, *, dead: bool) -> None:
        """Counts one attempt."""
        self._instruments.delivery_attempts["dead" if dead else answer.kind.value].inc()
        if answer.kind is AnswerKind.SENT:
            self._instruments.notices_sent.inc(events)

    async def refused(self, channel: ChannelRow, reason: str) -> None:
        """Tells that the channel was paused."""
        await self._events.refused(channel, reason)

    async def accepted(self, channel: ChannelRow) -> None:
        """Tells that the channel works again."""
        await self._events.accepted(channel)
