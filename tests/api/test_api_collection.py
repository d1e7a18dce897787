"""The focused crawler's collection over REST: how it stands, its pages, and all of it as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from xml.etree.ElementTree import fromstring

import pytest

from pollerd.api import collection
from pollerd.api.settings import ApiSettings
from pollerd.storage.store import Store
from tests.api.conftest import Api, NewApi
from tests.support.collections import LEADS, SEEDS, fill

GRAPHML = f"{{{collection.NAMESPACE}}}"


@pytest.fixture
async def mills(store: Store) -> None:
    """Before the daemon is built, which then knows the sites."""
    await fill(store)


@pytest.mark.parametrize("path", ["", "/pages", "/export", "/export?format=graphml"])
async def test_without_a_topic_there_is_no_collection(api: Api, path: str) -> None:
    reply = await api("GET", f"/collection{path}")
    assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json")
    assert "--topic" in reply.json["detail"]


@pytest.mark.usefixtures("mills")
async def test_how_it_stands(api: Api) -> None:
    found = (await api("GET", "/collection")).json
    assert 0 <= found.pop("freshness") < 1
    assert found == {
        "topic": "mills",
        "started_at": "2026-09-21T14:13:20.000Z",
        "size": 1,
        "mean_relevance": 0.5,
        "requests": 2,
        "harvest_rate": 0.5,
        "frontier": 2,
        "fringe": 2,
        "hosts": 2,
        "pages": {"fringe": 2, "asked": 0, "collected": 1, "rejected": 1, "gone": 0},
    }


@pytest.mark.usefixtures("mills")
async def test_freshness_is_the_chance_that_a_page_is_as_it_was_seen(api: Api) -> None:
    site_id = (await api("GET", "/collection/pages?state=collected")).json["items"][0]["site_id"]
    chance = (await api("GET", f"/sites/{site_id}/explain")).json["change_probability"]
    # Between the two calls time goes on, a little.
    assert (await api("GET", "/collection")).json["freshness"] == pytest.approx(1 - chance, abs=1e-3)


@pytest.mark.usefixtures("mills")
async def test_pages_are_listed_and_filtered(api: Api) -> None:
    pages = (await api("GET", "/collection/pages")).json["items"]
    assert [(page["url"], page["state"], page["reason"]) for page in pages] == [
        (SEEDS[0], "collected", ""),
        (SEEDS[1], "rejected", "off topic"),
        (LEADS[0].url, "fringe", ""),
        (LEADS[1].url, "fringe", ""),
    ]
    assert [page["parent_id"] for page in pages] == [None, None, pages[0]["id"], pages[0]["id"]]
    assert [page["depth"] for page in pages] == [0, 0, 1, 1]
    assert [page["relevance"] for page in pages] == [0.5, 0.02, None, None]
    assert [page["worth"] for page in pages] == [None, None, 0.3, 0.3]
    assert pages[3]["modified_at"] == "2026-05-28T20:26:40.000Z"
    assert (pages[0]["own"], pages[1]["site_id"]) == (True, None)

    async def ids(query: str) -> list[int]:
        return [page["id"] for page in (await api("GET", f"/collection/pages?{query}")).json["items"]]

    assert await ids("state=fringe") == [pages[2]["id"], pages[3]["id"]]
    assert await ids("host=OTHER.example:443") == [pages[1]["id"]]
    assert await ids("min_relevance=0.3") == [pages[0]["id"]]
    first = (await api("GET", "/collection/pages?limit=3")).json
    assert len(first["items"]) == 3
    assert await ids(f"limit=3&cursor={first['next_cursor']}") == [pages[3]["id"]]


@pytest.mark.usefixtures("mills")
@pytest.mark.parametrize(
    ("query", "field"), [("state=active", "state"), ("min_relevance=2", "min_relevance"), ("cursor=x", "cursor")]
)
async def test_what_is_no_filter_is_named(api: Api, query: str, field: str) -> None:
    reply = await api("GET", f"/collection/pages?{query}")
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)


@pytest.mark.usefixtures("mills")
async def test_pages_and_links_come_as_lines(api: Api) -> None:
    pages = (await api("GET", "/collection/pages")).json["items"]
    reply = await api("GET", "/collection/export")
    assert reply.headers["Content-Disposition"] == 'attachment; filename="pages.jsonl"'
    assert [json.loads(line) for line in reply.body.splitlines()] == pages
    links = [json.loads(line) for line in (await api("GET", "/collection/export?part=links")).body.splitlines()]
    expected = [(pages[0]["id"], pages[place]["id"], lead.anchor) for place, lead in ((2, LEADS[0]), (3, LEADS[1]))]
    assert [tuple(link.values()) for link in links] == expected


@pytest.mark.usefixtures("mills")
async def test_pages_and_links_come_as_csv(api: Api) -> None:
    pages = (await api("GET", "/collection/pages")).json["items"]
    reply = await api("GET", "/collection/export?format=csv")
    assert reply.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert list(rows[0]) == list(pages[0])
    assert [(row["url"], row["relevance"], row["own"]) for row in rows] == [
        (SEEDS[0], "0.5", "true"),
        (SEEDS[1], "0.02", "false"),
        (LEADS[0].url, "", "false"),
        (LEADS[1].url, "", "false"),
    ]
    links = (await api("GET", "/collection/export?format=csv&part=links")).body.decode().splitlines()
    assert links[0] == "source_id,target_id,anchor"
    assert len(links) == 3


@pytest.mark.usefixtures("mills")
async def test_the_link_graph_comes_as_graphml(api: Api) -> None:
    """As the specification has it: declared keys of known types, unique nodes, edges between nodes that are there."""
    reply = await api("GET", "/collection/export?format=graphml")
    assert reply.headers["Content-Type"].startswith("application/graphml+xml")
    root = fromstring(reply.body)
    assert root.tag == f"{GRAPHML}graphml"
    # Keys stand before the graph, as the schema has them.
    assert [child.tag.removeprefix(GRAPHML) for child in root] == ["key"] * (len(root) - 1) + ["graph"]
    keys = {key.attrib["id"]: key.attrib for key in root.iter(f"{GRAPHML}key")}
    assert {key["attr.type"] for key in keys.values()} <= {"boolean", "int", "long", "float", "double", "string"}
    graph = root[-1]
    assert graph.attrib["edgedefault"] == "directed"
    nodes = {node.attrib["id"]: node for node in graph.iter(f"{GRAPHML}node")}
    edges = list(graph.iter(f"{GRAPHML}edge"))
    assert (len(nodes), len(edges)) == (4, 2)
    for element, kind in (*((node, "node") for node in nodes.values()), *((edge, "edge") for edge in edges)):
        for data in element:
            assert data.tag == f"{GRAPHML}data"
            assert keys[data.attrib["key"]]["for"] == kind
            _TYPES[keys[data.attrib["key"]]["attr.type"]](data.text or "")
    assert {edge.attrib["source"] for edge in edges} | {edge.attrib["target"] for edge in edges} <= nodes.keys()
    told = {data.attrib["key"]: data.text for data in nodes[edges[1].attrib["target"]]}
    assert (told["url"], told["state"], told["depth"]) == (LEADS[1].url, "fringe", "1")
    assert "relevance" not in told
    assert f"p{told['parent_id']}" == edges[1].attrib["source"]
    assert [edge[0].text for edge in edges] == ["0.75", "0.0"]


def _boolean(text: str) -> bool:
    assert text in ("true", "false")
    return text == "true"


_TYPES: dict[str, Callable[[str], object]] = {"boolean": _boolean, "long": int, "double": float, "string": str}


@pytest.mark.usefixtures("mills")
async def test_links_to_pages_that_came_meanwhile_are_left_out(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = store.collection.iter_links

    async def later() -> object:
        async for link in read():
            yield link
        yield 1, 10**6, 0.5
        yield 10**6, 1, 0.5

    monkeypatch.setattr(store.collection, "iter_links", later)
    body = (await api("GET", "/collection/export?format=graphml")).body
    assert body.count(b"<edge ") == 2


def test_what_xml_cannot_hold_is_left_out() -> None:
    page = dict.fromkeys(collection.NODE_KEYS) | {
        "id": 1,
        "url": "https://a.example/?a&b<c>",
        "reason": "a\x00\x1b]]>b",
    }
    node = fromstring(collection.node_element(page))
    assert [data.text for data in node] == ["https://a.example/?a&b<c>", "a]]>b"]


async def test_reading_needs_a_token_of_that_scope(new_api: NewApi, store: Store) -> None:
    await fill(store)
    guarded = await new_api(ApiSettings.listening("127.0.0.1:0", read_token="reads"))
    for path in ("", "/pages", "/export"):
        assert (await guarded("GET", f"/collection{path}")).status == 401
        reply = await guarded("GET", f"/collection{path}", headers={"Authorization": "Bearer reads"})
        assert reply.status == 200
