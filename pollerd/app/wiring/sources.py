"""Builds what reads sources of sites: its parts are loaded when the first source is due."""

from __future__ import annotations

from pollerd.app.wiring.common import CommonParts
from pollerd.app.wiring.polling import PollingParts
from pollerd.app.wiring.results import ResultParts
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.sources.reader import ReadsSources, SourceReader


def source_reader(common: CommonParts, polling: PollingParts, results: ResultParts, sites: SiteControl) -> SourceReader:
    """Returns what reads sources. sites: adds and removes what they list."""

    def readings() -> ReadsSources:
        from pollerd.app.wiring.source_readings import source_readings  # what a daemon without sources does not need

        return source_readings(
            store=common.store.sources,
            scheduler=common.scheduler,
            sites=sites,
            requests=polling.requests,
            outage_filter=results.outage_filter,
            runtime=common.runtime,
        )

    return SourceReader(store=common.store.sources, make_reading=readings, runtime=common.runtime)
