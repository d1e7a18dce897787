"""`pollerd doctor` against a served API: a line and a verdict each, exit code 1 where something is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pollerd.cli.commands import app
from pollerd.cli.doctor import FINE, NOTE, WRONG, Metrics, calibration, nodes
from pollerd.daemon.explain import Binding
from pollerd.scheduling.capacity import PollLimit
from tests.api.conftest import Api
from tests.support.origin import until


async def examined(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, ["doctor", *words])


def verdicts(result: Result) -> dict[str, str]:
    lines = [line.split("  ", 1) for line in result.stdout.splitlines()]
    return {rest.strip().split(":")[0]: verdict.strip() for verdict, rest in lines}


async def test_a_line_and_a_verdict_each(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.control.health, "alive", lambda: True)
    await api.control.allocation.set(shadows=["uniform"])
    await api.add("https://example.org/")
    await api.control.allocation.set(budget=5.0)
    await until(lambda: api.control.explainer.binding.now().limit is not PollLimit.NO_SITES)
    result = await examined("--url", api.root)
    assert result.exit_code == 0, result.output
    found = verdicts(result)
    about = ("loop", "database", "link", "budget", "calibration", "max_interval", "noise", "sites", "faults", "commits")
    assert set(about) <= found.keys()
    assert found["database"] == FINE
    assert "budget: the budget is not used up (0 of 5 polls/s): waiting for the first answers" in result.output
    assert found["shadow uniform"] == FINE
    assert found["calibration"] == NOTE


async def test_unusual_weights_are_noted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.control.health, "alive", lambda: True)
    await api.add("https://example.org/", weight=12)
    result = await examined("--url", api.root)
    assert "weights: the median weight is 12, and --min-saving 20s is for weight 1" in result.output
    assert verdicts(result)["weights"] == NOTE
    await api("PATCH", "/sites/1", {"weight": 2})
    assert "weights" not in verdicts(await examined("--url", api.root))


async def test_closed_sites_are_no_fault(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.control.health, "alive", lambda: True)
    monkeypatch.setattr(api.control.explainer.binding, "now", lambda: Binding(PollLimit.CLOSED, "closed: 2"))
    result = await examined("--url", api.root)
    assert result.exit_code == 0, result.output
    assert "budget: the budget is not used up (0 of 5 polls/s): closed: 2" in result.output


async def test_a_shortage_of_connections_and_descriptors_is_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"descriptors_used_ratio": 0.99, "api_connections_refused_total": 3.0}
    exposed = (await api("GET", "//metrics")).body.decode()
    assert all(f"\npollerd_{name} " in exposed for name in short)
    measured = Metrics.value
    monkeypatch.setattr(Metrics, "value", lambda self, name, **labels: short.get(name, measured(self, name, **labels)))
    monkeypatch.setattr(api.control.health, "alive", lambda: True)
    result = await examined("--url", api.root)
    assert result.exit_code == 1
    assert verdicts(result)["link"] == WRONG
    assert "link: nearly all file descriptors are in use: raise the limit (LimitNOFILE)" in result.output
    assert "API: 3 connections were refused since the start: too many were open" in result.output


async def test_what_is_wrong_ends_with_one(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.control.health, "alive", lambda: False)
    (tmp_path / "poll.db").rename(tmp_path / "elsewhere.db")
    result = await examined("--url", api.root)
    assert result.exit_code == 1
    assert (verdicts(result)["loop"], verdicts(result)["database"]) == (WRONG, WRONG)


async def test_nobody_there_is_wrong(unused_tcp_port: int) -> None:
    result = await examined("--url", f"http://127.0.0.1:{unused_tcp_port}")
    assert result.exit_code == 1
    assert "no daemon answers" in result.stdout


def calibration_of(polls: int, predicted: float, found: float) -> dict[str, Any]:
    return {
        "polls": polls,
        "expected_error": abs(predicted - found),
        "deciles": [{"polls": polls, "predicted": predicted, "found": found}],
    }


@pytest.mark.parametrize(
    ("calibrated", "verdict", "words"),
    [
        ({"polls": 0, "expected_error": None, "deciles": []}, NOTE, "no predictions yet"),
        (calibration_of(20, 0.9, 0.1), NOTE, "too few"),
        (calibration_of(5_000, 0.31, 0.3), FINE, "predictions are good"),
        (calibration_of(5_000, 0.40, 0.3), NOTE, "more changes are predicted"),
        (calibration_of(5_000, 0.1, 0.5), WRONG, "fewer changes are predicted"),
    ],
)
def test_the_calibration_in_words(calibrated: dict[str, Any], verdict: str, words: str) -> None:
    finding = calibration(calibrated)
    assert finding.verdict == verdict
    assert words in finding.text


def test_samples_are_summed_over_the_labels_left_out() -> None:
    metrics = Metrics('pollerd_sites{state="active"} 3.0\npollerd_sites{state="gone"} 2.0\n')
    assert (metrics.value("sites"), metrics.value("sites", state="gone"), metrics.value("offline")) == (5.0, 2.0, 0.0)


NODE: dict[str, Any] = {
    "name": "a",
    "drained": False,
    "partitions": 40,
    "sites": 4_100,
    "roles": ["delivery", "jobs"],
    "grant": 12.5,
    "spent": 12.0,
    "silent_seconds": 1.0,
    "clock_ahead": 0.1,
    "starts": 1,
}
OTHER = NODE | {"name": "b", "partitions": 24, "sites": 4_000, "roles": [], "grant": None, "spent": None}
CLUSTER: dict[str, Any] = {
    "partitions": 64,
    "unheld": 0,
    "budget": 20.0,
    "nodes_wanted": 2,
    "connections": 20,
    "max_connections": 97,
    "nodes": [NODE, OTHER],
}


def checks(**changed: Any) -> dict[str, tuple[str, str]]:
    return {one.about: (one.verdict, one.text) for one in nodes(CLUSTER | changed)}


def test_nodes_are_shown_where_there_are_some() -> None:
    assert checks(nodes=[]) == {}
    assert checks() == {
        "nodes": (FINE, "2 nodes with 64 partitions"),
        "connections": (FINE, "20 of 97 of the database server are in use"),
        "node a": (
            FINE,
            "40 partitions with 4,100 sites, delivery and jobs; its share: 12.5 of 20 polls per second",
        ),
        "node b": (FINE, "24 partitions with 4,000 sites; its share: none of 20 polls per second"),
    }


@pytest.mark.parametrize(
    ("changed", "about", "verdict", "words"),
    [
        ({"unheld": 3}, "nodes", WRONG, "3 of 64 partitions have no node"),
        (
            {"unheld": 3, "nodes": [NODE | {"drained": True}]},
            "nodes",
            WRONG,
            "drained: a (`pollerd nodes undrain a`)",
        ),
        ({"nodes_wanted": 3}, "nodes", WRONG, "2 of 3 expected nodes are there"),
        ({"connections": 80}, "connections", NOTE, "80 of 97"),
        ({"connections": 95}, "connections", WRONG, "raise max_connections"),
        ({"nodes": [NODE, OTHER | {"sites": 9_000}]}, "sites of nodes", NOTE, "one node has 9000 of 13100"),
        ({"nodes": [NODE | {"silent_seconds": 12.0}]}, "node a", WRONG, "no sign of it for 12 s"),
        ({"nodes": [NODE | {"starts": 5}]}, "node a", WRONG, "started 5 times within an hour"),
        ({"nodes": [NODE | {"clock_ahead": -3.0}]}, "node a", WRONG, "its clock is 3.0 s behind"),
        ({"nodes": [NODE | {"spent": 5.0}]}, "node a", NOTE, "it uses 5: it is slow, or no site is due"),
        ({"nodes": [NODE | {"drained": True}, OTHER]}, "node a", FINE, "drained; 40 partitions"),
    ],
)
def test_what_is_wrong_with_nodes_is_named(changed: dict[str, Any], about: str, verdict: str, words: str) -> None:
    found = checks(**changed)[about]
    assert (found[0], words in found[1]) == (verdict, True), found
