"""Notices in the transaction of what they tell of; what is claimed as one message; what becomes of attempts."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from msgspec.structs import replace

from pollerd.errors import ConfigError, DuplicateError, InvalidValueError, NotFoundError
from pollerd.events import EventKind, Incident, Notice, NoticeState
from pollerd.storage import (
    Batch,
    ChannelRow,
    ClaimedMessage,
    DeliveryEnd,
    NoticeFilter,
    PollRecord,
    RuleRow,
    StorageSettings,
    Store,
    new_key,
)
from tests.storage.samples import add, query, record

CHANGED = EventKind.CHANGED


def notice(event_id: str, *, channel: int = 1, rule: int = 1, due_at: float = 0.0, **more: Any) -> Notice:
    return Notice(event_id, more.pop("kind", CHANGED), 5.0, rule, channel, due_at, **more)


async def channel_of(store: Store, name: str = "hook", **more: Any) -> ChannelRow:
    new = ChannelRow(id=0, name=name, kind="webhook", settings="{}", **more)
    return await store.notifications.put_channel(new, 1.0)


async def rule_of(store: Store, name: str = "all", *channels: str) -> RuleRow:
    settings = json.dumps({"name": name, "channels": channels})
    return await store.notifications.put_rule(RuleRow(id=0, name=name, settings=settings), channels, 1.0)


async def claim(store: Store, now: float = 100.0, group_from: int = 5, channel: int = 1) -> ClaimedMessage | None:
    return await store.notifications.claim(channel, now, limit=1_000, group_from=group_from)


async def events(store: Store, now: float = 100.0, group_from: int = 5) -> list[str]:
    claimed = await claim(store, now, group_from)
    return [] if claimed is None else [one.event_id for one in claimed.notices]


async def end(store: Store, message: ClaimedMessage, **more: Any) -> None:
    values = {"channel_id": 1, "message_id": message.id, "at": 100.0, "status": 200, "detail": "", "duration": 0.1}
    await store.notifications.ended(DeliveryEnd(**{"outcome": "sent", **values, **more}))


async def found(store: Store, site: int, at: float, content: bytes, *notices: Notice) -> PollRecord:
    context = (await store.sites.contexts([site]))[site]
    return replace(record(context, at, content, changed=context.content_id is not None), notices=notices)


async def test_a_notice_is_written_with_its_change(store: Store) -> None:
    (site,) = await add(store, tags=("news",))
    await channel_of(store)
    await store.commit(Batch([await found(store, site, 1.0, b"one")]))
    told = notice("evt_1", site_id=site, selection="default")
    batch = Batch([await found(store, site, 2.0, b"two", told, replace(told, rule_id=9))])
    committed = await store.commit(batch)
    await store.commit(batch)  # its answer was lost
    (kept,) = (await store.notifications.list_notices(NoticeFilter(site_id=site))).items
    assert kept.change_id == committed.changes[0].id
    assert (kept.event_id, kept.rule_id, kept.state) == ("evt_1", 1, NoticeState.WAITING)
    (context,) = await store.notifications.contexts([kept], with_contents=True)
    assert context.site is not None
    assert (context.site.url, context.site.tags) == ("http://h0/0", ("news",))
    assert (context.before, context.after) == (b"one", b"two")
    assert context.change is not None
    assert (await store.notifications.list_notices(NoticeFilter(change_id=context.change.id))).items == [kept]


async def test_nothing_is_told_of_a_site_that_was_removed_meanwhile(store: Store) -> None:
    (site,) = await add(store)
    await channel_of(store)
    batch = Batch([await found(store, site, 1.0, b"one", notice("evt_1", site_id=site))])
    await store.sites.delete(site, 1.5)
    assert (await store.commit(batch)).skipped == 1
    assert await events(store) == []


async def test_what_is_told_survives_its_site(store: Store) -> None:
    (site,) = await add(store)
    await channel_of(store)
    told = notice("evt_1", site_id=site, data='{"url": "http://h0/0"}', kind=EventKind.GONE)
    await store.commit(Batch([await found(store, site, 1.0, b"one", told)]))
    await store.sites.delete(site, 2.0)
    claimed = await claim(store)
    assert claimed is not None
    (context,) = await store.notifications.contexts(claimed.notices, with_contents=True)
    assert context.site is None
    assert json.loads(claimed.notices[0].data) == {"url": "http://h0/0"}


async def test_incidents_open_and_close_with_the_polls(store: Store) -> None:
    (site, other) = await add(store, 2)
    await channel_of(store)
    rule = await rule_of(store, "all", "hook")
    opened = Incident(rule.id, site, "inc_1", 3.0)
    beside = Incident(rule.id, other, "inc_2", 4.0)
    one = replace(await found(store, site, 1.0, b"a"), incidents_opened=(opened,))
    two = replace(await found(store, other, 1.0, b"b"), incidents_opened=(beside,))
    await store.commit(Batch([one, two]))
    assert sorted(i.id for i in await store.notifications.incidents()) == ["inc_1", "inc_2"]
    await store.commit(Batch([replace(await found(store, site, 2.0, b"c"), incidents_closed=(rule.id,))]))
    assert await store.notifications.incidents() == [beside]
    await store.notifications.delete_rule(rule.id)
    assert await store.notifications.incidents() == []


async def test_one_at_a_time_then_a_group(store: Store) -> None:
    await channel_of(store)
    await store.notifications.put([notice(f"evt_{n}") for n in range(4)])
    first = await claim(store)
    assert first is not None
    assert (first.id, [one.event_id for one in first.notices]) == ("evt_0", ["evt_0"])
    assert await events(store) == ["evt_1"], "another site's, or of none: not held up"
    await end(store, first)
    await store.notifications.put([notice(f"evt_{n}") for n in range(4, 7)])
    group = await claim(store)
    assert group is not None
    assert [one.event_id for one in group.notices] == [f"evt_{n}" for n in range(2, 7)]
    assert group.id.startswith("msg_")


async def test_a_message_keeps_its_notices_and_its_id(store: Store) -> None:
    await channel_of(store)
    await store.notifications.put([notice(f"evt_{n}") for n in range(6)])
    group = await claim(store)
    assert group is not None
    assert await claim(store) is None
    await store.notifications.put([notice("evt_new")])
    assert await store.notifications.release() == 6
    again = await claim(store)
    assert again is not None
    assert (again.id, again.attempts, len(again.notices)) == (group.id, 0, 6)
    await end(store, again, outcome="retry", status=503, detail="busy", next_at=200.0)
    assert await events(store, now=100.0) == ["evt_new"]
    assert await store.notifications.next_due() == {1: 200.0}
    third = await claim(store, now=200.0)
    assert third is not None
    assert (third.id, third.attempts, third.since) == (group.id, 1, 100.0)


async def test_order_within_a_site_and_channel(store: Store) -> None:
    await channel_of(store)
    await store.notifications.put([notice("a1", site_id=1), notice("b1", site_id=2), notice("a2", site_id=1)])
    first = await claim(store)
    assert first is not None
    await end(store, first, outcome="retry", next_at=500.0)
    assert await events(store) == ["b1"]
    assert await events(store) == [], "a2 waits for a1"
    assert await store.notifications.next_due() == {1: 500.0}, "it is not due before"
    again = await claim(store, now=500.0)
    assert again is not None
    await end(store, again, outcome="dead", status=400, detail="no", dead=True)
    assert await events(store) == ["a2"], "what is dead lets the next pass"


async def test_a_digest_is_one_message_and_holds_up_nothing(store: Store) -> None:
    await channel_of(store)
    digest: dict[str, Any] = {"digest": "1:day:2026-11-25", "due_at": 300.0}
    await store.notifications.put([notice("d1", site_id=1, **digest), notice("now", site_id=1)])
    await store.notifications.put([notice("d2", site_id=2, **digest)])
    assert await events(store) == ["now"]
    assert await store.notifications.next_due() == {1: 300.0}
    due = await claim(store, now=300.0)
    assert due is not None
    assert [one.event_id for one in due.notices] == ["d1", "d2"]
    assert due.id.startswith("msg_")


async def test_each_channel_by_itself(store: Store) -> None:
    await channel_of(store)
    other = await channel_of(store, "other")
    await store.notifications.put([notice("evt_1"), notice("evt_1", channel=other.id)])
    mine, its = await claim(store), await claim(store, channel=other.id)
    assert mine is not None
    assert its is not None
    assert mine.id == its.id == "evt_1"
    await end(store, mine)
    states = [one.state for one in (await store.notifications.list_notices(NoticeFilter())).items]
    assert states == [NoticeState.SENDING, NoticeState.SENT]


async def test_attempts_are_kept_and_dead_notices_sent_again(store: Store) -> None:
    await channel_of(store)
    await store.notifications.put([notice("evt_1")])
    message = await claim(store)
    assert message is not None
    await end(store, message, outcome="dead", status=404, detail="not there", dead=True)
    (attempt,) = (await store.notifications.list_attempts(message_id="evt_1")).items
    assert (attempt.outcome, attempt.status, attempt.detail, attempt.events) == ("dead", 404, "not there", 1)
    assert (await store.notifications.channel(1)).last_error == "not there"
    counts = await store.notifications.counts()
    assert (counts.waiting, counts.dead, counts.oldest_due_at) == (0, 1, None)
    assert await store.notifications.resend(150.0, channel_id=1) == 1
    again = await claim(store, now=150.0)
    assert again is not None
    await end(store, again, at=151.0)
    channel = await store.notifications.channel(1)
    assert (channel.last_sent_at, channel.last_error) == (151.0, "")


async def test_what_waits_too_long_is_dead_and_what_ended_is_deleted(store: Store) -> None:
    await channel_of(store)
    await store.notifications.put([notice("old"), notice("new", due_at=500_000.0)])
    late, gone = await store.notifications.tidy(400_000.0, 86_400.0)
    assert (late, gone) == (1, 0)
    (dead,) = (await store.notifications.list_notices(NoticeFilter(state=NoticeState.DEAD))).items
    assert (dead.event_id, dead.last_detail) == ("old", "not delivered within four days")
    assert await store.notifications.tidy(600_000.0, 86_400.0) == (0, 1)


async def test_a_channel_and_its_secrets(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(secret_key=new_key()))
    kept = await channel_of(store, secrets={"secret": "whsec_dGVsbA=="})
    assert kept.secrets == {"secret": "whsec_dGVsbA=="}
    assert "dGVsbA" not in repr(kept)
    ((sealed,),) = await query(url, "SELECT secrets FROM channel")
    assert b"whsec" not in bytes(sealed)
    with pytest.raises(DuplicateError):
        await channel_of(store)
    paused = await store.notifications.pause_channel(kept.id, 5.0, "401", probe_at=10.0)
    paused = await store.notifications.pause_channel(kept.id, 6.0, "401 again", probe_at=20.0)
    assert (paused.paused_at, paused.paused_reason, paused.probe_at) == (5.0, "401 again", 20.0)
    assert (await store.notifications.counts()).paused_channels == 1
    changed = await store.notifications.put_channel(dataclasses.replace(paused, name="renamed"), 7.0)
    assert (changed.name, changed.paused_at, changed.created_at, changed.changed_at) == ("renamed", None, 1.0, 7.0)
    await store.close()
    with pytest.raises(ConfigError, match="channel renamed"):
        await Store.open(url, settings=StorageSettings(secret_key=new_key()))


async def test_rules_name_channels_that_are_there(store: Store) -> None:
    with pytest.raises(InvalidValueError, match="there is none"):
        await rule_of(store, "all", "hook")
    channel = await channel_of(store)
    rule = await rule_of(store, "all", "hook")
    assert await store.notifications.rules() == [rule]
    with pytest.raises(DuplicateError):
        await rule_of(store, "all", "hook")
    with pytest.raises(InvalidValueError, match="all"):
        await store.notifications.delete_channel(channel.id)
    await store.notifications.put([notice("evt_1")])
    await store.notifications.delete_rule(rule.id)
    await store.notifications.delete_channel(channel.id)
    assert (await store.notifications.list_notices(NoticeFilter())).items == []
    for call in (store.notifications.delete_rule, store.notifications.delete_channel, store.notifications.channel):
        with pytest.raises(NotFoundError):
            await call(9)


async def test_contexts_say_which_sites_have_the_tags_that_rules_name(store: Store) -> None:
    (site,) = await add(store, tags=("news", "other"))
    assert (await store.sites.contexts([site]))[site].tags == ()
    store.sites.tags_of_rules = frozenset({"news", "unknown"})
    assert (await store.sites.contexts([site]))[site].tags == ("news",)
