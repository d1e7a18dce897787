"""Builds what polls: robots.txt, redirects, the poller, and the dispatcher that chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pollerd.app.wiring.common import CommonParts
from pollerd.app.wiring.results import ResultParts
from pollerd.daemon.polling.dispatcher import Dispatcher
from pollerd.daemon.polling.pages.requests import PageRequests
from pollerd.daemon.polling.poll_tasks import PollTasks
from pollerd.daemon.polling.poller import Poller
from pollerd.daemon.polling.redirect_policies import MakesRedirectPolicies, RedirectPolicies
from pollerd.daemon.polling.robots_txt import OwnHosts, RobotsKeeper

if TYPE_CHECKING:  # loaded where there are several nodes
    from pollerd.daemon.cluster.loans.redirects import NodeRedirectPolicies


@dataclass(frozen=True, kw_only=True)
class PollingParts:
    """The parts that poll."""

    requests: PageRequests
    poller: Poller
    dispatcher: Dispatcher
    node_redirects: NodeRedirectPolicies | None
    """Of a daemon that is one of several nodes; None: it is alone."""


def polling_parts(common: CommonParts, results: ResultParts) -> PollingParts:
    """Builds the parts from the request back to the choice."""
    scheduler, client, budget, runtime = common.scheduler, common.client, common.budget, common.runtime
    robots = RobotsKeeper(
        scheduler=scheduler,
        fetcher=client.fetcher,
        journal=results.journal,
        gate=budget.robots_gate,
        runtime=runtime,
        borrowing=OwnHosts if common.node is None else common.node.borrower.for_request,
    )
    local = RedirectPolicies(scheduler=scheduler, robots=robots, runtime=runtime)
    node_redirects = _node_redirects(common, results, local, robots)
    redirects: MakesRedirectPolicies = local if node_redirects is None else node_redirects
    poller = Poller(
        scheduler=scheduler, client=client, redirects=redirects, pacer=budget.pacer, hook=common.hook, runtime=runtime
    )
    return PollingParts(
        requests=PageRequests(scheduler=scheduler, client=client, redirects=redirects, budget=budget, runtime=runtime),
        poller=poller,
        dispatcher=_dispatcher(common, results, poller, robots),
        node_redirects=node_redirects,
    )


def _node_redirects(
    common: CommonParts, results: ResultParts, local: RedirectPolicies, robots: RobotsKeeper
) -> NodeRedirectPolicies | None:
    if common.node is None:
        return None
    from pollerd.app.wiring.cluster import node_redirects  # what a daemon that is alone does not need

    return node_redirects(common, common.node.borrower, local=local, robots=robots, journal=results.journal)


def _dispatcher(common: CommonParts, results: ResultParts, poller: Poller, robots: RobotsKeeper) -> Dispatcher:
    tasks = PollTasks(
        scheduler=common.scheduler,
        poller=poller,
        robots=robots,
        outage_filter=results.outage_filter,
        in_flight=common.in_flight,
        hook=common.hook,
        runtime=common.runtime,
    )
    return Dispatcher(
        scheduler=common.scheduler,
        chooser=common.chooser,
        budget=common.budget,
        tasks=tasks,
        outage_filter=results.outage_filter,
        site_cache=common.site_cache,
        runtime=common.runtime,
    )
