"""Delivery of messages on all channels: each on its own, so that a slow or dead one holds up no other."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Protocol, TypedDict

import structlog

from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.events import Notice, NoticeState
from pollerd.notifications.channels.channel import MessageChannel
from pollerd.notifications.message import AnswerKind, Message, Receipt
from pollerd.notifications.schedule import next_attempt
from pollerd.storage.notification_values import AttemptEnd, ClaimedMessage, DueTimes, NewMessages, Pause, StoredChannel
from pollerd.storage.notifications import NotificationStore
from pollerd.texts import _

# The pace of a channel: messages a minute, and when single ones give way to groups. Pure.

WINDOW_SECONDS = 60.0
"""In a storm, one group is sent in this time."""


class Pace:
    """The recent messages of one channel, or those of one sort. After a start they are read from the delivery log."""

    def __init__(self, *, group_from: int, per_minute: int) -> None:
        """`group_from`: events in a minute from which they are sent together; `per_minute`: messages at most."""
        self._group_from, self._per_minute = group_from, per_minute
        self._events: deque[float] = deque()
        self._messages: deque[float] = deque()
        self._group_at = -math.inf
        self._left_over = 0

    def share(self) -> Pace:
        """Returns the pace of messages that leave at least half of those of a minute to others, where there are two."""
        return Pace(group_from=self._group_from, per_minute=max(self._per_minute // 2, 1))

    def limit_at(self, now: float) -> float:
        """Returns when there is room for a message within those of a minute (epoch s), `now` if at once."""
        self._forget(now)
        if len(self._messages) < self._per_minute:
            return now
        return self._messages[len(self._messages) - self._per_minute] + WINDOW_SECONDS

    def free_at(self, now: float) -> float:
        """Returns when the next message may be begun (epoch s), `now` if at once.

        What one message did not hold of its list goes on in a storm, whatever becomes of that message.
        """
        at = self.limit_at(now)
        if self.in_storm(now) and not self._left_over:
            at = max(at, self._since() + WINDOW_SECONDS)
        return at

    def in_storm(self, now: float) -> bool:
        """Whether so many events were sent in the last minute that the next ones are sent together."""
        self._forget(now)
        return len(self._events) >= self._group_from

    def least_group(self, now: float) -> int:
        """Returns the number of waiting notices from which they become one message."""
        return 2 if self.in_storm(now) or len(self._messages) >= self._per_minute - 1 else self._group_from

    def begin(self, events: int, held: int) -> None:
        """Notes that so many events of a list were to go as one message, which holds only the first `held` of them."""
        self._left_over = max(self._left_over - events, 0) + events - held

    def note_sent(self, now: float, events: int) -> None:
        """Notes a message of so many events; 0: they are of another sort, and only the message counts."""
        self._forget(now)
        self._messages.append(now)
        self._events.extend([now] * min(events, self._group_from))
        if events > 1:
            self._group_at = now

    def _since(self) -> float:
        """Returns when the present storm's minute began: with its last group, or its first single message."""
        return max(self._group_at, self._events[0])

    def _forget(self, now: float) -> None:
        for times in (self._events, self._messages):
            while times and not now - WINDOW_SECONDS < times[0] <= now:  # the clock may have been set back
                times.popleft()


# The sender of one channel, message by message.

MAX_AT_ONCE = 1_000
"""Maximum number of events of one message."""
_PROBES = (5.0, 30.0, 300.0, 1_800.0, 7_200.0)
"""Seconds between trials of a channel that refuses us: few, as wrong passwords may lock an account."""
_PROBE_MOST_SECONDS = _PROBES[-1]

Compose = Callable[[ClaimedMessage], Awaitable[Message]]


class _Terms(TypedDict):
    limit: int
    group_from: int
    begins: NewMessages


class ChannelWatcher(Protocol):
    """Learns what becomes of channels and messages."""

    def ended(self, claim: ClaimedMessage, answer: Receipt, *, dead: bool) -> None:
        """Takes in that one attempt at this message ended."""

    def notices_of(
        self, channel: StoredChannel, answer: Receipt, now: float, *, was_paused: bool
    ) -> tuple[Notice, ...]:
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
        watch: ChannelWatcher,
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

    async def try_out(self, message: Message) -> Receipt:
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
        return _Terms(limit=MAX_AT_ONCE, group_from=min(least), begins=begins)

    async def _claim(self) -> ClaimedMessage | None:
        now = self._clock()
        if self._open_at(now) > now:
            return None
        return await self._store.outbox.claim(self.row.id, now, **self._terms(now))

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
            return await self._store.outbox.end_and_claim(claim, now, end, notices, **self._terms(now))
        await self._store.outbox.ended(self.row.id, claim.message_id, now, end, notices)
        if end.pause is not None or end.resumes:
            self.row = await self._store.channels.get(self.row.id)
        return await self._claim()

    async def _recall_pace(self) -> None:
        """Reads from the log what was sent in the last minute, by an earlier run or with earlier settings."""
        if not self._pace_known:
            for at, events, first_seen in await self._store.outbox.sent_since(
                self.row.id, self._clock() - WINDOW_SECONDS
            ):
                self._note_sent(at, events, first_seen=first_seen)
            self._pace_known = True

    def _note_sent(self, at: float, events: int, *, first_seen: bool) -> None:
        self._pace.note_sent(at, 0 if first_seen else events)
        if first_seen:
            self._first_seen_pace.note_sent(at, events)

    async def _answer(self, claim: ClaimedMessage, now: float) -> tuple[ClaimedMessage, Receipt]:
        """Sends as many of the notices as one message holds; returns these, and the answer. The others follow.

        One that was tried before stays as it was: receivers know it by its id.
        """
        claimed, pace = len(claim.notices), self._first_seen_pace if claim.only_first_seen else self._pace
        try:
            message = await self._compose(claim)
            while not claim.attempts and (carried := self._channel.events_carried(message)) < len(claim.notices):
                claim = await self._store.outbox.part(claim, carried)
                message = await self._compose(claim)
            if not claim.attempts:
                pace.begin(claimed, len(claim.notices))
            return claim, await self._channel.send(message, now)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001
            # A message that breaks our own code is retried and then dead; it holds up no other channel.
            self._log.error("message_fault", message_id=claim.message_id, exc_info=error)
            return claim, Receipt(AnswerKind.RETRY, detail=_("internal error: {name}", name=type(error).__name__))

    def _next_attempt(self, claim: ClaimedMessage, answer: Receipt, now: float) -> float | None:
        """Returns when to try the message again; None: never, or not again."""
        failed, since = claim.attempts + 1, min(notice.waits_since for notice in claim.notices)
        if answer.kind is AnswerKind.RETRY:
            return next_attempt(claim.message_id, failed, since, now, answer.retry_after)
        if answer.kind is AnswerKind.REFUSED:
            wait = _PROBES[min(failed, len(_PROBES)) - 1]
            return now + max(wait, min(answer.retry_after or 0.0, _PROBE_MOST_SECONDS))
        return None

    def _say(self, claim: ClaimedMessage, answer: Receipt, end: AttemptEnd, *, was_paused: bool) -> None:
        if end.state is NoticeState.DEAD:
            self._log.warning(
                "message_failed", message_id=claim.message_id, events=len(claim.notices), reason=answer.detail
            )
        elif end.pause is not None and not was_paused:
            self._log.error("channel_down", reason=answer.detail, effect="messages stay queued")
        elif end.resumes:
            self._log.info("channel_works")


_LONGEST_SLEEP_SECONDS = 600.0
"""The loop's clock stops while the machine is suspended."""
_RETRY_SECONDS = 5.0


class DeliveryLoop:
    """Starts the sender of each channel that has something due. Without channels it never wakes.

    It runs once: whoever delivers again later makes another one, as all that this one knows may be outdated by then.
    """

    def __init__(
        self,
        *,
        store: NotificationStore,
        make_sender: Callable[[StoredChannel], ChannelSender],
        filled: asyncio.Event,
        close: Callable[[], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        """`filled`: set when there is something new to send. close: called at the end, and harmless when repeated."""
        self._store, self._make_sender = store, make_sender
        self._close, self._clock = close, clock
        self._senders: dict[int, ChannelSender] = {}
        self._again_at: dict[int, float] = {}
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._broken_off: set[int] = set()
        """Channels whose last message may still be marked as being sent."""
        self._group = asyncio.TaskGroup()
        self._filled = filled
        self._log = structlog.get_logger("pollerd.notifications")

    async def replace(self, rows: Iterable[StoredChannel]) -> None:
        """Puts these channels in place of those before. One whose settings are as before goes on undisturbed."""
        enabled = {row.id: row for row in rows if row.spec.enabled}
        gone = [running for running in self._senders.values() if not _same(enabled.get(running.row.id), running.row)]
        for sender in gone:
            await self._stop(self._senders.pop(sender.row.id))
        for row in enabled.values():
            if row.id not in self._senders:
                self._add(row)
        self._filled.set()

    def _add(self, row: StoredChannel) -> None:
        try:
            self._senders[row.id] = self._make_sender(row)
        except InvalidValueError as error:  # one that cannot be used stops neither the others nor the daemon
            self._log.error("channel_unusable", channel=row.spec.name, reason=str(error), effect="messages stay queued")

    async def try_out(self, row: StoredChannel, message: Message) -> Receipt:
        """Sends one message on a channel with these settings, at once and beside the outbox."""
        sender = self._make_sender(row)
        try:
            return await sender.try_out(message)
        finally:
            await sender.close()

    async def run(self) -> None:
        """Delivers until cancelled."""
        try:
            await self._patiently()
            async with self._group:
                while True:
                    self._filled.clear()
                    sleep = await self._start_due()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(sleep):
                            await self._filled.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Closes every connection; may be repeated."""
        while self._senders:
            _channel_id, sender = self._senders.popitem()
            await sender.close()
        await self._close()

    async def _patiently(self) -> None:
        """Takes back what an earlier process was sending, as soon as the database answers."""
        while True:
            try:
                await self._store.outbox.release()
            except DatabaseUnavailableError as error:
                self._log.warning("deliveries_put_off", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _stop(self, sender: ChannelSender) -> None:
        """Ends a sender; a message that it was sending is sent again, under the same id."""
        task = self._busy.pop(sender.row.id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # what it raises, its task group raises
            self._broken_off.add(sender.row.id)
        self._again_at.pop(sender.row.id, None)
        await sender.close()

    async def _start_due(self) -> float | None:
        """Starts the channels that have something due; returns the seconds until another has, None: none has."""
        if not self._senders:
            return None
        try:
            for channel_id in tuple(self._broken_off):
                await self._store.outbox.release(channel_id)
                self._broken_off.discard(channel_id)
            due = await self._store.outbox.next_due()
        except DatabaseUnavailableError as error:
            self._log.warning("deliveries_put_off", reason=str(error))
            return _RETRY_SECONDS
        now, waits = self._clock(), list[float]()
        for channel_id, times in due.items():
            sender = self._senders.get(channel_id)
            if sender is None or channel_id in self._busy:
                continue
            at = max(sender.goes_at(times, now), self._again_at.get(channel_id, 0.0))
            if at <= now:
                self._busy[channel_id] = self._group.create_task(self._send(sender), name=f"channel-{channel_id}")
            else:
                waits.append(at - now)
        return min(*waits, _LONGEST_SLEEP_SECONDS) if waits else None

    async def _send(self, sender: ChannelSender) -> None:
        channel_id = sender.row.id
        try:
            await sender.send_due()
        except DatabaseUnavailableError as error:
            self._log.warning("delivery_put_off", channel=sender.row.spec.name, reason=str(error))
            self._again_at[channel_id] = self._clock() + _RETRY_SECONDS
            self._broken_off.add(channel_id)
        else:
            self._again_at.pop(channel_id, None)
        finally:
            self._busy.pop(channel_id, None)
        self._filled.set()


def _same(row: StoredChannel | None, before: StoredChannel) -> bool:
    """Returns whether the channel is as before; a pause is its sender's own doing."""
    return row is not None and row.changed_at == before.changed_at
