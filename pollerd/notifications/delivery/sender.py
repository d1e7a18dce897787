"""Sends what one channel has to tell, message by message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Protocol, TypedDict

import structlog

from pollerd.errors import DatabaseUnavailableError
from pollerd.events import Notice, NoticeState
from pollerd.notifications.channels.channel import MessageChannel
from pollerd.notifications.delivery.pace import WINDOW_SECONDS, Pace
from pollerd.notifications.message import Answer, AnswerKind, Message
from pollerd.notifications.schedule.retries import next_attempt
from pollerd.storage import (
    AttemptEnd,
    ClaimedMessage,
    DueTimes,
    NewMessages,
    NotificationStore,
    Pause,
    StoredChannel,
)

MOST_AT_ONCE = 1_000
"""Maximum number of events of one message."""
_PROBES = (5.0, 30.0, 300.0, 1_800.0, 7_200.0)
"""Seconds between trials of a channel that refuses us: few, as wrong passwords may lock an account."""
_PROBE_MOST_SECONDS = _PROBES[-1]

Compose = Callable[[ClaimedMessage], Awaitable[Message]]


class _Terms(TypedDict):
    limit: int
    group_from: int
    begins: NewMessages


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
        self._first_seen_pace = pace.share()
        """Of messages of first sights alone: a flood of them must not hold up changes."""
        self._store, self._compose, self._watch, self._clock = store, compose, watch, clock
        self._pace_known = False
        self._asked_until = 0.0
        """Until when the receiver asked for no more messages (epoch s)."""
        self._log = structlog.get_logger("pollerd.notifications").bind(channel=row.spec.name, kind=row.spec.kind)

    async def send_due(self) -> None:
        """Sends all that is due and that the channel's pace allows.

        Raises DatabaseUnavailableError: what was being sent is sent again, under the same id.
        """
        await self._recall_pace()
        claim = await self._claim()
        while claim is not None:
            claim = await self._send(claim)

    def goes_at(self, due: DueTimes, now: float) -> float:
        """Returns when some of what is due may be sent (epoch s); `now` or earlier: at once."""
        others = max(due.others, self._pace.free_at(now))
        first_seen = max(due.first_seen, self._first_seen_pace.free_at(now))
        return max(min(due.again, others, first_seen), self._open_at(now))

    async def try_out(self, message: Message) -> Answer:
        """Sends a message beside the outbox; returns the answer."""
        return await self._channel.send(message, self._clock())

    async def close(self) -> None:
        """Closes its connections."""
        await self._channel.close()

    def _open_at(self, now: float) -> float:
        """Returns when any message may be sent, also one that is tried again (epoch s); not after `now`: at once."""
        if self.row.paused_at is not None and now < (self.row.probe_at or 0.0):
            return self.row.probe_at or now  # one message is tried then
        return max(self._pace.limit_at(now), self._asked_until)

    def _terms(self, now: float) -> _Terms:
        """Returns what may be begun now, and from how many on notices are sent together."""
        begins, least = NewMessages.NONE, [self._pace.least_group(now)]
        if self._pace.free_at(now) <= now:
            begins |= NewMessages.OTHERS
        if self._first_seen_pace.free_at(now) <= now:
            begins |= NewMessages.FIRST_SEEN
            least.append(self._first_seen_pace.least_group(now))
        return _Terms(limit=MOST_AT_ONCE, group_from=min(least), begins=begins)

    async def _claim(self) -> ClaimedMessage | None:
        now = self._clock()
        if self._open_at(now) > now:
            return None
        return await self._store.claim(self.row.id, now, **self._terms(now))

    async def _send(self, claim: ClaimedMessage) -> ClaimedMessage | None:
        """Sends a message, notes what became of it, and returns the next one, if it may be sent now."""
        began = self._clock()
        claim, answer = await self._answer(claim, began)
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
        if answer.kind is AnswerKind.SENT:
            self._note_sent(now, len(claim.notices), first_seen=claim.only_first_seen)
        elif answer.status == HTTPStatus.TOO_MANY_REQUESTS and answer.retry_after is not None:
            self._asked_until = now + min(
                answer.retry_after, WINDOW_SECONDS
            )  # the channel is too fast, not one message
        notices = self._watch.notices_of(self.row, answer, now, was_paused=was_paused)
        following = await self._end(claim, end, notices, now)
        self._watch.ended(claim, answer, dead=dead)
        self._say(claim, answer, end, was_paused=was_paused)
        return following

    async def _end(
        self, claim: ClaimedMessage, end: AttemptEnd, notices: Sequence[Notice], now: float
    ) -> ClaimedMessage | None:
        """Notes the end of an attempt; returns the next message, in the same transaction where the channel goes on."""
        if end.pause is None and not end.resumes and self._open_at(now) <= now:
            return await self._store.end_and_claim(claim, now, end, notices, **self._terms(now))
        await self._store.ended(self.row.id, claim.message_id, now, end, notices)
        if end.pause is not None or end.resumes:
            self.row = await self._store.channel(self.row.id)
        return await self._claim()

    async def _recall_pace(self) -> None:
        """Reads from the log what was sent in the last minute, by an earlier run or with earlier settings."""
        if not self._pace_known:
            for at, events, first_seen in await self._store.sent_since(self.row.id, self._clock() - WINDOW_SECONDS):
                self._note_sent(at, events, first_seen=first_seen)
            self._pace_known = True

    def _note_sent(self, at: float, events: int, *, first_seen: bool) -> None:
        self._pace.note_sent(at, 0 if first_seen else events)
        if first_seen:
            self._first_seen_pace.note_sent(at, events)

    async def _answer(self, claim: ClaimedMessage, now: float) -> tuple[ClaimedMessage, Answer]:
        """Sends as many of the notices as one message holds; returns these, and the answer. The others follow.

        One that was tried before stays as it was: receivers know it by its id.
        """
        claimed, pace = len(claim.notices), self._first_seen_pace if claim.only_first_seen else self._pace
        try:
            message = await self._compose(claim)
            while not claim.attempts and (carried := self._channel.events_carried(message)) < len(claim.notices):
                claim = await self._store.part(claim, carried)
                message = await self._compose(claim)
            if not claim.attempts:
                pace.begin(claimed, len(claim.notices))
            return claim, await self._channel.send(message, now)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001
            # A message that breaks our own code is retried and then dead; it holds up no other channel.
            self._log.error("message_fault", message=claim.message_id, exc_info=error)
            return claim, Answer(AnswerKind.RETRY, detail=f"a fault of ours: {type(error).__name__}")

    def _next_attempt(self, claim: ClaimedMessage, answer: Answer, now: float) -> float | None:
        """Returns when to try the message again; None: never, or not again."""
        failed, since = claim.attempts + 1, min(one.waits_since for one in claim.notices)
        if answer.kind is AnswerKind.RETRY:
            return next_attempt(claim.message_id, failed, since, now, answer.retry_after)
        if answer.kind is AnswerKind.REFUSED:
            wait = _PROBES[min(failed, len(_PROBES)) - 1]
            return now + max(wait, min(answer.retry_after or 0.0, _PROBE_MOST_SECONDS))
        return None

    def _say(self, claim: ClaimedMessage, answer: Answer, end: AttemptEnd, *, was_paused: bool) -> None:
        if end.state is NoticeState.DEAD:
            self._log.warning("message_dead", message=claim.message_id, events=len(claim.notices), reason=answer.detail)
        elif end.pause is not None and not was_paused:
            self._log.error("channel_down", reason=answer.detail, queue="kept")
        elif end.resumes:
            self._log.info("channel_works")
