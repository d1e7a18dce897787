"""Builds what notifies: events of the daemon, and the delivery, which is loaded with the first channel."""

from __future__ import annotations

from pollerd.app.wiring.common import CommonParts
from pollerd.app.wiring.explaining import ExplainingParts
from pollerd.app.wiring.results import ResultParts
from pollerd.daemon.notifying.daemon_events import DaemonEvents
from pollerd.daemon.notifying.failing_watch import FailingWatch
from pollerd.daemon.notifying.notifier import Delivers, Notifier
from pollerd.notifications.settings import NotificationSettings


def notifier_of(
    common: CommonParts, results: ResultParts, explaining: ExplainingParts, settings: NotificationSettings
) -> Notifier:
    """Returns what keeps rules and channels, watches for events, and delivers."""
    store, runtime, filled = common.store, common.runtime, results.outbox_filled
    daemon_events = DaemonEvents(
        store=store.notifications,
        announcer=results.announcer,
        late_sites=explaining.explainer.late_sites,
        filled=filled,
        runtime=runtime,
    )
    failing_watch = FailingWatch(
        store=store,
        scheduler=common.scheduler,
        announcer=results.announcer,
        journal=results.journal,
        site_cache=common.site_cache,
        filled=filled,
        runtime=runtime,
    )

    def delivery() -> Delivers:
        from pollerd.app.wiring.delivery import delivery_loop  # what a daemon without channels does not need

        return delivery_loop(store.notifications, daemon_events, results.announcer, filled, settings, runtime)

    return Notifier(
        store=store.notifications,
        announcer=results.announcer,
        journal=results.journal,
        site_cache=common.site_cache,
        make_delivery=delivery,
        watchers=(daemon_events, failing_watch),
        runtime=runtime,
    )
