"""Counts what becomes of messages, and tells on other channels when one is paused."""

from __future__ import annotations

from pollerd.daemon.notifying.daemon_events import DaemonEvents
from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.events import Notice
from pollerd.notifications.message import Answer, AnswerKind
from pollerd.storage import ClaimedMessage, StoredChannel
from pollerd.telemetry import Instruments


class DeliveryWatch:
    """What senders report to."""

    def __init__(self, *, events: DaemonEvents, announcer: Announcer, instruments: Instruments) -> None:
        self._events, self._announcer, self._instruments = events, announcer, instruments

    def ended(self, claim: ClaimedMessage, answer: Answer, *, dead: bool) -> None:
        """Counts one attempt at a message. A digest takes nothing more in from its first attempt on."""
        self._instruments.delivery_attempts["dead" if dead else answer.kind.value].inc()
        if answer.kind is AnswerKind.SENT:
            self._instruments.notices_sent.inc(len(claim.notices))
        if claim.digest:
            self._announcer.close_digests([claim.digest])

    def notices_of(self, channel: StoredChannel, answer: Answer, now: float, *, was_paused: bool) -> tuple[Notice, ...]:
        """Returns what other channels are told, if this one is paused now, or works again."""
        refused, sent = answer.kind is AnswerKind.REFUSED, answer.kind is AnswerKind.SENT
        if not (refused and not was_paused) and not (sent and was_paused):
            return ()
        return self._events.of_channel(channel, answer.detail if refused else "", over=sent)
