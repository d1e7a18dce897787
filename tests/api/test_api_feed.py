"""The Atom feed: what RFC 4287 asks for, what XML cannot hold, and conditional requests."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import feedparser
from msgspec.structs import replace

from pollerd.storage.values import Batch
from tests.api.conftest import Api, Reply
from tests.api.test_api_history import URL, record

ATOM = "{http://www.w3.org/2005/Atom}"


async def find(api: Api, site_id: int, n: int, summary: str | None = None, url: str = URL) -> None:
    """The n-th poll of a site finds a change."""
    found = record(site_id, n)
    assert found.change is not None
    draft = found.change if summary is None else replace(found.change, summary=summary)
    await api.store.commit(Batch([replace(found, change=draft, context=replace(found.context, url=url))]))


def entries(reply: Reply) -> list[ElementTree.Element]:
    return ElementTree.fromstring(reply.body).findall(f"{ATOM}entry")


def text(element: ElementTree.Element, tag: str) -> str:
    found = element.find(ATOM + tag)
    assert found is not None
    assert found.text is not None
    return found.text


async def test_the_feed_has_all_that_the_standard_asks_for(api: Api) -> None:
    site_id = await api.add(URL)
    for n in (1, 2):
        await find(api, site_id, n)
    reply = await api("GET", "/changes.atom?limit=10")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/atom+xml")
    feed = ElementTree.fromstring(reply.body)
    assert text(feed, "id") == f"{api.root}/api/v1/changes.atom?limit=10"
    assert (text(feed, "title"), text(feed, "updated")) == ("Changes", "2027-01-15T08:00:02.250Z")
    author = feed.find(f"{ATOM}author")
    assert author is not None
    assert text(author, "name") == "pollerd"
    links = [(link.get("rel"), link.get("href")) for link in feed.findall(f"{ATOM}link")]
    assert links == [("self", f"{api.root}/api/v1/changes.atom?limit=10")]
    newest, older = entries(reply)
    assert (text(newest, "title"), text(newest, "summary")) == (f"{URL}: change 2", "change 2")
    assert text(older, "updated") == "2027-01-15T08:00:01.250Z"
    assert text(newest, "id").startswith("urn:uuid:")
    assert text(newest, "id") != text(older, "id")
    pages = {link.get("rel"): link.get("href") or "" for link in newest.findall(f"{ATOM}link")}
    assert pages["alternate"] == URL
    assert (await api("GET", pages["related"].removeprefix(f"{api.root}/api/v1"))).status == 200


async def test_a_feed_reader_reads_it(api: Api) -> None:
    site_id = await api.add(URL)
    await find(api, site_id, 1, "<b>bold</b> & \x00\x08\x1b[1m \ufffe \U0001f41d ]]> end")
    reply = await api("GET", "/changes.atom")
    found = feedparser.parse(io.BytesIO(reply.body), response_headers={"content-type": "application/atom+xml"})
    assert (found.bozo, found.version) == (False, "atom10")
    assert entries(reply)[0].findtext(f"{ATOM}summary") == (
        "<b>bold</b> & \ufffd\ufffd\ufffd[1m \ufffd \U0001f41d ]]> end"
    )


async def test_ids_stay_when_a_site_moves(api: Api) -> None:
    site_id = await api.add(URL)
    await find(api, site_id, 1)
    before = text(entries(await api("GET", "/changes.atom"))[0], "id")
    await api("PATCH", f"/sites/{site_id}", {"url": "https://elsewhere.org/"})
    assert text(entries(await api("GET", "/changes.atom"))[0], "id") == before


async def test_filters_and_limit(api: Api) -> None:
    plain, tagged = await api.add("https://plain.org/"), await api.add(URL, tags=["news"])
    for n in (1, 2, 3):
        await find(api, plain, n, url="https://plain.org/")
        await find(api, tagged, n)
    for query, count in [("", 6), ("?tag=news", 3), (f"?site={plain}&limit=2", 2), ("?since=1800000003", 2)]:
        assert len(entries(await api("GET", f"/changes.atom{query}"))) == count, query
    empty = await api("GET", "/changes.atom?tag=none")
    assert (empty.status, entries(empty), "Last-Modified" in empty.headers) == (200, [], False)
    assert text(ElementTree.fromstring(empty.body), "updated") == "1970-01-01T00:00:00.000Z"


async def test_what_has_not_changed_is_not_sent_again(api: Api) -> None:
    site_id = await api.add(URL)
    await find(api, site_id, 1)
    first = await api("GET", "/changes.atom")
    tag, date = first.headers["ETag"], first.headers["Last-Modified"]
    assert date == "Fri, 15 Jan 2027 08:00:01 GMT"
    known = [
        {"If-None-Match": tag},
        {"If-None-Match": f'"x", W/{tag}'},
        {"If-None-Match": "*"},
        {"If-Modified-Since": date},
    ]
    for headers in known:
        again = await api("GET", "/changes.atom", headers=headers)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    for headers in [{"If-None-Match": '"x"', "If-Modified-Since": date}, {"If-Modified-Since": "yesterday"}]:
        assert (await api("GET", "/changes.atom", headers=headers)).status == 200
    await find(api, site_id, 2)
    for headers in known[:2]:
        assert (await api("GET", "/changes.atom", headers=headers)).status == 200


async def test_mistakes_are_problems(api: Api) -> None:
    for query, field in [("limit=0", "limit"), ("since=x", "since"), ("cursor=x", "cursor"), ("site=0", "site")]:
        reply = await api("GET", f"/changes.atom?{query}")
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)
