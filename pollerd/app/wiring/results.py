"""Builds what processes results: the steps from noise to announcements, and the journal that commits them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pollerd.app.wiring.common import CommonParts
from pollerd.app.wiring.signals import SignalParts
from pollerd.daemon.control.site_removal import SiteRemoval
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.results.changes import NoiseStep
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.results.learning import LearningStep
from pollerd.daemon.results.poll_feed import PollFeed
from pollerd.daemon.results.processor import ResultProcessor, Steps
from pollerd.daemon.results.proofs.candidates import Candidates
from pollerd.daemon.results.proofs.prover import Prover
from pollerd.daemon.results.proofs.still_noise import StillNoise
from pollerd.daemon.results.proofs.updates import ProofUpdates
from pollerd.daemon.results.status import StatusStep
from pollerd.daemon.results.tables import TableUpdates
from pollerd.daemon.signals.signal_yield import SignalYield


@dataclass(frozen=True, kw_only=True)
class ResultParts:
    """The parts that process results, and those of them that others read."""

    announcer: Announcer
    outbox_filled: asyncio.Event
    """Set when there is something new to send."""
    removal: SiteRemoval
    calibration: CalibrationSums
    signal_yield: SignalYield
    poll_feed: PollFeed
    """Of this node's own polls."""
    journal: Journal
    outage_filter: OutageFilter


def result_parts(common: CommonParts, signals: SignalParts) -> ResultParts:
    """Builds the steps first, then the processor that takes them, the journal, and the outage filter before it."""
    store, scheduler, runtime = common.store, common.scheduler, common.runtime
    outbox_filled = asyncio.Event()
    announcer = Announcer(sites=store.sites, history=store.history, filled=outbox_filled, runtime=runtime)
    candidates = Candidates()
    removal = SiteRemoval(
        scheduler=scheduler,
        site_cache=common.site_cache,
        candidates=candidates,
        announcer=announcer,
        in_flight=common.in_flight,
        hook=common.hook,
    )
    calibration = CalibrationSums(runtime.instruments)
    signal_yield = SignalYield(sources=signals.sources, scheduler=scheduler, instruments=runtime.instruments)
    poll_feed = PollFeed()
    processor = ResultProcessor(
        scheduler=scheduler,
        steps=_steps(common, signals, announcer, candidates, calibration, signal_yield),
        site_cache=common.site_cache,
        remove_site=removal.remove,
        poll_feed=poll_feed,
        runtime=runtime,
    )
    journal = Journal(processor=processor, store=store, runtime=runtime)
    return ResultParts(
        announcer=announcer,
        outbox_filled=outbox_filled,
        removal=removal,
        calibration=calibration,
        signal_yield=signal_yield,
        poll_feed=poll_feed,
        journal=journal,
        outage_filter=OutageFilter(scheduler=scheduler, journal=journal, runtime=runtime),
    )


def _steps(
    common: CommonParts,
    signals: SignalParts,
    announcer: Announcer,
    candidates: Candidates,
    calibration: CalibrationSums,
    signal_yield: SignalYield,
) -> Steps:
    """Returns the steps of one batch of results."""
    scheduler, runtime = common.scheduler, common.runtime
    still, prover = StillNoise(), Prover(scheduler=scheduler, runtime=runtime)
    status = StatusStep(scheduler, runtime)
    return Steps(
        noise=NoiseStep(
            scheduler=scheduler,
            store=common.store.history,
            prover=prover,
            candidates=candidates,
            still=still,
            runtime=runtime,
        ),
        status=status,
        crawl=common.hook,
        learning=LearningStep(
            scheduler=scheduler, status=status, calibration=calibration, signal_yield=signal_yield, runtime=runtime
        ),
        announcing=announcer,
        signals=signals.reader,
        tables=TableUpdates(scheduler),
        proofs=ProofUpdates(
            scheduler=scheduler, candidates=candidates, still=still, prover=prover, instruments=runtime.instruments
        ),
    )
