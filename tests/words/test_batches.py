"""Many values at once count as they would one by one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from pollerd.telemetry import BatchHistogram

BOUNDS = (0.005, 0.1, 1.0, 30.0)
VALUES = [0.0, 0.005, 0.0051, 0.1, 0.7, 1.0, 29.9, 30.0, 31.0, 1e9]


def shown(registry: CollectorRegistry) -> dict[str, float]:
    """Each sample's value; when the metric was made is the library's own addition."""
    lines = [line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]
    return {name: float(value) for name, value in lines if not name.endswith("_created")}


def test_it_shows_what_the_library_shows_value_by_value() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    batches = BatchHistogram("took_seconds", "Time", BOUNDS, ours)
    one_by_one = Histogram("took_seconds", "Time", buckets=BOUNDS, registry=theirs)
    batches.observe_all([])
    batches.observe_all(VALUES[:4])
    batches.observe_all(VALUES[4:])
    for value in VALUES:
        one_by_one.observe(value)
    assert shown(ours) == shown(theirs)
    assert len(shown(ours)) == len(BOUNDS) + 3


def test_without_values_every_bucket_is_empty() -> None:
    registry = CollectorRegistry()
    BatchHistogram("took_seconds", "Time", BOUNDS, registry)
    assert set(shown(registry).values()) == {0.0}
