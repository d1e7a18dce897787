"""The history of a value: plotted over REST, and listed by the command."""

from __future__ import annotations

import asyncio
import json
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from pollerd.cli.commands import app
from pollerd.model import Baseline, Media, SelectionState, StoredReading
from pollerd.storage.values import Batch, SelectionRecord
from tests.api.conftest import Api
from tests.storage.samples import record

URL = "https://a.invalid/<shop>"
PRICES = [
    StoredReading("10", 10.0, None, "EUR"),
    StoredReading("9.5", 9.5, None, "EUR"),
    StoredReading("9.5", 9.5, None, "EUR", "two prices are there"),
    StoredReading("9", 9.0, None, "USD"),
    StoredReading("8", 8.0, None, "EUR"),
]
NOON = 1_767_268_800.0


async def read(api: Api, site: int, *readings: dict[str, StoredReading]) -> None:
    """Stores these values, a poll each, an hour apart."""
    for n, values in enumerate(readings):
        context = (await api.store.sites.contexts([site]))[site]
        state = SelectionState("default", b"version1", Baseline(b"f" * 16, media=Media.HTML), readings=values)
        one = SelectionRecord(state, read=tuple(values))
        poll = replace(record(context, NOON + 3600.0 * n), selections=(one,))
        after = replace(poll.context, selections=context.selections, own_selections=context.own_selections)
        poll = replace(poll, context=after)
        await api.store.commit(Batch([poll]))


async def test_a_price_is_plotted(api: Api) -> None:
    site = await api.add(URL, selections={"default": {"steps": [{"keep": {"css": "main"}}]}})
    await read(api, site, *({"price": one} for one in PRICES))
    reply = await api("GET", f"/sites/{site}/values.svg")
    assert reply.status == 200, reply.body
    assert reply.headers["Content-Type"] == "image/svg+xml"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert reply.headers["Content-Disposition"] == f'attachment; filename="site-{site}-values.svg"'
    root = ElementTree.fromstring(reply.body)
    title, line = root.find("{*}title"), root.find("{*}path")
    assert title is not None
    assert line is not None
    assert title.text == "price - https://a.invalid/%3Cshop%3E"
    assert line.attrib["d"].count("M") == 2, "what is unreadable, or in another currency, is a gap"
    described = root.find("{*}desc")
    assert described is not None
    assert "8 EUR since" in (described.text or "")
    assert "2 times" in (described.text or "")
    newest = await api("GET", f"/sites/{site}/values.svg?name=price&since={NOON + 3 * 3600}")
    assert b"1 value. 1 time it" in newest.body


@pytest.mark.parametrize(
    ("query", "field", "allowed"),
    [
        ("", "name", "give one of note, price"),
        ("?name=wat", "name", "unknown value"),
        ("?name=price&selection=other", "name", "the selection reads no values"),
        ("?name=note", "name", "texts have no plot"),
        ("?name=price&since=x", "since", ""),
        ("?names=price", "names", "did you mean name?"),
    ],
)
async def test_what_cannot_be_plotted_is_refused_by_name(api: Api, query: str, field: str, allowed: str) -> None:
    site = await api.add(URL, selections={"default": {"steps": [{"keep": {"css": "main"}}]}})
    await read(api, site, {"price": PRICES[0], "note": StoredReading("in stock")})
    reply = await api("GET", f"/sites/{site}/values.svg{query}")
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field), reply.body
    assert allowed in reply.json["errors"][0]["allowed"]
    assert (await api("GET", "/sites/99/values.svg")).status == 404


async def test_the_command_lists_them_with_a_line_of_bars(api: Api) -> None:
    site = await api.add(URL, selections={"default": {"steps": [{"keep": {"css": "main"}}]}})
    await read(api, site, *({"price": one} for one in PRICES), {"note": StoredReading("in \x1bstock")})

    async def run(*words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, ["values", *words, "--url", api.root])

    told = await run(str(site))
    assert told.exit_code == 0, told.output
    assert told.stdout.splitlines()[0].split() == ["at", "selection", "name", "text", "currency", "problem"]
    assert "two prices are there" in told.stdout
    assert told.stdout.splitlines()[-1] == "price  █▆ ▅▁  8 EUR"
    assert "\x1b" not in told.stdout
    found = json.loads((await run(URL, "--name", "price", "--limit", "2", "--json")).stdout)
    assert [one["number"] for one in found] == [8.0, 9.0]
    assert (await run("99")).exit_code == 2
