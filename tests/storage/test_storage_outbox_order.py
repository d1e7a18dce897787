"""What is claimed, in which order and grouping: the outbox against a simple model of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.events import EventKind, Notice, NoticeState
from pollerd.storage.notification_values import AttemptEnd, ChannelSpec, DueTimes, NewMessages
from pollerd.storage.store import Store

NOTICE = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from(["", "", "d", "e"]), st.integers(0, 2), st.booleans())
PUT = st.tuples(st.just("put"), st.lists(NOTICE))
CLAIM = st.tuples(
    st.just("claim"),
    st.tuples(
        st.integers(1, 4),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([NewMessages.ALL, NewMessages.ALL, *NewMessages, NewMessages.NONE]),
        st.sampled_from([None, 1, 2]),
    ),
)
END = st.tuples(st.just("end"), st.tuples(st.integers(0, 3), st.sampled_from(["sent", "dead", "waiting"])))
OTHER = st.tuples(st.sampled_from(["tick", "release", "resend"]), st.none())
STEPS = st.lists(st.one_of(PUT, CLAIM, CLAIM, END, END, OTHER), max_size=25)


@dataclass
class Row:
    id: int
    site: int | None
    digest: str
    due: float
    first_seen: bool
    state: str = "waiting"
    message: str | None = None

    @property
    def open(self) -> bool:
        return self.state in ("waiting", "sending")


class Model:
    """The rows of one channel."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def next(self, now: float, limit: int, group_from: int | None, begins: NewMessages) -> list[Row]:
        def some(rows: list[Row]) -> list[Row]:
            return rows[:limit] if group_from is not None and len(rows) >= group_from else rows[:1]

        tried = self.again(now)
        urgent = [row for row in tried if not row.first_seen]
        if not urgent and NewMessages.OTHERS in begins:
            digests = self.digests(now)
            if digests:
                key = min(digests, key=lambda row: (row.due, row.id)).digest
                return [row for row in digests if row.digest == key]
            if others := some(self.others(now)):
                before = [row for row in self.rows if self.goes_with(row, others)]
                return before[:1] or others if len(others) == 1 else self.ordered(others + before)[:limit]
        if tried:
            first = min(urgent or tried, key=lambda row: (row.due, row.id))
            return [row for row in self.rows if row.open and row.message == first.message]
        return some(self.first_seen(now)) if NewMessages.FIRST_SEEN in begins else []

    def again(self, now: float) -> list[Row]:
        return [row for row in self.waiting(now) if row.message is not None]

    def digests(self, now: float) -> list[Row]:
        return [row for row in self.waiting(now) if row.message is None and row.digest]

    def others(self, now: float) -> list[Row]:
        taken: list[Row] = []
        for row in self.free(now):
            if not row.first_seen and all(
                one in taken or (one.first_seen and one.message is None) for one in self.before(row)
            ):
                taken.append(row)
        return taken

    def first_seen(self, now: float) -> list[Row]:
        taken: list[Row] = []
        for row in self.free(now):
            if row.first_seen and all(one in taken for one in self.before(row)):
                taken.append(row)
        return taken

    def goes_with(self, row: Row, others: Sequence[Row]) -> bool:
        return row.first_seen and row.message is None and any(row in self.before(one) for one in others)

    def before(self, row: Row) -> list[Row]:
        """What its site has open before it, outside of digests."""
        open_ones = [one for one in self.rows if one.open and not one.digest and one.id < row.id]
        return [one for one in open_ones if row.site is not None and one.site == row.site]

    def free(self, now: float) -> list[Row]:
        return [row for row in self.waiting(now) if row.message is None and not row.digest]

    def waiting(self, now: float) -> list[Row]:
        return [row for row in self.rows if row.state == "waiting" and row.due <= now]

    @staticmethod
    def ordered(rows: list[Row]) -> list[Row]:
        return sorted(rows, key=lambda row: row.id)

    def next_due(self) -> DueTimes | None:
        times = sorted({row.due for row in self.rows if row.state == "waiting"})

        def first(*kinds: Callable[[float], list[Row]]) -> float:
            return next((time for time in times if any(kind(time) for kind in kinds)), math.inf)

        found = DueTimes(first(self.again), first(self.others, self.digests), first(self.first_seen))
        return found if found != DueTimes() else None


async def follow(store: Store, channel: int, steps: Sequence[tuple[str, Any]]) -> None:
    """Takes the steps in both, and compares."""
    n, model, now, names = store.notifications, Model(), 100.0, count()
    ids: dict[str, Row] = {}
    sending: list[str] = []
    for name, how in steps:
        if name == "put":
            notices = []
            for site, digest, delay, is_first in how:
                event = f"c{channel}e{next(names)}"
                row = Row(len(model.rows), site, digest, now + delay, is_first)
                model.rows.append(row)
                ids[event] = row
                kind = EventKind.FIRST_SEEN if is_first else EventKind.CHANGED
                notices.append(Notice(event, kind, now, 1, channel, row.due, digest=digest, site_id=site))
            await n.outbox.put(notices)
        elif name == "claim":
            *asked, first = how
            wanted = model.next(now, *asked)
            claim = await n.outbox.claim(channel, now, limit=how[0], group_from=how[1], begins=how[2])
            found = [] if claim is None else [ids[one.event_id] for one in claim.notices]
            assert found == wanted
            if claim is not None:
                assert {row.message for row in wanted} in ({None}, {claim.message_id})
                if first is not None and first < len(wanted) and not claim.attempts:
                    claim = await n.outbox.part(claim, first)
                    for row in wanted[first:]:
                        row.message = None
                    wanted = wanted[:first]
                    assert [ids[one.event_id] for one in claim.notices] == wanted
                sending.append(claim.message_id)
                for row in wanted:
                    row.state, row.message = "sending", claim.message_id
        elif name == "end" and sending:
            message = sending.pop(how[0] % len(sending))
            state = NoticeState(how[1])
            mine = [row for row in model.rows if row.state == "sending" and row.message == message]
            assert await n.outbox.ended(channel, message, now, AttemptEnd(state, "x", due_at=now + 1)) == len(mine)
            for row in mine:
                row.state = state.value
                row.due = now + 1 if state is NoticeState.WAITING else row.due
        elif name == "tick":
            now += 1
        elif name == "release":
            await n.outbox.release()
            sending.clear()
            for row in model.rows:
                row.state = "waiting" if row.state == "sending" else row.state
        elif name == "resend":
            dead = [row for row in model.rows if row.state == "dead"]
            assert await n.outbox.resend(now, channel_id=channel) == len(dead)
            for row in dead:
                row.state, row.message, row.due = "waiting", None, now
        assert (await n.outbox.next_due(channel)).get(channel) == model.next_due()


def test_the_outbox_does_as_the_model(url: str) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(Store.open(url))
        channels = count(1)

        @settings(max_examples=40, deadline=None)
        @given(STEPS)
        def as_the_model(steps: list[tuple[str, Any]]) -> None:
            number = next(channels)
            made = runner.run(store.notifications.channels.add(ChannelSpec(f"c{number}", "x"), 1.0))
            runner.run(follow(store, made.id, steps))

        try:
            as_the_model()
        finally:
            runner.run(store.close())
