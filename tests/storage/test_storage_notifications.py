"""Channels and rules, notices written with what they tell of, what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace as replace_spec
from typing import Any

import pytest
from msgspec.structs import replace

from pollerd.errors import ConfigError, DuplicateError, InvalidValueError, NotFoundError
from pollerd.events import EventKind, Incident, Notice, NoticeState
from pollerd.storage import migrate
from pollerd.storage.encoding import Order
from pollerd.storage.engine import Database, database_url
from pollerd.storage.keys import new_key
from pollerd.storage.notification_values import (
    AttemptEnd,
    ChannelSpec,
    DueTimes,
    NoticeFilter,
    Origin,
    Pause,
    RuleSpec,
    StoredChannel,
)
from pollerd.storage.notifications import NotificationStore
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, PruneResult
from tests.storage.samples import add, poll_all, query, record

SENT = AttemptEnd(NoticeState.SENT, "sent", 200, duration=0.5)
DEAD = AttemptEnd(NoticeState.DEAD, "dead", 404, "not found")


@pytest.fixture
def settings() -> StorageSettings:
    return StorageSettings(keep_contents=3, busy_timeout_seconds=0.2, secret_key=new_key())


def notice(event_id: str, channel_id: int = 1, **rest: Any) -> Notice:
    given = {"kind": EventKind.CHANGED, "at": 10.0, "rule_id": 1, "due_at": 10.0, **rest}
    return Notice(event_id=event_id, channel_id=channel_id, **given)


def again(due_at: float, **rest: Any) -> AttemptEnd:
    return AttemptEnd(NoticeState.WAITING, "retry", 503, "busy", due_at=due_at, **rest)


def rule(name: str, *channels: str, **rest: Any) -> RuleSpec:
    return RuleSpec(name, json.dumps({"channels": channels}), **rest)


def named(channels: Iterable[StoredChannel]) -> dict[str, StoredChannel]:
    return {channel.spec.name: channel for channel in channels}


async def refused(n: NotificationStore, channel_id: int, pause: Pause, now: float) -> None:
    """Ends an attempt that concerns no notice with a pause of the channel."""
    await n.outbox.ended(channel_id, "none", now, AttemptEnd(NoticeState.DEAD, "refused", pause=pause))


async def test_channels_keep_their_secrets_encrypted(store: Store, url: str) -> None:
    n = store.notifications
    made = await n.channels.add(ChannelSpec("hook", "webhook", '{"url": "http://h/"}', '["whsec_abc"]'), 1.0)
    assert await n.channels.get(made.id) == made == (await n.channels.all())[0]
    assert made.spec.secrets == '["whsec_abc"]'
    assert "whsec" not in repr(made)
    assert "whsec" not in str(await query(url, "SELECT * FROM channel"))
    with pytest.raises(DuplicateError):
        await n.channels.add(ChannelSpec("hook", "mail"), 2.0)
    await refused(n, made.id, Pause("401", 9.0), 3.0)
    await refused(n, made.id, Pause("401 again", 20.0), 8.0)
    later = await n.channels.get(made.id)
    assert (later.paused_at, later.paused_reason, later.probe_at) == (3.0, "401 again", 20.0)
    off = await n.channels.update(made.id, replace_spec(made.spec, enabled=False), 9.0)
    assert (off.paused_at, off.spec.enabled, off.changed_at, off.created_at) == (3.0, False, 9.0, 1.0)
    other = await n.channels.update(made.id, replace_spec(made.spec, secrets='["whsec_d"]'), 9.0)
    assert other.paused_at is None, "other secrets are tried at once"
    await refused(n, made.id, Pause("401", 9.0), 3.0)
    assert (await n.channels.resume(made.id, 4.0)).paused_reason == ""
    with pytest.raises(NotFoundError):
        await n.channels.get(99)


async def test_another_key_is_refused_at_the_start(url: str, settings: StorageSettings) -> None:
    first = await Store.open(url, settings=settings)
    await first.notifications.channels.add(ChannelSpec("hook", "webhook", secrets="s"), 1.0)
    await first.close()
    with pytest.raises(ConfigError, match="channel hook"):
        await Store.open(url, settings=StorageSettings(secret_key=new_key()))


async def test_rules_follow_the_names_of_channels(store: Store) -> None:
    n = store.notifications
    hook = await n.channels.add(ChannelSpec("hook", "webhook"), 1.0)
    await n.channels.add(ChannelSpec("mail", "email"), 1.0)
    made = await n.rules.add(rule("all", "hook", "mail"), 2.0)
    with pytest.raises(InvalidValueError, match=r"channels: unknown channel .*; known: hook, mail"):
        await n.rules.add(rule("other", "fax"), 2.0)
    with pytest.raises(DuplicateError):
        await n.rules.add(rule("all"), 2.0)
    await n.channels.update(hook.id, ChannelSpec("web", "webhook"), 3.0)
    assert json.loads((await n.rules.get(made.id)).spec.settings) == {"channels": ["web", "mail"]}
    with pytest.raises(InvalidValueError, match="named by all"):
        await n.channels.delete(hook.id, 4.0)
    await n.outbox.put([notice("e", hook.id)])
    await n.channels.delete(hook.id, 4.0, from_rules=True)
    [told] = (await n.log.notices()).items
    assert (told.state, told.last_detail) == (NoticeState.DEAD, "its channel was deleted")
    assert await n.outbox.resend(5.0, channel_id=hook.id) == 0
    assert json.loads((await n.rules.get(made.id)).spec.settings) == {"channels": ["mail"]}
    assert (await n.rules.mute(made.id, 50.0)).muted_until == 50.0
    changed = await n.rules.update(made.id, rule("every", "mail", enabled=False), 6.0)
    assert (changed.muted_until, changed.changed_at, changed.spec.enabled) == (50.0, 6.0, False)
    assert await n.rules.find("all") is None
    await n.rules.delete(made.id, 5.0)
    assert await n.rules.all() == []


async def test_the_file_replaces_its_own(store: Store) -> None:
    n = store.notifications
    await n.channels.add(ChannelSpec("mine", "webhook"), 1.0)
    await n.rules.add(rule("my rule", "mine"), 1.0)
    given = [ChannelSpec("a", "webhook", secrets="s"), ChannelSpec("b", "email")]
    done = await n.rules.put_from_file(given, [rule("r", "a", "mine")], 2.0)
    assert (done.added, done.changed, done.removed) == (("a", "b", "r"), (), ())
    done = await n.rules.put_from_file(given, [rule("r", "a", "mine")], 3.0)
    assert (done.added, done.changed, done.removed) == ((), (), ())
    before = named(await n.channels.all())["a"]
    done = await n.rules.put_from_file([ChannelSpec("a", "webhook", secrets="t")], [], 4.0)
    assert (done.added, done.changed, done.removed) == ((), ("a",), ("b", "r"))
    after = named(await n.channels.all())["a"]
    assert (after.id, after.spec.secrets, after.spec.origin) == (before.id, "t", Origin.FILE)
    with pytest.raises(InvalidValueError, match=r"channels\.mine"):
        await n.rules.put_from_file([ChannelSpec("c", "email"), ChannelSpec("mine", "email")], [], 5.0)
    with pytest.raises(InvalidValueError, match=r"rules\.my rule"):
        await n.rules.put_from_file([], [rule("my rule", "mine")], 5.0)
    await n.rules.add(rule("uses a", "a"), 6.0)
    with pytest.raises(InvalidValueError, match="named by uses a"):
        await n.rules.put_from_file([], [], 7.0)
    assert [(one.spec.name, one.spec.origin) for one in await n.channels.all()] == [("mine", "api"), ("a", "file")]
    assert [one.spec.name for one in await n.rules.all()] == ["my rule", "uses a"]


async def test_notices_are_written_with_their_polls(store: Store) -> None:
    n = store.notifications
    [site, other] = await add(store, 2, tags=("x", "a"))
    await poll_all(store, [site, other], 10.0, b"one")
    kept = await n.rules.add(rule("r"), 1.0)
    contexts = await store.sites.contexts([site, other])
    changed = record(contexts[site], 20.0, b"two", changed=True)
    told = (notice("e1", site_id=site), notice("e1", 2, site_id=site), notice("e2", site_id=site, kind=EventKind.GONE))
    incident = Incident(kept.id, site, "i", 5.0)
    moved = record(replace(contexts[other], url="http://else/"), 20.0)
    records = [
        replace(changed, notices=told, incidents_opened=(incident,)),
        replace(moved, notices=(notice("e3", site_id=other),)),
    ]
    batch = Batch(records, notices=(notice("e4", kind=EventKind.BLIND, data='{"from": 1}'),))
    result = await store.commit(batch)
    [change], url = result.changes, "http://h0/0"
    for _ in range(2):  # as it was, whether the batch is repeated, or its notices come in another
        assert (await store.commit(batch)).changes == result.changes
        found = (await n.log.notices(order=Order.OLDEST)).items
        rows = [(one.event_id, one.channel_id, one.change_id, one.url) for one in found]
        of_change, other_event = (change.id, url), (None, url)
        expected = [("e1", 1, *of_change), ("e1", 2, *of_change), ("e2", 1, *other_event), ("e4", 1, None, None)]
        assert rows == expected
        await n.outbox.put(told)
    assert await n.rules.incidents() == [incident]
    [facts, *_] = await n.log.facts(found)
    assert (facts.before, facts.after, facts.values) == (b"one", b"two", {})
    assert facts.change is not None
    assert facts.site is not None
    assert (facts.change.id, facts.site.url, facts.site.tags) == (change.id, url, ("x", "a"))
    assert (await n.log.facts(found, contents_of=0))[0].after is None
    await store.commit(Batch([replace(record(contexts[site], 30.0), incidents_closed=(kept.id,))]))
    assert await n.rules.incidents() == []
    with pytest.raises(InvalidValueError, match="notices"):
        await store.commit(Batch([replace(changed, notices=(notice("e5", site_id=other),))]))
    await store.sites.delete(site, 40.0)
    claim = await n.outbox.claim(1, 50.0)
    assert claim is not None
    [facts] = await n.log.facts(claim.notices)
    assert (facts.site, facts.change, facts.notice.url) == (None, None, url), "still told"


async def test_incidents_end_with_site_and_rule(store: Store) -> None:
    n = store.notifications
    sites = await add(store, 2)
    first, second = await n.rules.add(rule("r"), 1.0), await n.rules.add(rule("s"), 1.0)
    contexts = await store.sites.contexts(sites)
    opened = [Incident(one.id, site, f"{one.id}-{site}", 5.0) for site in sites for one in (first, second)]
    lost = Incident(99, sites[0], "of a deleted rule", 5.0)
    mine = [tuple(one for one in (*opened, lost) if one.site_id == site) for site in sites]
    await store.commit(
        Batch([replace(record(contexts[s], 10.0), incidents_opened=m) for s, m in zip(sites, mine, strict=True)])
    )
    assert sorted(one.id for one in await n.rules.incidents()) == sorted(one.id for one in opened)
    await n.rules.delete(first.id, 5.0)
    await store.sites.delete(sites[0], 20.0)
    assert [one.id for one in await n.rules.incidents()] == [f"{second.id}-{sites[1]}"]


async def test_ends_are_logged_and_dead_ones_sent_anew(store: Store) -> None:
    n = store.notifications
    hook = await n.channels.add(ChannelSpec("hook", "webhook"), 1.0)
    await n.outbox.put([notice(f"e{i}", hook.id, site_id=i % 2) for i in range(4)])
    claim = await n.outbox.claim(hook.id, 20.0, group_from=2)
    assert claim is not None
    assert [one.event_id for one in claim.notices] == ["e0", "e1", "e2", "e3"]
    assert await n.outbox.claim(hook.id, 20.0) is None
    assert await n.outbox.next_due() == {}
    down = notice("down", 7, kind=EventKind.CHANNEL_DOWN)
    end = again(60.0, pause=Pause("401", 60.0))
    assert await n.outbox.ended(hook.id, claim.message_id, 21.0, end, [down]) == 4
    assert await n.outbox.next_due() == {hook.id: DueTimes(again=60.0), 7: DueTimes(others=10.0)}
    paused = await n.channels.get(hook.id)
    assert (paused.paused_at, paused.last_error, paused.probe_at) == (21.0, "busy", 60.0)
    retried = await n.outbox.claim(hook.id, 61.0)
    assert retried is not None
    assert (retried.message_id, retried.attempts, len(retried.notices)) == (claim.message_id, 1, 4)
    await n.outbox.ended(hook.id, claim.message_id, 62.0, DEAD)
    assert (await n.outbox.counts())[hook.id].dead == 4
    [e0, *rest] = (await n.log.notices(NoticeFilter(NoticeState.DEAD), order=Order.OLDEST)).items
    assert await n.outbox.resend(70.0, notice_ids=[e0.id], channel_id=99) == 0
    assert await n.outbox.resend(70.0, notice_ids=[e0.id]) == 1
    alone = await n.outbox.claim(hook.id, 70.0)
    assert alone is not None
    assert (alone.message_id, alone.attempts) == ("e0", 0)
    assert await n.outbox.ended(hook.id, "e0", 71.0, AttemptEnd(NoticeState.SENT, "sent", 200, resumes=True)) == 1
    works = await n.channels.get(hook.id)
    assert (works.paused_at, works.last_sent_at, works.last_error) == (None, 71.0, "")
    assert await n.outbox.resend(72.0, channel_id=hook.id) == len(rest)
    log = await n.log.attempts(hook.id, limit=2)
    assert [(one.outcome, one.events, one.at) for one in log.items] == [("sent", 1, 71.0), ("dead", 4, 62.0)]
    [first] = (await n.log.attempts(hook.id, limit=2, cursor=log.next_cursor)).items
    assert (first.outcome, first.status, first.detail, first.message_id) == ("retry", 503, "busy", claim.message_id)
    assert len((await n.log.attempts(message_id=claim.message_id)).items) == 2
    for bad in (AttemptEnd(NoticeState.SENDING, "x"), AttemptEnd(NoticeState.WAITING, "x")):
        with pytest.raises(InvalidValueError):
            await n.outbox.ended(hook.id, "e0", 71.0, bad)


async def test_old_ones_expire_as_whole_messages_and_are_pruned(store: Store) -> None:
    n = store.notifications
    hook = await n.channels.add(ChannelSpec("hook", "webhook"), 1.0)
    await n.outbox.put([notice("old", hook.id, due_at=10.0), notice("young", hook.id, due_at=100.0)])
    claim = await n.outbox.claim(hook.id, 100.0, group_from=2)
    assert claim is not None
    await n.outbox.ended(hook.id, claim.message_id, 101.0, again(110.0))
    await n.outbox.put([notice("alone", hook.id, due_at=20.0), notice("of none", 99, due_at=500.0)])
    assert await n.outbox.expire(50.0, 120.0) == {hook.id: 1, 99: 1}
    assert await n.outbox.expire(101.0, 130.0) == {hook.id: 2}
    found = await n.log.notices(NoticeFilter(channel_id=hook.id))
    assert {(one.event_id, one.state, one.ended_at) for one in found.items} == {
        ("old", NoticeState.DEAD, 130.0),
        ("young", NoticeState.DEAD, 130.0),
        ("alone", NoticeState.DEAD, 120.0),
    }
    assert await n.outbox.resend(140.0, notice_ids=[found.items[0].id]) == 1
    assert await n.outbox.expire(139.0, 141.0) == {}, "it waits since it was sent anew"
    month = StorageSettings().delivery_retention_seconds
    assert await store.prune(125.0 + month) == PruneResult(notices=2)
    assert await store.prune(1e9 + month) == PruneResult(notices=2)
    counted = (await n.outbox.counts())[hook.id]
    assert (counted.waiting, counted.dead, counted.oldest) == (1, 0, 140.0)


async def test_lists_are_filtered_and_cut(store: Store) -> None:
    n = store.notifications
    await n.outbox.put([notice(f"e{i}", i % 2, site_id=i % 3) for i in range(9)])
    page = await n.log.notices(NoticeFilter(channel_id=1), limit=3)
    assert [one.event_id for one in page.items] == ["e7", "e5", "e3"]
    rest = await n.log.notices(NoticeFilter(channel_id=1), limit=3, cursor=page.next_cursor)
    assert ([one.event_id for one in rest.items], rest.next_cursor) == (["e1"], None)
    claim = await n.outbox.claim(1, 20.0)
    assert claim is not None
    for wanted, events in [
        (NoticeFilter(NoticeState.SENDING), ["e1"]),
        (NoticeFilter(message_id="e1"), ["e1"]),
        (NoticeFilter(NoticeState.WAITING, site_id=1), ["e7", "e4"]),
        (NoticeFilter(NoticeState.SENT), []),
        (NoticeFilter(change_id=1), []),
    ]:
        assert [one.event_id for one in (await n.log.notices(wanted)).items] == events
    assert (await n.log.notice(claim.notices[0].id)).event_id == "e1"
    with pytest.raises(NotFoundError):
        await n.log.notice(99)
    with pytest.raises(InvalidValueError, match="cursor"):
        await n.log.attempts(cursor=page.next_cursor)


async def test_values_are_those_at_the_change(store: Store, url: str) -> None:
    n = store.notifications
    [site] = await add(store, 1)
    for at, text in [(10.0, "1"), (20.0, "2"), (30.0, "3")]:
        values = f"{site}, 'prices', 'price', {at}, '{text}'"
        await query(url, f"INSERT INTO reading (site_id, selection, name, at, text) VALUES ({values})")
    await query(
        url,
        "INSERT INTO change (site_id, detected_at, kind, summary, selection) "
        f"VALUES ({site}, 20.0, 'html', '', 'prices'), ({site}, 9.0, 'html', '', 'prices')",
    )
    await n.outbox.put([notice("e1", site_id=site), notice("e2", site_id=site)])
    await query(url, "UPDATE outbox SET change_id = id")
    facts = await n.log.facts((await n.log.notices(order=Order.OLDEST)).items)
    assert [{name: one.text for name, one in of.values.items()} for of in facts] == [{"price": "2"}, {}]


async def test_the_migration_goes_down_and_up_with_rows(url: str, settings: StorageSettings) -> None:
    store = await Store.open(url, settings=settings)
    hook = await store.notifications.channels.add(ChannelSpec("hook", "webhook", secrets="s"), 1.0)
    await store.notifications.rules.add(rule("r", "hook"), 1.0)
    await store.notifications.outbox.put([notice("e", hook.id)])
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0015"))
    assert await database.read(migrate.read_revision) == "0015"
    await database.close()
    store = await Store.open(url, settings=settings)
    assert (await store.notifications.channels.all(), await store.notifications.outbox.next_due()) == ([], {})
    await store.close()


async def test_digests_that_went_out(store: Store) -> None:
    n = store.notifications
    await n.channels.add(ChannelSpec("hook", "webhook", "{}"), 1.0)
    keys = ["1:day:2026-11-23", "1:day:2026-11-24", "1:day:2026-11-25"]
    await n.outbox.put([notice(key, digest=key) for key in keys] + [notice("alone")])
    for _ in range(2):
        claim = await n.outbox.claim(1, 20.0, limit=10)
        assert claim is not None
        await n.outbox.ended(1, claim.message_id, 20.0, SENT)
    claimed = []
    while claim := await n.outbox.claim(1, 20.0, limit=10):
        claimed.append(claim.digest)
    assert len(claimed) == 2
    assert await n.outbox.digests_sent(19.0) == keys
    assert set(await n.outbox.digests_sent(20.0)) == {key for key in claimed if key}


async def test_a_channel_that_is_set_right_tries_again_at_once(store: Store) -> None:
    n = store.notifications
    made = await n.channels.add(ChannelSpec("hook", "webhook", "{}"), 1.0)
    await n.outbox.put([notice("e1"), notice("later", due_at=90.0)])
    claim = await n.outbox.claim(made.id, 20.0, limit=10)
    assert claim is not None
    await n.outbox.ended(made.id, claim.message_id, 20.0, again(7_220.0))
    assert await n.outbox.claim(made.id, 30.0, limit=10) is None
    await n.channels.resume(made.id, 30.0)
    repeated = await n.outbox.claim(made.id, 30.0, limit=10)
    assert repeated is not None
    assert (repeated.message_id, repeated.attempts) == (claim.message_id, 1)
    assert await n.outbox.claim(made.id, 30.0, limit=10) is None
