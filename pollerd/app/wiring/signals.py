"""Builds the parts of signals: sources, their documents, hubs, reports."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pollerd.daemon.polling.pages.requests import PageRequests
from pollerd.daemon.signals.document_signals import DocumentSignals
from pollerd.daemon.signals.hubs.hub_callbacks import HubCallbacks
from pollerd.daemon.signals.hubs.hub_offers import HubOffers
from pollerd.daemon.signals.hubs.hub_subscriber import HubSubscriber
from pollerd.daemon.signals.index_now_keys import IndexNowKeys
from pollerd.daemon.signals.index_now_reports import IndexNowReports
from pollerd.daemon.signals.index_readings import IndexReadings
from pollerd.daemon.signals.signal_control import SignalControl
from pollerd.daemon.signals.signal_reader import SignalReader
from pollerd.daemon.signals.signal_settings import SignalSettings
from pollerd.daemon.signals.signal_sources import SignalSources
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.fetching import FetchSettings, Poster, Request
from pollerd.model import Outcome
from pollerd.storage import SignalSource, SignalStore, SiteContext, Store

_CONNECTIONS = 4
_KEY_BYTES, _KEY_PATIENCE_SECONDS = 1_024, 60.0


@dataclass(frozen=True, kw_only=True)
class SignalParts:
    """The parts of signals."""

    sources: SignalSources
    reader: SignalReader
    control: SignalControl
    subscriber: HubSubscriber
    callbacks: HubCallbacks
    indexes: IndexReadings


def signal_parts(
    store: Store, scheduler: SchedulerState, settings: SignalSettings, fetching: FetchSettings, runtime: Runtime
) -> SignalParts:
    """Returns the parts. fetching: settings of polls; hubs are asked under the same guard and proxy."""
    sources = SignalSources(store=store.signals, scheduler=scheduler)
    documents = DocumentSignals(store=store.signals, sources=sources, runtime=runtime)
    subscriber = HubSubscriber(
        store=store.hubs,
        sources=sources,
        settings=settings,
        make_poster=lambda: Poster(replace(fetching, max_connections=_CONNECTIONS)),
        runtime=runtime,
    )
    indexes = IndexReadings()

    def after_delete(source: SignalSource) -> None:
        subscriber.look_again()
        indexes.put(source, (), complete=True)  # its sitemaps go, too

    offers = None
    if settings.callback_url is not None:
        offers = HubOffers(store=store.hubs, clock=runtime.clock, on_change=subscriber.look_again)
    return SignalParts(
        sources=sources,
        reader=SignalReader(sources=sources, documents=documents, indexes=indexes, hubs=offers, faults=runtime.faults),
        control=SignalControl(
            store=store.signals, sources=sources, scheduler=scheduler, on_delete=after_delete, runtime=runtime
        ),
        subscriber=subscriber,
        callbacks=HubCallbacks(
            hubs=store.hubs,
            signals=store.signals,
            documents=documents,
            subscriber=subscriber,
            settings=settings,
            runtime=runtime,
        ),
        indexes=indexes,
    )


def index_now_reports(
    store: SignalStore, control: SignalControl, requests: PageRequests, settings: SignalSettings, runtime: Runtime
) -> IndexNowReports:
    """Returns what takes reports in IndexNow's form; their keys are fetched as `requests` does, within the budget."""

    async def fetch(url: str) -> Outcome:
        request = Request(url, most_bytes=_KEY_BYTES)
        return await requests.get(SiteContext(0, ""), request, cost=1.0, patience_seconds=_KEY_PATIENCE_SECONDS)

    keys = IndexNowKeys(fetch, runtime.clock)
    return IndexNowReports(allowed=settings.indexnow, store=store, keys=keys, reports=control, runtime=runtime)
