"""The parts that read sources of sites, built when the first source is due."""

from __future__ import annotations

from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.pages import PageRequests
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.source_readings import DocumentFetcher, SiteAdder, SourceMembership, SourceReadings
from pollerd.storage.sources import SourceStore


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
