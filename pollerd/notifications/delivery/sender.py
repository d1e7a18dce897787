"""Sends what one channel has to tell, message by message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from pollerd.errors import DatabaseUnavailableError
from pollerd.events import Notice, NoticeState
from pollerd.notifications.channels.channel import MessageChannel
from pollerd.notifications.delivery.pace import Pace
from pollerd.notifications.message import Answer, AnswerKind, Message
from pollerd.notifications.schedule.retries import WAITS, next_attempt
from pollerd.storage import AttemptEnd, ClaimedMessage, NotificationStore, Pause, StoredChannel

MOST_AT_ONCE = 1_000
"""Maximum number of events of one message."""
_PROBE_MOST_SECONDS = 2 * 3600.0
"""Longest wait between two trials of a channel that refuses us."""

Compose = Callable[[ClaimedMessage], Awaitable[Message]]


class WatchesChannels(Protocol):
    """Learns what becomes of channels and messages."""

    def ended(self, claim: ClaimedMessage, answer: Answer, *, dead: bool) -> None:
        """Takes in that one attempt at this message ended."""

    def notices_of(self, channel: StoredChannel, answer: Answer, now: float, *, was_paused: bool) -> tuple[Notice, ...]:
        """Returns what other channels are told, if this one is paused now, or works again."""


class ChannelSender:
    """One channel at work; made anew when its settings change."""

    def __init__(
        self,
        row: StoredChannel,
        channel: MessageChannel,
        *,
        pace: Pace,
        store: NotificationStore,
        compose: Compose,
        watch: WatchesChannels,
        clock: Callable[[], float],
    ) -> None:
        self.row, self._channel, self._pace = row, channel, pace
        self._store, self._compose, self._watch, self._clock = store, compose, watch, clock
        self._log = structlog.get_logger("pollerd.notifications").bind(channel=row.spec.name, kind=row.spec.kind)

    async def send_due(self) -> float | None:
        """Sends all that is due; returns when to go on (epoch s), None: when something is due next.

        Raises DatabaseUnavailableError: what was being sent is sent again, under the same id.
        """
        while True:
            now = self._clock()
            if self.row.paused_at is not None and now < (self.row.probe_at or 0.0):
                return self.row.probe_at  # one message is tried then
            free_at = self._pace.free_at(now)
            if free_at > now:
                return free_at
            least = self._pace.least_group(now)
            claim = await self._store.claim(self.row.id, now, limit=MOST_AT_ONCE, group_from=least)
            if claim is None:
                return None
            await self._send(claim)

    async def try_out(self, message: Message) -> Answer:
        """Sends a message beside the outbox; returns the answer."""
        return await self._channel.send(message, self._clock())

    async def close(self) -> None:
        """Closes its connections."""
        await self._channel.close()

    async def _send(self, claim: ClaimedMessage) -> None:
        began = self._clock()
        answer = await self._answer(claim, began)
        now = self._clock()
        next_at = self._next_attempt(claim, answer, now)
        dead = answer.kind is not AnswerKind.SENT and next_at is None
        state = NoticeState.DEAD if dead else NoticeState.SENT if next_at is None else NoticeState.WAITING
        was_paused, refused = self.row.paused_at is not None, answer.kind is AnswerKind.REFUSED
        end = AttemptEnd(
            state=state,
            outcome="dead" if dead else answer.kind.value,
            status=answer.status,
            detail=answer.detail,
            duration=max(now - began, 0.0),
            due_at=next_at,
            pause=Pause(answer.detail, next_at or now + _PROBE_MOST_SECONDS) if refused else None,
            resumes=was_paused and not refused and answer.kind is AnswerKind.SENT,
        )
        notices = self._watch.notices_of(self.row, answer, now, was_paused=was_paused)
        await self._store.ended(self.row.id, claim.message_id, now, end, notices)
        if end.pause is not None or end.resumes:
            self.row = await self._store.channel(self.row.id)
        if answer.kind is AnswerKind.SENT:
            self._pace.told(now, len(claim.notices))
        self._watch.ended(claim, answer, dead=dead)
        self._say(claim, answer, end, was_paused=was_paused)

    async def _answer(self, claim: ClaimedMessage, now: float) -> Answer:
        try:
            return await self._channel.send(await self._compose(claim), now)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001
            # A message that breaks our own code is retried and then dead; it holds up no other channel.
            self._log.error("message_fault", message=claim.message_id, exc_info=error)
            return Answer(AnswerKind.RETRY, detail=f"a fault of ours: {type(error).__name__}")

    def _next_attempt(self, claim: ClaimedMessage, answer: Answer, now: float) -> float | None:
        """Returns when to try the message again; None: never, or not again."""
        failed, since = claim.attempts + 1, min(one.waits_since for one in claim.notices)
        if answer.kind is AnswerKind.RETRY:
            return next_attempt(claim.message_id, failed, since, now, answer.retry_after)
        if answer.kind is AnswerKind.REFUSED:
            wait = min(WAITS[min(failed, len(WAITS) - 1)], _PROBE_MOST_SECONDS)
            return now + max(wait, min(answer.retry_after or 0.0, _PROBE_MOST_SECONDS))
        return None

    def _say(self, claim: ClaimedMessage, answer: Answer, end: AttemptEnd, *, was_paused: bool) -> None:
        if end.state is NoticeState.DEAD:
            self._log.warning("message_dead", message=claim.message_id, events=len(claim.notices), reason=answer.detail)
        elif end.pause is not None and not was_paused:
            self._log.error("channel_down", reason=answer.detail, queue="kept")
        elif end.resumes:
            self._log.info("channel_works")
