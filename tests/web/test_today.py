"""Today, the list of sites, and what the head of all pages says."""

from __future__ import annotations

import time

import pytest
from msgspec import structs
from sqlalchemy import Connection, insert, update

from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState
from pollerd.storage.schema import outbox, reader_mark
from pollerd.storage.values import Batch, PollRecord
from pollerd.web.plots import hours_plot, mini_strip
from tests.web.conftest import Web


async def test_today_says_what_is_new_and_counts_it(busy: Web) -> None:
    page = (await busy.get("/")).text
    assert "6 unread changes · on 3 sites" in page
    assert page.count('<span class="found"') == 6
    assert 'id="unread">6</span>' in page
    assert "<strong>6</strong> changes found" in page
    await busy.post("/changes/seen", {"all": "1", "newest": "6"})
    page = (await busy.get("/")).text
    assert "No unread changes" in page
    assert 'id="unread" hidden' in page
    assert "Latest changes" in page
    assert page.count('<span class="found"') == 6


async def test_sites_that_say_the_same_are_one_row(web: Web) -> None:
    for n in range(3):
        site = await web.api.add(f"https://example.org/{n}", title=f"Article {n}")
        await web.poll(site, f"https://example.org/{n}", ["a", "b"], summary="Version 3 → 4")
    page = (await web.get("/")).text
    assert page.count("Version 3 → 4") == 1
    assert "and 2 other sites" in page
    for n in range(3):
        await web.api("PATCH", f"/sites/{n + 1}", {"tags": ["real", "<articles>"][n % 2 :]})
    page = (await web.get("/")).text
    assert "<bdi>&lt;articles&gt;</bdi></a> <small>3 sites</small>" in page, "the tag that they share names them"
    assert "other sites" not in page


async def test_who_needs_the_reader_is_there_with_what_helps(busy: Web) -> None:
    await busy.fails(1, "https://example.org/0", OutcomeKind.CLIENT_ERROR, "HTTP status 401", SiteState.BACKING_OFF)
    for path in ("/", "/sites"):
        page = (await busy.get(path)).text
        assert "asks for a user name and password (401)" in page
        assert 'href="/sites/1#when">Enter the password</a>' in page
    assert "1 site needs you" in (await busy.get("/")).text
    assert (await busy.get("/sites")).text.count('class="state failing"') == 1


async def test_a_page_that_moved_offers_its_new_address(busy: Web) -> None:
    context = (await busy.api.store.sites.contexts([2]))[2]
    moved = structs.replace(context, redirect_url="https://example.org/new", redirect_count=3)
    poll = Poll(2, time.time(), 60.0, OutcomeKind.UNCHANGED, 200, 0.1, 10, changed=False)
    await busy.api.store.commit(Batch([PollRecord(poll, moved, SiteState.ACTIVE)]))
    for path in ("/", "/sites/2"):
        page = (await busy.get(path)).text
        assert "moved for good to https://example.org/new" in page
        assert 'action="/sites/2/accept-redirect"' in page
    assert (await busy.post("/sites/2/accept-redirect")).status == 303
    assert "moved for good" not in (await busy.get("/")).text
    assert (await busy.api("GET", "/sites/2")).json["url"] == "https://example.org/new"


async def test_a_site_is_fine_only_after_five_good_answers(web: Web) -> None:
    site = await web.api.add("https://example.org/")
    assert 'class="state new"' in (await web.get("/sites")).text
    await web.poll(site, "https://example.org/", ["a"] * 4)
    assert 'class="state learning"' in (await web.get("/sites")).text
    await web.poll(site, "https://example.org/", ["a"])
    assert 'class="state fine"' in (await web.get("/sites")).text


async def test_old_addresses_lead_on(busy: Web) -> None:
    answer = await busy.get("/?step=3")
    assert (answer.status, answer.headers["Location"]) == (303, "/budget?step=3")


@pytest.mark.parametrize(("chosen", "kept"), [("dark", "dark"), ("light", "light"), ("system", ""), ('"><script>', "")])
async def test_colours_by_choice(web: Web, chosen: str, kept: str) -> None:
    answer = await web.post("/theme", {"theme": chosen, "back": "/sites?q=a"})
    assert (answer.status, answer.headers["Location"]) == (303, "/sites?q=a")
    page = await web.get("/", Cookie=f"pollerd-theme={chosen}")
    assert (f'data-theme="{kept}"' in page.text) == bool(kept)
    assert "<script>" not in page.text
    elsewhere = await web.post("/theme", {"theme": chosen, "back": "https://example.com/"})
    assert elsewhere.headers["Location"] == "/"


async def test_a_change_says_by_which_channels_it_was_sent(busy: Web) -> None:
    for name in ("mail", "<b>hook"):
        settings = {"url": "https://a.example/x"}
        made = await busy.api("POST", "/channels", {"name": name, "kind": "webhook", "settings": settings})
        assert made.status == 201, made.json

    def alert(connection: Connection) -> None:
        for channel, state in ((1, "sent"), (2, "dead")):
            row = {"event_id": "e", "kind": "site.changed", "at": 1.0, "rule_id": 1, "channel_id": channel}
            row |= {
                "site_id": 3,
                "url": "https://example.org/2",
                "change_id": 6,
                "waits_since": 1.0,
                "due_at": 1.0,
                "state": state,
                "ended_at": 2.0,
            }
            connection.execute(insert(outbox).values(**row))

    await busy.api.store.database.write(alert)
    for path in ("/", "/changes"):
        page = (await busy.get(path)).text
        assert page.count("sent: mail ✓") == 1
        assert page.count("failed: &lt;b&gt;hook") == 1
    log = (await busy.get("/rules")).text
    assert log.count("<bdi>Page 2</bdi> <small><bdi>example.org</bdi></small>") == 2, "titles lead in the log, too"


async def test_hours_are_counted_from_the_oldest_on(busy: Web) -> None:
    now = time.time()
    hours = await busy.api.store.history.found_by_hour(now - 86_400.0, now + 1.0)
    assert len(hours) == 25
    assert sum(hours) == 6
    assert sum(hours[:-2]) == 0


def test_small_plots_hold_what_they_draw() -> None:
    assert hours_plot([0, 4, 1]).count("M") == 2
    assert "M15 48v-48M25 48v-12" in hours_plot([0, 4, 1])
    assert mini_strip([0.0, 43_200.0, 43_201.0, 86_400.0], 86_400.0) == "M1 2v12M48 2v12M95 2v12"
    assert mini_strip([], 0.0) == ""


async def test_what_came_since_the_reader_looked_stays_after_a_reload(busy: Web) -> None:
    async def looks(**columns: float) -> None:
        changed = update(reader_mark).values(**columns)
        await busy.api.store.database.write(lambda connection: connection.execute(changed))

    assert "Since you looked" not in (await busy.get("/")).text, "nobody looked before"
    assert "Since you looked" not in (await busy.get("/")).text, "a reload is the same visit"
    await looks(looked_at=time.time() - 7_200.0)
    for _ in range(2):
        page = (await busy.get("/")).text
        assert "6 changes on 3 sites · 6 unread changes" in page, page[page.index("<main") :]
    await looks(looked_at=time.time() - 1_900.0)
    await busy.post("/changes/seen", {"all": "1", "newest": "6"})
    assert "6 changes on 3 sites · No unread changes" in (await busy.get("/")).text
    await busy.api("DELETE", "/sites/1")
    assert "4 changes on 2 sites" in (await busy.get("/")).text
    await looks(looked_before=time.time())
    assert "): no change · " in (await busy.get("/")).text
    await looks(looked_at=time.time() + 9_000.0)  # a clock that ran ahead
    assert (await busy.get("/")).status == 200


async def test_sites_without_text_need_their_user_until_they_are_put_right(web: Web) -> None:
    details = (
        "the page has no text without its scripts: set render, so that a browser reads it",
        "the page has no text, it sends browsers on: add that URL instead (https://example.org/new)",
        "",
    )
    for n, detail in enumerate(details):
        url = f"https://example.org/{n}"
        site = await web.api.add(url)
        context = (await web.api.store.sites.contexts([site]))[site]
        context = structs.replace(context, baseline=Baseline(fingerprint=bytes(16), media=Media.HTML, no_text=detail))
        poll = Poll(site, time.time(), None, OutcomeKind.FIRST, 200, 0.1, 10, changed=False, detail=detail)
        await web.api.store.commit(Batch([PollRecord(poll, context, SiteState.ACTIVE)]))
    page = (await web.get("/")).text
    assert "2 sites need you" in page
    assert 'action="/sites/1/use-browser"' in page
    assert 'href="/sites/2#settings">Change its address</a>' in page
    assert "/sites/3#" not in page
    assert (await web.post("/sites/1/use-browser")).status == 303
    assert (await web.api.store.sites.get(1)).spec.render == "{}"
    page = (await web.get("/")).text
    assert "1 site needs you" in page
    assert "Use the browser" not in page, "it goes at once, before it is checked again"
    assert "to be checked next" in (await web.get("/sites/1")).text
    await web.api("POST", "/sites/2/pause", {})
    assert ">Needs you</h2>" in (await web.get("/")).text, "nobody is counted"


async def test_every_trouble_is_on_the_list_with_its_cure(web: Web) -> None:
    failures = {
        "asks for a user name and password": (
            OutcomeKind.CLIENT_ERROR,
            "HTTP status 401",
            "#when",
            "Enter the password",
        ),
        "robots.txt does not allow": (OutcomeKind.DENIED, "", "#settings", "Choose another address"),
        "the part that counts was not found": (OutcomeKind.NOTHING_SELECTED, "", "#counts", "Repair it"),
        "the page is gone": (OutcomeKind.GONE, "HTTP status 410", "#settings", "Change its address"),
    }
    states = {OutcomeKind.DENIED: SiteState.BLOCKED, OutcomeKind.GONE: SiteState.GONE}
    for n in range(12):  # more than the list holds: each kind of trouble is on it nevertheless
        await web.api.add(f"https://slow.example.org/{n}")
        await web.fails(
            n + 1, f"https://slow.example.org/{n}", OutcomeKind.TIMEOUT, "no complete response", SiteState.BACKING_OFF
        )
    for reason, (outcome, detail, _place, _cure) in failures.items():
        url = f"https://example.org/{outcome.value}"
        site = await web.api.add(url, title=reason)
        await web.fails(site, url, outcome, detail, states.get(outcome, SiteState.BACKING_OFF))
    page = (await web.get("/?needs=all")).text
    for n, (reason, (_outcome, _detail, place, cure)) in enumerate(failures.items(), 13):
        assert reason in page
        assert f'href="/sites/{n}{place}">{cure}</a>' in page
    page = (await web.get("/")).text
    assert "16 sites need you" in page
    assert page.count('class="page" href="/sites/') == 8
    assert "robots.txt does not allow" in page
    assert "the page is gone" in page
    assert 'href="/?needs=all#trouble-head">All sites that need you</a>' in page
