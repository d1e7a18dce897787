"""Polls, changes and proposed redirects over REST, from what storage committed."""

from __future__ import annotations

from pollerd.model import Baseline, Media, OutcomeKind, Poll, Redirect, SiteState
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext
from tests.api.conftest import Api

URL = "https://example.org/news"
START = 1_800_000_000.0


def record(site_id: int, n: int, *, redirect: str | None = None, confirmed: int = 0) -> PollRecord:
    """The n-th poll of a site, which found a change."""
    return PollRecord(
        poll=Poll(
            site_id=site_id,
            at=START + n,
            elapsed=float(n) if n else None,
            outcome=OutcomeKind.CHANGED if n else OutcomeKind.FIRST,
            status=200,
            duration=0.25,
            bytes=1000 + n,
            changed=n > 0,
            redirects=(Redirect(301, "https://example.org/new"),),
        ),
        context=SiteContext(
            site_id,
            URL,
            baseline=Baseline(fingerprint=n.to_bytes(16, "big"), media=Media.HTML),
            redirect_url=redirect,
            redirect_count=confirmed,
        ),
        state=SiteState.ACTIVE,
        last_seen_at=START + n,
        content=f"text {n}".encode(),
        change=ChangeDraft(Media.HTML, f"change {n}", START + n - 1) if n else None,
    )


async def poll(store: Store, site_id: int, count: int) -> None:
    for n in range(count):
        await store.commit(Batch([record(site_id, n)]))


async def test_polls_come_newest_first(api: Api) -> None:
    site_id = await api.add(URL)
    await poll(api.store, site_id, 3)
    first = (await api("GET", f"/sites/{site_id}/polls?limit=2")).json
    rest = (await api("GET", f"/sites/{site_id}/polls?limit=2&cursor={first['next_cursor']}")).json
    items = first["items"] + rest["items"]
    assert [item["bytes"] for item in items] == [1002, 1001, 1000]
    assert rest["next_cursor"] is None
    assert " ".join(items[0]) == "id at elapsed outcome status duration bytes changed detail redirects"
    assert (items[0]["at"], items[0]["elapsed"], items[0]["outcome"]) == ("2027-01-15T08:00:02.000Z", 2.0, "changed")
    assert items[0]["redirects"] == [{"status": 301, "url": "https://example.org/new"}]


async def test_changes_come_in_the_order_found_and_end(api: Api) -> None:
    site_id = await api.add(URL)
    await poll(api.store, site_id, 6)
    cursor: str | None = ""
    seen, pages = [], 0
    while cursor is not None:
        page = (await api("GET", "/changes?order=oldest&limit=2" + (f"&cursor={cursor}" if cursor else ""))).json
        seen += page["items"]
        cursor, pages = page["next_cursor"], pages + 1
    assert [change["summary"] for change in seen] == [f"change {n}" for n in range(1, 6)]
    assert pages == 3
    named = "id site_id url detected_at previous_poll_at kind summary selection matters why"
    assert " ".join(seen[0]) == f"{named} before_content_id after_content_id title"
    assert (seen[0]["url"], seen[0]["kind"], seen[0]["previous_poll_at"]) == (URL, "html", "2027-01-15T08:00:00.000Z")
    assert (await api("GET", f"/changes/{seen[2]['id']}")).json == seen[2]


async def test_repeating_the_last_cursor_follows_the_changes(api: Api) -> None:
    site_id = await api.add(URL)
    await poll(api.store, site_id, 4)
    cursor = (await api("GET", "/changes?order=oldest&limit=2")).json["next_cursor"]
    before = (await api("GET", f"/changes?limit=2&cursor={cursor}")).json["items"]
    await api.store.commit(Batch([record(site_id, 4)]))
    after = (await api("GET", f"/changes?limit=2&cursor={cursor}")).json["items"]
    assert [c["summary"] for c in before] == ["change 3"]
    assert [c["summary"] for c in after] == ["change 3", "change 4"]


async def test_either_order_over_rest(api: Api) -> None:
    site_id = await api.add(URL)
    await poll(api.store, site_id, 4)
    for path, oldest in (
        ("/changes", ["change 1", "change 2", "change 3"]),
        (f"/sites/{site_id}/changes", ["change 1", "change 2", "change 3"]),
        (f"/sites/{site_id}/polls", [1000, 1001, 1002, 1003]),
    ):
        key = "bytes" if path.endswith("polls") else "summary"
        for query, expected in (("", oldest[::-1]), ("?order=newest", oldest[::-1]), ("?order=oldest", oldest)):
            assert [item[key] for item in (await api("GET", path + query)).json["items"]] == expected, path + query
        cursor = (await api("GET", f"{path}?limit=1")).json["next_cursor"]
        refused = await api("GET", f"{path}?cursor={cursor}&order=oldest")
        assert refused.status == 422
        another = "the cursor is of another order: leave order out"
        assert refused.json["errors"] == [
            {"field": "order", "allowed": f"{another}, or give newest", "given": "oldest"}
        ]
        (error,) = (await api("GET", f"{path}?order=up")).json["errors"]
        assert error == {"field": "order", "allowed": "'newest' or 'oldest'", "given": "up"}


async def test_since_is_a_moment_in_either_spelling(api: Api) -> None:
    site_id = await api.add(URL)
    await poll(api.store, site_id, 4)
    spellings = [
        "2027-01-15T08:00:02Z",
        "2027-01-15T09:00:02%2B01:00",
        "2027-01-15T09:00:02+01:00",
        "1800000002",
        "1.800000002e9",
    ]
    for since in spellings:
        found = (await api("GET", f"/changes?since={since}")).json["items"]
        assert [change["summary"] for change in found] == ["change 3", "change 2"], since


async def test_a_since_that_is_no_moment_is_named(api: Api) -> None:
    for since in ["yesterday", "nan", "1e400", "2027-13-01T00:00:00Z", "2027-01-15T08:00:02", ""]:
        reply = await api("GET", f"/changes?since={since}")
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, "since"), since


async def test_a_site_has_its_own_changes(api: Api) -> None:
    site_id, quiet = await api.add(URL), await api.add("https://quiet.org/")
    await poll(api.store, site_id, 2)
    found = (await api("GET", f"/sites/{site_id}/changes")).json
    assert [change["site_id"] for change in found["items"]] == [site_id]
    assert (await api("GET", f"/sites/{quiet}/changes")).json == {"items": [], "next_cursor": None}


async def test_ids_of_changes_that_are_nowhere_are_not_found(api: Api) -> None:
    for change_id in ("0", "7", "x", str(2**63)):
        assert (await api("GET", f"/changes/{change_id}")).status == 404


async def test_a_redirect_is_proposed_after_three_confirmations_and_accepted(api: Api) -> None:
    site_id, target = await api.add(URL), "https://example.org/new"
    await api.store.commit(Batch([record(site_id, 0, redirect=target, confirmed=2)]))
    assert (await api("GET", f"/sites/{site_id}")).json["redirect_proposal"] is None
    refused = await api("POST", f"/sites/{site_id}/accept-redirect")
    assert (refused.status, refused.json["status"]) == (409, 409)
    await api.store.commit(Batch([record(site_id, 1, redirect=target, confirmed=3)]))
    assert (await api("GET", f"/sites/{site_id}")).json["redirect_proposal"] == target
    accepted = await api("POST", f"/sites/{site_id}/accept-redirect")
    assert (accepted.status, accepted.json["url"], accepted.json["redirect_proposal"]) == (200, target, None)


async def test_a_redirect_to_a_site_that_exists_is_a_conflict(api: Api) -> None:
    site_id, other = await api.add(URL), await api.add("https://example.org/new")
    await api.store.commit(Batch([record(site_id, 0, redirect="https://example.org/new", confirmed=3)]))
    reply = await api("POST", f"/sites/{site_id}/accept-redirect")
    assert (reply.status, reply.json["existing_id"]) == (409, other)
