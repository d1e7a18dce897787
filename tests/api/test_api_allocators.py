"""Allocators that are not defined for every list say so to whoever asked, and the daemon goes on as it was."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from pollerd.daemon.explain import Binding
from pollerd.errors import DatabaseUnavailableError
from pollerd.scheduling.capacity import PollLimit
from tests.api.conftest import Api


async def test_unequal_sites_are_refused_while_htraa_allocates(api: Api) -> None:
    first = await api.add("http://a.example/")
    assert (await api("PUT", "/allocation", {"allocator": "htraa"})).json["allocator"] == "htraa"
    await api.add("http://b.example/")
    for field in ("weight", "cost"):
        reply = await api("POST", "/sites", {"url": "http://c.example/", field: 2})
        error = reply.json["errors"][0]
        assert (reply.status, error["field"], error["given"]) == (422, field, 2.0)
        assert "htraa" in error["allowed"]
        reply = await api("PATCH", f"/sites/{first}", {field: 2})
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)
    kept = (await api("GET", f"/sites/{first}")).json
    assert (kept["weight"], kept["cost"]) == (1.0, 1.0)
    assert len((await api("GET", "/sites")).json["items"]) == 2
    reply = await api("PUT", "/allocation", {"objective": "freshness"})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "objective")
    assert (await api("GET", "/allocation")).json["objective"] == "changes"
    for field in ("objective", "allocator"):
        reply = await api("PUT", "/allocation", {field: ""})
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, field), "nothing is not the same as left out"


async def test_an_import_names_the_lines_that_cannot_be_held(api: Api) -> None:
    await api("PUT", "/allocation", {"allocator": "htraa"})
    lines = b"url,weight\nhttp://a.example/,1\nhttp://b.example/,2\nhttp://c.example/,1\n"
    reply = await api("POST", "/sites/import", data=lines, headers={"Content-Type": "text/csv"})
    assert (reply.status, reply.json["added"], reply.json["rejected_count"]) == (200, 2, 1)
    assert reply.json["rejected"][0]["line"] == 3
    assert "weight" in reply.json["rejected"][0]["reason"]


async def test_no_switch_to_htraa_while_weights_differ(api: Api) -> None:
    await api.add("http://a.example/")
    heavy = await api.add("http://b.example/", weight=2)
    reply = await api("PUT", "/allocation", {"allocator": "htraa", "budget": 9})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "weight")
    now = (await api("GET", "/allocation")).json
    assert (now["allocator"], now["budget"]) == ("whittle", 5.0)
    assert (await api("PATCH", f"/sites/{heavy}", {"weight": 1})).status == 200
    assert (await api("PUT", "/allocation", {"allocator": "htraa"})).status == 200


@pytest.mark.parametrize("limit", PollLimit)
async def test_every_limit_can_be_shown(api: Api, monkeypatch: pytest.MonkeyPatch, limit: PollLimit) -> None:
    monkeypatch.setattr(api.control.explainer.binding, "now", lambda: Binding(limit, "why"))
    for reply in (await api("GET", "/allocation"), await api("PUT", "/allocation", {"budget": 3})):
        assert (reply.status, reply.json["binding"]) == (200, limit.value)


@pytest.mark.parametrize(
    "wanted",
    [
        {"budget": 3},
        {"deadline": 60},
        {"shadows": ["uniform"]},
        {"allocator": "uniform", "budget": 3},
        {"objective": "deadline", "deadline": 60, "budget": 3, "shadows": ["uniform"]},
    ],
)
@pytest.mark.parametrize("fails", ["save", "replace_learned", "last_poll_id"])
async def test_a_change_that_cannot_be_stored_changes_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any], fails: str
) -> None:
    await api.add("http://a.example/")
    assert (await api("PUT", "/allocation", {"shadows": ["htraa"]})).status == 200
    before, kept = (await api("GET", "/allocation")).json, await api.store.allocation.load()

    store = api.store.history if fails == "last_poll_id" else api.store.allocation
    full = DatabaseUnavailableError("the disk is full")
    with monkeypatch.context() as patched:
        patched.setattr(store, fails, AsyncMock(side_effect=full, within=getattr(store, fails).within))
        status = (await api("PUT", "/allocation", wanted)).status
    assert status in (200, 503)
    if status == 503:
        after = (await api("GET", "/allocation")).json
        of_interest = ("allocator", "objective", "deadline", "budget", "spendable")
        assert {name: after[name] for name in of_interest} == {name: before[name] for name in of_interest}
        assert [one["allocator"] for one in after["shadows"]] == ["htraa"]
        assert await api.store.allocation.load() == kept
    again = await api("PUT", "/allocation", wanted)
    assert again.status == 200
    assert {name: again.json[name] for name in wanted if name != "shadows"} == {
        name: value for name, value in wanted.items() if name != "shadows"
    }
