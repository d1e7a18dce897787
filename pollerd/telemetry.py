"""Prometheus metrics, on a given registry. Labels never contain a URL, a host or a site id."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from pollerd.model import OutcomeKind, PageState, SiteState

# A histogram that accepts batches of values: an `observe` call per poll would cost more than its commit.


class BatchHistogram(Collector):
    """Like `prometheus_client.Histogram` without labels; `bounds`: ascending upper bounds of its buckets, inclusive."""

    def __init__(self, name: str, text: str, bounds: Sequence[float], registry: CollectorRegistry) -> None:
        self._name, self._text = name, text
        self._bounds = np.array([*bounds, np.inf])
        self._labels = [*(str(float(bound)) for bound in bounds), "+Inf"]
        self._counts = np.zeros(len(self._bounds), np.int64)
        self._sum = 0.0
        registry.register(self)

    def observe_all(self, values: Sequence[float]) -> None:
        """Adds all values."""
        array = np.asarray(values, np.float64)
        self._counts += np.bincount(np.searchsorted(self._bounds, array), minlength=len(self._bounds))
        self._sum += float(array.sum())

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Returns the metric family for registration."""
        return self.collect()

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Returns the metric family for a scrape."""
        reached = np.cumsum(self._counts).tolist()
        buckets = list(zip(self._labels, reached, strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=self._sum)


DECILES = 10
"""Number of bins of predicted probabilities."""
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TICKS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)


def descriptors_used() -> float:
    """Returns the share of the descriptors of this process that is used, by the lowest that is free."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        with socket.socket() as probe:
            return probe.fileno() / limit if limit > 0 else 0.0
    except OSError:  # there is none left
        return 1.0


class Done(NamedTuple):
    """Polls, those that found nothing because all that differed is noise, and bytes of bodies."""

    polls: int
    ignored: int
    bytes: int


def _total(counter: Counter) -> int:
    samples = (sample for metric in counter.collect() for sample in metric.samples)
    return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))


class Instruments:
    """The metric instruments of one daemon. Label children are bound once, so that polls need no look-up."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        self.registry = registry
        self._add_polls()
        self._add_choices()
        self._add_calibration()
        self._add_trouble()
        self._add_proofs()
        self._add_collection()
        self._add_sources()
        self._add_signals()
        self._add_hubs()
        self._add_notifications()
        self.loop_lag = self._gauge("event_loop_lag_seconds", "How late the loop ran a timer, at worst in 15 s")
        self.build_info = self._gauge("build_info", "Always 1", "version")
        self.build_info.labels(version).set(1)

    def done(self) -> Done:
        """Returns what was done since the start: sums of counters."""
        return Done(
            polls=sum(map(_total, self.polls.values())),
            ignored=_total(self.hidden_changes),
            bytes=_total(self.response_bytes),
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"pollerd_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"pollerd_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"pollerd_{name}", text, buckets=buckets, registry=self.registry)

    def _add_polls(self) -> None:
        """Polls, their requests, the budget and the sites."""
        self._polls = self._counter("polls_total", "Polls by outcome", "outcome")
        kinds = [kind for kind in OutcomeKind if kind != OutcomeKind.BODY]
        self.polls: dict[OutcomeKind, Counter] = {kind: self._polls.labels(kind.value) for kind in kinds}
        self.changes = self._counter("changes_total", "Changes found and committed")
        self.full_feeds = self._counter(
            "full_feeds_total", "Polls of feeds at which every item was new: others may have been lost"
        )
        self.poll_duration = BatchHistogram(
            "pollerd_poll_duration_seconds", "From a poll's start to its answer", _DURATIONS, self.registry
        )
        self.response_bytes = self._counter("response_bytes_total", "Bytes of bodies after decompression")
        self._robots = self._counter("robots_fetches_total", "robots.txt requests by result", "result")
        self.robots = {kind: self._robots.labels(kind) for kind in ("found", "absent", "unreachable")}
        self.dropped_while_offline = self._counter(
            "dropped_polls_total", "Failed polls that count for nothing: we were offline"
        )
        self.site_faults = self._counter("site_faults_total", "Sites set aside because of an internal error")
        self.budget = self._gauge("budget_polls_per_second", "Polls per second that may be spent")
        self.utilization = self._gauge("budget_utilization_ratio", "Share of the budget spent over the last minute")
        self._sites = self._gauge("sites", "Sites by state", "state")
        self.sites = {state: self._sites.labels(state.value) for state in SiteState}
        self.inflight = self._gauge("inflight_polls", "Polls under way")
        self.dispatch_age = self._gauge("dispatch_age_seconds", "Since a poll was last started while sites were due")

    def _add_choices(self) -> None:
        """Choosing whom to poll, commits, and what is expected."""
        self.tick = self._histogram("scheduler_tick_seconds", "Time to choose whom to poll", _TICKS)
        self.commit = self._histogram("commit_seconds", "Time of one commit of polls", _DURATIONS)
        self.price = self._gauge("budget_price", "Theta: value of one more poll per second under the present belief")
        self.expected = self._gauge("expected_detections_per_second", "Expected under the present belief", "policy")
        self.expected_delay = self._gauge(
            "expected_delay_seconds", "Mean delay of changes under the present belief, for delay and deadline", "policy"
        )
        self.expected_in_time = self._gauge(
            "expected_in_time_ratio", "Share of changes found within their deadlines, for delay and deadline", "policy"
        )

    def _add_calibration(self) -> None:
        """What was predicted of polls, by decile, and what they found."""
        deciles = [str(number) for number in range(1, DECILES + 1)]
        self._calibration_polls = self._counter(
            "calibration_polls_total", "Polls, by predicted chance of a change", "decile"
        )
        self.calibration_polls = [self._calibration_polls.labels(decile) for decile in deciles]
        self._calibration_predicted = self._counter(
            "calibration_predicted_changes_total", "Sum of the predicted chances of a change", "decile"
        )
        self.calibration_predicted = [self._calibration_predicted.labels(decile) for decile in deciles]
        self._calibration_found = self._counter(
            "calibration_found_changes_total", "Changes found, by predicted chance", "decile"
        )
        self.calibration_found = [self._calibration_found.labels(decile) for decile in deciles]

    def _add_trouble(self) -> None:
        """What holds polls up."""
        self.offline = self._gauge("offline", "1 while our own link seems down")
        self.descriptors = self._gauge("descriptors_used_ratio", "Share of the descriptors of the process that is used")
        self.descriptors.set_function(descriptors_used)
        self.api_connections_refused = self._counter(
            "api_connections_refused_total", "Connections to the API that were refused: there were too many"
        )
        self.storage_failing = self._gauge("storage_failing", "1 while the database does not take commits")
        self.late_sites = self._gauge("late_sites", "Sites past their max_interval")
        self.noisy_sites = self._gauge(
            "noisy_sites", "Sites that change at nearly every poll and are held to the uniform share"
        )

    def _add_proofs(self) -> None:
        """Noise, and the polls that prove it."""
        self.masks_learned = self._counter(
            "masks_learned_total", "Times that a confirmation poll separated noise from changes at a site"
        )
        self.hidden_changes = self._counter(
            "hidden_changes_total", "Polls that found nothing because all that differed is masked as noise"
        )
        self._proofs = self._counter(
            "proofs_total", "Changes that waited for a second poll, by what it showed", "result"
        )
        self.proofs = {kind: self._proofs.labels(kind) for kind in ("noise", "change", "reverted", "unproven")}
        self.proofs_waiting = self._gauge("proofs_waiting", "Sites whose change waits for its proof poll")

    def _add_collection(self) -> None:
        """The focused crawler's collection."""
        self._collection_pages = self._gauge(
            "collection_pages", "Pages that the focused crawler knows, by state", "state"
        )
        self.collection_pages = {state: self._collection_pages.labels(state.value) for state in PageState}
        self.collection_requests = self._gauge("collection_requests", "Pages asked for from the frontier so far")
        self.collection_harvest = self._gauge("collection_harvest_ratio", "Share of them that were relevant")
        self.collection_relevance = self._gauge("collection_mean_relevance", "Mean relevance of the pages collected")
        self.collection_freshness = self._gauge(
            "collection_freshness_ratio", "Expected share of the collection's relevance whose copy is current"
        )

    def _add_sources(self) -> None:
        """Sources of sites."""
        self._source_reads = self._counter("source_reads_total", "Readings of sitemaps and feeds by result", "result")
        results = ("changed", "unchanged", "doubted", "failed")
        self.source_reads = {result: self._source_reads.labels(result) for result in results}
        self._source_sites = self._counter("source_sites_total", "Pages that joined, vanished, or returned", "event")
        events = ("joined", "vanished", "returned")
        self.source_sites = {event: self._source_sites.labels(event) for event in events}
        self.sources_failing = self._gauge("sources_failing", "Sources whose last reading failed or was not accepted")

    def _add_signals(self) -> None:
        """Signal sources, and reports of signals and reads."""
        self._signal_reads = self._counter("signal_reads_total", "Readings of signal sources by result", "result")
        self.signal_reads = {name: self._signal_reads.labels(name) for name in ("changed", "unchanged", "failed")}
        self._signals = self._counter(
            "signals_total", "Signals that a page changed, by the kind of their source", "kind"
        )
        source_kinds = ("sitemap", "feed", "list", "links", "push")
        self.signals = {name: self._signals.labels(name) for name in source_kinds}
        self._signalled_polls = self._counter(
            "signalled_polls_total",
            "Polls of pages with signal sources, by whether a signal came before and whether a change was found",
            "signal",
            "found",
        )
        self.signalled_polls = {
            (signal, outcome): self._signalled_polls.labels(signal, outcome)
            for signal in ("yes", "no")
            for outcome in ("yes", "no")
        }
        self._reads = self._counter(
            "reads_total", "Reads of changes that programs reported, by what became of them", "result"
        )
        self.reads = {name: self._reads.labels(name) for name in ("taken", "ignored")}
        self.read_reports_refused = self._counter("read_reports_refused_total", "Reports of reads that came too fast")
        self.signal_reports_refused = self._counter(
            "signal_reports_refused_total", "Reports of signals that came too fast"
        )
        self._index_now_reports = self._counter(
            "indexnow_reports_total", "Reports in IndexNow's form, by result", "result"
        )
        answers = ("taken", "waiting", "ignored", "refused")
        self.index_now_reports = {name: self._index_now_reports.labels(name) for name in answers}

    def _add_hubs(self) -> None:
        """WebSub hubs."""
        self._hub_requests = self._counter("hub_requests_total", "Requests to WebSub hubs by their answer", "result")
        self.hub_requests = {name: self._hub_requests.labels(name) for name in ("accepted", "refused")}
        self._hub_deliveries = self._counter("hub_deliveries_total", "What hubs sent to callbacks, by result", "result")
        deliveries = ("accepted", "forged", "repeated", "unreadable", "unwanted")
        self.hub_deliveries = {name: self._hub_deliveries.labels(name) for name in deliveries}
        self._hub_subscriptions = self._gauge("hub_subscriptions", "Subscriptions at WebSub hubs by state", "state")
        subscribed = ("pending", "active", "denied", "leaving")
        self.hub_subscriptions = {name: self._hub_subscriptions.labels(name) for name in subscribed}

    def _add_notifications(self) -> None:
        """What users are told."""
        self._delivery_attempts = self._counter(
            "delivery_attempts_total", "Attempts to send a message by outcome", "outcome"
        )
        outcomes = ("sent", "retry", "refused", "dead")
        self.delivery_attempts = {outcome: self._delivery_attempts.labels(outcome) for outcome in outcomes}
        self.notices_sent = self._counter("notices_sent_total", "Events that were sent to channels")
        self.notices_waiting = self._gauge("notices_waiting", "Events that are queued for channels")
        self.notices_dead = self._gauge("notices_dead", "Events that could not be sent to channels")
        self.oldest_notice = self._gauge("oldest_notice_age_seconds", "How long the event that waits longest is due")
        self.channels_paused = self._gauge("channels_paused", "Channels whose receiver refuses us")

    def forget_expected(self, policy: str) -> None:
        """Removes the expected detections of a policy, which are no longer computed."""
        with contextlib.suppress(KeyError):
            self.expected.remove(policy)

    def names(self) -> set[str]:
        """Returns the names of all metrics of this class, as Prometheus names the families."""
        shown = [m for m in vars(self).values() if isinstance(m, MetricWrapperBase | BatchHistogram)]
        return {family.name for metric in shown for family in metric.describe()}


# Metrics of a node; a daemon that runs alone has none of them.


class ClusterInstruments:
    """Created once per process, where it is a node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"pollerd_cluster_{name}", text, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"pollerd_cluster_{name}", text, registry=registry)

        self.nodes = gauge("nodes", "Nodes that this one sees, itself included")
        self.nodes_wanted = gauge("nodes_wanted", "Nodes that there should be; 0: any number")
        self.connections = gauge("server_connections", "Connections that the database server has, of all programs")
        self.max_connections = gauge("server_connections_max", "Connections that it allows")
        self.sites = gauge("sites", "Sites in the partitions that this node holds")
        self.drained = gauge("drained", "1: this node is drained, and holds nothing")
        self.partitions_held = gauge("partitions_held", "Partitions that this node holds")
        self.partitions_free = gauge("partitions_free", "Partitions that no node holds")
        self.partitions_taken = counter("partitions_taken_total", "Times that this node took a partition")
        self.partitions_released = counter("partitions_released_total", "Times that this node handed a partition over")
        self.partitions_lost = counter(
            "partitions_lost_total", "Times that this node lost a partition with its session"
        )
        self.grant = gauge("grant", "Polls per second that this node may start")
        self.grant_target = gauge(
            "grant_target", "Polls per second that it is to have as soon as others gave them back"
        )
        self.spent = gauge("spent", "Polls per second that this node started over the last minute")
        self.clock_ahead = gauge(
            "clock_ahead_seconds", "How far this node's clock is ahead of the database server's; below 0: behind"
        )
        self.price = gauge("price", "What one more poll per second is worth to this node")
        self.requests = counter("requests_total", "Questions to other nodes")
        self.request_failures = counter("request_failures_total", "Questions to other nodes without a usable answer")
        self.session_silent = gauge("session_silent_seconds", "How long ago the server answered on the node's session")
