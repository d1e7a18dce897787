"""Sends what one channel has to tell, message by message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from pollerd.errors import DatabaseUnavailableError
from pollerd.notifications.channels.channel import Channel
from pollerd.notifications.delivery.pace import Pace
from pollerd.notifications.message import Answer, AnswerKind, Message
from pollerd.notifications.schedule.retries import LONGEST_S, WAITS, next_attempt
from pollerd.storage import ChannelRow, ClaimedMessage, DeliveryEnd, NotificationStore

MOST_AT_ONCE = 1_000
"""Maximum number of events of one message."""
_PROBE_MOST_SECONDS = 2 * 3600.0
"""Longest wait between two trials of a channel that refuses us."""

Compose = Callable[[ClaimedMessage], Awaitable[Message]]


class WatchesChannels(Protocol):
    """Learns what becomes of channels and messages."""

    def ended(self, channel: ChannelRow, answer: Answer, events: int, *, dead: bool) -> None:
        """One attempt ended."""

    async def refused(self, channel: ChannelRow, reason: str) -> None:
        """The channel was paused: its receiver refuses us."""

    async def accepted(self, channel: ChannelRow) -> None:
        """A paused channel works again."""


class ChannelSender:
    """One channel at work; made anew when its settings change."""

    def __init__(
        self,
        row: ChannelRow,
        channel: Channel,
        *,
        pace: Pace,
        store: NotificationStore,
        compose: Compose,
        watch: WatchesChannels,
        clock: Callable[[], float],
    ) -> None:
        self.row, self._channel, self._pace = row, channel, pace
        self._store, self._compose, self._watch, self._clock = store, compose, watch, clock
        self._log = structlog.get_logger("pollerd.notifications").bind(channel=row.name, kind=row.kind)

    async def send_due(self) -> float | None:
        """Sends all that is due; returns when to go on (epoch s), None: when something is due next.

        Raises DatabaseUnavailableError: what was being sent is sent again, under the same id.
        """
        while True:
            now = self._clock()
            if self.row.paused_at is not None and now < (self.row.probe_at or 0.0):
                return self.row.probe_at
            free_at = self._pace.free_at(now)
            if free_at > now:
                return free_at
            least = self._pace.least_group(now)
            claimed = await self._store.claim(self.row.id, now, limit=MOST_AT_ONCE, group_from=least)
            if claimed is None:
                return None
            await self._send(claimed)

    async def try_out(self, message: Message) -> Answer:
        """Sends a message beside the outbox; returns the answer."""
        return await self._channel.send(message, self._clock())

    async def close(self) -> None:
        """Closes its connections."""
        await self._channel.close()

    async def _send(self, claimed: ClaimedMessage) -> None:
        began = self._clock()
        answer = await self._answer(claimed, began)
        now = self._clock()
        next_at = self._next_attempt(claimed, answer, now)
        dead = answer.kind is not AnswerKind.SENT and next_at is None
        await self._store.ended(
            DeliveryEnd(
                channel_id=self.row.id,
                message_id=claimed.id,
                at=began,
                outcome="dead" if dead else answer.kind.value,
                status=answer.status,
                detail=answer.detail,
                duration=max(now - began, 0.0),
                next_at=next_at,
                dead=dead,
            )
        )
        if answer.kind is AnswerKind.SENT:
            self._pace.told(now, len(claimed.notices))
        await self._note(answer, next_at)
        self._watch.ended(self.row, answer, len(claimed.notices), dead=dead)
        if dead:
            self._log.warning("message_dead", message=claimed.id, events=len(claimed.notices), reason=answer.detail)

    async def _answer(self, claimed: ClaimedMessage, now: float) -> Answer:
        try:
            return await self._channel.send(await self._compose(claimed), now)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001
            # A message that breaks our own code is retried and then dead; it holds up no other channel.
            self._log.error("message_fault", message=claimed.id, exc_info=error)
            return Answer(AnswerKind.RETRY, detail=f"a fault of ours: {type(error).__name__}")

    def _next_attempt(self, claimed: ClaimedMessage, answer: Answer, now: float) -> float | None:
        """Returns when to try the message again; None: never."""
        if answer.kind is AnswerKind.RETRY:
            return next_attempt(claimed.id, claimed.attempts + 1, claimed.since, now, answer.retry_after)
        if answer.kind is AnswerKind.REFUSED and now < claimed.since + LONGEST_S:
            wait = WAITS[min(claimed.attempts + 1, len(WAITS) - 1)]
            return now + max(min(wait, _PROBE_MOST_SECONDS), answer.retry_after or 0.0)
        return None

    async def _note(self, answer: Answer, next_at: float | None) -> None:
        """Pauses a channel that refuses us, and ends the pause of one that accepts a message."""
        was_paused = self.row.paused_at is not None
        if answer.kind is AnswerKind.REFUSED:
            probe_at = next_at if next_at is not None else self._clock() + _PROBE_MOST_SECONDS
            self.row = await self._store.pause_channel(self.row.id, self._clock(), answer.detail, probe_at=probe_at)
            if not was_paused:
                self._log.error("channel_down", reason=answer.detail, queue="kept")
                await self._watch.refused(self.row, answer.detail)
        elif answer.kind is AnswerKind.SENT and was_paused:
            self.row = await self._store.resume_channel(self.row.id)
            self._log.info("channel_works")
            await self._watch.accepted(self.row)
