"""The pages over HTTP: what they show, what their forms do, and what they tell browsers."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import aiohttp
import pytest
from fastapi.routing import APIRoute
from msgspec import structs

from pollerd.allocation.objectives import ComparedPolicies, ExpectedTimeliness
from pollerd.daemon.control.cluster import ALONE
from pollerd.daemon.views import BenefitPointView, NodeView
from pollerd.detection.noise.learning import noise_by_form
from pollerd.planning import about
from pollerd.ranges import BUDGET
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.values import SiteContext
from pollerd.web import lists
from pollerd.web.budget import presets
from pollerd.web.words import percent
from tests.web.conftest import HOSTILE, Web, until

PATHS = [
    "/",
    "/budget",
    "/sites",
    "/changes",
    "/changes?show=all",
    "/rules",
    "/rules/new",
    "/collection",
    "/system",
    "/sites/import",
]


@pytest.mark.parametrize("path", PATHS)
async def test_every_page_is_there_without_sites(web: Web, path: str) -> None:
    answer = await web.get(path)
    assert answer.status == 200, answer.text
    assert answer.text.count("<h1") == 1
    assert "<title>" in answer.text


@pytest.mark.parametrize("path", [*PATHS, "/sites/1", "/sites/1/polls", "/sites/1/text", "/changes/1"])
async def test_every_page_is_there_with_sites(busy: Web, path: str) -> None:
    answer = await busy.get(path)
    assert answer.status == 200, answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r'(?:src|href|action)="https?://(?!example\.org)', answer.text)


async def test_files_are_kept_for_ever_under_their_own_address(web: Web) -> None:
    page = await web.get("/")
    addresses = re.findall(r'(?:href|src)="(/assets/[^"]+)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        answer = await web.get(address)
        assert answer.status == 200
        assert "immutable" in answer.headers["Cache-Control"]
    stale = re.sub(r"/assets/\w+/", "/assets/0000000000000000/", addresses[0])
    assert (await web.get(stale)).status == 404
    assert (await web.get("/assets/../pollerd.db")).status in (404, 400)


async def test_files_are_small(web: Web) -> None:
    """The limits of the design: 8 KB of style, 20 KB of scripts, by gzip."""
    assert (await web.get("/")).status == 200  # pages are loaded when the first is asked for
    files = web.api.app.state.web.assets.files
    assert len(files["style.css"].packed) < 8 * 1024
    asked_for = ("page.js", "live-worker.js", "forms.js", "stream.js", "service-worker.js")
    assert sum(len(files[name].packed) for name in asked_for) < 20 * 1024


async def test_every_colour_that_the_style_uses_is_there(web: Web) -> None:
    """One that is missing is no error in a browser: what should look otherwise looks like all else."""
    style = (await web.get(re.findall(r"/assets/\w+/style.css", (await web.get("/")).text)[0])).text
    used, given = set(re.findall(r"var\((--[\w-]+)", style)), set(re.findall(r"(--[\w-]+)\s*:", style))
    assert len(used) > 10
    assert used == given


async def test_a_page_that_is_not_there(web: Web) -> None:
    for path in ("/sites/99", "/changes/99", "/rules/99"):
        answer = await web.get(path)
        assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    nowhere = await web.get("/nowhere", Accept="text/html")
    assert (nowhere.status, "There is no such page." in nowhere.text) == (404, True)
    assert (
        (await web.get("/api/v1/nowhere", Accept="text/html")).headers["Content-Type"].startswith("application/problem")
    )


async def test_pictures_of_a_site_have_an_address(busy: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"name": "price", "text": "9", "currency": "EUR", "number": 9.0, "moment": None, "problem": None}
    shown = SimpleNamespace(of=lambda state: {"name": "default", "values": [value]})
    monkeypatch.setattr("pollerd.web.site.SelectionStatus", shown)
    monkeypatch.setattr(busy.api.store.history, "selection_states", AsyncMock(return_value=[object()]))
    page = await busy.get("/sites/1")
    (address,) = re.findall(r'<img [^>]*src="([^"?]+)', page.text)
    declared = [one.path for one in busy.api.app.routes if isinstance(one, APIRoute)]
    assert address.replace("/1/", "/{site_id:id}/") in declared


async def test_an_error_of_a_fragment_is_a_fragment(busy: Web) -> None:
    form = {"selections": "{"}
    part = await busy.post("/sites/1", form, **{"X-Fragment": "1"})
    assert (part.status, part.headers["X-Fragment"]) == (422, "1")
    assert "selections: must be JSON" in part.text
    assert not re.search("<html|<header|<h1|<main", part.text)
    whole = await busy.post("/sites/1", form)
    assert (whole.status, whole.text.count("<h1")) == (422, 1)


async def test_a_site_is_added_changed_paused_and_deleted(web: Web) -> None:
    added = await web.post("/sites", {"url": "https://example.org/a", "title": "A", "tags": "shop, news"})
    assert (added.status, added.headers["Location"]) == (303, "/sites/1")
    settings = {"url": "https://example.org/a", "title": "B", "tags": "shop", "weight": "2.5", "min_interval": "1h"}
    settings["selections"] = '{"default": {"include": ["css:main"]}}'
    changed = await web.post("/sites/1", settings)
    spec = (await web.api.store.sites.get(1)).spec
    if changed.status == 303:
        assert '"main"' in spec.selections or "main" in spec.selections
    else:  # the form says what is wrong with it
        assert changed.status == 422
        changed = await web.post("/sites/1", settings | {"selections": ""})
        spec = (await web.api.store.sites.get(1)).spec
    assert changed.status == 303
    assert (spec.title, spec.tags, spec.weight, spec.min_interval) == ("B", ("shop",), 2.5, 3600.0)
    assert (await web.post("/sites/1/pause")).status == 303
    assert (await web.api.store.sites.get(1)).state.value == "paused"
    assert (await web.post("/sites/1/resume")).status == 303
    assert (await web.post("/sites/1/delete")).headers["Location"] == "/jobs/1"
    assert (await web.get("/sites/1")).status == 404
    assert "1 site deleted" in (await web.get("/jobs/1")).text
    assert (await web.post("/jobs/1/undo")).status == 303
    assert (await web.get("/sites/1")).status == 200


async def test_saving_a_form_makes_nothing_of_a_tag_the_sites_own(web: Web) -> None:
    await web.api("PUT", "/tags/shop", {"weight": 3.0})
    await web.post("/sites", {"url": "https://example.org/a", "tags": "shop"})
    page = await web.get("/sites/1")
    form = {"url": "https://example.org/a", "tags": "shop"}
    form["weight"] = re.search(r'name="weight" value="([^"]*)"', page.text)[1]  # type: ignore[index]
    assert (await web.post("/sites/1", form)).status == 303
    site = (await web.api("GET", "/sites/1")).json
    assert site["weight"] == 3.0
    assert (await web.api.store.sites.get(1)).spec.weight is None


@pytest.mark.parametrize(
    ("path", "data", "named"),
    [
        ("/sites", {"url": "ftp://example.org/"}, "url"),
        ("/sites/1", {"url": "https://example.org/0", "weight": "many"}, "weight"),
        ("/sites/1", {"url": "https://example.org/0", "selections": "{"}, "selections"),
        ("/sites/1", {"url": "https://example.org/0", "min_interval": "soon"}, "min_interval"),
        ("/sites/bulk", {"id": "1", "action": "explode"}, "action"),
        ("/sites/bulk", {"id": "one", "action": "pause"}, "id"),
        ("/system/allocation", {"budget": "-1"}, "budget"),
        ("/rules/channels", {"kind": "pigeon", "name": "x"}, "kind"),
        ("/sites/import", {"list": ""}, "list"),
    ],
)
async def test_a_form_that_cannot_be_used_names_the_field(
    busy: Web, path: str, data: dict[str, str], named: str
) -> None:
    answer = await busy.post(path, data)
    assert answer.status == 422, answer.text
    assert f"{named}: must be" in answer.text or f"{named}" in answer.text


async def test_a_second_site_of_an_address_leads_to_the_first(busy: Web) -> None:
    answer = await busy.post("/sites", {"url": "https://example.org/0"})
    assert answer.status == 409
    assert 'href="/sites/1"' in answer.text


async def test_many_sites_at_once(busy: Web) -> None:
    tagged = await busy.post("/sites/bulk", [("id", "1"), ("id", "2"), ("action", "tag"), ("tag", "new")])
    assert tagged.headers["Location"] == "/jobs/1?back=%2Fsites"
    assert "2 sites tagged" in (await busy.get("/jobs/1")).text
    assert (await busy.api.store.sites.get(2)).spec.tags == ("shop", "new")
    await busy.post("/sites/bulk", [("id", "1"), ("id", "2"), ("action", "untag"), ("tag", "shop")])
    assert (await busy.api.store.sites.get(1)).spec.tags == ("new",)
    await busy.post("/sites/bulk", [("all", "1"), ("of_tag", "shop"), ("action", "pause")])
    assert [(await busy.api.store.sites.get(n)).state.value for n in (1, 2, 3)] == ["active", "active", "paused"]
    gone = await busy.post("/sites/bulk", [("id", "3"), ("id", "77"), ("action", "delete"), ("back", "//evil.example")])
    assert gone.headers["Location"] == "/jobs/4?back=%2Fsites"
    assert (await busy.get("/sites/3")).status == 404
    await busy.post("/jobs/4/undo")
    assert (await busy.get("/sites/3")).status == 200
    assert (await busy.get("/jobs")).text.count('href="/jobs/') == 4
    assert (await busy.post("/jobs/4/undo")).status == 422


async def test_the_list_is_searched_and_sorted(busy: Web) -> None:
    async def shown(query: str) -> list[str]:
        return re.findall(r'data-site="(\d+)"', (await busy.get(f"/sites?{query}")).text)

    assert await shown("q=page+1") == ["2"]
    assert await shown("sort=-title") == ["3", "2", "1"]
    assert sorted(await shown("changed=1d")) == ["1", "2", "3"]
    assert await shown("state=paused") == []
    assert await shown("tag=nothing") == []
    for query, named in (("sort=colour", "sort"), ("rate_min=often", "rate_min"), ("changed=soon", "changed")):
        answer = await busy.get(f"/sites?{query}")
        assert (answer.status, f"{named}: must be" in answer.text) == (422, True)


async def test_pages_of_a_long_list_lead_on_and_back(web: Web) -> None:
    lines = "\n".join(f"https://example.org/{n}" for n in range(120))
    await web.post("/sites/import", {"list": lines, "add": "1"})
    first = await web.get("/sites?sort=url")
    older = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert older is not None
    second = await web.get(older[1].replace("&amp;", "&"))
    newer = re.search(r'rel="prev" href="([^"]+)"', second.text)
    assert newer is not None
    again = await web.get(newer[1].replace("&amp;", "&"))
    pages = [re.findall(r'data-site="(\d+)"', page.text) for page in (first, second, again)]
    assert pages[0] == pages[2]
    assert not set(pages[0]) & set(pages[1])


async def test_a_list_is_imported(web: Web) -> None:
    form = {"list": "https://example.org/a\nnothing\nhttps://example.org/b", "tags": "x"}
    asked = await web.post("/sites/import", form)
    assert "A trial: nothing is added yet" in asked.text
    assert await web.api.store.sites.count() == 0
    answer = await web.post("/sites/import", form | {"add": "1"})
    assert "2 new sites, 0 known already, 1 line that names no site." in answer.text
    assert (await web.api.store.sites.get(1)).spec.tags == ("x",)


async def test_the_inbox(busy: Web) -> None:
    page = await busy.get("/changes")
    ids = re.findall(r'data-change="(\d+)"', page.text)
    assert ids == ["6", "4", "2", "5", "3", "1"], "those that say the same are together"
    assert (await busy.post("/changes/seen", [("id", "6"), ("id", "5"), ("back", "/changes?q=x")])).headers[
        "Location"
    ] == ("/changes?q=x")
    left = await busy.get("/changes")
    assert re.findall(r'data-change="(\d+)"', left.text) == ["4", "2", "3", "1"]
    quiet = await busy.post("/changes/seen", [("id", "6"), ("unseen", "1")], **{"X-Fragment": "1"})
    assert quiet.status == 204
    assert re.findall(r'data-change="(\d+)"', (await busy.get("/changes")).text) == ["6", "4", "2", "3", "1"]
    await busy.post("/changes/seen", [("all", "1"), ("newest", "5"), ("id", "6")])
    assert re.findall(r'data-change="(\d+)"', (await busy.get("/changes")).text) == ["6"]
    every = await busy.get("/changes?show=all&q=change+1")
    assert re.findall(r'data-change="(\d+)"', every.text) == ["5", "3", "1"]
    every = await busy.get("/changes?show=all")
    unread = re.findall(r'<li data-row data-change="(\d+)"', every.text)
    read = re.findall(r'<li data-row class="seen" data-change="(\d+)"', every.text)
    assert (unread, sorted(read)) == (["6"], ["1", "2", "3", "4", "5"])
    assert "Clear filters" in (await busy.get("/changes?q=nothing+like+it")).text


async def test_a_difference_inline_side_by_side_and_since_an_earlier_one(busy: Web) -> None:
    inline = await busy.get("/changes/1")
    assert "<del>" in inline.text
    assert "two" in inline.text
    side = await busy.get("/changes/1?view=side")
    assert "<mark>" in side.text
    since = await busy.get("/sites/1/compare?from=1&to=2")
    assert since.headers["Location"] == "/changes/2?since=1"
    assert "four" in (await busy.get("/changes/2?since=1")).text
    fragment = await busy.get("/changes/1", **{"X-Fragment": "1"})
    assert "<html" not in fragment.text
    assert "<table" in fragment.text
    assert (await busy.get("/changes/1?view=upside-down")).status == 422
    assert (await busy.get("/changes/1?since=5")).status == 422


async def test_what_was_pruned_says_so(busy: Web) -> None:
    newest = (await busy.api.store.changes.page(ChangeFilter(site_id=1))).items[0]

    async def gone(content_id: int) -> Any:
        from pollerd.errors import NotFoundError

        raise NotFoundError("content", content_id)

    busy.api.store.contents.get = gone  # type: ignore[assignment]
    answer = await busy.get(f"/changes/{newest.id}")
    assert "The old text was deleted to save space" in answer.text


async def test_rules_and_channels(busy: Web) -> None:
    made = await busy.post("/rules/channels", {"kind": "webhook", "name": "hook", "url": "https://hooks.example.org/x"})
    assert made.status == 200
    secret = re.search(r"whsec_[\w+/=]+", made.text)
    assert secret is not None
    assert secret[0] not in (await busy.get("/rules")).text
    form = [("name", "prices"), ("tags", "shop"), ("event", "site.changed"), ("channel", "hook"), ("digest", "day")]
    form += [("digest_at", "08:00"), ("zone", "Europe/Vienna"), ("enabled", "on")]
    assert (await busy.post("/rules/new", form)).status == 303
    page = await busy.get("/rules")
    assert (
        "When a site changes, alert <strong>hook</strong> daily at 08:00 (Europe/Vienna). Only sites tagged shop."
        in page.text
    )
    assert 'value="shop"' in (await busy.get("/rules/1")).text
    form[0] = ("name", "other")
    assert (await busy.post("/rules/1", form)).status == 303
    assert "other" in (await busy.get("/rules")).text
    assert (await busy.post("/rules/channels/1/delete")).status == 422  # a rule names it
    assert (await busy.post("/rules/1/delete")).status == 303
    assert (await busy.post("/rules/channels/1/delete")).status == 303


async def test_a_rules_form_keeps_what_it_does_not_show(busy: Web) -> None:
    await busy.api("POST", "/channels", {"name": "hook", "kind": "webhook", "settings": {"url": "https://a.example/x"}})
    rule = {
        "name": "r",
        "channels": ["hook"],
        "sites": {"hosts": ["example.org:443"]},
        "words": {"added": [{"text": "x"}]},
    }
    assert (await busy.api("POST", "/rules", rule)).status == 201
    form = [("name", "r"), ("event", "site.changed"), ("channel", "hook"), ("digest", "none"), ("enabled", "on")]
    assert (await busy.post("/rules/1", form)).status == 303
    kept = (await busy.api("GET", "/rules/1")).json["rule"]
    assert kept["sites"]["hosts"] == ["example.org:443"]
    assert kept["words"]["added"][0]["text"] == "x"


async def test_the_budget_is_changed(busy: Web) -> None:
    assert (await busy.post("/system/allocation", {"budget": "7.5", "back": "/budget"})).headers[
        "Location"
    ] == "/budget"
    assert (await busy.api("GET", "/allocation")).json["budget"] == 7.5


@pytest.mark.parametrize("path", ["/budget", "/system"])
@pytest.mark.parametrize("objective", ["delay", "deadline"])
async def test_how_soon_changes_are_found_is_what_rest_says(busy: Web, path: str, objective: str) -> None:
    said = await busy.api("PUT", "/allocation", {"objective": objective, "deadline": "20m", "budget": 0.01})
    page = (await busy.get(path)).text
    rows = dict(re.findall(r'<tr><th scope="row">(mean delay|within the deadline)</th>(.*?)</tr>', page))
    shown = {name: re.findall(r"<td>~(.*?)</td>", row) for name, row in rows.items()}
    assert said.status == 200, said.json
    soon, splits = said.json["timeliness"], ("as_scheduled", "uniform", "best")
    assert shown["mean delay"] == [about(soon["delay"][split]) for split in splits]
    assert shown["within the deadline"] == [percent(soon["in_time"][split]) for split in splits]
    assert "The deadline is 20 min, unless" in page
    assert ("only changes found in time count" in page) == ((path, objective) == ("/budget", "deadline"))


async def test_a_delay_that_is_never_over_is_no_figure(busy: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    await busy.api("PUT", "/allocation", {"objective": "delay"})
    control = busy.api.control.allocation
    view = control.view()
    never = ExpectedTimeliness(ComparedPolicies(None, 90.0, 60.0), ComparedPolicies(0.25, 0.5, 0.75), 1.0)
    monkeypatch.setattr(control, "over_budgets", AsyncMock(return_value=replace(view, timeliness=never)))
    page = (await busy.get("/budget")).text
    assert "<td>–</td><td>~2 min</td><td>~1 min</td>" in page
    assert "– if a site that changes is not checked at all." in page


@pytest.mark.parametrize("path", ["/", "/system"])
async def test_other_objectives_have_no_such_figures(busy: Web, path: str) -> None:
    assert "How soon changes are found" not in (await busy.get(path)).text


async def test_the_planner_says_what_rest_says(busy: Web) -> None:
    page = await busy.get("/plan?share=75&within=1h&tag=shop")
    assert "75 % of the changes of 3 pages tagged shop within 1 hour" in page.text
    for query, named in (("share=most", "share"), ("within=soon", "within"), ("share=120", "share")):
        answer = await busy.get(f"/plan?{query}")
        assert (answer.status, f"{named}: must be" in answer.text) == (422, True)


async def test_hostile_text_is_text(hostile: Web) -> None:
    paths = ["/", "/sites", "/changes", "/changes?show=all"]
    paths += [f"/sites/{n + 1}{rest}" for n in range(len(HOSTILE)) for rest in ("", "/text", "/polls")]
    paths += [f"/changes/{n + 1}{rest}" for n in range(len(HOSTILE)) for rest in ("", "?view=side")]
    for path in paths:
        answer = await hostile.get(path)
        assert answer.status == 200, (path, answer.text)
        assert "<script>window" not in answer.text
        assert "<img" not in answer.text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in answer.text
        assert "\x1b" not in answer.text
        assert ">49<" not in answer.text
        assert answer.text.count("<h1") == 1
        assert answer.text.partition("</head>")[0].count("</title>") == 1


@pytest.mark.parametrize("value", HOSTILE)
async def test_hostile_filters_are_text(busy: Web, value: str) -> None:
    for path in ("/sites", "/changes"):
        async with busy.api.session.get(f"{busy.root}{path}", params={"q": value[:190], "tag": value[:90]}) as answer:
            text = await answer.text()
            assert answer.status in (200, 422)
            assert "<script>window" not in text
            assert "<img" not in text


@pytest.mark.parametrize("path", ["/sites/1/pause", "/sites", "/changes/seen", "/system/allocation"])
async def test_forms_of_other_pages_are_refused(busy: Web, path: str) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Referer": "https://evil.example/"},
        {"Host": "evil.example"},
    ):
        assert (await busy.post(path, {"id": "1"}, **headers)).status == 403, headers


async def test_a_long_import_shows_how_far_it_is(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "_AT_ONCE_SECONDS", 0.0)
    lines = "\n".join(f"https://example.org/{n}" for n in range(6_000))
    begun = await web.post("/sites/import", {"list": lines, "tags": "many", "add": "1"})
    assert (begun.status, begun.headers["Location"]) == (303, "/sites/import/1")

    async def ended() -> bool:
        return 'data-state="done"' in (await web.get("/sites/import/1", **{"X-Fragment": "1"})).text

    await until(ended)
    page = await web.get("/sites/import/1")
    assert "6,000 new sites, 0 known already, 0 lines that name no site." in page.text
    assert 'href="/sites?tag=many"' in page.text
    assert (await web.get("/sites/import/9")).status == 404


async def test_one_of_several_nodes_says_so_and_offers_no_budget_of_its_share(
    busy: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "One of several nodes" not in (await busy.get("/budget")).text
    monkeypatch.setattr(busy.api.store, "shared", AsyncMock())
    for path in ("/budget", "/plan?share=99&within=1m"):
        assert 'action="/system/allocation"' not in (await busy.get(path)).text
    assert "One of several nodes: these figures are of its sites" in (await busy.get("/budget")).text


async def test_the_nodes_are_shown_where_there_are_several(busy: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'id="nodes-head"' not in (await busy.get("/system")).text
    node = NodeView(
        id=1,
        name="<b>north</b>",
        version="1.2.3",
        started_at=1.0,
        here=True,
        drained=True,
        partitions=61,
        sites=1234,
        roles=("jobs",),
        grant=4.5,
        target=None,
        price=0.25,
        spent=4.0,
        silent_seconds=1.0,
        clock_ahead=0.0,
        starts=1,
    )
    view = replace(ALONE, partitions=64, unheld=3, budget=9.0, in_force=9.0, nodes=(node,))
    monkeypatch.setattr(busy.api.control.cluster, "view", AsyncMock(return_value=view))
    text = (await busy.get("/system")).text
    assert 'name="budget" min="0.001" step="any" value="9.0"' in text, "that of all nodes is set, not a share of it"
    assert "&lt;b&gt;north&lt;/b&gt; (this one) (drained)" in text
    assert "3 partitions of 64 without a node" in text


async def test_a_sites_page_tells_how_its_changes_are_read(busy: Web) -> None:
    assert "Reader interest" not in (await busy.get("/sites/1")).text
    changes = (await busy.api("GET", "/sites/1/changes?order=newest")).json["items"]
    reads = [{"site_id": 1, "at": changes[0]["detected_at"], "count": 7, "change_id": changes[0]["id"]}]
    taken = await busy.api("POST", "/reads", {"report": "<b>1</b>", "reads": reads})
    assert taken.json["reads"] == 7
    page = (await busy.get("/sites/1")).text
    assert "Reader interest" in page
    assert "7 reads of 1 change: interest halves in 1 d" in page
    assert "its half-life is 1 d, the default; the reads agree" in page


async def test_what_is_hidden_as_noise_is_shown_again_by_one_click(busy: Web) -> None:
    store = busy.api.store
    context = (await store.sites.contexts([1]))[1]
    content = (await store.contents.load([context.content_id or 0]))[context.content_id or 0]
    five, six = (content + b"\n%d views\nThe end" % n for n in (5, 6))
    verdict = noise_by_form(five, six, context.baseline, None, 10.0)
    assert verdict is not None

    def edit(before: SiteContext, _: object) -> SiteContext:
        assert verdict is not None
        return structs.replace(before, baseline=verdict.baseline)

    await store.sites.edit_masks(1, edit, 10.0)
    page = (await busy.get("/sites/1")).text
    assert "each view counter, such as \u00ab6 views\u00bb" in page
    given = {"rule": "view-counter", "hidden": "false"}
    assert (await busy.post("/sites/1/noise", given)).status == 303
    page = (await busy.get("/sites/1")).text
    assert "<del>each view counter" in page
    assert "Hide it again" in page


async def test_a_file_is_read_as_what_its_name_says(web: Web) -> None:
    def sent(name: str, content: str, chosen: str = "") -> aiohttp.FormData:
        form = aiohttp.FormData({"format": chosen, "add": "1"})
        form.add_field("file", content.encode(), filename=name)
        return form

    table = "url,title\nhttps://example.org/csv,From a table\n"
    for name, content, url in (
        ("Sites.CSV", table, "https://example.org/csv"),
        ("sites.jsonl", '{"url": "https://example.org/lines"}\n', "https://example.org/lines"),
        ("sites", "https://example.org/plain\n", "https://example.org/plain"),
    ):
        answer = await web.post("/sites/import", sent(name, content))
        assert answer.status == 200
        assert list(await web.api.store.sites.at([url])) == [url]
    assert (await web.api("GET", "/sites")).json["items"][0]["title"] in ("", "From a table")
    refused = await web.post("/sites/import", sent("sites.yaml", "sites: []\n"))
    assert (refused.status, ".yaml is not read here" in refused.text) == (422, True)
    assert (await web.post("/sites/import", sent("sites.yaml", "https://example.org/y\n", "text"))).status == 200


async def test_settings_decide_what_pages_say_of_restarts_addresses_and_topics(web: Web) -> None:
    page = await web.get("/")
    assert 'href="/collection"' in page.text
    settings = web.api.app.state.web.settings
    settings.update(topic=("", "default"), public_url=("", "default"))
    assert 'href="/collection"' not in (await web.get("/")).text
    assert (await web.get("/rules")).text.count("no-address") == 0, "there is no channel yet"
    made = {"kind": "webhook", "name": "hook", "url": "https://example.org/hook"}
    assert (await web.post("/rules/channels", made)).status in (200, 303)
    assert (await web.get("/rules")).text.count('id="no-address"') == 1


async def test_a_missing_public_address_is_set_in_place_until_a_restart(web: Web) -> None:
    await web.get("/")
    settings = web.api.app.state.web.settings
    settings.update(public_url=("", "default"))
    made = {"kind": "webhook", "name": "hook", "url": "https://example.org/hook"}
    assert (await web.post("/rules/channels", made)).status in (200, 303)
    page = (await web.get("/rules")).text
    assert f'name="url" value="{web.root}"' in page
    refused = await web.post("/rules/public-url", {"url": "ftp://watch.example.org"})
    assert refused.status == 422
    assert "The public address must be an http or https URL without query." in refused.text
    assert 'value="ftp://watch.example.org"' in refused.text, "what was typed stays"
    for address in ("https://watch.example.org/", "https://other.example.org"):
        assert (await web.post("/rules/public-url", {"url": address})).status == 303
        assert web.api.control.notifications.public_url == address.rstrip("/")
        page = (await web.get("/rules")).text
        assert "no-address" not in page
        assert f"--public-url {address.rstrip('/')}" in page, "how it is kept"
    settings["public_url"] = ("https://other.example.org/", "flag")
    assert "--public-url" not in (await web.get("/rules")).text


async def test_a_restart_is_spoken_of_beside_the_budget(busy: Web) -> None:
    busy.api.app.state.web.settings.update(budget=("7.5", "flag"))
    page = await busy.get("/budget")
    assert "Then the budget is 7.5 checks per second again (from --budget)." in page.text
    assert "152 %" not in page.text


@pytest.mark.parametrize(("sites", "offered"), [(0, 0), (1, 2), (300, 3), (50_000, 3), (10_000_000, 2)])
def test_budgets_by_name_say_what_they_mean(sites: int, offered: int) -> None:
    named = presets(sites)
    assert len(named) == offered
    for preset in named:
        assert BUDGET.lowest <= preset.budget <= BUDGET.highest
        assert preset.interval == pytest.approx(sites / preset.budget)
    assert [preset.budget for preset in named] == sorted({preset.budget for preset in named})


async def test_the_budget_page_says_nothing_that_is_not_so(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (await web.get("/budget")).text
    assert "No sites yet." in page
    assert "is checked about every" not in page
    assert "Gentle" not in page
    await web.api.add("https://example.org/")
    page = (await web.get("/budget")).text
    assert "The site is checked about every" in page
    assert "0 of 1 so far" in page
    assert 'id="budget-step"' not in page, "nothing is known of the site: there is no curve"
    assert ">Normal: the site every 2 min</button>" in page
    assert "Gentle" not in page, "the smallest budget is more than that"
    await web.post("/system/allocation", {"budget": "0.01", "back": "/budget"})
    assert 'aria-pressed="true">Normal: ' in (await web.get("/budget")).text
    await web.api("POST", "/sites/1/pause", {})
    page = (await web.get("/budget")).text
    assert "is checked about every" not in page, "a paused site is not checked"
    allocation = web.api.control.allocation
    many = replace(allocation.view(), sites=50_000, sites_read_twice=25_001, budget=10.0, spendable=8.0)
    curve = tuple(BenefitPointView(budget, 100.0 * budget) for budget in (5.0, 10.0, 20.0))
    many = replace(many, benefit_curve=curve, expected_detections_per_hour_as_scheduled=900.0)
    monkeypatch.setattr(allocation, "over_budgets", AsyncMock(return_value=many))
    page = (await web.get("/budget")).text
    assert 'id="budget-step"' in page
    assert "With 5 checks per second, about 50 % of the changes that 10 checks per second find." in page
    assert "On average each site is checked about every 1 h 40 min." in page
    assert "Eager: each site about every 1 min" in page
    monkeypatch.setattr(allocation, "over_budgets", AsyncMock(return_value=replace(many, sites_read_twice=25_000)))
    assert "25,000 of 50,000 so far" in (await web.get("/budget")).text
