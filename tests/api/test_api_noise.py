"""What of a site is masked as noise, over REST and by `pollerd sites noise`."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from pollerd.cli.commands import sites as app
from pollerd.detection.noise.learning import noise_by_form
from pollerd.storage.values import Batch
from tests.api.conftest import Api
from tests.storage.samples import record

PAGES = b"Shop\n5 views\nThe end", b"Shop\n6 views\nThe end"


@pytest.fixture
async def site(api: Api) -> int:
    """A site with a mask."""
    number = await api.add("https://example.org/shop")
    context = (await api.store.sites.contexts([number]))[number]
    polled = record(context, 10.0, PAGES[1])
    verdict = noise_by_form(*PAGES, polled.context.baseline, None, 10.0)
    assert verdict is not None
    after = replace(polled.context, baseline=verdict.baseline)
    await api.store.commit(Batch([replace(polled, context=after, mask_changed=True, hid_change=True)]))
    return number


async def run(api: Api, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    monkeypatch.setenv("POLLERD_URL", api.root + "/")
    return await asyncio.to_thread(CliRunner().invoke, app, list(words))


async def test_what_is_hidden_is_listed_and_shown_again(api: Api, site: int) -> None:
    assert (await api("GET", f"/sites/{site}")).json["hidden_changes"] == 1
    (one,) = (await api("GET", f"/sites/{site}/noise")).json["items"]
    assert (one["id"], one["known_by"], one["hidden"], one["selection"]) == ("view-counter", "form", True, None)
    assert one["hides"] == "each view counter, such as \u00ab6 views\u00bb"
    place = f"/sites/{site}/noise/view-counter"
    (shown,) = (await api("PATCH", place, {"hidden": False})).json["items"]
    assert (shown["hidden"], shown["polls"]) == (False, None)
    assert (await api("GET", f"/sites/{site}/explain")).json["mask"] == []
    assert (await api("PATCH", place, {"hidden": False})).status == 200, "twice is once"
    (back,) = (await api("PATCH", place, {"hidden": True})).json["items"]
    assert back["hidden"] is True


async def test_calls_that_name_nothing_are_refused(api: Api, site: int) -> None:
    assert (await api("PATCH", f"/sites/{site}/noise/time-taken", {"hidden": False})).status == 404
    assert (await api("PATCH", f"/sites/{site + 1}/noise/view-counter", {"hidden": False})).status == 404
    assert (await api("GET", f"/sites/{site + 1}/noise")).status == 404
    assert (await api("PATCH", f"/sites/{site}/noise/view-counter", {"shown": True})).status == 422


async def test_the_command_lists_and_changes(api: Api, site: int, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = await run(api, monkeypatch, "noise", str(site))
    assert listed.exit_code == 0, listed.output
    assert listed.stdout.splitlines()[0].split("\t") == ["id", "hides", "known_by", "differed", "state"]
    assert "hidden" in listed.stdout.splitlines()[1]
    shown = await run(api, monkeypatch, "noise", str(site), "--show", "view-counter")
    assert "shown again" in shown.stdout
    hidden = json.loads((await run(api, monkeypatch, "noise", str(site), "--hide", "view-counter", "--json")).stdout)
    assert [one["hidden"] for one in hidden] == [True]
    both = await run(api, monkeypatch, "noise", str(site), "--hide", "a", "--show", "b")
    assert both.exit_code == 2
    assert (await run(api, monkeypatch, "noise", str(site), "--show", "time-taken")).exit_code != 0
