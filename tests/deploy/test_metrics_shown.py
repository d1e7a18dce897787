"""The dashboard and the alert rules ask for what pollerd measures: names, labels, and label values that can occur."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from pollerd.telemetry import ClusterInstruments, Instruments

_MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
_OF_PROMETHEUS = {"job", "instance"}
_POLICIES = {"uniform", "best", "scheduled"}
# Design, section 6: what an operator must be able to see.
_PROMISED = {
    "polls",
    "changes",
    "poll_duration_seconds",
    "response_bytes",
    "budget_polls_per_second",
    "budget_utilization_ratio",
    "sites",
    "inflight_polls",
    "dispatch_age_seconds",
    "scheduler_tick_seconds",
    "commit_seconds",
    "budget_price",
    "expected_detections_per_second",
    "build_info",
}


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, set[str]]]:
    """Series name -> label name -> values, as the daemon shows them after its start."""
    registry = CollectorRegistry()
    instruments = Instruments(registry, "0")
    ClusterInstruments(registry)
    for policy in _POLICIES:
        instruments.expected.labels(policy).set(0)
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    for family in registry.collect():
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def _alerts(top: Path) -> list[dict[str, Any]]:
    text = (top / "deploy" / "prometheus" / "alerts.yml").read_text()
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


@pytest.fixture
def expressions(top: Path, check_queries: ModuleType) -> list[str]:
    dashboard = check_queries.dashboard_queries(check_queries.DASHBOARD.read_text())
    return [expression for _, expression in dashboard] + [rule["expr"] for rule in _alerts(top)]


def _name(selector: str) -> str:
    found = re.match(r"\w+", selector)
    assert found is not None, selector
    return found[0]


def _faults(selector: str, measured: dict[str, dict[str, set[str]]]) -> Iterator[str]:
    name = _name(selector)
    if name not in measured:
        yield f"{name} is not measured"
        return
    for label, operator, value in _MATCHER.findall(selector):
        if label in _OF_PROMETHEUS:
            continue
        if label not in measured[name]:
            yield f"{name} has no label {label}"
        for one in value.split("|") if "~" in operator else [value]:
            if one not in measured[name].get(label, set()):
                yield f"{name}: {label} is never {one}"


def test_every_query_asks_for_what_is_measured(
    expressions: list[str], check_queries: ModuleType, measured: dict[str, dict[str, set[str]]]
) -> None:
    selectors = [selector for expression in expressions for selector in check_queries.selectors(expression)]
    assert len(selectors) >= len(expressions) > 30
    assert [fault for selector in selectors for fault in _faults(selector, measured)] == []


def test_labels_that_are_grouped_by_exist(
    expressions: list[str], check_queries: ModuleType, measured: dict[str, dict[str, set[str]]]
) -> None:
    for expression in expressions:
        selected = [_name(selector) for selector in check_queries.selectors(expression)]
        known = set().union(*(measured[name] for name in selected)) | _OF_PROMETHEUS
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            assert {label.strip() for label in labels.split(",")} <= known, expression


def test_a_wrong_name_label_or_value_would_be_noticed(measured: dict[str, dict[str, set[str]]]) -> None:
    assert list(_faults("pollerd_pols_total", measured)) == ["pollerd_pols_total is not measured"]
    assert next(_faults('pollerd_polls_total{kind="first"}', measured)).endswith("has no label kind")
    wrong = list(_faults('pollerd_polls_total{outcome=~"first|frist"}', measured))
    assert wrong == ["pollerd_polls_total: outcome is never frist"]


def test_what_was_promised_is_measured_and_shown(
    expressions: list[str], measured: dict[str, dict[str, set[str]]]
) -> None:
    registry = CollectorRegistry()
    names = Instruments(registry, "0").names()
    assert {f"pollerd_{name}" for name in _PROMISED} <= names
    asked = " ".join(expressions)
    unseen = [name for name in _PROMISED if not re.search(rf"pollerd_{name}(_total|_bucket)?\b", asked)]
    assert unseen == []


def test_the_dashboard_is_whole(top: Path) -> None:
    dashboard = json.loads((top / "deploy/grafana/dashboards/pollerd.json").read_text())
    source = yaml.safe_load((top / "deploy/grafana/provisioning/datasources/prometheus.yml").read_text())
    uid = source["datasources"][0]["uid"]
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} covers another panel"
        assert place["x"] + place["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == uid
            assert panel["description"]


def test_alerts_say_what_to_do(top: Path) -> None:
    for rule in _alerts(top):
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["for"], rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]
        assert len(rule["annotations"]["description"]) > 60, rule["alert"]


@pytest.mark.parametrize("arguments", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts.test.yml")])
def test_promtool_agrees(top: Path, arguments: tuple[str, ...]) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [tool, *arguments], cwd=top / "deploy/prometheus", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
