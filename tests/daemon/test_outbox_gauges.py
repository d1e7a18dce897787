"""The gauges of the outbox."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from pollerd.daemon.notifier import OutboxGauges
from pollerd.events import EventKind, Notice, NoticeState
from pollerd.storage.notification_values import AttemptEnd, ChannelSpec, Pause, RuleSpec
from pollerd.telemetry import Instruments
from tests.daemon.conftest import Start

NAMES = ("notices_waiting", "notices_dead", "oldest_notice_age_seconds", "channels_paused")


async def test_what_waits_what_is_dead_and_who_is_paused(start: Start) -> None:
    async with start() as running:
        store, registry = running.store.notifications, CollectorRegistry()
        gauges = OutboxGauges(store=store, instruments=Instruments(registry, "0"), clock=lambda: 400.0)

        async def shown() -> list[float | None]:
            await gauges.refresh()
            return [registry.get_sample_value(f"pollerd_{name}") for name in NAMES]

        assert await shown() == [0, 0, 0, 0]
        channel = await store.channels.add(ChannelSpec("x", "webhook"), 1.0)
        rule = await store.rules.add(RuleSpec("r", '{"channels": ["x"]}'), 1.0)
        for n, at in enumerate((100.0, 200.0, 300.0)):
            told = Notice(f"e{n}", EventKind.BLIND, at=at, rule_id=rule.id, channel_id=channel.id, due_at=at)
            await store.outbox.put([told])
        assert await shown() == [3, 0, 300, 0]
        claim = await store.outbox.claim(channel.id, 350.0)
        assert claim is not None
        end = AttemptEnd(NoticeState.DEAD, "dead", pause=Pause("401", None))
        await store.outbox.ended(channel.id, claim.message_id, 360.0, end)
        assert await shown() == [2, 1, 200, 1]
