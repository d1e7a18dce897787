"""Sites with selections, in a live daemon: what counts, what matters, what is edited, what pages cannot do."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import pytest

from pollerd.api.inputs import check_selections
from pollerd.daemon.control import preview
from pollerd.errors import InvalidValueError
from pollerd.fetching.settings import FetchSettings
from pollerd.lists.recognise import AddressKind, Obstacle
from pollerd.model import Change, Outcome, OutcomeKind, SelectionState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec, TagSettings
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.storage.history import ReadingFilter
from tests.daemon.conftest import FAST, Running, Start
from tests.support.origin import Origin, Page, until

PATIENCE_SECONDS = 60.0


def page(price: str, heading: str = "Shop", footer: str = "one") -> str:
    return (
        f"<html lang=en><body><h1>{heading}</h1><p>Only <b id=price>{price}</b></p>"
        f"<footer>{footer}</footer></body></html>"
    )


def put(origin: Origin, path: str, body: str) -> None:
    origin.pages[path] = Page(body=body)


async def found(running: Running, site: int, count: int) -> list[Change]:
    """Waits until the site has that many changes."""
    for _ in range(int(PATIENCE_SECONDS / 0.03)):
        changes = (await running.store.changes.page(ChangeFilter(site_id=site), order=Order.OLDEST)).items
        if len(changes) >= count:
            return changes
        await asyncio.sleep(0.03)
    raise AssertionError(f"{len(changes)} changes, wanted {count}: {changes}")


async def state_of(running: Running, site: int, name: str = "default") -> SelectionState:
    """Waits for the state of a selection."""
    for _ in range(int(PATIENCE_SECONDS / 0.03)):
        for state in await running.store.history.selection_states(site):
            if state.name == name:
                return state
        await asyncio.sleep(0.03)
    raise AssertionError(f"no state of {name}")


async def polled_again(running: Running, site: int, times: int = 3) -> None:
    await running.polled(site, len(await running.polls(site)) + times, PATIENCE_SECONDS)


def selections(**given: Any) -> str:
    return check_selections(given)


async def test_only_what_is_selected_is_a_change(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    keep = selections(default={"steps": [{"keep": {"css": "h1"}}]})
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=keep)
        await polled_again(running, site)
        put(origin, "/shop", page("11.00", footer="two"))
        await polled_again(running, site)
        assert await running.changes() == []
        put(origin, "/shop", page("11.00", heading="Sale"))
        (change,) = await found(running, site, 1)
        assert (change.selection, change.matters, change.why) == ("default", True, "")
        assert "Sale" in change.summary
        before, after = change.before_content_id or 0, change.after_content_id or 0
        assert (await running.store.contents.get(before)).body == b"Shop"
        assert (await running.store.contents.get(after)).body == b"Sale"
        assert (await running.site(site)).changes == 1


async def test_each_selection_has_a_history_of_its_own(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    both = selections(default={"steps": [{"keep": {"css": "h1"}}]}, price={"steps": [{"keep": {"css": "#price"}}]})
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=both)
        await polled_again(running, site)
        put(origin, "/shop", page("11.00"))
        (change,) = await found(running, site, 1)
        assert change.selection == "price"
        put(origin, "/shop", page("12.00", heading="Sale"))
        changes = await found(running, site, 3)
        assert sorted(one.selection for one in changes[1:]) == ["default", "price"]
        assert changes[1].detected_at == changes[2].detected_at  # one poll
        assert len([poll for poll in await running.polls(site) if poll.changed]) == 2
        of_price = await running.store.changes.page(ChangeFilter(site_id=site, selection="price"))
        assert len(of_price.items) == 2
        await until(lambda: running.metric("pollerd_changes_total") == 3)


async def test_values_and_conditions(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    watch = selections(
        default={
            "steps": [{"keep": {"css": "h1, #price"}}],
            "values": {"price": {"kind": "price", "from": {"css": "#price"}, "decimal": "."}},
            "conditions": {"value": "price", "below": 9},
        }
    )
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=watch)
        await polled_again(running, site)
        put(origin, "/shop", page("9.50"))
        (held,) = await found(running, site, 1)
        assert (held.matters, held.why != "") == (False, True)
        put(origin, "/shop", page("8.50"))
        _, told = await found(running, site, 2)
        assert told.matters
        assert "8.5" in told.why
        assert told.summary.startswith("price: 9.5 → 8.5")
        only = await running.store.changes.page(ChangeFilter(site_id=site, matters=True))
        assert [one.id for one in only.items] == [told.id]
        values = await running.store.history.list_readings(site, ReadingFilter(name="price"), order=Order.OLDEST)
        assert [one.value.number for one in values.items] == [10.0, 9.5, 8.5]
        put(origin, "/shop", page("soon"))
        unreadable = (await found(running, site, 3))[2]
        assert unreadable.matters  # said once
        put(origin, "/shop", page("later"))
        again = (await found(running, site, 4))[3]
        assert not again.matters
        state = await state_of(running, site)
        assert (state.readings["price"].text, state.readings["price"].problem != "") == ("8.5", True)


async def test_nothing_selected_is_an_outcome_of_its_own(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    keep = selections(default={"steps": [{"keep": {"css": "#price"}}]})
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=keep)
        await polled_again(running, site)
        put(origin, "/shop", "<html><body><h1>Just a moment</h1></body></html>")
        await polled_again(running, site, 1)
        while (shown := await running.site(site)).last_outcome is not OutcomeKind.NOTHING_SELECTED:
            await asyncio.sleep(0.03)
        assert "steps[0] matches nothing" in shown.last_detail
        assert (await state_of(running, site)).missing != ""
        await until(lambda: running.metric("pollerd_polls_total", outcome="nothing_selected") >= 1)
        put(origin, "/shop", page("10.00"))
        while (await running.site(site)).last_outcome is OutcomeKind.NOTHING_SELECTED:
            await asyncio.sleep(0.03)
        await polled_again(running, site)
        assert await running.changes() == []  # the content stood all the while
        assert (await state_of(running, site)).missing == ""


async def test_nothing_may_be_a_state(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    keep = selections(default={"steps": [{"keep": {"css": "#price"}, "optional": True}]})
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=keep)
        await polled_again(running, site)
        put(origin, "/shop", "<html><body><h1>Sold out</h1></body></html>")
        (change,) = await found(running, site, 1)
        assert (await running.store.contents.get(change.after_content_id or 0)).body == b""


async def test_an_edit_begins_anew_and_is_no_change(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"))
        await polled_again(running, site)
        put(origin, "/shop", page("11.00"))
        await found(running, site, 1)
        for edited in (
            selections(default={"steps": [{"keep": {"css": "h1"}}]}),
            selections(default={"steps": [{"keep": {"css": "#price"}}]}, head={"steps": [{"keep": {"css": "h1"}}]}),
            "",
        ):
            seen = len(origin.hits("/shop"))
            await running.control.sites.update(site, {"selections": edited})
            await polled_again(running, site, 4)
            assert origin.hits("/shop")[seen:][0].headers.get("If-None-Match") is None
            assert len(await running.changes()) == 1, edited
        put(origin, "/shop", page("12.00"))
        old, new = await found(running, site, 2)
        assert (old.selection, new.selection) == ("default", "default")
        assert (await running.store.contents.get(old.after_content_id or 0)).body  # still readable


async def test_new_conditions_keep_the_baseline(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    steps = [{"keep": {"css": "#price"}}]
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=selections(default={"steps": steps}))
        await polled_again(running, site)
        before = (await state_of(running, site)).content_id
        stricter = selections(default={"steps": steps, "conditions": {"appears": {"text": "free"}}})
        await running.control.sites.update(site, {"selections": stricter})
        await polled_again(running, site)
        assert (await state_of(running, site)).content_id == before
        put(origin, "/shop", page("11.00"))
        (change,) = await found(running, site, 1)
        assert not change.matters


async def test_states_survive_a_kill(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    watch = selections(
        default={"steps": [{"keep": {"css": "#price"}}], "values": {"price": {"kind": "price", "decimal": "."}}}
    )
    async with start(kill=True) as running:
        (site,) = await running.add(origin.url("/shop"), selections=watch)
        await polled_again(running, site)
        first = await state_of(running, site)
    put(origin, "/shop", page("11.00"))
    async with start() as running:
        (change,) = await found(running, site, 1)
        assert change.before_content_id == first.content_id
        assert change.summary.startswith("price: 10 → 11") or change.summary.startswith("price: 10.00 → 11.00")


@pytest.mark.parametrize(
    ("steps", "body"),
    [
        ([{"keep": {"css": "li:has(~ li.x)"}}], "<ul>" + "<li>x</li>" * 100_000 + "</ul>"),
        ([{"keep": {"xpath": "//p[count(preceding::*) mod 2 = 0]"}}], "<p>a</p>" * 60_000),
    ],
    ids=["css", "xpath"],
)
async def test_a_slow_selection_costs_only_its_own_site(
    start: Start, origin: Origin, steps: list[Any], body: str
) -> None:
    origin.pages["/slow"] = Page(body=f"<html><body>{body}</body></html>")
    put(origin, "/fine", page("10.00"))
    xpath = selections(default={"steps": [{"keep": {"xpath": "//b"}}]})  # read beside the loop, too
    async with start() as running:
        (slow,) = await running.add(origin.url("/slow"), selections=selections(default={"steps": steps}))
        (fine,) = await running.add(origin.url("/fine", host=2), selections=xpath)
        await running.polled(slow, 1, 60.0)
        while (shown := await running.site(slow)).last_outcome is None:
            await asyncio.sleep(0.1)
        assert shown.last_outcome is OutcomeKind.UNDECODABLE
        assert "more than 5 s of CPU time" in shown.last_detail
        await running.polled(fine, 2, 60.0)
        assert (await running.site(fine)).last_outcome is OutcomeKind.UNCHANGED


async def test_a_preview_shows_what_would_be_kept(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    steps = [{"keep": {"css": "#price"}}]
    values = {"price": {"kind": "price", "decimal": "."}}
    async with start() as running:
        (site,) = await running.add(origin.url("/shop"), selections=selections(default={"steps": steps}))
        await polled_again(running, site)
        put(origin, "/shop", page("11.00"))
        (change,) = await found(running, site, 1)
        stricter = selections(default={"steps": steps, "conditions": {"appears": {"text": "11"}}})
        put(origin, "/shop", page("12.00"))
        await found(running, site, 2)
        await running.control.sites.pause(site, True)
        put(origin, "/shop", page("13.00"))
        seen = await running.control.preview.of_url(SiteSpec(origin.url("/shop"), selections=stricter))
        assert seen.recognised is not None
        assert (seen.recognised.kind, seen.recognised.obstacle) == (AddressKind.PAGE, None)
        (kept,) = seen.selections
        assert (kept.kept, "Shop" in kept.removed, kept.missing) == ("13.00", True, "")
        assert [one.matters for one in kept.earlier] == [False, True]
        assert kept.earlier[1].change_id == change.id
        other = selections(default={"steps": steps, "values": values})
        (kept,) = (await running.control.preview.of_url(SiteSpec(origin.url("/shop"), selections=other))).selections
        assert ([(one.name, one.number) for one in kept.values], kept.earlier, kept.now) == (
            [("price", 13.0)],
            (),
            None,
        )
        nothing = selections(default={"steps": [{"keep": {"css": "#none"}}]})
        (kept,) = (await running.control.preview.of_url(SiteSpec(origin.url("/shop"), selections=nothing))).selections
        assert "steps[0] matches nothing" in kept.missing
        lines = selections(default={"steps": [{"find": {"re": r"\d+"}}]})
        (kept,) = (await running.control.preview.of_stored(site, lines)).selections
        assert kept.kept.split("\n")[0] in ("12", "13")


async def test_a_preview_is_polite(start: Start, origin: Origin) -> None:
    origin.robots = Page(body="User-agent: *\nDisallow: /private\n", headers={"Content-Type": "text/plain"})
    put(origin, "/private", page("10.00"))
    async with start() as running:
        whole = selections(default={"steps": [{"keep": {"css": "h1"}}]})
        seen = await running.control.preview.of_url(SiteSpec(origin.url("/private"), selections=whole))
        assert seen.recognised is not None
        assert seen.recognised.obstacle is Obstacle.ROBOTS
        assert (seen.outcome, seen.selections) == (OutcomeKind.DENIED, ())
        assert origin.hits("/private") == []
        missing = await running.control.preview.of_url(SiteSpec(origin.url("/none"), selections=whole))
        assert missing.outcome is OutcomeKind.NOT_FOUND


async def test_a_preview_never_reaches_private_addresses(start: Start, origin: Origin) -> None:
    put(origin, "/shop", page("10.00"))
    async with start(fetching=FetchSettings(allow_private=False)) as running:
        whole = selections(default={"steps": [{"keep": {"css": "h1"}}]})
        seen = await running.control.preview.of_url(SiteSpec(origin.url("/shop"), selections=whole))
        assert seen.outcome is OutcomeKind.BLOCKED_ADDRESS
        assert origin.hits() == []


OLD, NEW = ({"default": {"steps": [{"keep": {"css": one}}]}} for one in ("#price", "#cost"))


def moved_page(price: str) -> str:
    """The shop after a relaunch: the price is under another id."""
    return page(price).replace("id=price", "id=cost")


async def nothing_found(running: Running, site: int) -> SelectionState:
    """Waits until the selection matches nothing."""
    for _ in range(int(PATIENCE_SECONDS / 0.03)):
        state = await state_of(running, site)
        if state.missing:
            return state
        await asyncio.sleep(0.03)
    raise AssertionError(f"it matches: {state}")


SLOW_BACKOFF = SchedulingSettings(**{**asdict(FAST), "backoff_base_seconds": 3_600.0, "backoff_cap_seconds": 86_400.0})


async def edit(running: Running, site: int, way: str, wanted: dict[str, Any], rebase: Any = None) -> None:
    """Edits what is selected, on the site or on its tag."""
    written = check_selections(wanted)
    if way == "site":
        await running.control.sites.update(site, {"selections": written, "rebase": rebase})
    else:
        await running.control.tags.put(TagSettings("shop", {"selections": written}), by="test", rebase=rebase)


async def watched(running: Running, origin: Origin, way: str) -> int:
    """A site whose price is selected, on itself or on its tag."""
    put(origin, "/shop", page("10.00"))
    if way == "tag":
        await edit(running, 0, "tag", OLD)
    given = {"selections": check_selections(OLD)} if way == "site" else {}
    (site,) = await running.add(origin.url("/shop"), tags=("shop",), **given)
    await polled_again(running, site)
    return site


@pytest.mark.parametrize("way", ["site", "tag"])
@pytest.mark.parametrize(
    ("rebase", "price", "reported"),
    [(None, "11.00", True), (None, "10.00", False), ("keep", "11.00", True), ("anew", "11.00", False)],
)
async def test_a_repaired_selection_reports_what_changed_behind_it(
    start: Start, origin: Origin, way: str, rebase: Any, price: str, *, reported: bool
) -> None:
    async with start(scheduling=SLOW_BACKOFF) as running:
        site = await watched(running, origin, way)
        base = (await state_of(running, site)).content_id
        put(origin, "/shop", moved_page(price))
        assert (await nothing_found(running, site)).content_id == base
        still_wrong = {"default": {"steps": [{"keep": {"css": "#prize"}}]}}
        polls = len(await running.polls(site))
        await edit(running, site, way, still_wrong)
        await running.polled(site, polls + 1, PATIENCE_SECONDS)  # at once, not in an hour
        assert (await nothing_found(running, site)).content_id == base
        await edit(running, site, way, NEW, rebase)
        await polled_again(running, site)
        changes = await running.changes()
        assert len(changes) == reported
        if reported:
            assert changes[0].before_content_id == base
            assert (await running.store.contents.get(changes[0].after_content_id or 0)).body == b"11.00"
        put(origin, "/shop", moved_page("12.00"))
        assert len(await found(running, site, reported + 1)) == reported + 1


@pytest.mark.parametrize("way", ["site", "tag"])
@pytest.mark.parametrize(("rebase", "reported"), [(None, 0), ("anew", 0), ("keep", 1)])
async def test_an_edit_of_a_selection_that_matches_begins_anew_unless_it_is_to_keep(
    start: Start, origin: Origin, way: str, rebase: Any, reported: int
) -> None:
    async with start() as running:
        site = await watched(running, origin, way)
        await edit(running, site, way, {"default": {"steps": [{"keep": {"css": "h1"}}]}}, rebase)
        await polled_again(running, site)
        assert len(await running.changes()) == reported
        await edit(running, site, way, OLD)  # and the next edit is one like any other
        await polled_again(running, site)
        assert len(await running.changes()) == reported


async def test_a_repair_is_judged_against_what_was_announced(start: Start, origin: Origin) -> None:
    def wanted(css: str) -> dict[str, Any]:
        values = {"price": {"kind": "price", "from": {"css": css}, "decimal": "."}}
        below = {"value": "price", "changed_by": {"percent": -20}, "against": "announced"}
        return {"default": {"steps": [{"keep": {"css": css}}], "values": values, "conditions": below}}

    async with start(scheduling=SLOW_BACKOFF, full_get_every=1) as running:
        put(origin, "/shop", page("10.00"))
        (site,) = await running.add(origin.url("/shop"), selections=check_selections(wanted("#price")))
        await polled_again(running, site)
        put(origin, "/shop", page("9.00"))
        (small,) = await found(running, site, 1)
        assert not small.matters
        put(origin, "/shop", moved_page("7.50"))
        state = await nothing_found(running, site)
        assert (state.announced["price"].text, state.readings["price"].text) == ("10", "9")
        await edit(running, site, "site", wanted("#cost"))
        (_, large) = await found(running, site, 2)
        assert large.matters
        assert "9 → 7.5" in large.summary


@pytest.mark.parametrize("way", ["site", "tag"])
async def test_a_repair_survives_a_kill(start: Start, origin: Origin, way: str) -> None:
    async with start(kill=True, scheduling=SLOW_BACKOFF) as running:
        site = await watched(running, origin, way)
        put(origin, "/shop", moved_page("11.00"))
        await nothing_found(running, site)
    async with start(scheduling=SLOW_BACKOFF) as running:
        await edit(running, site, way, NEW)
        (change,) = await found(running, site, 1)
        assert "11.00" in change.summary


def _too_much(outcome: Outcome, url: str) -> None:
    raise RecursionError


async def test_a_page_that_breaks_what_recognises_it_is_refused_in_a_sentence(
    start: Start, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(origin, "/shop", page("1.00"))
    monkeypatch.setattr(preview, "recognise", _too_much)
    async with start() as running:
        for _ in range(2):  # the process lives on
            with pytest.raises(InvalidValueError, match="url: must be such that the page can be read"):
                await running.control.preview.of_url(SiteSpec(origin.url("/shop"), selections=selections(default={})))
