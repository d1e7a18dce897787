"""Sites over REST: adding, listing, changing, removing."""

from __future__ import annotations

import re
from typing import Any

from tests.api.conftest import Api

URL = "https://example.org/news"
SITE_FIELDS = (
    "id url title state tags weight cost min_interval max_interval min_saving min_yield respect_ttl half_life "
    "deadline windows selections render keep_screenshots "
    "page_title learned_half_life header_names has_credentials method proxy "
    "created_at last_poll_at last_change_at next_poll_at rate_per_day polls changes failures "
    "last_outcome last_detail hidden_changes redirect_proposal"
)


async def as_stored(api: Api, site: dict[str, Any]) -> bool:
    """Whether an answer that was put together without reading the site again is what is read then."""
    shown = (await api("GET", f"/sites/{site['id']}")).json
    moving = ("next_poll_at",)  # never before now
    return {k: v for k, v in shown.items() if k not in moving} == {k: v for k, v in site.items() if k not in moving}


async def test_a_site_is_added_and_found_at_its_location(api: Api) -> None:
    reply = await api("POST", "/sites", {"url": "HTTPS://Example.org:443/news#x", "weight": 2, "tags": [" a ", "a"]})
    assert reply.status == 201
    site = reply.json
    assert " ".join(site) == SITE_FIELDS
    assert (site["url"], site["weight"], site["cost"], site["tags"]) == (URL, 2.0, 1.0, ["a"])
    assert (site["state"], site["polls"], site["last_outcome"]) == ("active", 0, None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", site["created_at"])
    assert await as_stored(api, site)
    changed = await api("PATCH", f"/sites/{site['id']}", {"weight": 3, "tags": ["b"], "windows": None, "title": "News"})
    assert (changed.json["weight"], changed.json["tags"], changed.json["title"]) == (3.0, ["b"], "News")
    assert await as_stored(api, changed.json)
    again = await api("GET", reply.headers["Location"].removeprefix("/api/v1"))
    assert (again.status, again.json["id"]) == (200, site["id"])
    assert list(api.control.sites.live([site["id"]])) == [site["id"]]


async def test_a_url_in_use_is_a_conflict_that_names_its_site(api: Api) -> None:
    site_id = await api.add(URL)
    reply = await api("POST", "/sites", {"url": URL + "#again"})
    assert (reply.status, reply.json["existing_id"]) == (409, site_id)


UNUSABLE: list[tuple[str, Any]] = [
    ("url", "ftp://example.org/"),
    ("url", "https://example.org/\ud800"),
    ("url", "https://example.org/\0"),
    ("url", "https://user:secret@example.org/"),
    ("url", "https://example.org/" + "a" * 5000),
    ("url", None),
    ("url", 7),
    ("weight", -1),
    ("weight", float("nan")),
    ("weight", float("inf")),
    ("weight", 10**400),
    ("weight", "1"),
    ("weight", True),
    ("cost", 0),
    ("cost", 10_001),
    ("tags", "news"),
    ("tags.0", [1]),
    ("tags", ["a\0b"]),
    ("tags", ["\ud800"]),
    ("tags", ["a;b"]),
    ("tags", [""]),
    ("tags", ["x" * 65]),
    ("tags", [str(i) for i in range(65)]),
    ("min_interval", -1),
    ("min_interval", "soon"),
    ("max_interval", "0s"),
    ("min_yield", 1),
    ("min_yield", -0.01),
    ("min_yield", "100%"),
    ("min_yield", "half"),
    ("min_yield", True),
    ("max_interval", 0),
    ("half_life", 0),
    ("half_life", 1e300),
    ("wait", 5),
]


async def test_a_value_that_cannot_be_used_is_named(api: Api) -> None:
    for field, value in UNUSABLE:
        reply = await api("POST", "/sites", {"url": URL} | {field.partition(".")[0]: value})
        assert (reply.status, reply.headers["Content-Type"]) == (422, "application/problem+json"), (field, value)
        (error,) = reply.json["errors"]
        assert error["field"] == field
        assert error["allowed"]
        assert "secret" not in reply.body.decode()


async def test_several_wrong_types_are_named_together(api: Api) -> None:
    reply = await api("POST", "/sites", {"weight": "x", "cost": []})
    assert reply.status == 422
    assert [error["field"] for error in reply.json["errors"]] == ["weight", "cost", "url"]


async def test_min_interval_may_not_exceed_max_interval(api: Api) -> None:
    reply = await api("POST", "/sites", {"url": URL, "min_interval": 10, "max_interval": 5})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "max_interval")


async def test_the_edges_of_the_ranges_are_accepted(api: Api) -> None:
    edges = {"weight": 1e9, "cost": 0.01, "max_interval": 0.001, "half_life": 1e9, "tags": ["x" * 64]}
    site = (await api("GET", f"/sites/{await api.add(URL, **edges)}")).json
    assert {name: site[name] for name in edges} == edges


async def test_durations_and_shares_may_be_written_with_their_unit(api: Api) -> None:
    given = {"min_interval": "30s", "max_interval": "1.5h", "half_life": "2d", "min_yield": "2.5%"}
    site = (await api("POST", "/sites", {"url": URL, **given})).json
    assert {name: site[name] for name in given} == {
        "min_interval": 30.0,
        "max_interval": 5400.0,
        "half_life": 172_800.0,
        "min_yield": 0.025,
    }
    patched = (await api("PATCH", f"/sites/{site['id']}", {"min_yield": "0", "max_interval": None})).json
    assert (patched["min_yield"], patched["max_interval"]) == (0.0, None)
    again = (await api("PATCH", f"/sites/{site['id']}", {"min_yield": None})).json
    assert again["min_yield"] is None


async def test_nothing_is_a_weight_and_a_min_interval(api: Api) -> None:
    site = (await api("POST", "/sites", {"url": URL, "weight": 0, "min_interval": 0})).json
    assert (site.get("weight"), site.get("min_interval")) == (0.0, 0.0)


async def test_a_body_that_is_no_object_is_refused_cleanly(api: Api) -> None:
    for body in (b"{", b"", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"url": ' + b"9" * 5000 + b"}"):
        reply = await api("POST", "/sites", data=body, headers={"Content-Type": "application/json"})
        assert reply.status in (400, 422), body[:20]
        assert reply.json["status"] == reply.status


async def test_a_body_that_is_not_json_is_an_unsupported_type(api: Api) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        reply = await api("POST", "/sites", data=b'{"url": "https://a.org"}', headers={"Content-Type": content_type})
        assert (reply.status, reply.json["status"]) == (415, 415)


async def test_an_id_that_is_nowhere_is_not_found(api: Api) -> None:
    calls = [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/poll"),
        ("GET", "/polls"),
        ("GET", "/changes"),
        ("GET", "/explain"),
    ]
    for site_id in ("0", "-1", "77", "abc", "1e3", str(2**63), "9" * 30, "%00", "imported"):
        for method, path in calls:
            reply = await api(method, f"/sites/{site_id}{path}")
            assert reply.status == 404, (method, site_id, path)
            assert reply.headers["Content-Type"] == "application/problem+json"


async def test_a_list_of_sites_is_no_site(api: Api) -> None:
    for method, path, allowed in [
        ("GET", "/sites/import", "POST"),
        ("PATCH", "/sites/import", "POST"),
        ("DELETE", "/sites/export", "GET"),
        ("PUT", "/sites", "POST, GET"),
        ("PUT", "/sites/7", "GET, PATCH, DELETE"),
    ]:
        reply = await api(method, path)
        assert (reply.status, reply.headers["Allow"]) == (405, allowed), path
    assert (await api("POST", "//openapi.json")).headers["Allow"]


async def test_a_parameter_that_is_given_twice_is_refused(api: Api) -> None:
    reply = await api("GET", "/sites?tag=a&tag=b")
    [error] = reply.json["errors"]
    assert (reply.status, error["field"], error["allowed"]) == (422, "tag", "given once")


async def test_pages_hold_every_site_once(api: Api) -> None:
    ids = [await api.add(f"https://example.org/{n}") for n in range(7)]
    cursor: str | None = ""
    seen, pages = [], 0
    while cursor is not None:
        page = (await api("GET", "/sites?limit=3" + (f"&cursor={cursor}" if cursor else ""))).json
        seen += [site["id"] for site in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert (seen, pages) == (ids, 3)


async def test_filters_choose_sites(api: Api) -> None:
    first = await api.add("https://example.org/news", tags=["a", "b"])
    second = await api.add("http://example.org:81/blog", tags=["b"])

    async def found(query: str) -> list[int]:
        return [site["id"] for site in (await api("GET", f"/sites?{query}")).json["items"]]

    assert await found("q=NEWS") == [first]
    assert await found("tag=b") == [first, second]
    assert await found("tag=a&q=blog") == []
    assert await found("host=EXAMPLE.org:81") == [second]
    assert await found("state=active") == [first, second]
    assert await found("state=gone") == []


async def test_a_query_that_cannot_be_used_is_named(api: Api) -> None:
    for query, field in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("cursor=nonsense", "cursor"),
        ("state=sleeping", "state"),
        ("q=%00", "q"),
        ("tag=a%00", "tag"),
        ("page=2", "page"),
    ]:
        reply = await api("GET", f"/sites?{query}")
        assert (reply.status, [error["field"] for error in reply.json["errors"]]) == (422, [field]), query


async def test_unknown_query_parameters_are_refused_everywhere(api: Api) -> None:
    site_id = await api.add(URL)
    for path in (f"/sites/{site_id}", f"/sites/{site_id}/polls", "/changes", "/changes/1", "/allocation"):
        reply = await api("GET", f"{path}?colour=red")
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, "colour"), path


async def test_settings_change_and_the_rest_stays(api: Api) -> None:
    site_id = await api.add(URL, weight=2, tags=["a"], max_interval=60)
    reply = await api("PATCH", f"/sites/{site_id}", {"weight": 5, "max_interval": None, "min_interval": 7})
    assert reply.status == 200
    assert (reply.json["weight"], reply.json["max_interval"], reply.json["min_interval"]) == (5.0, None, 7.0)
    assert (reply.json["url"], reply.json["tags"]) == (URL, ["a"])
    assert (await api("GET", f"/sites/{site_id}")).json["weight"] == 5.0
    assert (await api("PATCH", f"/sites/{site_id}", {})).json["weight"] == 5.0


async def test_a_change_is_checked_against_what_stays(api: Api) -> None:
    site_id, other = await api.add(URL, min_interval=50), await api.add("https://other.org/")
    for body, field in [({"max_interval": 5}, "max_interval"), ({"weight": -1}, "weight"), ({"url": "x"}, "url")]:
        reply = await api("PATCH", f"/sites/{site_id}", body)
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)
    reply = await api("PATCH", f"/sites/{site_id}", {"url": "https://other.org"})
    assert (reply.status, reply.json["existing_id"]) == (409, other)


async def test_a_site_moves_to_another_url(api: Api) -> None:
    site_id = await api.add(URL)
    reply = await api("PATCH", f"/sites/{site_id}", {"url": "https://elsewhere.org"})
    assert (reply.status, reply.json["id"], reply.json["url"]) == (200, site_id, "https://elsewhere.org/")


async def test_a_deleted_site_is_gone_at_once(api: Api) -> None:
    site_id = await api.add(URL)
    reply = await api("DELETE", f"/sites/{site_id}")
    assert (reply.status, reply.body) == (204, b"")
    assert (await api("GET", f"/sites/{site_id}")).status == 404
    assert (await api("DELETE", f"/sites/{site_id}")).status == 404
    assert api.control.sites.live([site_id]) == {}
    assert await api.add(URL) != site_id


async def test_pause_and_resume(api: Api) -> None:
    site_id = await api.add(URL)
    paused = await api("POST", f"/sites/{site_id}/pause")
    assert (paused.status, paused.json["state"], paused.json["next_poll_at"]) == (200, "paused", None)
    assert [site["id"] for site in (await api("GET", "/sites?state=paused")).json["items"]] == [site_id]
    resumed = await api("POST", f"/sites/{site_id}/resume")
    assert (resumed.status, resumed.json["state"]) == (200, "active")


async def test_poll_now_is_accepted(api: Api) -> None:
    site_id = await api.add(URL)
    reply = await api("POST", f"/sites/{site_id}/poll")
    assert (reply.status, reply.json["id"]) == (202, site_id)


async def test_explain_tells_what_decides(api: Api) -> None:
    site_id = await api.add(URL)
    told = (await api("GET", f"/sites/{site_id}/explain")).json
    assert (told["site_id"], told["allocator"], told["rank"], told["failures"]) == (site_id, "whittle", 1, 0)
    assert told["next_poll_at"].endswith("Z")
