"""Builds the parts that read sources of sites; loaded when the first source is due."""

from __future__ import annotations

from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.polling.pages.requests import PageRequests
from pollerd.daemon.sources.documents import DocumentFetcher
from pollerd.daemon.sources.membership import SiteAdder, SourceMembership
from pollerd.daemon.sources.reading import SourceReadings
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.storage import SourceStore


def source_readings(
    *,
    store: SourceStore,
    scheduler: SchedulerState,
    sites: SiteAdder,
    requests: PageRequests,
    outage_filter: OutageFilter,
    runtime: Runtime,
) -> SourceReadings:
    """Returns what reads sources."""
    return SourceReadings(
        store=store,
        documents=DocumentFetcher(requests),
        membership=SourceMembership(store=store, sites=sites, scheduler=scheduler, clock=runtime.clock),
        outage_filter=outage_filter,
        runtime=runtime,
    )
