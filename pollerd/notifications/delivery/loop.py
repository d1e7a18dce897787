"""Delivers on all channels: each by itself, so that a slow or dead one holds up no other, and never polling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

import structlog

from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.notifications.delivery.sender import ChannelSender
from pollerd.notifications.message import Answer, Message
from pollerd.storage import NotificationStore, StoredChannel

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
        wanted = {row.id: row for row in rows if row.spec.enabled}
        gone = [one for one in self._senders.values() if not _same(wanted.get(one.row.id), one.row)]
        for sender in gone:
            await self._stop(self._senders.pop(sender.row.id))
        for row in wanted.values():
            if row.id not in self._senders:
                self._add(row)
        self._filled.set()

    def _add(self, row: StoredChannel) -> None:
        try:
            self._senders[row.id] = self._make_sender(row)
        except InvalidValueError as error:  # one that cannot be used stops neither the others nor the daemon
            self._log.error("channel_unusable", channel=row.spec.name, reason=str(error), queue="kept")

    async def try_out(self, row: StoredChannel, message: Message) -> Answer:
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
            _, sender = self._senders.popitem()
            await sender.close()
        await self._close()

    async def _patiently(self) -> None:
        """Takes back what an earlier process was sending, as soon as the database answers."""
        while True:
            try:
                await self._store.release()
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
                await self._store.release(channel_id)
                self._broken_off.discard(channel_id)
            due = await self._store.next_due()
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
