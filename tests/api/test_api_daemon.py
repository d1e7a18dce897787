"""Allocation, health, metrics, and the shape of every error."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.daemon.control.control import Control
from tests.api.conftest import Api, served


def test_the_control_object_fits_the_port(api_control: Control) -> None:
    port: Control = api_control
    names = {name for name in vars(Control) if not name.startswith("_")}
    assert names <= set(dir(port))


@pytest.fixture
def api_control(api: Api) -> Control:
    return api.control


async def test_the_allocation_changes_in_part(api: Api) -> None:
    before = (await api("GET", "/allocation")).json
    assert (before["allocator"], before["objective"], before["budget"]) == ("whittle", "changes", 5.0)
    after = await api("PUT", "/allocation", {"budget": 0.5})
    assert (after.status, after.json["budget"], after.json["allocator"]) == (200, 0.5, "whittle")
    switched = await api("PUT", "/allocation", {"allocator": "uniform"})
    assert (switched.json["allocator"], switched.json["budget"]) == ("uniform", 0.5)
    kept = await api.store.allocation.load()
    assert kept is not None
    assert (kept.allocator, kept.objective, kept.budget) == ("uniform", "changes", 0.5)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"budget": 1e300}, "budget"),
        ({"budget": "fast"}, "budget"),
        ({"budget": "1/d"}, "budget"),
        ({"budget": "20000/s"}, "budget"),
        ({"budget": True}, "budget"),
        ({"allocator": "guess"}, "allocator"),
        ({"objective": "fame"}, "objective"),
        ({"theta": 1}, "theta"),
    ],
)
async def test_an_allocation_that_cannot_be_is_named(api: Api, body: dict[str, object], field: str) -> None:
    reply = await api("PUT", "/allocation", body)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)
    assert (await api("GET", "/allocation")).json["budget"] == 5.0


@pytest.mark.parametrize(
    ("text", "budget"), [("7", 7.0), ("20/min", 1 / 3), ("300/h", 1 / 12), ("5000/d", 5e3 / 86_400)]
)
async def test_a_budget_may_be_written_with_its_unit(api: Api, text: str, budget: float) -> None:
    reply = await api("PUT", "/allocation", {"budget": text})
    assert (reply.status, reply.json["budget"]) == (200, pytest.approx(budget))


async def test_readiness_tells_why_not(api: Api, tmp_path: Path) -> None:
    ready = await api("GET", "//readyz")
    assert (ready.status, ready.json) == (200, {"status": "ready", "reason": None})
    (tmp_path / "poll.db").rename(tmp_path / "elsewhere.db")
    gone = await api("GET", "//readyz")
    assert (gone.status, gone.json["status"]) == (503, "not_ready")
    assert gone.json["reason"]


async def test_health_follows_the_loop(api: Api) -> None:
    reply = await api("GET", "//healthz")
    alive = api.control.health.alive()
    assert (reply.status, reply.json) == ((200, {"status": "ok"}) if alive else (503, {"status": "stalled"}))


async def test_metrics_in_both_formats(api: Api) -> None:
    plain = await api("GET", "//metrics")
    assert plain.headers["Content-Type"].startswith("text/plain")
    assert b'pollerd_build_info{version=""} 1.0' in plain.body
    modern = await api("GET", "//metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert modern.headers["Content-Type"].startswith("application/openmetrics-text")
    assert modern.body.endswith(b"# EOF\n")


async def test_routes_are_added_when_one_of_them_is_asked_for(api: Api) -> None:
    """A daemon that is only asked for its health and metrics does without them."""

    def added() -> int:
        return len(api.app.router.routes)

    at_first = added()
    for path in ("//healthz", "//readyz", "//metrics"):
        assert (await api("GET", path)).status == 200
    assert added() == at_first, "asked by machines only"
    assert {reply.status for reply in await asyncio.gather(*(api("GET", "/sites") for _ in range(4)))} == {200}
    then = added()
    assert then > at_first + 100
    assert (await api("GET", "/nothing")).status == 404
    assert added() == then == len(api.app.routes), "once"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "//nowhere", 404),
        ("GET", "/sites/", 404),
        ("PUT", "/sites", 405),
        ("POST", "//healthz", 405),
        ("GET", "//docs", 404),
    ],
)
async def test_every_error_is_a_problem_document(api: Api, method: str, path: str, status: int) -> None:
    reply = await api(method, path)
    assert (reply.status, reply.headers["Content-Type"]) == (status, "application/problem+json")
    assert {"type", "title", "status", "detail"} <= reply.json.keys()
    assert reply.json["status"] == status
    assert ("Allow" in reply.headers) == (status == 405)


async def test_openapi_describes_every_call(api: Api) -> None:
    found = (await api("GET", "//openapi.json")).json
    calls = [call for path in found["paths"].values() for call in path.values()]
    assert len(calls) >= 20
    assert all(call["summary"] and call["description"] for call in calls)
    imported = found["paths"]["/api/v1/sites/import"]["post"]
    # One type, which generated clients know; the lists' own are taken, too, and told of in words.
    assert set(imported["requestBody"]["content"]) == {"application/octet-stream"}
    for media in ("text/plain", "text/csv", "application/x-ndjson", "text/x-opml"):
        assert media in imported["description"]
    assert found["components"]["schemas"]["ListFormat"]["enum"] == ["text", "csv", "jsonl", "opml"]


async def test_a_locked_database_is_unavailable_for_now(api: Api, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "poll.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        reply = await api("POST", "/sites", {"url": "https://example.org/"})
        assert (reply.status, reply.json["status"]) == (503, 503)
        assert int(reply.headers["Retry-After"]) >= 1
        assert (await api("GET", "/sites")).status == 200
    assert (await api("POST", "/sites", {"url": "https://example.org/"})).status == 201


async def test_a_fault_tells_strangers_nothing(api: Api) -> None:
    nothing: Any = None
    app = create_api(nothing, api.store, CollectorRegistry(), ApiSettings(), "1.2.3")
    async with served(app) as root, api.session.get(f"{root}/api/v1/allocation") as reply:
        assert (reply.status, reply.headers["Content-Type"]) == (500, "application/problem+json")
        assert "NoneType" not in await reply.text()
