"""Sites whose pages a browser renders, in a live daemon, with a real Chromium."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from pollerd.api.inputs import check_render, check_selections, check_spec
from pollerd.errors import InvalidValueError
from pollerd.model import OutcomeKind
from pollerd.rendering.settings import RenderingSettings
from pollerd.site_settings import NO_ACCESS, SiteSpec, TagSettings
from tests.daemon.conftest import Running, Start
from tests.support.chromium import chromium_path
from tests.support.origin import Origin, Page

PATIENCE_SECONDS = 60.0


def spec(url: str, plan: object = "browser", selections: str = "") -> SiteSpec:
    render, typed = check_render(plan)
    return check_spec(
        SiteSpec(url, render=render, access=dataclasses.replace(NO_ACCESS, typed=typed), selections=selections)
    )


async def outcome_of(running: Running, site: int) -> OutcomeKind:
    for _ in range(int(PATIENCE_SECONDS / 0.1)):
        found = (await running.site(site)).last_outcome
        if found is not None:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("never polled")


async def test_without_a_browser_the_site_says_so(start: Start, origin: Origin) -> None:
    origin.pages["/app"] = Page()
    async with start(allocator="whittle") as running:
        result = await running.control.sites.add([spec(origin.url("/app"))])
        site = result.added[0][0]
        assert await outcome_of(running, site) is OutcomeKind.UNDECODABLE
        assert "--browser" in (await running.site(site)).last_detail
        assert origin.hits("/app") == []


async def test_an_allocator_without_costs_refuses_it_by_name(start: Start, origin: Origin) -> None:
    origin.pages["/app"] = Page()
    async with start(allocator="htraa", budget=2.0) as running:
        plain, _ = await running.add(origin.url("/app"), origin.url("/one", host=2))
        result = await running.control.sites.add([spec(origin.url("/other"))])
        assert [error.field for _, error in result.refused] == ["render"]
        with pytest.raises(InvalidValueError) as refused:
            await running.control.sites.update(plain, {"render": "{}", "cost": 20.0})
        assert refused.value.field == "render"


def test_a_rendered_site_costs_twenty_unless_it_says_another() -> None:
    assert spec("http://a/").cost == 20.0
    assert check_spec(SiteSpec("http://a/", cost=3.0, render="{}")).cost == 3.0
    assert check_spec(SiteSpec("http://a/")).cost is None


def test_secrets_of_steps_stand_apart() -> None:
    made = spec("http://a/", {"steps": [{"type": "#p", "secret": "s3cret"}]})
    assert "s3cret" not in made.render
    assert made.access.typed == ("s3cret",)
    assert "s3cret" not in repr(made)


async def test_a_page_is_rendered_and_what_its_script_writes_is_compared(start: Start, origin: Origin) -> None:
    script = "<html><body><h1>News</h1><p id=x></p><script>x.textContent = 'written ' + {}</script></body></html>"
    origin.pages["/app"] = Page(body=script.format("'one'"))
    settings = RenderingSettings(browser=chromium_path(), browser_no_sandbox=True, browser_deadline_seconds=30.0)
    keep = check_selections({"default": {"steps": [{"keep": {"css": "#x"}}]}})
    async with start(allocator="whittle", budget=100.0, rendering=settings) as running:
        result = await running.control.sites.add([spec(origin.url("/app"), selections=keep)])
        site = result.added[0][0]
        assert await outcome_of(running, site) is OutcomeKind.FIRST
        (state,) = await running.store.history.selection_states(site)
        assert (await running.store.contents.get(state.content_id or 0)).body == b"written one"
        origin.pages["/app"] = Page(body=script.format("'two'"))
        for _ in range(int(PATIENCE_SECONDS / 0.1)):
            if changes := await running.changes():
                break
            await asyncio.sleep(0.1)
        assert (await running.store.contents.get(changes[0].after_content_id or 0)).body == b"written two"


async def test_a_screenshot_is_kept_with_each_new_content(start: Start, origin: Origin) -> None:
    origin.pages["/app"] = Page(body="<html><body><h1>One</h1></body></html>")
    settings = RenderingSettings(browser=chromium_path(), browser_no_sandbox=True, browser_deadline_seconds=30.0)
    async with start(allocator="whittle", budget=100.0, rendering=settings) as running:
        shown = replace(spec(origin.url("/app")), keep_screenshots=True)
        site = (await running.control.sites.add([shown])).added[0][0]
        assert await outcome_of(running, site) is OutcomeKind.FIRST
        first = await running.store.contents.current_screenshot(site)
        assert first.startswith(b"\x89PNG\r\n\x1a\n")
        origin.pages["/app"] = Page(body="<html><body><h1>Two</h1></body></html>")
        for _ in range(int(PATIENCE_SECONDS / 0.1)):
            if changes := await running.changes():
                break
            await asyncio.sleep(0.1)
        assert await running.store.contents.screenshot(changes[0].before_content_id or 0) == first
        second = await running.store.contents.screenshot(changes[0].after_content_id or 0)
        assert second.startswith(b"\x89PNG\r\n\x1a\n")
        assert second != first


@pytest.mark.parametrize("way", ["site", "tag"])
@pytest.mark.parametrize("selected", ["", "h1"])
async def test_switching_the_browser_on_and_off_begins_anew_without_a_change(
    start: Start, origin: Origin, way: str, selected: str
) -> None:
    script = "<html><body><h1>plain</h1><script>document.querySelector('h1').textContent = 'rendered'</script></body>"
    origin.pages["/app"] = Page(body=script)
    settings = RenderingSettings(browser=chromium_path(), browser_no_sandbox=True, browser_deadline_seconds=30.0)
    keep = check_selections({"default": {"steps": [{"keep": {"css": selected}}]}}) if selected else ""

    async def switched(site: int, render: str, rebase: Any = None) -> None:
        changes = len(await running.changes())
        if way == "site":
            await running.control.sites.update(site, {"render": render, "cost": 1.0, "rebase": rebase})
        else:
            given = {"render": render} if render else {}
            await running.control.tags.put(TagSettings("shop", given | {"cost": 1.0}), by="test", rebase=rebase)
        await running.polled(site, len(await running.polls(site)) + 4, PATIENCE_SECONDS)
        assert len(await running.changes()) == changes + (rebase == "keep")

    async with start(allocator="whittle", budget=100.0, rendering=settings) as running:
        (site,) = await running.add(origin.url("/app"), tags=("shop",), selections=keep)
        await running.polled(site, 3, PATIENCE_SECONDS)
        await switched(site, "{}")
        await switched(site, "")
        await switched(site, "{}", "keep")
        outcomes = {poll.outcome for poll in await running.polls(site)}
        assert outcomes <= {OutcomeKind.FIRST, OutcomeKind.UNCHANGED, OutcomeKind.CHANGED, OutcomeKind.PROVING}


async def test_the_fragment_of_a_rendered_site_counts(start: Start, origin: Origin) -> None:
    routed = "<p id=p></p><script>document.getElementById('p').textContent = 'at ' + location.hash</script>"
    origin.pages["/app"] = Page(body=routed)
    origin.robots = Page(body="User-agent: *\nAllow: /app$\nDisallow: /\n")
    one, two = spec(origin.url("/app#/one")), spec(origin.url("/app#/two"))
    settings = RenderingSettings(browser=chromium_path(), browser_no_sandbox=True, browser_deadline_seconds=30.0)
    async with start(allocator="whittle", rendering=settings) as running:
        added = await running.control.sites.add([one, two])
        for (site, *_), name in zip(added.added, ("one", "two"), strict=True):
            assert await outcome_of(running, site) is OutcomeKind.FIRST
            (content,) = (await running.store.contents.load([(await contexts(running, site)) or 0])).values()
            assert content == f"at #/{name}".encode()
    assert {hit.path for hit in origin.hits()} == {"/app"}


async def contexts(running: Running, site: int) -> int | None:
    """The id of the site's content."""
    return (await running.store.sites.contexts([site]))[site].content_id
