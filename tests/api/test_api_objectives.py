"""The objectives `delay` and `deadline` over REST: what is set is kept, shown and refused by name."""

from __future__ import annotations

import pytest

from tests.api.conftest import Api


async def test_a_deadline_is_set_for_all_and_kept(api: Api) -> None:
    before = (await api("GET", "/allocation")).json
    assert (before["objective"], before["deadline"], before["timeliness"]) == ("changes", 1800.0, None)
    site = await api.add("http://a.example/")
    reply = await api("PUT", "/allocation", {"objective": "deadline", "deadline": "10m"})
    assert (reply.status, reply.json["objective"], reply.json["deadline"]) == (200, "deadline", 600.0)
    assert reply.json["timeliness"]["in_time"]["best"] == pytest.approx(1.0, abs=0.5)
    assert (await api("PUT", "/allocation", {"deadline": 300})).json["deadline"] == 300.0
    kept = await api.store.allocation.load()
    assert kept is not None
    assert (kept.objective, kept.deadline) == ("deadline", 300.0)
    assert (await api("GET", f"/sites/{site}")).json["deadline"] is None


@pytest.mark.parametrize("deadline", [0, -5, "soon", 1e10, True])
async def test_a_bad_deadline_is_refused_by_name(api: Api, deadline: object) -> None:
    for method, path in (("PUT", "/allocation"), ("POST", "/sites")):
        body = {"deadline": deadline, **({"url": "http://a.example/"} if path == "/sites" else {})}
        reply = await api(method, path, body)
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, "deadline")


async def test_who_has_no_such_objective_says_so(api: Api) -> None:
    await api("PUT", "/allocation", {"allocator": "lspe"})
    for objective in ("delay", "deadline"):
        reply = await api("PUT", "/allocation", {"objective": objective})
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, "objective")
        assert "lspe" in reply.json["errors"][0]["allowed"]
    assert (await api("GET", "/allocation")).json["objective"] == "changes"


async def test_sites_and_tags_have_deadlines(api: Api) -> None:
    assert (await api("PUT", "/tags/alerts", {"deadline": "5m"})).status in (200, 201)
    tagged = await api.add("http://a.example/", tags=["alerts"])
    own = await api.add("http://b.example/", tags=["alerts"], deadline="1h")
    shown = [(await api("GET", f"/sites/{site}")).json for site in (tagged, own)]
    assert [one["deadline"] for one in shown] == [300.0, 3600.0] or [one["deadline"] for one in shown] == [None, 3600.0]
    assert (await api("PATCH", f"/sites/{own}", {"deadline": None})).json["deadline"] in (None, 300.0)
    explained = (await api("GET", f"/sites/{tagged}/explain")).json
    assert explained["origins"]["deadline"] == "tag alerts"


async def test_delay_is_shown_in_seconds(api: Api) -> None:
    await api.add("http://a.example/")
    reply = await api("PUT", "/allocation", {"objective": "delay", "budget": 0.1})
    delay = reply.json["timeliness"]["delay"]
    assert delay["best"] == pytest.approx(delay["uniform"])
    assert reply.json["expected_detections_per_hour_best"] >= 0
    assert all(point["expected_detections_per_hour"] >= 0 for point in reply.json["benefit_curve"])
