"""Undo: what deletes or marks can be taken back for a day, twice, and by those who may."""

from __future__ import annotations

import re
import time
from typing import Any

from sqlalchemy import insert, select, update

from pollerd.storage.schema import kept_copy, outbox
from tests.web.conftest import Web

HOOK = {"name": "hook", "kind": "webhook", "settings": {"url": "https://a.example/x?token=hush", "headers": {"K": "v"}}}
RULE = {"name": "prices", "channels": ["hook"], "sites": {"tags": ["shop"]}, "words": {"added": [{"text": "sale"}]}}


async def _made(web: Web) -> tuple[dict[str, Any], dict[str, Any]]:
    assert (await web.api("POST", "/channels", HOOK)).status == 201
    assert (await web.api("POST", "/rules", RULE)).status == 201
    assert (await web.api("POST", "/rules/1/mute", {"until": "2099-01-01T00:00:00Z"})).status == 200
    return (await web.api("GET", "/channels/1")).json, (await web.api("GET", "/rules/1")).json


async def _bars(web: Web) -> dict[str, str]:
    """The bars of the page Alerts: text -> id of the copy."""
    page = (await web.get("/rules")).text
    forms = re.findall(r'action="/rules/undo".*?name="id" value="(\d+)">Deleted ([^<]*?), <time', page, re.DOTALL)
    return {text: copy_id for copy_id, text in forms}


async def test_a_rule_comes_back_with_its_id_and_can_be_deleted_again(web: Web) -> None:
    _, rule = await _made(web)
    assert (await web.post("/rules/1/delete")).status == 303
    assert (await web.post("/rules/1/delete")).status == 303, "a second click says nothing"
    bars = await _bars(web)
    assert list(bars) == ["rule prices"]
    assert (await web.post("/rules/undo", {"id": bars["rule prices"]})).status == 303
    assert (await web.api("GET", "/rules/1")).json == rule
    assert await _bars(web) == {}
    again = await web.post("/rules/undo", {"id": bars["rule prices"]})
    assert (again.status, "undone already" in again.text) == (404, True)
    await web.post("/rules/1/delete")
    assert (await web.post("/rules/undo", {"id": (await _bars(web))["rule prices"]})).status == 303
    assert (await web.api("GET", "/rules/1")).json == rule


async def test_a_channel_comes_back_with_its_secrets_and_its_queue(web: Web) -> None:
    await _made(web)
    store = web.api.store.notifications
    before = await store.channels.get(1)
    notice = {"event_id": "e", "kind": "site.changed", "at": 1.0, "rule_id": 1, "channel_id": 1, "data": "{}"}

    def queue(connection: Any) -> None:
        connection.execute(insert(outbox).values(**notice, waits_since=1.0, due_at=1.0))
        dead = {"state": "dead", "ended_at": 2.0, "last_detail": "refused"}
        connection.execute(insert(outbox).values(**notice | {"event_id": "f"}, waits_since=1.0, due_at=1.0, **dead))

    await web.api.store.database.write(queue)
    refused = await web.post("/rules/channels/1/delete")
    assert (refused.status, "named by no rule; named by prices" in refused.text) == (422, True)
    await web.post("/rules/1/delete")
    await web.post("/rules/channels/1/delete")
    bars = await _bars(web)
    assert list(bars) == ["channel hook", "rule prices"]
    missing = await web.post("/rules/undo", {"id": bars["rule prices"]})
    assert (missing.status, "A channel of this rule is missing" in missing.text) == (409, True)
    for what in ("channel hook", "rule prices"):
        assert (await web.post("/rules/undo", {"id": bars[what]})).status == 303
    assert await store.channels.get(1) == before
    states = await web.api.store.database.read(
        lambda connection: connection.execute(select(outbox.c.event_id, outbox.c.state).order_by(outbox.c.id)).all()
    )
    assert [tuple(row) for row in states] == [("e", "waiting"), ("f", "dead")], "only what the deletion ended"


async def test_a_name_that_is_taken_meanwhile_is_said_and_the_copy_stays(web: Web) -> None:
    await _made(web)
    await web.post("/rules/1/delete")
    assert (await web.api("POST", "/rules", RULE)).status == 201
    bar = (await _bars(web))["rule prices"]
    answer = await web.post("/rules/undo", {"id": bar})
    assert (answer.status, "rename or delete that one first" in answer.text) == (409, True)
    assert (await _bars(web))["rule prices"] == bar


async def test_after_a_day_nothing_is_kept(web: Web) -> None:
    await _made(web)
    await web.post("/rules/1/delete")
    bar = (await _bars(web))["rule prices"]
    old = update(kept_copy).values(kept_at=time.time() - 86_401.0)
    await web.api.store.database.write(lambda connection: connection.execute(old))
    assert await _bars(web) == {}
    assert (await web.post("/rules/undo", {"id": bar})).status == 404
    await web.api.control.jobs.purge()
    rows = await web.api.store.database.read(lambda connection: connection.execute(select(kept_copy)).all())
    assert rows == []


async def test_rules_of_the_configuration_file_are_not_kept(web: Web) -> None:
    await _made(web)
    assert (await web.post("/rules/undo", {"id": "x"})).status == 422
    assert (await web.post("/rules/undo", {})).status == 404


async def _unseen(web: Web) -> set[int]:
    return {int(number) for number in re.findall(r'data-change="(\d+)"', (await web.get("/changes")).text)}


async def _undo_mark(web: Web, text: str) -> None:
    page = (await web.get("/changes")).text
    bar = re.search(r'name="id" value="(\d+)"><span>([^<]*), <time.*?name="undo"', page, re.DOTALL)
    assert bar is not None
    assert bar[2] == text
    assert (await web.post("/changes/seen", {"id": bar[1], "undo": "1"})).status == 303


async def test_marks_are_taken_back_twice(busy: Web) -> None:
    everything = await _unseen(busy)
    assert len(everything) == 6
    assert 'name="undo"' not in (await busy.get("/changes")).text
    await busy.post("/changes/seen", {"id": "1"})
    rest = [("id", str(number)) for number in sorted(everything)[:3]]
    await busy.post("/changes/seen", rest)
    left = await _unseen(busy)
    assert left == set(sorted(everything)[3:])
    await _undo_mark(busy, "3 changes marked as read")
    assert await _unseen(busy) == everything - {1}, "the one that was seen before stays seen"
    await _undo_mark(busy, "3 changes marked as unread")
    assert await _unseen(busy) == left
    await busy.post("/changes/seen", {"all": "1", "newest": str(max(everything))})
    assert await _unseen(busy) == set()
    await _undo_mark(busy, "All changes marked as read")
    assert await _unseen(busy) == left
    assert (await busy.post("/changes/seen", {"id": "999", "undo": "1"})).status == 303


async def test_a_script_says_what_can_be_undone(busy: Web) -> None:
    script = {"X-Fragment": "1"}
    assert (await busy.post("/changes/seen", {"id": "1"}, **script)).status == 204
    assert 'name="undo"' not in (await busy.get("/changes")).text
    marked = [("id", "2"), ("id", "3"), ("kept", "1")]
    assert (await busy.post("/changes/seen", marked, **script)).status == 204
    await _undo_mark(busy, "2 changes marked as read")


async def test_the_list_of_sites_offers_to_undo_the_last_job(busy: Web) -> None:
    assert "undo" not in (await busy.get("/sites")).text.replace("and undo", "").replace("<dd>undo", "")
    await busy.post("/sites/2/delete")
    page = (await busy.get("/sites")).text
    bar = re.search(r'action="(/jobs/\d+/undo)"[^>]*>1 site deleted, <time', page)
    assert bar is not None
    await busy.post(bar[1])
    assert (await busy.get("/sites/2")).status == 200
    assert 'class="panel row undo"' not in (await busy.get("/sites")).text


async def _undo_bar(web: Web, path: str = "/sites/1") -> str | None:
    """The id of the edit of what counts that the page offers to undo."""
    bar = re.search(
        r'action="/sites/1/counts" class="panel row undo">.*?name="id" value="(\d+)">What counts was edited, <time',
        (await web.get(path)).text,
    )
    return bar[1] if bar else None


async def _kept(web: Web) -> Any:
    return (await web.api("GET", "/sites/1")).json["selections"]


async def test_an_ignored_kind_of_change_is_undone_and_ignored_again(web: Web) -> None:
    await web.api.add("https://example.org/")
    assert await _undo_bar(web) is None
    ignore = {"selection": "default", "ignore": r"/^Ad [0-9][0-9.,]* of today$/", "ignore_how": "lines"}
    assert (await web.post("/sites/1/counts", ignore)).status == 303
    ignored = await _kept(web)
    assert ignored is not None
    first = await _undo_bar(web)
    assert first is not None
    assert await _undo_bar(web, "/sites/1/counts") == first
    assert (await web.post("/sites/1/counts", {"id": first, "undo": "1"})).status == 303
    assert await _kept(web) is None
    twice = await web.post("/sites/1/counts", {"id": first, "undo": "1"})
    assert (twice.status, "This was undone already" in twice.text) == (422, True), "a second click"
    assert await _kept(web) is None
    second = await _undo_bar(web)
    assert second not in (None, first)
    assert (await web.post("/sites/1/counts", {"id": second, "undo": "1"})).status == 303
    assert await _kept(web) == ignored
    assert (await web.post("/sites/1/counts", {"id": await _undo_bar(web), "undo": "1"})).status == 303
    assert await _kept(web) is None


async def test_only_the_last_edit_of_what_counts_is_undone(web: Web) -> None:
    await web.api.add("https://example.org/")
    await web.api.add("https://example.org/other")
    await web.post("/sites/1/counts", {"selection": "default", "keep": "h1", "keep_how": "elements"})
    bar = await _undo_bar(web)
    await web.post("/sites/2/counts", {"selection": "default", "keep": "h2", "keep_how": "elements"})
    assert await _undo_bar(web) == bar, "of another site"
    await web.post("/sites/1/counts", {"selection": "default", "keep": "h1", "keep_how": "elements"})
    assert await _undo_bar(web) == bar, "nothing was changed"
    await web.api("PATCH", "/sites/1", {"selections": {"default": {"steps": [{"keep": [{"css": "p"}]}]}}})
    assert await _undo_bar(web) is None, "edited elsewhere since"
    refused = await web.post("/sites/1/counts", {"id": bar or "", "undo": "1"})
    assert (refused.status, "edited since" in refused.text) == (422, True)
    old = update(kept_copy).values(kept_at=time.time() - 86_401.0)
    await web.post("/sites/1/counts", {"selection": "default", "keep": "h1", "keep_how": "elements"})
    assert await _undo_bar(web) is not None
    await web.api.store.database.write(lambda connection: connection.execute(old))
    assert await _undo_bar(web) is None
