"""The metrics of one of several nodes; a daemon that runs alone has none of them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class ClusterInstruments:
    """Created once per process, where it is a node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"pollerd_cluster_{name}", text, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"pollerd_cluster_{name}", text, registry=registry)

        self.nodes = gauge("nodes", "Nodes that this one sees, itself included")
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
        self.price = gauge("price", "What one more poll per second is worth to this node")
        self.requests = counter("requests_total", "Requests to other nodes")
        self.request_failures = counter("request_failures_total", "Requests to other nodes without a usable answer")
        self.session_silent = gauge("session_silent_seconds", "How long ago the server answered on the node's session")
