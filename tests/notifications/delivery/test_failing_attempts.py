"""One channel at work, on a clock that the tests turn: attempts that fail, floods of first sights, refusals."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest

from pollerd.events import EventKind, Notice
from pollerd.notifications.delivery import ChannelSender, Pace
from pollerd.notifications.message import AnswerKind, Event, Message, Receipt
from pollerd.storage.notification_values import ChannelSpec, ClaimedMessage, DueTimes, StoredChannel
from pollerd.storage.store import Store
from tests.support.stores import empty_database as empty_database

HELD = 40
"""Events that one message of the channel holds."""
SENT, FAILED = Receipt(AnswerKind.SENT, 200), Receipt(AnswerKind.RETRY, 503, "HTTP status 503")


class Channel:
    """Answers as it is told, and keeps what was sent: (when, ids of the events)."""

    def __init__(self, answer: Callable[[Message], Receipt]) -> None:
        self.answer, self.sent = answer, list[tuple[float, list[str]]]()
        self.attempts = 0

    async def send(self, message: Message, now: float) -> Receipt:
        self.attempts += 1
        answer = self.answer(message)
        if answer.kind is AnswerKind.SENT:
            self.sent.append((now, [event.id for event in message.events]))
        return answer

    def events_carried(self, message: Message) -> int:
        return min(len(message.events), HELD)

    async def close(self) -> None:
        """Has nothing open."""

    def events(self) -> list[str]:
        return [one for _, ids in self.sent for one in ids]

    def when(self, event: str) -> float:
        return next(at for at, ids in self.sent if event in ids)


class Watch:
    """Counts nothing."""

    def ended(self, claim: ClaimedMessage, answer: Receipt, *, dead: bool) -> None:
        """Is not interested."""

    def notices_of(
        self, channel: StoredChannel, answer: Receipt, now: float, *, was_paused: bool
    ) -> tuple[Notice, ...]:
        return ()


class Work:
    """One channel's sender over the outbox of a store."""

    def __init__(self, store: Store, row: StoredChannel) -> None:
        self.store, self.row, self.now = store, row, 1_000.0
        self.channel = Channel(lambda _: SENT)
        self.begin_anew()

    def begin_anew(self, per_minute: int = 30) -> None:
        """As after a restart."""

        async def compose(claim: ClaimedMessage) -> Message:
            events = tuple(Event(one.event_id, one.kind, one.at) for one in claim.notices)
            return Message(claim.message_id, events, "", "", "", "")

        self.sender = ChannelSender(
            self.row,
            self.channel,
            pace=Pace(group_from=10, per_minute=per_minute),
            store=self.store.notifications,
            compose=compose,
            watch=Watch(),
            clock=lambda: self.now,
        )

    async def put(self, kind: EventKind, sites: Iterable[int], name: str = "") -> None:
        name = name or kind.value
        notices = [
            Notice(f"{name}/{site}/{self.now}", kind, self.now, 1, self.row.id, self.now, site_id=site)
            for site in sites
        ]
        await self.store.notifications.outbox.put(notices)

    async def until(self, end: float) -> None:
        """Turns the clock to `end`, and sends what is due on the way."""
        while True:
            await self.sender.send_due()
            due = (await self.store.notifications.outbox.next_due(self.row.id)).get(self.row.id, DueTimes())
            at = self.sender.goes_at(due, self.now)
            assert at > self.now, "what may be sent now was sent"
            if at > end:
                break
            self.now = at
        self.now = end


@pytest.fixture
async def work(tmp_path: Path, empty_database: Path) -> AsyncIterator[Work]:
    store = await Store.open(f"sqlite+aiosqlite:///{shutil.copy(empty_database, tmp_path / 'poll.db')}")
    try:
        yield Work(store, await store.notifications.channels.add(ChannelSpec("hook", "webhook"), 1.0))
    finally:
        await store.close()


async def test_a_failed_message_waits_by_itself(work: Work) -> None:
    answers = [SENT, FAILED]
    work.channel.answer = lambda _: answers.pop(0) if answers else SENT
    await work.put(EventKind.CHANGED, range(200))
    await work.until(work.now)
    assert len(work.channel.events()) == 160, "what follows in the list goes on at once"
    began = work.now
    await work.until(began + 10)
    assert len(work.channel.events()) == 200
    assert work.channel.sent[-1][0] < began + 6, "tried again when it is due, not a minute later"


async def test_a_failed_message_holds_up_its_sites_alone(work: Work) -> None:
    work.channel.answer = lambda message: FAILED if "a/1/" in message.events[0].id else SENT
    await work.put(EventKind.CHANGED, [1], "a")
    await work.put(EventKind.CHANGED, [1, 2, 2], "b")
    await work.until(work.now + 3)
    assert [one.partition("/1000")[0] for one in work.channel.events()] == ["b/2"]
    work.channel.answer = lambda _: SENT
    await work.until(work.now + 10)
    assert [one.partition("/1000")[0] for one in work.channel.events()] == ["b/2", "a/1", "b/1"]


async def delivered(work: Work, share: float, seed: int, sites: int, each: float) -> int:
    """How many events arrive in half an hour in which one of so many sites changes every `each` seconds."""
    chance = random.Random(seed)
    work.channel = Channel(lambda _: FAILED if chance.random() < share else SENT)
    work.begin_anew()
    work.now += 86_400.0
    await work.store.notifications.channels.delete(work.row.id, work.now)
    work.row = await work.store.notifications.channels.add(ChannelSpec(f"hook{work.now}", "webhook"), work.now)
    work.begin_anew()
    ends, number = work.now + 1_800.0, 0
    while work.now < ends:
        await work.put(EventKind.CHANGED, [number % sites], f"{number:05}")
        number += 1
        await work.until(work.now + each)
    order = defaultdict[str, list[str]](list)
    for event in work.channel.events():
        order[event.split("/")[1]].append(event)
    assert all(events == sorted(set(events)) for events in order.values()), "in order within a site, and each once"
    return len(work.channel.events())


@pytest.mark.parametrize(("sites", "each"), [(40, 3.0), (400, 6.0), (10, 20.0)])
async def test_a_third_of_failing_attempts_costs_little(work: Work, sites: int, each: float) -> None:
    never = await delivered(work, 0.0, 1, sites, each)
    assert await delivered(work, 1 / 3, 2, sites, each) >= 0.6 * never


async def test_a_backlog_is_sent_as_fast_although_a_third_of_attempts_fails(work: Work) -> None:
    work.begin_anew(per_minute=4)
    chance = random.Random(3)
    work.channel.answer = lambda _: FAILED if chance.random() < 1 / 3 else SENT
    await work.put(EventKind.CHANGED, range(2_000))
    await work.until(work.now + 12 * 60.0)  # four messages a minute of 40 events: without failures all are sent
    assert len(work.channel.events()) >= 0.6 * 2_000


async def test_a_receiver_that_asks_for_fewer_messages_is_left_alone(work: Work) -> None:
    answers = [SENT, Receipt(AnswerKind.RETRY, 429, "HTTP status 429", retry_after=20.0)]
    work.channel.answer = lambda _: answers.pop(0) if answers else SENT
    await work.put(EventKind.CHANGED, range(200))
    await work.until(work.now + 19)
    assert work.channel.attempts == 2
    await work.until(work.now + 5)
    assert len(work.channel.events()) == 200


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_flood_of_first_sights_delays_no_change(work: Work, restarts: bool) -> None:
    await work.put(EventKind.FIRST_SEEN, range(1_000, 4_000))
    for turn in range(20):
        if restarts:
            work.begin_anew()
        await work.put(EventKind.CHANGED, [turn, 3_900 + turn], f"change{turn}")
        await work.until(work.now)
        for site in (turn, 3_900 + turn):
            assert work.channel.when(f"change{turn}/{site}/{work.now}") == work.now, "at once"
        await work.until(work.now + 60.0)
    await work.until(work.now + 600.0)
    events = work.channel.events()
    assert len(events) == len(set(events)) == 3_040
    for turn in range(20):
        firsts = [at for at, one in enumerate(events) if f"/{3_900 + turn}/" in one]
        assert [events[at].partition("/")[0] for at in firsts] == ["site.first_seen", f"change{turn}"], "in order"


async def test_first_sights_that_fail_delay_no_change(work: Work) -> None:
    work.channel.answer = lambda message: FAILED if message.events[0].kind is EventKind.FIRST_SEEN else SENT
    await work.put(EventKind.FIRST_SEEN, range(1_000, 1_200))
    await work.until(work.now + 4)
    tried = work.channel.attempts
    assert tried == 5
    work.now += 10.0
    await work.put(EventKind.CHANGED, [1])
    await work.until(work.now)
    assert work.channel.sent == [(work.now, [f"site.changed/1/{work.now}"])]


async def test_first_sights_leave_half_of_a_minutes_messages_to_others(work: Work) -> None:
    work.begin_anew(per_minute=4)
    await work.put(EventKind.FIRST_SEEN, range(1_000, 2_000))
    await work.until(work.now + 1)
    assert len(work.channel.sent) == 2
    await work.put(EventKind.CHANGED, [1])
    await work.put(EventKind.CHANGED, [2])
    await work.until(work.now)
    assert len(work.channel.sent) == 4
